"""What is judged and under which contract, what is left out, and an evaluation from end to end."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from support.made_run import make_adapter  # noqa: E402
from support.records import make_record  # noqa: E402
from support.stub_service import StubService  # noqa: E402
from support.tiny_model import make_tokenizer, write_tiny_model  # noqa: E402
from support.tiny_trainer import make_config, make_records  # noqa: E402

from contract.calibration import Calibration  # noqa: E402
from contract.labels import Label  # noqa: E402
from contract.manifest import CONTRACT_VERSION, Manifest, fingerprint, write_manifest  # noqa: E402
from training.config import RunConfig  # noqa: E402
from training.errors import DataError, ModelError  # noqa: E402
from training.evaluate import evaluate_stage  # noqa: E402
from training.judged_rows import find_length_matched, find_parts, leave_out_long  # noqa: E402
from training.judges import Judge, check_weights, find_judge  # noqa: E402
from training.judging import Judgement  # noqa: E402
from training.kept_judgements import KeptJudgements  # noqa: E402
from training.models import Codec  # noqa: E402
from training.records import write_records  # noqa: E402
from training.runs import DONE, STARTED, RunFolder, write_json  # noqa: E402

COMMIT = "0123456789abcdef0123456789abcdef01234567"
COMMAND = "python -m training evaluate tiny.toml --set evaluation.rows_per_set=4"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "base")


def make_run_config(base: Path, **sections: Any) -> RunConfig:
    evaluation = {"rows_per_set": 4, "bootstrap_samples": 10, **sections.pop("evaluation", {})}
    return make_config(base, evaluation=evaluation, **sections)


@pytest.fixture(scope="module")
def trained(base: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with data and an adapter, which no test changes."""
    run = RunFolder(tmp_path_factory.mktemp("runs") / "tiny")
    records = make_records(6)
    for part, rows in (("train", records[:4]), ("validation", records[4:8]), ("test", records[8:])):
        write_records(run.data(part), rows)
    config = make_run_config(base)
    stage = run.stage(config.rl.algorithm)
    make_adapter(base, stage.adapter, config)
    stage.finish(config)
    return run


