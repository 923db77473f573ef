"""A policy is read as the service reads it: greedy replies, and the odds at the label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from support.records import make_record  # noqa: E402
from support.taught_model import write_taught_model  # noqa: E402
from support.tiny_model import make_tokenizer, write_tiny_model  # noqa: E402

from contract.labels import Label  # noqa: E402
from training.config import ModelConfig  # noqa: E402
from training.judging import generate, judge, judge_shortly, label_odds  # noqa: E402
from training.models import Codec, load_policy, load_tokenizer  # noqa: E402
from training.records import Record  # noqa: E402

# Replies as they could come, for records whose prompts differ in length.
REPLIES = {
    "a-0": "Ada built it.\nClass: correct",
    "a-1": "Carl did not.\nClass: hallucination",
    "b-0": "Who can say",
    "c-0": "Class: hallucination",
    "d-0": "One.\nClass: correct\nClass: hallucination",
}
RECORDS = [
    make_record("a-0"),
    make_record("a-1", response="It was Carl Moe."),
    make_record("b-0", knowledge="It is open.", response="x"),
    make_record("c-0", knowledge=None, question=None),
    make_record("d-0", question="Who was it that built the pool, and in which year?"),
]


def load(folder: Path) -> tuple[Any, Codec]:
    config = ModelConfig(name=str(folder), rank=2, alpha=4)
    return load_policy(config, folder).eval(), Codec(load_tokenizer(folder))


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Codec]:
    """A random model: it rambles."""
    return load(write_tiny_model(tmp_path_factory.mktemp("models") / "random"))


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Codec]:
    """A model that says ``REPLIES``."""
    codec = Codec(make_tokenizer())
    replies = {tuple(codec.prompt(r.example)): REPLIES[r.id] for r in RECORDS}
    return load(write_taught_model(tmp_path_factory.mktemp("models") / "taught", replies))


def plain_odds(model: Any, codec: Codec, record: Record, justification: str | None) -> float:
    tokens = [*codec.prompt(record.example), *codec.cue(justification)]
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0, -1]
    odds = logits[codec.label_token_ids[Label.HALLUCINATION]]
    return float(odds - logits[codec.label_token_ids[Label.CORRECT]])


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_the_odds_are_those_of_a_plain_forward_pass_in_the_order_of_the_records(
    policy: tuple[Any, Codec], batch_size: int
) -> None:
    model, codec = policy
    justifications = ["It says so.", None, 'The knowledge says "It is open".', None, "So."]
    odds = label_odds(model, codec, RECORDS, justifications, batch_size)
    expected = [
        plain_odds(model, codec, *each) for each in zip(RECORDS, justifications, strict=True)
    ]
    assert odds == pytest.approx(expected, abs=1e-4)
    assert len({round(value, 3) for value in odds}) == 5
    assert label_odds(model, codec, [], []) == []


def test_the_short_path_asks_for_the_label_alone(policy: tuple[Any, Codec]) -> None:
    model, codec = policy
    for record, judgement in zip(RECORDS, judge_shortly(model, codec, RECORDS), strict=True):
        odds = plain_odds(model, codec, record, None)
        assert judgement.log_odds == pytest.approx(odds, abs=1e-4)
        assert judgement.label is (Label.HALLUCINATION if odds >= 0 else Label.CORRECT)
        assert (judgement.reply, judgement.justification) == (None, None)
        assert judgement.is_readable


@pytest.mark.parametrize("batch_size", [2, 32])
def test_replies_are_read_in_the_order_of_the_records(
    taught: tuple[Any, Codec], batch_size: int
) -> None:
    model, codec = taught
    judgements = judge(model, codec, RECORDS, 40, batch_size)
    assert [each.reply for each in judgements] == [REPLIES[record.id] for record in RECORDS]
    right, wrong, *_ = judgements
    assert (right.label, right.justification) == (Label.CORRECT, "Ada built it.")
    assert (wrong.label, wrong.justification) == (Label.HALLUCINATION, "Carl did not.")
    assert right.log_odds < 0 < wrong.log_odds
    assert [each.is_readable for each in judgements] == [True, True, False, False, False]


def test_the_odds_of_a_reply_are_those_at_its_own_label(taught: tuple[Any, Codec]) -> None:
    model, codec = taught
    for record, judgement in zip(RECORDS[:2], judge(model, codec, RECORDS[:2], 40), strict=True):
        expected = plain_odds(model, codec, record, judgement.justification)
        assert judgement.log_odds == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("index", "justification"),
    [
        pytest.param(2, "Who can say", id="no-verdict"),
        pytest.param(3, None, id="no-justification"),
        pytest.param(4, "One.", id="two-verdicts"),
    ],
)
def test_an_unreadable_reply_is_asked_again_after_what_it_holds(
    taught: tuple[Any, Codec], index: int, justification: str | None
) -> None:
    model, codec = taught
    record = RECORDS[index]
    (judgement,) = judge(model, codec, [record], 40)
    assert not judgement.is_readable
    assert judgement.justification == justification
    odds = plain_odds(model, codec, record, justification)
    assert judgement.log_odds == pytest.approx(odds, abs=1e-4)
    assert judgement.label is (Label.HALLUCINATION if odds >= 0 else Label.CORRECT)


def test_a_reply_that_was_cut_off_is_unreadable_even_behind_its_verdict(
    taught: tuple[Any, Codec],
) -> None:
    """The service takes none that has not ended; here it was taken."""
    model, codec = taught
    whole = codec.reply("Ada built it.", Label.CORRECT).tokens
    # All but the end of the turn.
    (cut,) = judge(model, codec, RECORDS[:1], len(whole) - 1)
    assert (cut.reply, cut.is_readable) == (REPLIES["a-0"], False)
    assert (cut.justification, cut.label) == ("Ada built it.", Label.CORRECT)
    (ended,) = judge(model, codec, RECORDS[:1], len(whole))
    assert ended.is_readable


def test_greedy_replies_are_the_likeliest_tokens_one_by_one(policy: tuple[Any, Codec]) -> None:
    model, codec = policy
    prompts = [codec.prompt(record.example) for record in RECORDS[:3]]
    replies = generate(model, codec, prompts, 6)
    for prompt, reply in zip(prompts, replies, strict=True):
        tokens = list(prompt)
        for expected in reply.tokens:
            with torch.no_grad():
                best = int(model(torch.tensor([tokens])).logits[0, -1].argmax())
            assert best == expected
            tokens.append(best)
        assert reply.is_truncated is (len(reply.tokens) == 6)


def test_a_reply_ends_at_every_token_that_ends_one(
    policy: tuple[Any, Codec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the tokenizer's own did, where training and serving know those of the model too."""
    model, codec = policy
    prompt = codec.prompt(RECORDS[0].example)
    (rambling,) = generate(model, codec, [prompt], 6)
    end = rambling.tokens[3]
    monkeypatch.setattr(model.generation_config, "eos_token_id", [end])
    (reply,) = generate(model, codec, [prompt], 6)
    assert reply.tokens == rambling.tokens[: rambling.tokens.index(end)]
    assert not reply.is_truncated


def test_a_reply_without_a_label_has_no_odds(taught: tuple[Any, Codec]) -> None:
    model, codec = taught
    (reply,) = generate(model, codec, [codec.prompt(RECORDS[2].example)], 40)
    assert codec.decode(reply.tokens) == "Who can say"
    assert reply.label_log_odds is None
