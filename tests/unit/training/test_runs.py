from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from support.checkpoints import make_checkpoint

from training.config import RunConfig
from training.data_config import DataConfig, SetConfig
from training.errors import CheckpointError, ModelError, StoppedRunError, TrainingError
from training.inputs import stage_inputs
from training.runs import RunFolder, StageState, is_disk_full, whole_folder, write_json, write_text


def make_config(**changes) -> RunConfig:
    sets = (SetConfig(name="made", kind="folder", file="made.jsonl"),)
    return RunConfig(**{"name": "r", "data": DataConfig(sets=sets), **changes})


CONFIG = make_config()
OTHER = make_config(rl={"learning_rate": 2e-5})


class MadeModel:
    """Writes one file; fails in the middle where told to."""

    def __init__(self, weights: str, is_failing: bool = False) -> None:
        self.weights = weights
        self.is_failing = is_failing

    def save_pretrained(self, save_directory: str) -> None:
        folder = Path(save_directory)
        (folder / "adapter_config.json").write_text("{}")
        if self.is_failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        (folder / "adapter_model.safetensors").write_text(self.weights)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "r")
    run.data("train").parent.mkdir(parents=True)
    run.data("train").write_text("rows")
    return run


def test_another_adapter_in_the_place_of_the_one_gone_on_from_is_noticed(run: RunFolder):
    """The path alone was recorded: other weights under it passed for the same."""
    adapter = run.path.parent / "earlier"
    adapter.mkdir()
    tensors = adapter / "adapter_model.safetensors"
    config = make_config(warmstart={"adapter": adapter})
    for name in ("warmstart", "grpo", "evaluation", "export"):
        tensors.write_text("one")
        stage = run.stage(name)
        stage.mark_started(config)
        tensors.write_text("other")
        (change,) = stage.state(config).changes
        # SHA-256 of the two words.
        assert change.startswith("adapter's weights: 7692c3ad3540bb80")
        assert " -> d9298a10d1b07358" in change
    tensors.unlink()
    assert run.stage("grpo").state(config).changes == ()
    assert "adapter's weights" not in stage_inputs(config, "data", run.path)


def test_a_marker_of_before_the_adapter_was_recorded_stays_good(run: RunFolder):
    adapter = run.path.parent / "earlier"
    config = make_config(warmstart={"adapter": adapter})
    stage = run.stage("warmstart")
    stage.finish(config)
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_text("one")
    assert stage.state(config).is_finished


def test_a_new_stage_begins_from_the_start(run: RunFolder):
    stage = run.stage("grpo")
    assert stage.state(CONFIG) == StageState(is_started=False, is_finished=False, changes=())
    assert stage.begin(CONFIG, resume=False) is None
    assert stage.state(CONFIG) == StageState(is_started=True, is_finished=False, changes=())


def test_a_finished_stage_holds_its_adapter_and_what_it_was_made_from(run: RunFolder):
    stage = run.stage("grpo")
    stage.begin(CONFIG, resume=False)
    stage.finish(CONFIG, MadeModel("trained"))
    assert (stage.adapter / "adapter_model.safetensors").read_text() == "trained"
    assert stage.state(CONFIG).is_finished
    mark = json.loads((run.path / "grpo" / "DONE").read_text())
    assert mark["inputs"]["rl.learning_rate"] == 1e-5
    assert mark["inputs"]["contract"].startswith("version ")
    with pytest.raises(CheckpointError, match="is finished"):
        stage.begin(CONFIG, resume=True)


def test_a_stage_goes_on_only_where_it_is_asked_to(run: RunFolder):
    stage = run.stage("grpo")
    stage.begin(CONFIG, resume=False)
    checkpoint = make_checkpoint(stage.path, 40)
    with pytest.raises(CheckpointError, match="is at checkpoint-40: add --resume"):
        stage.begin(CONFIG, resume=False)
    assert stage.begin(CONFIG, resume=True) == checkpoint


def test_a_stage_goes_on_from_the_last_whole_checkpoint(run: RunFolder):
    stage = run.stage("grpo")
    stage.begin(CONFIG, resume=False)
    whole = make_checkpoint(stage.path, 40)
    (make_checkpoint(stage.path, 50) / "trainer_state.json").unlink()
    assert stage.begin(CONFIG, resume=True) == whole
    assert (stage.path / "broken-checkpoint-50").is_dir()


def test_a_stage_without_a_checkpoint_begins_again(run: RunFolder):
    stage = run.stage("grpo")
    for resume in (False, False, True):
        assert stage.begin(CONFIG, resume=resume) is None


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_stage_of_other_settings_is_neither_mixed_nor_deleted(run: RunFolder, is_finished: bool):
    stage = run.stage("grpo")
    stage.begin(CONFIG, resume=False)
    checkpoint = make_checkpoint(stage.path, 40)
    if is_finished:
        stage.finish(CONFIG)
    with pytest.raises(CheckpointError) as caught:
        stage.begin(OTHER, resume=True)
    assert "rl.learning_rate: 1e-05 -> 2e-05" in str(caught.value)
    assert "--set name=" in str(caught.value)
    assert checkpoint.is_dir()


def test_other_data_are_noticed_by_their_content(run: RunFolder):
    stage = run.stage("warmstart")
    stage.begin(CONFIG, resume=False)
    run.data("train").write_text("other rows")
    with pytest.raises(CheckpointError, match=r"data/train\.jsonl: "):
        stage.begin(CONFIG, resume=True)


