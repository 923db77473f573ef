"""A policy's own right replies: drawn once, kept where they are right, and taught."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from safetensors.torch import load_file  # noqa: E402
from support.own_replies import (  # noqa: E402
    make_own_config,
    replies_folder,
    save_adapter,
    write_replies,
)
from support.records import POOL, make_record  # noqa: E402
from support.taught_model import write_taught_model  # noqa: E402
from support.tiny_model import make_tokenizer, write_tiny_model  # noqa: E402
from support.tiny_trainer import make_records  # noqa: E402

from contract.labels import Label  # noqa: E402
from training.config import RunConfig  # noqa: E402
from training.distillation import balance, distil, keep_right  # noqa: E402
from training.errors import CheckpointError, DataError  # noqa: E402
from training.models import Codec, load_policy  # noqa: E402
from training.own_replies import OwnReply  # noqa: E402
from training.records import write_records  # noqa: E402
from training.runs import RunFolder  # noqa: E402
from training.supervision import Justification  # noqa: E402
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
    return make_own_config(base, "self-distilled", **changes)


def load(config: RunConfig, base: Path) -> tuple[Codec, Any]:
    return Codec(make_tokenizer()), load_policy(config.model, base)


def say(text: str, is_truncated: bool = False) -> OwnReply:
    return OwnReply(text, is_truncated)


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
def test_kept_is_what_is_right_and_quotes_what_is_there(reply: OwnReply, is_kept: bool) -> None:
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
    assert list(distilled) == RECORDS
    for kept in distilled.values():
        assert Justification('The text says "The fair".', 1 / len(kept), is_taught=True) in kept


def test_a_policy_that_writes_none_says_where_to_begin(random_base: Path, run: RunFolder) -> None:
    config = make_distil_config(random_base)
    with pytest.raises(DataError, match=r"of 8 replies 0 end in a verdict.*warmstart\.adapter"):
        distil(config, run, *load(config, random_base), RECORDS)


def write_right_replies(run: RunFolder, config: RunConfig) -> None:
    write_replies(run, config, {r: 2 * [say(RIGHT.format(label=r.label))] for r in RECORDS})


def test_a_stage_trains_on_replies_that_lie_there(random_base: Path, run: RunFolder) -> None:
    config = make_distil_config(random_base, learning_rate=1e-2)
    write_right_replies(run, config)
    warmstart(config, run)
    tensors = load_file(run.stage("warmstart").adapter / "adapter_model.safetensors")
    assert sum(bool(t.any()) for name, t in tensors.items() if "lora_B" in name) == 14
    assert run.stage("warmstart").state(config).is_finished


def test_a_stage_goes_on_from_the_adapter_that_it_is_given(
    random_base: Path, run: RunFolder, tmp_path: Path
) -> None:
    adapter = save_adapter(make_distil_config(random_base), random_base, tmp_path / "first")
    config = make_distil_config(random_base, adapter=str(adapter), learning_rate=1e-9)
    # The replies belong to the adapter's weights, so those of the base are refused.
    write_right_replies(run, config)
    made_from = replies_folder(run) / "made_from.json"
    inputs = json.loads(made_from.read_text(encoding="utf-8"))
    made_from.write_text(json.dumps(inputs | {"adapter's weights": None}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="adapter's weights: None -> "):
        warmstart(config, run)
    made_from.unlink()
    warmstart(config, run)
    before = load_file(adapter / "adapter_model.safetensors")
    after = load_file(run.stage("warmstart").adapter / "adapter_model.safetensors")
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-6)
