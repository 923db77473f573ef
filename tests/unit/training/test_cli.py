from __future__ import annotations

import errno
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from training.__main__ import main
from training.config_file import load_config
from training.errors import CheckpointError, ConfigError, StoppedRunError, TrainingError
from training.pipeline import Job, Stage, free_memory, run_all, run_stage
from training.runs import RunFolder

ROOT = Path(__file__).resolve().parents[3]
SMOKE = ROOT / "training" / "configs" / "smoke.toml"


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


@dataclass
class MadeStages:
    """Stages that only leave their markers, and remember that they ran."""

    ran: list[Stage] = field(default_factory=list)
    faults: dict[Stage, BaseException] = field(default_factory=dict)

    def actions(self) -> dict[Stage, Callable[[Job], None]]:
        return {stage: self._make(stage) for stage in Stage}

    def _make(self, stage: Stage) -> Callable[[Job], None]:
        def act(job: Job) -> None:
            self.ran.append(stage)
            folder = {
                Stage.PREPARE: "data",
                Stage.WARMSTART: "warmstart",
                Stage.GRPO: job.config.rl.algorithm,
                Stage.EVALUATE: "evaluation",
                Stage.EXPORT: "export",
                Stage.PUSH: "push",
            }.get(stage)
            if folder is None:
                return
            place = job.run.stage(folder)
            if stage in (Stage.WARMSTART, Stage.GRPO):
                place.begin(job.config, job.is_resume)
            if stage in self.faults:
                raise self.faults[stage]
            place.finish(job.config)

        return act


@pytest.fixture
def made() -> MadeStages:
    return MadeStages()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return make_job(tmp_path)


def make_job(folder: Path, *overrides: str) -> Job:
    config = load_config(SMOKE, overrides)
    return Job(config, RunFolder(folder / config.name), command="python -m training run smoke.toml")


def test_a_run_does_all_stages_in_their_order(job: Job, made: MadeStages):
    run_all(replace(job, config=load_config(SMOKE, ["export.repo=org/repo"])), made.actions())
    assert made.ran == list(Stage)
    assert json.loads((job.run.path / "config.json").read_text())["command"] == job.command


def test_a_second_run_passes_over_what_is_finished(
    job: Job, made: MadeStages, caplog: pytest.LogCaptureFixture
):
    run_all(job, made.actions())
    made.ran.clear()
    with caplog.at_level(logging.INFO):
        run_all(job, made.actions())
    assert made.ran == [Stage.REPORT]
    assert "warmstart: passed over, it is finished" in caplog.text
    assert "push: passed over, export.repo names no repository" in caplog.text


def test_a_run_goes_on_where_it_ended(job: Job, made: MadeStages):
    made.faults[Stage.GRPO] = TrainingError("no memory")
    with pytest.raises(TrainingError, match="no memory"):
        run_all(job, made.actions())
    made.faults.clear()
    made.ran.clear()
    run_all(replace(job, is_resume=True), made.actions())
    assert made.ran == [Stage.GRPO, Stage.EVALUATE, Stage.EXPORT, Stage.REPORT]


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Garbage stays until somebody asks for its collection."""
    gc.disable()
    yield
    gc.enable()


class Circle:
    """As a trainer and its model are: each holds the other."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("no_collector")
def test_what_a_stage_held_is_free_before_the_next_one(job: Job, made: MadeStages):
    """Training's model lay beside the one that was evaluated."""
    held: list[weakref.ref[Circle]] = []
    is_there: list[bool] = []
    actions = made.actions()

    def hold(job: Job) -> None:
        made.actions()[Stage.GRPO](job)
        held.append(weakref.ref(Circle()))
        is_there.append(held[0]() is not None)

    def look(job: Job) -> None:
        made.actions()[Stage.EVALUATE](job)
        is_there.append(held[0]() is not None)

    run_all(job, {**actions, Stage.GRPO: hold, Stage.EVALUATE: look})
    assert is_there == [True, False]


