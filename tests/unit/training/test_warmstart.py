"""The plan of a warm start, its loss, and runs of a few steps on a tiny model."""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from safetensors.torch import load_file  # noqa: E402
from support.own_replies import save_adapter  # noqa: E402
from support.tiny_model import make_tokenizer, write_tiny_model  # noqa: E402
from support.tiny_trainer import make_config, make_records  # noqa: E402

from contract.labels import Label  # noqa: E402
from training.config import RunConfig  # noqa: E402
from training.errors import CheckpointError, ConfigError, DataError, ModelError  # noqa: E402
from training.inputs import stage_inputs  # noqa: E402
from training.models import Codec, load_policy  # noqa: E402
from training.records import Record, write_records  # noqa: E402
from training.runs import DONE, RunFolder, write_json  # noqa: E402
from training.supervision import (  # noqa: E402
    Group,
    Justification,
    Taught,
    group_records,
    make_batch,
)
from training.warmstart import fit_adapter, plan_training, warmstart  # noqa: E402

NUM_STEPS = 4


def make_plan_config(repeats: dict[str, float], **warmstart: Any) -> RunConfig:
    sets = [
        {"name": name, "kind": "folder", "file": "x.jsonl", "repeat": repeat}
        for name, repeat in repeats.items()
    ]
    return RunConfig.model_validate(
        {"name": "plan", "data": {"sets": sets}, "warmstart": {"batch_tokens": 256, **warmstart}}
    )


def make_groups(set_name: str, count: int) -> list[Group]:
    # Of three tokens, all of them its own.
    return [
        Group(set_name, [Taught([i, 1, 2], 2, {2: 1.0}, is_short=True)], 1) for i in range(count)
    ]


def count_groups(steps: Sequence[Sequence[int]]) -> Counter[int]:
    return Counter(index for step in steps for index in step)


def test_an_epoch_holds_each_group_once() -> None:
    steps = plan_training(make_groups("a", 200), make_plan_config({"a": 1}))
    assert count_groups(steps) == dict.fromkeys(range(200), 1)
    # 256 tokens hold 85 groups of three.
    assert sorted(map(len, steps)) == [30, 85, 85]


def test_further_epochs_have_other_orders() -> None:
    steps = plan_training(make_groups("a", 200), make_plan_config({"a": 1}, epochs=2))
    assert count_groups(steps) == dict.fromkeys(range(200), 2)
    assert len(steps) == 6
    assert sorted(map(sorted, steps[:3])) != sorted(map(sorted, steps[3:]))


def test_a_set_that_repeats_stands_in_an_epoch_more_often() -> None:
    groups = [*make_groups("a", 100), *make_groups("b", 100)]
    counts = count_groups(plan_training(groups, make_plan_config({"a": 1, "b": 2.5})))
    assert {counts[i] for i in range(100)} == {1}
    assert {counts[i] for i in range(100, 200)} == {2, 3}
    assert 220 < sum(counts[i] for i in range(100, 200)) < 280


def test_a_part_of_an_epoch_holds_that_share_of_the_groups() -> None:
    steps = plan_training(make_groups("a", 400), make_plan_config({"a": 1}, epochs=1.25))
    counts = count_groups(steps)
    assert set(counts.values()) == {1, 2}
    assert 60 < sum(count == 2 for count in counts.values()) < 140


def test_a_number_of_steps_ends_the_plan_earlier() -> None:
    groups = make_groups("a", 200)
    whole = plan_training(groups, make_plan_config({"a": 1}))
    assert plan_training(groups, make_plan_config({"a": 1}, max_steps=2)) == whole[:2]


def test_the_seed_makes_the_plan() -> None:
    groups, config = make_groups("a", 200), make_plan_config({"a": 0.5})
    assert plan_training(groups, config) == plan_training(groups, config)
    other = config.model_copy(update={"seed": 2})
    assert plan_training(groups, other) != plan_training(groups, config)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny-base")