@pytest.fixture
def run(trained: RunFolder, tmp_path: Path) -> RunFolder:
    shutil.copytree(trained.path, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def write_contract(folder: Path, version: int = CONTRACT_VERSION, mark: str = "0" * 16) -> None:
    tokens = {Label.HALLUCINATION: 5, Label.CORRECT: 6}
    manifest = Manifest(version, mark, tokens, Calibration(), "acme/base", COMMIT, trained=True)
    write_manifest(folder, manifest)


@pytest.fixture
def service() -> Iterator[StubService]:
    stub = StubService()
    yield stub
    stub.close()


def test_an_evaluation_names_its_command_and_leaves_out_long_prompts(
    base: Path, run: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    rows = make_records(6)[8:]
    long = replace(rows[0], id="long", pair_id="long", knowledge=("word " * 3000,))
    write_records(run.data("test"), [*rows, long])
    config = make_run_config(base, evaluation={"rows_per_set": 9})
    with caplog.at_level(logging.WARNING):
        report = evaluate_stage(config, run, str(run.stage("grpo").adapter), COMMAND)
    assert report.slices[0].num_rows == 4
    assert "1 of 5 rows are not judged: prompts over 1024 tokens" in caplog.text
    assert "made/long" in caplog.text
    found = json.loads((run.evaluation / "grpo-adapter.json").read_text())["provenance"]
    assert found["command"] == COMMAND
    assert found["rows_over_prompt_budget"] == {
        "max_prompt_tokens": 1024, "num_rows": 1, "rows": ["made/long"],
    }  # fmt: skip
    assert '`["made/long"]`' in (run.evaluation / "grpo-adapter.md").read_text()


class Interrupt(logging.Handler):
    """Ctrl-C as soon as something was judged."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("judged "):
            raise KeyboardInterrupt


def test_an_interrupted_evaluation_judges_only_the_rest(base: Path, run: RunFolder) -> None:
    """It began from zero, though the message says how to go on."""
    write_records(run.data("test"), make_records(9))
    config = make_run_config(base, evaluation={"rows_per_set": 18, "batch_size": 2})
    what, logger, interrupt = (
        str(run.stage("grpo").adapter),
        logging.getLogger("training"),
        Interrupt(),
    )
    logger.addHandler(interrupt)
    logger.setLevel(logging.INFO)
    try:
        with pytest.raises(KeyboardInterrupt):
            evaluate_stage(config, run, what)
    finally:
        logger.removeHandler(interrupt)
        logger.setLevel(logging.NOTSET)
    (path,) = run.evaluation.glob("*.judged.jsonl")
    kept = [json.loads(line) for line in path.read_text().splitlines() if line]
    assert len(kept) == 16
    # Other words than the model's, to be known again; and a line that was cut off.
    said = {"reply": "x", "justification": "x", "label": "correct", "is_readable": True}
    rows = [{"row": row["row"], "judgement": {**said, "log_odds": -1.0}} for row in kept]
    path.write_text("\n".join(map(json.dumps, rows)) + '\n{"row": "ab')
    report = evaluate_stage(config, run, what)
    assert report.slices[0].num_rows == 18
    unreadable = report.slices[0].metrics["unreadable_rate"]
    assert unreadable is not None
    # A random model says nothing readable.
    assert unreadable.value == pytest.approx(2 / 18)
    assert list(run.evaluation.glob("*.jsonl")) == []


def test_judgements_are_kept_for_the_same_row_and_weights_alone(tmp_path: Path) -> None:
    one, other = make_records(1)
    said = Judgement("A \ud83d b.", None, Label.CORRECT, is_readable=False, log_odds=-0.25)
    KeptJudgements(tmp_path / "x.jsonl", "weights 1").add([one], [said])
    again = KeptJudgements(tmp_path / "x.jsonl", "weights 1")
    assert again.find([one]) == [said]
    assert again.find([one, other]) is None
    assert again.find([replace(one, response="Else.")]) is None
    assert KeptJudgements(tmp_path / "x.jsonl", "weights 2").find([one]) is None


def test_a_folder_of_weights_can_change_behind_its_name(base: Path) -> None:
    config = make_run_config(base).model
    assert Judge("a", "m", "ab", adapter=Path("a")).is_pinned
    assert not Judge("a", "m", "folder", model_config=config).is_pinned
    on_hub = config.model_copy(update={"name": "org/none", "revision": COMMIT})
    assert Judge("a", "m", COMMIT, model_config=on_hub).is_pinned


def test_an_adapter_of_another_contract_is_not_judged(base: Path, run: RunFolder) -> None:
    config = make_run_config(base)
    stage = run.stage("grpo")
    mark = json.loads(stage.marker(DONE).read_text())
    mark["inputs"]["contract"] = "version 1, 0000000000000000"
    write_json(stage.marker(DONE), mark)
    for what in (None, str(stage.adapter)):
        with pytest.raises(ModelError, match=r"another contract \(version 1, 0{16}, this code"):
            find_judge(config, run, what)
    # A checkpoint is of a stage that has only begun.
    stage.marker(DONE).rename(stage.marker(STARTED))
    shutil.copytree(stage.adapter, stage.path / "checkpoint-2")
    with pytest.raises(ModelError, match=r"checkpoint-2 cannot be judged"):
        find_judge(config, run, str(stage.path / "checkpoint-2"))


def test_an_exported_adapter_is_held_to_the_contract_beside_it(base: Path, run: RunFolder) -> None:
    config, adapter = make_run_config(base), run.stage("grpo").adapter
    write_contract(adapter, mark=fingerprint())
    assert find_judge(config, run, str(adapter)).adapter == adapter
    write_contract(adapter)
    with pytest.raises(ModelError, match=rf"0{{16}}\), this code speaks .*{fingerprint()}"):
        find_judge(config, run, str(adapter))


def test_weights_of_another_contract_are_not_judged(base: Path, run: RunFolder) -> None:
    folder = run.path / "weights"
    shutil.copytree(base, folder)
    assert not check_weights(folder)
    write_contract(folder, mark=fingerprint())
    assert check_weights(folder)
    write_contract(folder, version=CONTRACT_VERSION + 1, mark=fingerprint())
    with pytest.raises(ModelError, match=r"weights cannot be judged: .* trained under contract"):
        evaluate_stage(make_run_config(base), run, str(folder))
    (folder / "contract.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be read as JSON"):
        evaluate_stage(make_run_config(base), run, str(folder))
    assert not run.evaluation.exists()


def test_a_service_of_another_contract_is_not_judged(
    base: Path, run: RunFolder, service: StubService
) -> None:
    message = r"it speaks contract version 1, 4567ef01; this code speaks version"
    with pytest.raises(ModelError, match=message):
        find_judge(make_run_config(base), run, service.url)
    asked = make_run_config(base, evaluation={"url": service.url})
    with pytest.raises(ModelError, match=message):
        find_judge(asked, run, None)
    status, headers, info = service.info
    service.info = (status, headers, {**info, "contract": fingerprint()})
    judged = find_judge(make_run_config(base), run, service.url)
    assert (judged.model, judged.url) == ("embedded", service.url)


def test_ids_mark_rows_of_their_own_set_alone() -> None:
    rows = [
        make_record("1", pair_id="p", set_name="a", response="One two"),
        make_record("2", pair_id="p", set_name="a", response="One", label=Label.HALLUCINATION),
        make_record("1", pair_id="p", set_name="b", response="One", treatment="short-right"),
        make_record("2", pair_id="p", set_name="b", response="One two three four"),
    ]
    assert find_length_matched(rows) == {("a", "1"), ("a", "2")}
    assert find_parts(rows) == {
        "raw": {("a", "1"), ("a", "2"), ("b", "2")}, "treated": {("b", "1")},
    }  # fmt: skip


def test_rows_whose_prompts_are_all_too_long_are_refused() -> None:
    codec, rows = Codec(make_tokenizer()), make_records(1)
    longest = max(len(codec.prompt(row.example)) for row in rows)
    assert leave_out_long(rows, codec, longest).long == []
    with pytest.raises(DataError, match="every prompt is over 8 tokens"):
        leave_out_long(rows, codec, 8)
