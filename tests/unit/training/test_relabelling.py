"""The gold class after a policy's own justifications, weighted as it writes them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from safetensors.torch import load_file
from support.own_replies import make_own_config, replies_folder, save_adapter, write_replies
from support.taught_model import write_taught_model
from support.tiny_model import make_tokenizer
from support.tiny_trainer import make_records

from contract.labels import Label
from training.config import RunConfig, WarmstartConfig
from training.evidence import gold_answers
from training.models import Codec, load_policy
from training.own_replies import OwnReply
from training.records import write_records
from training.relabelling import relabel, weigh_justifications
from training.runs import RunFolder
from training.supervision import Justification, teach
from training.warmstart import warmstart

H, C = Label.HALLUCINATION, Label.CORRECT
RECORDS = make_records(2)
RIGHT, WRONG = RECORDS[:2]
# The answers by template.
GOLDS = ['By the knowledge, the answer is "In 1900".', 'By the knowledge, the answer is "In 1901".']


def say(text: str, label: Label = C, is_truncated: bool = False) -> OwnReply:
    return OwnReply(f"{text}\nClass: {label}", is_truncated)


CUT, NO_VERDICT = say("It is cut.", is_truncated=True), OwnReply("It is red.", False)


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        # 3, 4 and 2 of 9; the fourth kind is one too many.
        pytest.param(
            [say("B."), *4 * [say("A.")], say("B."), *3 * [say("G.")], say("Z."), CUT, NO_VERDICT],
            [("G.", 1 / 3, True), ("A.", 4 / 9, False), ("B.", 2 / 9, False)],
            id="gold-drawn",
        ),
        # Once in 8 is less than a quarter of 8.
        pytest.param(
            [say("G."), *7 * [say("A.")]],
            [("G.", 2 / 9, True), ("A.", 7 / 9, False)],
            id="gold-drawn-seldom",
        ),
        # A quarter of 8 readable ones is 2; with 4 and 2 others that makes 8.
        pytest.param(
            [*4 * [say("A.")], *2 * [say("B.")], say("Y."), say("Z.")],
            [("G.", 1 / 4, True), ("A.", 1 / 2, False), ("B.", 1 / 4, False)],
            id="gold-not-drawn",
        ),
        # A quarter beside a whole.
        pytest.param([say("A.")], [("G.", 1 / 5, True), ("A.", 4 / 5, False)], id="one-other"),
        pytest.param([say("G."), say("G.", H)], [("G.", 1, True)], id="gold-alone"),
        pytest.param([CUT, NO_VERDICT], [("G.", 1, True)], id="unreadable-alone"),
        pytest.param([], [("G.", 1, True)], id="nothing"),
        pytest.param(
            [say("A  b."), say("A\nb.", H), say(" G."), say("G.")],
            [("G.", 1 / 2, True), ("A  b.", 1 / 2, False)],
            id="blanks-and-class-make-no-other",
        ),
        pytest.param(
            [say("B."), say("A."), say("Z."), say("G.")],
            [("G.", 1 / 3, True), ("B.", 1 / 3, False), ("A.", 1 / 3, False)],
            id="the-first-of-equals",
        ),
    ],
)
def test_a_label_weighs_as_much_as_its_justification_is_written(
    replies: Sequence[OwnReply], expected: list[tuple[str, float, bool]]
) -> None:
    found = weigh_justifications("G.", replies)
    assert [(each.text, each.is_taught) for each in found] == [(t, is_t) for t, _, is_t in expected]
    assert [each.label_share for each in found] == pytest.approx(
        [share for _, share, _ in expected]
    )


def test_the_label_is_the_gold_one_whatever_the_reply_said() -> None:
    codec = Codec(make_tokenizer())
    config = WarmstartConfig(label_weight=1, short_path_weight=0, justification_weight=0.25)
    said = weigh_justifications("G.", [*3 * [say("It fits.", C)], say("G.", C)])
    gold, own = teach(WRONG, codec, config, said)
    num_prompt = len(codec.prompt(WRONG.example))
    assert codec.decode(gold.tokens[num_prompt:]) == "G.\nClass: hallucination"
    assert gold.weights[gold.label_place] == pytest.approx(0.25)
    assert sum(gold.weights.values()) == pytest.approx(0.5)
    assert own.tokens[num_prompt:-1] == codec.cue("It fits.")
    assert own.tokens[-1] == codec.label_token_ids[H]
    assert own.weights == {own.label_place: pytest.approx(0.75)}
    assert own.label_place == len(own.tokens) - 1


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says of each of ``RECORDS`` that it is right."""
    codec = Codec(make_tokenizer())
    replies = {tuple(codec.prompt(r.example)): "It fits.\nClass: correct" for r in RECORDS}
    return write_taught_model(tmp_path_factory.mktemp("models") / "taught", replies)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    write_records(run.data("train"), RECORDS)
    write_records(run.data("validation"), RECORDS)
    return run


def make_relabel_config(base: Path, folder: Path, **changes: Any) -> RunConfig:
    adapter = save_adapter(make_own_config(base, "templated"), base, folder / "first")
    return make_own_config(base, "relabelled", adapter=str(adapter), **changes)


def test_each_record_is_taught_its_own_and_the_gold_justification(
    base: Path, run: RunFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = make_relabel_config(base, tmp_path)
    replies = {record: [say("It fits."), say("It fits.", H)] for record in RECORDS}
    replies[RIGHT] = [say(GOLDS[0]), CUT]
    replies[RECORDS[3]] = [CUT, NO_VERDICT]
    write_replies(run, config, replies)
    caplog.set_level(logging.INFO)
    model = load_policy(config.model, base)
    answers = gold_answers(RECORDS)
    said = relabel(config, run, Codec(make_tokenizer()), model, RECORDS, answers)
    own = Justification("It fits.", pytest.approx(0.8), is_taught=False)
    assert list(said.items()) == [
        (RIGHT, (Justification(GOLDS[0]),)),
        (WRONG, (Justification(GOLDS[0], pytest.approx(0.2)), own)),
        (RECORDS[2], (Justification(GOLDS[1], pytest.approx(0.2)), own)),
        (RECORDS[3], (Justification(GOLDS[1]),)),
    ]
    # 5 of 8 can be read, 1 of 5 is the gold one.
    assert (
        "relabelling: of 8 replies to 4 records 62 % end in a verdict; 20 % of these have the gold"
    ) in caplog.text


def test_a_stage_draws_and_trains_from_the_adapter_on(
    base: Path, run: RunFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    config = make_relabel_config(base, tmp_path, learning_rate=1e-2)
    warmstart(config, run)
    assert "relabelling: of 8 replies to 4 records" in caplog.text
    assert "warm start: 4 records in 2 groups, 2 steps" in caplog.text
    assert (replies_folder(run) / "00000.jsonl").read_text().count("It fits.") > 4
    tensors = load_file(run.stage("warmstart").adapter / "adapter_model.safetensors")
    assert sum(bool(t.any()) for name, t in tensors.items() if "lora_B" in name) == 14
    assert run.stage("warmstart").state(config).is_finished