def make_run_config(base: Path, **changes: Any) -> RunConfig:
    settings = {
        "max_steps": NUM_STEPS,
        "batch_tokens": 512,
        "learning_rate": 1e-2,
        "save_steps": 2,
        "epochs": 4,
        **changes,
    }
    return make_config(base, warmstart=settings, rl={"eval_steps": 2, "eval_rows": 4})


def make_run(folder: Path) -> RunFolder:
    run = RunFolder(folder)
    write_records(run.data("train"), make_records(6))
    write_records(run.data("validation"), make_records(2))
    return run


@pytest.fixture(scope="module")
def trained(base: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished warm start that no test changes."""
    run = make_run(tmp_path_factory.mktemp("runs") / "trained")
    warmstart(make_run_config(base), run)
    return run


def read_rows(run: RunFolder) -> list[dict[str, Any]]:
    text = (run.stage("warmstart").path / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def read_adapter(run: RunFolder) -> dict[str, Any]:
    tensors: dict[str, Any] = load_file(
        run.stage("warmstart").adapter / "adapter_model.safetensors"
    )
    return tensors


def test_a_run_leaves_an_adapter_that_has_learned_and_its_marks(trained: RunFolder) -> None:
    stage = trained.stage("warmstart")
    changed = [name for name, t in read_adapter(trained).items() if "lora_B" in name and t.any()]
    assert len(changed) == 14
    assert stage.marker(DONE).is_file()
    names = sorted(path.name for path in stage.path.glob("checkpoint-*"))
    assert names == ["checkpoint-2", "checkpoint-4"]


def test_a_run_measures_itself_on_the_validation_part(trained: RunFolder) -> None:
    judged = {row["step"]: row for row in read_rows(trained) if "validation_f1" in row}
    assert sorted(judged) == [2, 4]
    assert 0 <= judged[4]["validation_balanced_accuracy"] <= 1
    assert "validation_unreadable_rate" in judged[4]


def test_a_finished_warm_start_is_not_begun_again(base: Path, trained: RunFolder) -> None:
    with pytest.raises(CheckpointError, match="is finished"):
        warmstart(make_run_config(base), trained, resume=True)


def test_an_interrupted_run_goes_on_to_the_same_adapter(
    base: Path, trained: RunFolder, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "interrupted")
    shutil.copytree(trained.path, run.path)
    stage = run.stage("warmstart")
    # As a kill in the third step leaves it.
    shutil.rmtree(stage.adapter)
    shutil.rmtree(stage.path / "checkpoint-4")
    stage.marker(DONE).unlink()
    with pytest.raises(CheckpointError, match="is at checkpoint-2: add --resume"):
        warmstart(make_run_config(base), run)
    warmstart(make_run_config(base), run, resume=True)
    expected, found = read_adapter(trained), read_adapter(run)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor)
    assert stage.marker(DONE).is_file()
    assert [row["step"] for row in read_rows(run)] == [row["step"] for row in read_rows(trained)]


def test_without_data_the_run_says_what_to_do_first(base: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run `python -m training prepare` first"):
        warmstart(make_run_config(base), RunFolder(tmp_path))


def test_a_templated_warm_start_goes_on_from_the_adapter_that_it_is_given(
    base: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run")
    adapter = save_adapter(make_run_config(base), base, tmp_path / "first")
    config = make_run_config(base, adapter=str(adapter), learning_rate=1e-9, max_steps=1)
    warmstart(config, run)
    before = load_file(adapter / "adapter_model.safetensors")
    after = read_adapter(run)
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-6)


def test_of_many_rows_few_are_taught_and_the_answer_stands_in_any_of_them(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    right, wrong = make_records(1)
    rows = [replace(wrong, id=str(i), response=f"It was in {i}.") for i in range(6)]
    write_records(run.data("train"), [right, *rows, *(replace(r, id=f"c{r.id}", label=Label.CORRECT,
        treatment="long-right") for r in rows)])  # fmt: skip
    config = make_run_config(base, max_steps=1)
    (kind,) = config.data.sets
    data = config.data.model_copy(update={"sets": (kind.model_copy(update={"rows_per_pair": 2}),)})
    taught: dict[Record, Sequence[Justification]] = {}

    def spy(records: Sequence[Record], *arguments: Any) -> list[Group]:
        taught.update({record: arguments[-1](record) for record in records})
        return group_records(records, *arguments)

    monkeypatch.setattr("training.warmstart.group_records", spy)
    warmstart(config.model_copy(update={"data": data}), run)
    assert sorted(record.label for record in taught) == sorted(Label)
    assert right not in taught
    assert set(taught.values()) == {(Justification('By the knowledge, the answer is "In 1900".'),)}


def test_an_adapter_is_brought_to_a_lower_rank_if_alpha_is_that_rank_too(
    base: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run")
    adapter = save_adapter(make_run_config(base), base, tmp_path / "first")
    config = make_run_config(base, adapter=str(adapter), max_steps=1)
    lower = config.model.model_copy(update={"rank": 2, "alpha": 2})
    warmstart(config.model_copy(update={"model": lower}), run)
    assert {min(tensor.shape) for tensor in read_adapter(run).values()} == {2}
    wrong = config.model.model_copy(update={"rank": 2})
    with pytest.raises(ConfigError, match="or both to one lower number"):
        warmstart(config.model_copy(update={"model": wrong}), RunFolder(run.path))


def test_an_adapter_of_another_size_is_refused(base: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    small = make_config(base, model={"rank": 2})
    adapter = save_adapter(small, base, tmp_path / "first")
    config = make_run_config(base, adapter=str(adapter))
    with pytest.raises(ConfigError, match=r"has rank 2 and alpha 8: set model\.rank"):
        warmstart(config, run)


def test_an_adapter_of_another_contract_is_refused(
    base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    adapter = save_adapter(make_run_config(base), base, tmp_path / "first")
    config = make_run_config(base, adapter=str(adapter))
    model = load_policy(config.model, base, adapter=adapter)
    fit_adapter(config, model)
    assert "nothing says under which contract" in caplog.text
    ours = stage_inputs(config, "warmstart", tmp_path)
    write_json(adapter.parent / DONE, {"inputs": ours})
    fit_adapter(config, model)
    write_json(adapter.parent / DONE, {"inputs": ours | {"contract": "version 0, abc"}})
    with pytest.raises(ModelError, match=r"another contract \(version 0, abc, this code has vers"):
        fit_adapter(config, model)


def test_the_loss_is_the_weighted_cross_entropy_averaged_over_records(
    base: Path, tmp_path: Path
) -> None:
    from transformers import TrainingArguments

    from training.supervised_trainer import PlannedBatches, SupervisedTrainer

    config = make_run_config(base)
    codec = Codec(make_tokenizer())
    records = make_records(3)
    said = (Justification("It says so."),)
    groups = group_records(records, codec, config.model, config.warmstart, 1, lambda record: said)
    model = load_policy(config.model, base)
    trainer = SupervisedTrainer(
        codec,
        model=model,
        args=TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[]),
        train_dataset=PlannedBatches(groups, [[0, 1, 2]]),
    )
    loss = trainer.compute_loss(model, {"batch": make_batch(groups)})
    total, right = 0.0, []
    for taught in (each for group in groups for each in group.sequences):
        with torch.no_grad():
            logprobs = model(torch.tensor([taught.tokens])).logits[0].log_softmax(-1)
        for place, weight in taught.weights.items():
            total -= weight * float(logprobs[place - 1, taught.tokens[place]])
        labels = logprobs[taught.label_place - 1, sorted(codec.label_token_ids.values())]
        said = sorted(codec.label_token_ids.values())[int(labels.argmax())]
        right.append(said == taught.tokens[taught.label_place])
    assert len(right) == 12
    assert loss.item() == pytest.approx(total / 6, rel=1e-4)
    logs = {"loss": loss.item()}
    trainer.log(logs)
    # The sequences alternate between short path and whole reply.
    assert logs["train_short_path_accuracy"] == pytest.approx(sum(right[::2]) / 6)
    assert logs["train_accuracy"] == pytest.approx(sum(right[1::2]) / 6)
    later = {"loss": 1.0}
    trainer.log(later)
    assert "train_accuracy" not in later
