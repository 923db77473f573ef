"""A policy's own right replies: drawn once, kept where they are right, and taught."""

from __future__ import annotations

import json
import logging
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from pydantic import ValidationError  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from support.records import POOL, make_record  # noqa: E402
from support.taught_model import write_taught_model  # noqa: E402
from support.tiny_model import make_tokenizer, write_tiny_model  # noqa: E402
from support.tiny_trainer import make_config, make_records  # noqa: E402

from contract.labels import Label  # noqa: E402
from training.config import RunConfig, WarmstartConfig  # noqa: E402
from training.distillation import (  # noqa: E402
    PART_RECORDS,
    Drawn,
    balance,
    check_adapter,
    distil,
    draw_replies,
    keep_right,
)
from training.errors import CheckpointError, ConfigError, DataError, ModelError  # noqa: E402
from training.inputs import stage_inputs  # noqa: E402
from training.models import Codec, load_policy  # noqa: E402
from training.records import write_records  # noqa: E402
from training.runs import DONE, RunFolder, write_json  # noqa: E402
from training.warmstart import warmstart  # noqa: E402

H, C = Label.HALLUCINATION, Label.CORRECT
RECORDS = make_records(2)
RIGHT = 'The text says "The fair".\nClass: {label}'


@pytest.fixture(scope="module")
def random_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "random")