@pytest.mark.parametrize(("is_gpu", "num_calls"), [(True, 1), (False, 0)])
def test_the_memory_of_a_gpu_is_given_back(
    is_gpu: bool, num_calls: int, monkeypatch: pytest.MonkeyPatch
):
    calls: list[str] = []
    cuda = SimpleNamespace(
        is_available=lambda: is_gpu, empty_cache=lambda: calls.append("empty_cache")
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    free_memory()
    assert len(calls) == num_calls
    monkeypatch.delitem(sys.modules, "torch")
    free_memory()
    assert "torch" not in sys.modules


def test_stages_that_are_turned_off_are_passed_over(tmp_path: Path, made: MadeStages):
    job = make_job(tmp_path, "warmstart.kind=none", "rl.algorithm=none")
    run_all(job, made.actions())
    assert made.ran == [Stage.PREPARE, Stage.EVALUATE, Stage.EXPORT, Stage.REPORT]


def test_a_changed_evaluation_is_made_anew_and_training_is_not(tmp_path: Path, made: MadeStages):
    run_all(make_job(tmp_path), made.actions())
    made.ran.clear()
    run_all(make_job(tmp_path, "evaluation.rows_per_set=4"), made.actions())
    assert made.ran == [Stage.EVALUATE, Stage.EXPORT, Stage.REPORT]


def test_where_to_push_can_be_said_after_the_export(tmp_path: Path, made: MadeStages):
    run_all(make_job(tmp_path), made.actions())
    run_stage(Stage.PUSH, make_job(tmp_path, "export.repo=org/repo"), made.actions())
    assert made.ran[-1] is Stage.PUSH
    made.ran.clear()
    run_all(make_job(tmp_path, "export.repo=org/repo"), made.actions())
    assert made.ran == [Stage.REPORT]
    run_all(make_job(tmp_path, "export.repo=org/other"), made.actions())
    assert made.ran == [Stage.REPORT, Stage.PUSH, Stage.REPORT]


def test_changed_training_under_the_same_name_is_refused(tmp_path: Path, made: MadeStages):
    run_all(make_job(tmp_path), made.actions())
    with pytest.raises(CheckpointError, match=r"rl\.beta: 0\.0 -> 0\.1"):
        run_all(make_job(tmp_path, "rl.beta=0.1"), made.actions())


@pytest.mark.parametrize(
    ("stage", "first"),
    [
        (Stage.WARMSTART, "prepare"),
        (Stage.GRPO, "prepare"),
        (Stage.EVALUATE, "prepare"),
        (Stage.EXPORT, "prepare"),
        (Stage.PUSH, "export"),
    ],
)
def test_a_stage_says_which_one_comes_first(
    tmp_path: Path, made: MadeStages, stage: Stage, first: str
):
    job = make_job(tmp_path, "export.repo=org/repo")
    with pytest.raises(CheckpointError, match=f"run `python -m training {first}` first"):
        run_stage(stage, job, made.actions())
    assert made.ran == []


def test_training_that_is_finished_is_not_repeated(job: Job, made: MadeStages):
    run_all(job, made.actions())
    made.ran.clear()
    run_stage(Stage.WARMSTART, job, made.actions())
    assert made.ran == []


def test_one_process_trains_in_a_folder_at_a_time(job: Job, made: MadeStages):
    with job.run.lock():
        for action in (run_all, lambda *args: run_stage(Stage.WARMSTART, *args)):
            with pytest.raises(TrainingError, match=r"works in .* already"):
                action(job, made.actions())
        # A run can be looked at while it trains.
        run_stage(Stage.REPORT, job, made.actions())
    assert made.ran == [Stage.REPORT]


def test_sets_of_the_data_folder_need_one(tmp_path: Path):
    job = make_job(tmp_path, "data.sets.made_qa.kind=folder")
    with pytest.raises(ConfigError, match="made_qa: a file of --data-dir, which is not given"):
        run_stage(Stage.PREPARE, job)


def prepare(folder: Path, *more: str) -> int:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return main(["prepare", str(SMOKE), "--runs-dir", str(folder), *more])


@pytest.fixture
def in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smoke run's data are named from the working directory."""
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("in_root")
def test_prepare_leaves_data_and_the_resolved_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    assert prepare(tmp_path) == 0
    run = tmp_path / "smoke"
    assert (run / "data" / "train.jsonl").stat().st_size > 0
    assert (run / "data" / "DONE").is_file()
    assert json.loads((run / "config.json").read_text())["config"]["model"]["name"] == "tiny"
    before = (run / "data" / "DONE").stat().st_mtime_ns
    assert prepare(tmp_path) == 0
    assert (run / "data" / "DONE").stat().st_mtime_ns == before


@pytest.mark.usefixtures("in_root")
def test_data_are_made_anew_until_something_is_trained_on_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert prepare(tmp_path) == 0
    assert prepare(tmp_path, "--set", "seed=2") == 0
    config = load_config(SMOKE, ["seed=2"])
    RunFolder(tmp_path / "smoke").stage("warmstart").begin(config, resume=False)
    assert prepare(tmp_path, "--set", "seed=3") == 1
    assert "seed: 2 -> 3" in capsys.readouterr().err


def run_with(fault: BaseException, folder: Path) -> int:
    def prepare_process() -> None:
        raise fault

    return main(["warmstart", str(SMOKE), "--runs-dir", str(folder)], prepare_process)


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        (TrainingError("no data: do this"), 1, "cannot go on: no data: do this\n"),
        (StoppedRunError("it starved", "rl.num_generations"), 3, "stopped: it starved. What to"),
        (KeyboardInterrupt(), 130, f"go on with: python -m training warmstart {SMOKE}"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "is full"),
    ],
    ids=["refused", "stopped", "ctrl-c", "disk-full"],
)
def test_every_end_has_its_exit_code_and_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault, code: int, message: str
):
    assert run_with(fault, tmp_path) == code
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    if code == 130:
        assert said.endswith("--resume\n")