def test_a_stage_depends_on_its_own_settings_and_those_before(run: RunFolder):
    stage = run.stage("warmstart")
    stage.begin(CONFIG, resume=False)
    stage.finish(CONFIG)
    assert stage.state(OTHER).is_finished
    assert not stage.state(make_config(seed=2)).is_finished


@pytest.mark.parametrize(
    "rl", [{"save_steps": 1}, {"eval_rows": 7}, {"stops": {"patience_steps": 3}}]
)
def test_how_a_run_is_watched_is_no_other_run(run: RunFolder, rl: dict[str, object]):
    stage = run.stage("grpo")
    stage.begin(CONFIG, resume=False)
    assert stage.state(make_config(rl=rl)).changes == ()


def test_an_adapter_that_is_not_whole_does_not_replace_the_old_one(run: RunFolder):
    stage = run.stage("grpo")
    stage.finish(CONFIG, MadeModel("old"))
    with pytest.raises(OSError, match="No space left"):
        stage.finish(CONFIG, MadeModel("new", is_failing=True))
    assert (stage.adapter / "adapter_model.safetensors").read_text() == "old"
    assert not list(stage.path.glob("*.partial"))


def test_the_last_adapter_is_that_of_the_last_finished_stage(run: RunFolder):
    with pytest.raises(ModelError, match="holds no trained adapter"):
        run.last_adapter(CONFIG)
    run.stage("warmstart").finish(CONFIG, MadeModel("w"))
    run.stage("grpo").begin(CONFIG, resume=False)
    assert run.last_adapter(CONFIG) == run.path / "warmstart" / "adapter"
    run.stage("grpo").finish(CONFIG, MadeModel("g"))
    assert run.last_adapter(CONFIG) == run.path / "grpo" / "adapter"
    none = make_config(rl={"algorithm": "none"})
    assert run.last_adapter(none) == run.path / "warmstart" / "adapter"


def test_why_a_run_was_stopped_stands_beside_it_until_it_goes_on(run: RunFolder):
    stage = run.stage("grpo")
    stage.begin(CONFIG, resume=False)
    stage.mark_stopped(StoppedRunError("all rewards were equal", "rl.num_generations"))
    stopped = json.loads((stage.path / "STOPPED").read_text())
    assert stopped == {"reason": "all rewards were equal", "knob": "rl.num_generations"}
    stage.begin(CONFIG, resume=True)
    assert not (stage.path / "STOPPED").exists()


def test_the_markers_of_the_export_are_not_uploaded_with_it(run: RunFolder):
    run.stage("export").finish(CONFIG)
    assert (run.path / "export.DONE").is_file()
    assert not run.export.exists()


def test_a_marker_that_cannot_be_read_is_named(run: RunFolder):
    run.stage("grpo").begin(CONFIG, resume=False)
    (run.path / "grpo" / "STARTED").write_text("{")
    with pytest.raises(CheckpointError, match="STARTED cannot be read"):
        run.stage("grpo").state(CONFIG)


def test_two_processes_never_work_in_one_folder(run: RunFolder):
    with run.lock():
        with pytest.raises(TrainingError, match=r"process \d+ works in .* already"), run.lock():
            pass
        with run.lock("evaluation"):
            pass
    with run.lock():
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(TrainingError, match="--runs-dir"),
        RunFolder(tmp_path / "file" / "r").lock(),
    ):
        pass


def test_sets_are_compared_by_name(run: RunFolder):
    first, second = (SetConfig(name=n, kind="folder", file=f"{n}.jsonl") for n in "ab")
    one = stage_inputs(make_config(data={"sets": (first, second)}), "data", run.path)
    two = stage_inputs(make_config(data={"sets": (second, first)}), "data", run.path)
    assert one == two
    assert one["data.sets.a.file"] == "a.jsonl"


def test_a_text_is_written_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "deep" / "note.txt"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new \ud800")
    assert path.read_text() == "old"
    assert [each.name for each in path.parent.iterdir()] == ["note.txt"]


def test_what_is_no_number_in_json_is_not_written(tmp_path: Path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "x.json", {"loss": float("nan")})
    assert not list(tmp_path.iterdir())


def test_a_folder_takes_its_name_once_all_is_written(tmp_path: Path):
    path = tmp_path / "export"
    with whole_folder(path) as partial:
        (partial / "a").write_text("1")
        assert not path.exists()
    with pytest.raises(IsADirectoryError), whole_folder(path) as partial:
        partial.write_text("2")
    assert [each.name for each in tmp_path.iterdir()] == ["export"]
    with whole_folder(path) as partial:
        (partial / "c").write_text("3")
    assert [each.name for each in path.iterdir()] == ["c"]
    assert [each.name for each in tmp_path.iterdir()] == ["export"]


def made_of(cause: BaseException) -> RuntimeError:
    error = RuntimeError("saving failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (OSError(errno.ENOSPC, "x"), True),
        (OSError(errno.EDQUOT, "x"), True),
        (OSError(errno.EACCES, "x"), False),
        (RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed"), True),
        (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 8"), True),
        (RuntimeError("I/O error: No space left on device (os error 28)"), True),
        (made_of(OSError(errno.ENOSPC, "x")), True),
        (ValueError("shape"), False),
    ],
)
def test_a_full_disk_is_known_by_any_library_s_words(error: Exception, is_full: bool):
    assert is_disk_full(error) is is_full