@pytest.fixture(scope="module")
def taught_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that gives the right reply to each of ``RECORDS``."""
    codec = Codec(make_tokenizer())
    replies = {tuple(codec.prompt(r.example)): RIGHT.format(label=r.label) for r in RECORDS}
    return write_taught_model(tmp_path_factory.mktemp("models") / "taught", replies)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    write_records(run.data("train"), RECORDS)
    write_records(run.data("validation"), RECORDS)
    return run


def make_distil_config(base: Path, **changes: Any) -> RunConfig:
    settings = {
        "kind": "self-distilled",
        "num_samples": 2,
        "max_steps": 2,
        "batch_tokens": 512,
        "epochs": 2,
        **changes,
    }
    return make_config(base, warmstart=settings, rl={"eval_steps": 2, "eval_rows": 2})


def load(config: RunConfig, base: Path) -> tuple[Codec, Any]:
    return Codec(make_tokenizer()), load_policy(config.model, base)


def say(text: str, is_truncated: bool = False) -> Drawn:
    return Drawn(text, is_truncated)


@pytest.mark.parametrize(
    ("reply", "is_kept"),
    [
        pytest.param(say('It says "built in 1925".\nClass: correct'), True, id="right"),
        pytest.param(say("So it says.\nClass: correct"), True, id="quotes-nothing"),
        pytest.param(say('"Ada Berg" answers it.\nClass: correct'), True, id="quotes-the-response"),
        pytest.param(say('It says "built in 1926".\nClass: correct'), False, id="made-up-quote"),
        pytest.param(say('It says "built in 1925".\nClass: hallucination'), False, id="wrong"),
        pytest.param(say('It says "built in 1925".'), False, id="no-verdict"),
        pytest.param(say("Class: correct"), False, id="no-justification"),
        pytest.param(say("So.\nClass: correct", is_truncated=True), False, id="cut-off"),
        pytest.param(say("Class: correct\nSo.\nClass: correct"), False, id="two-verdicts"),
        pytest.param(say(""), False, id="empty"),
    ],
)
def test_kept_is_what_is_right_and_quotes_what_is_there(reply: Drawn, is_kept: bool) -> None:
    record = make_record(knowledge=POOL, response="Ada Berg", label=C)
    assert bool(keep_right(record, [reply])) is is_kept


def test_of_right_replies_the_first_two_that_differ_are_kept() -> None:
    replies = [
        say(f"{text}\nClass: correct")
        for text in ("One.", " One.", 'Wrong quote "x1".', "Two\n words.", "Two words.", "Three.")
    ]
    assert keep_right(make_record(), replies) == ("One.", "Two\n words.")


def test_as_many_of_one_class_are_taught_as_of_the_other_in_each_set() -> None:
    records = [
        *(make_record(f"a-{i}", label=H) for i in range(5)),
        *(make_record(f"a-{i}", label=C) for i in range(5, 7)),
        *(make_record(f"b-{i}", set_name="lakes", label=C) for i in range(3)),
    ]
    chosen = balance(records, seed=1)
    assert Counter((r.set_name, r.label) for r in chosen) == {("pools", H): 2, ("pools", C): 2}
    assert chosen == sorted(chosen, key=records.index)
    assert balance(records, seed=1) == chosen
    assert len({tuple(r.id for r in balance(records, seed=seed)) for seed in range(9)}) > 1


def test_a_policy_that_writes_right_replies_is_taught_them(
    taught_base: Path, run: RunFolder
) -> None:
    config = make_distil_config(taught_base, num_samples=8)
    distilled = distil(config, run, *load(config, taught_base), RECORDS)
    assert distilled.records == tuple(RECORDS)
    kept = list(distilled.justifications.values())
    assert len(kept) == 4
    assert all('The text says "The fair".' in each for each in kept)


def test_a_policy_that_writes_none_says_where_to_begin(random_base: Path, run: RunFolder) -> None:
    config = make_distil_config(random_base)
    with pytest.raises(DataError, match=r"of 8 replies 0 end in a verdict.*warmstart\.adapter"):
        distil(config, run, *load(config, random_base), RECORDS)


def test_replies_are_drawn_for_whole_pairs_up_to_the_number_asked_for(
    taught_base: Path, run: RunFolder
) -> None:
    config = make_distil_config(taught_base, num_samples=8, num_records=2)
    distilled = distil(config, run, *load(config, taught_base), RECORDS)
    assert len(distilled.records) == 2
    assert len({record.pair_id for record in distilled.records}) == 1


def replies_folder(run: RunFolder) -> Path:
    return run.stage("warmstart").path / "replies"


def test_replies_that_were_lost_are_drawn_again_the_same(random_base: Path, run: RunFolder) -> None:
    config = make_distil_config(random_base, num_samples=1)
    codec, model = load(config, random_base)
    records = make_records(PART_RECORDS // 2 + 1)
    drawn = draw_replies(config, run, codec, model, records)
    assert len(drawn) == PART_RECORDS + 2
    assert len({reply.text for replies in drawn for reply in replies}) > PART_RECORDS // 2
    first, second = sorted(replies_folder(run).glob("*.jsonl"))
    assert len(second.read_text().splitlines()) == 2
    second.unlink()
    before = first.stat().st_mtime_ns
    assert draw_replies(config, run, codec, model, records) == drawn
    assert first.stat().st_mtime_ns == before
    assert {path.name for path in replies_folder(run).iterdir()} == {
        "made_from.json", first.name, second.name
    }  # fmt: skip


def write_replies(run: RunFolder, config: RunConfig) -> None:
    """Write the right reply to each of ``RECORDS`` as if it had been drawn, twice."""
    inputs = stage_inputs(config, "warmstart", run.path) | {"adapter's weights": None}
    write_json(replies_folder(run) / "made_from.json", inputs)
    rows = [
        {
            "record": f"{record.set_name}/{record.id}",
            "replies": 2 * [asdict(say(RIGHT.format(label=record.label)))],
        }
        for record in RECORDS
    ]
    path = replies_folder(run) / "00000.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_a_stage_trains_on_replies_that_lie_there(random_base: Path, run: RunFolder) -> None:
    config = make_distil_config(random_base, learning_rate=1e-2)
    write_replies(run, config)
    warmstart(config, run)
    tensors = load_file(run.stage("warmstart").adapter / "adapter_model.safetensors")
    assert sum(bool(t.any()) for name, t in tensors.items() if "lora_B" in name) == 14
    assert run.stage("warmstart").state(config).is_finished


def test_replies_of_other_inputs_are_not_used(random_base: Path, run: RunFolder) -> None:
    config = make_distil_config(random_base)
    write_replies(run, config)
    other = make_distil_config(random_base, num_samples=3)
    with pytest.raises(CheckpointError, match=r"warmstart\.num_samples: 2 -> 3\nDelete it to draw"):
        draw_replies(other, run, *load(other, random_base), RECORDS)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("made_from.json", "{", "made_from.json cannot be read"),
        ("made_from.json", "[]", "made_from.json cannot be read"),
        ("00000.jsonl", '{"record": "made', "00000.jsonl cannot be read"),
        ("00000.jsonl", "[]\n", "00000.jsonl cannot be read"),
        ("00000.jsonl", '{"record": "made/0", "replies": []}\n', "holds other records"),
        ("00000.jsonl", "", "holds other records"),
    ],
)
def test_broken_files_of_replies_are_named(
    random_base: Path, run: RunFolder, name: str, text: str, says: str
) -> None:
    config = make_distil_config(random_base)
    write_replies(run, config)
    (replies_folder(run) / name).write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=says):
        draw_replies(config, run, *load(config, random_base), RECORDS)


def save_adapter(config: RunConfig, base: Path, folder: Path) -> Path:
    load_policy(config.model, base, seed=5).save_pretrained(str(folder / "adapter"))
    return folder / "adapter"


def test_a_stage_goes_on_from_the_adapter_that_it_is_given(
    random_base: Path, run: RunFolder, tmp_path: Path
) -> None:
    adapter = save_adapter(make_distil_config(random_base), random_base, tmp_path / "first")
    config = make_distil_config(random_base, adapter=str(adapter), learning_rate=1e-9)
    # The replies belong to the adapter's weights, so those of the base are refused.
    write_replies(run, config)
    with pytest.raises(CheckpointError, match="adapter's weights: None -> "):
        warmstart(config, run)
    made_from = replies_folder(run) / "made_from.json"
    made_from.unlink()
    warmstart(config, run)
    before = load_file(adapter / "adapter_model.safetensors")
    after = load_file(run.stage("warmstart").adapter / "adapter_model.safetensors")
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-6)


def test_an_adapter_of_another_size_is_refused(
    random_base: Path, run: RunFolder, tmp_path: Path
) -> None:
    small = make_config(random_base, model={"rank": 2})
    adapter = save_adapter(small, random_base, tmp_path / "first")
    config = make_distil_config(random_base, adapter=str(adapter))
    with pytest.raises(ConfigError, match=r"has rank 2 and alpha 8: set model\.rank"):
        warmstart(config, run)


def test_an_adapter_of_another_contract_is_refused(
    random_base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    adapter = save_adapter(make_distil_config(random_base), random_base, tmp_path / "first")
    config = make_distil_config(random_base, adapter=str(adapter))
    model = load_policy(config.model, random_base, adapter=adapter)
    check_adapter(config, model)
    assert "nothing says under which contract" in caplog.text
    ours = stage_inputs(config, "warmstart", tmp_path)
    write_json(adapter.parent / DONE, {"inputs": ours})
    check_adapter(config, model)
    write_json(adapter.parent / DONE, {"inputs": ours | {"contract": "version 0, abc"}})
    with pytest.raises(ModelError, match=r"another contract \(version 0, abc, this code has vers"):
        check_adapter(config, model)


def test_an_adapter_belongs_to_self_distillation_alone() -> None:
    with pytest.raises(ValidationError, match='adapter belongs to kind = "self-distilled"'):
        WarmstartConfig(adapter=Path("runs/a/warmstart/adapter"))