def test_a_fault_of_the_program_keeps_its_traceback(tmp_path: Path):
    with pytest.raises(ZeroDivisionError):
        run_with(ZeroDivisionError(), tmp_path)


@pytest.mark.parametrize(
    "arguments", [[], ["prepare"], ["train", "x.toml"], ["prepare", "x.toml", "--dry-run"]]
)
def test_wrong_usage_is_exit_code_two(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m training" in capsys.readouterr().err


def test_a_missing_configuration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", str(tmp_path / "none.toml")]) == 1
    assert "there is no" in capsys.readouterr().err


def test_help_and_wrong_configurations_load_nothing_heavy():
    code = (
        "import sys; from training.__main__ import main, make_parser; make_parser().format_help();"
        "assert 'pydantic' not in sys.modules;"
        "assert main(['run', 'none.toml']) == 1;"
        "heavy = {'torch', 'transformers', 'trl', 'datasets', 'sklearn', 'scipy', 'matplotlib'};"
        "sys.exit(sorted(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def write_many_rows(path: Path) -> None:
    """So many that reading them takes seconds."""
    with path.open("w") as file:
        for number in range(10_000):
            row = {"pair": f"p{number}", "text": f"Room {number} is blue.", "question": "Colour?"}
            for answer, verdict in (("blue", "yes"), ("red", "no")):
                file.write(json.dumps({**row, "answer": answer, "verdict": verdict}) + "\n")


def test_a_run_that_is_told_to_end_says_how_to_go_on(tmp_path: Path):
    write_many_rows(tmp_path / "rows.jsonl")
    command = [sys.executable, "-m", "training", "prepare", str(SMOKE), "--runs-dir", str(tmp_path)]
    command += ["--set", f"data.sets.made_qa.file={tmp_path / 'rows.jsonl'}"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = [next(process.stderr)]
        while "begins" not in said[-1]:
            said.append(next(process.stderr))
        process.send_signal(signal.SIGTERM)
        said += process.stderr
    assert process.returncode == 130
    assert "interrupted. Nothing half-written counts" in said[-1]
    assert said[-1].endswith("--resume\n")
    assert not (tmp_path / "smoke" / "data" / "DONE").exists()
