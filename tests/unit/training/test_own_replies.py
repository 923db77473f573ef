"""What a policy says itself: drawn once, kept, and drawn again the same where it was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from support.own_replies import make_own_config, replies_folder, write_replies
from support.taught_model import write_taught_model
from support.tiny_model import make_tokenizer, write_tiny_model
from support.tiny_trainer import make_config, make_records

from contract.labels import Label
from contract.reply import Verdict
from training.config import RunConfig
from training.errors import CheckpointError
from training.models import Codec, load_policy
from training.own_replies import PART_RECORDS, OwnReply, draw_replies, pick_asked
from training.records import write_records
from training.runs import RunFolder

RECORDS = make_records(2)
RIGHT = 'The text says "The fair".\nClass: {label}'


@pytest.fixture(scope="module")
def random_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "random")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    write_records(run.data("train"), RECORDS)
    return run


def make_distil_config(base: Path, **changes: Any) -> RunConfig:
    return make_own_config(base, "self-distilled", **changes)


def load(config: RunConfig, base: Path) -> tuple[Codec, Any]:
    return Codec(make_tokenizer()), load_policy(config.model, base)


def write_right_replies(run: RunFolder, config: RunConfig) -> None:
    """Two to each of ``RECORDS``."""
    replies = {r: 2 * [OwnReply(RIGHT.format(label=r.label), False)] for r in RECORDS}
    write_replies(run, config, replies)


def test_a_reply_that_was_cut_off_is_not_read() -> None:
    said = "So.\nClass: correct"
    assert OwnReply(said, False).read() == Verdict(Label.CORRECT, "So.")
    assert OwnReply(said, True).read() is None
    assert OwnReply("So.", False).read() is None


def test_whole_pairs_are_asked_up_to_a_number_and_long_prompts_left_out(
    random_base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, codec = make_distil_config(random_base, num_records=2), Codec(make_tokenizer())
    asked = pick_asked(config, codec, RECORDS)
    assert len(asked) == 2
    assert len({record.pair_id for record in asked}) == 1
    lengths = {record: len(codec.prompt(record.example)) for record in RECORDS}
    short = [record for record in RECORDS if lengths[record] < max(lengths.values())]
    settings = {"max_prompt_tokens": max(lengths[record] for record in short)}
    limited = make_config(random_base, model=settings)
    assert pick_asked(limited, codec, RECORDS) == short
    assert f"{4 - len(short)} of 4 records are left out: prompts over" in caplog.text


def test_replies_are_those_to_their_own_records(run: RunFolder, tmp_path: Path) -> None:
    codec = Codec(make_tokenizer())
    texts = [f"It says {record.response}\nClass: correct" for record in RECORDS]
    prompts = (tuple(codec.prompt(record.example)) for record in RECORDS)
    base = write_taught_model(tmp_path / "taught", dict(zip(prompts, texts, strict=True)), 200)
    config = make_distil_config(base, num_samples=8)
    drawn = draw_replies(config, run, *load(config, base), RECORDS)
    assert list(map(len, drawn)) == [8, 8, 8, 8]
    for replies, text in zip(drawn, texts, strict=True):
        assert OwnReply(text, False) in replies


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


def test_replies_of_other_inputs_are_not_used(random_base: Path, run: RunFolder) -> None:
    config = make_distil_config(random_base)
    write_right_replies(run, config)
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
    write_right_replies(run, config)
    (replies_folder(run) / name).write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=says):
        draw_replies(config, run, *load(config, random_base), RECORDS)
