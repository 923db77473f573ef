"""What a reply is paid: the order of the rewards, and replies that try to be paid for nothing."""

from __future__ import annotations

import doctest
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contract.example import Example
from contract.labels import Label
from contract.prompt import render
from training import rewards as rewards_module
from training.config import RewardConfig
from training.evidence import justify, write_reply
from training.rewards import Scored, class_scale, score

RIGHT, WRONG = Label.HALLUCINATION, Label.CORRECT
GOLD = RIGHT
KNOWLEDGE = "The pool was built in 1925. It is 25 metres long and open all year."
RESPONSE = "The pool is 50 metres long."
TEXTS = [KNOWLEDGE, RESPONSE]
PLAIN = RewardConfig()
BONUS = RewardConfig(quote_bonus=0.25)


def reply(justification: str, label: Label = RIGHT) -> str:
    return f"{justification}\nClass: {label}"


def reward(completion: str, config: RewardConfig = PLAIN) -> float | None:
    return score(completion, GOLD, TEXTS, config).reward


def test_the_examples_in_the_docstrings_hold() -> None:
    result = doctest.testmod(rewards_module)
    assert result.attempted > 3
    assert result.failed == 0


# --- the class ----------------------------------------------------------------------------------


@pytest.mark.parametrize("gold", Label)
@pytest.mark.parametrize("label", Label)
def test_only_the_gold_class_is_paid(gold: Label, label: Label) -> None:
    found = score(reply("It says so.", label), gold, TEXTS, PLAIN)
    assert found == Scored(1.0 if gold is label else 0.0, label, 0, 0)
    assert found.is_readable


def test_an_unreadable_reply_has_the_floor() -> None:
    found = score("It says so.", GOLD, TEXTS, PLAIN)
    assert found == Scored(-0.5, None, 0, 0)
    assert not found.is_readable


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        pytest.param(reply("It says so."), 1.0, id="right"),
        pytest.param(reply("It says so.", WRONG), 1.0, id="wrong"),
        pytest.param("", -0.5, id="empty"),
    ],
)
def test_a_row_without_gold_is_left_out(completion: str, expected: float) -> None:
    found = score(completion, None, TEXTS, BONUS)
    assert found.reward is None
    assert found.is_readable == (expected > 0)


def test_a_truncated_reply_is_unreadable_even_where_it_ends_in_a_verdict() -> None:
    completion = reply("It says so.")
    assert score(completion, GOLD, TEXTS, PLAIN, is_truncated=True) == Scored(-0.5, None, 0, 0)


CHAT = ("<|im_end|>", "<|endoftext|>", "</s>", "<|eot_id|>")
UNREADABLE = {
    "empty": "",
    "blank": " \n\t ",
    "only-a-verdict": "Class: hallucination",
    "only-a-verdict-and-signs": "---\nClass: hallucination",
    "only-the-label": "hallucination",
    "label-at-the-end-of-a-sentence": "It says so. Class: hallucination",
    "both-labels": "Why.\nClass: hallucination\nClass: correct",
    "both-labels-in-a-line": "Why.\nClass: hallucination or correct",
    "both-labels-joined": "Why.\nClass: hallucination/correct",
    "label-twice": "Why.\nClass: hallucination\nClass: hallucination",
    "label-twice-in-a-line": "Why.\nClass: hallucination hallucination",
    "label-in-the-middle": "Why.\nClass: hallucination\nThat is all.",
    "label-first": "Class: hallucination\nThe knowledge says 25 metres.",
    "second-verdict-in-markdown": "Why.\n**Class:** correct\nClass: hallucination",
    "second-verdict-with-another-colon": "Why.\n- class\uff1a correct\nClass: hallucination",
    "second-verdict-behind-a-line-separator": "Why.\u2028Class: correct\nClass: hallucination",
    "other-label": "Why.\nClass: unknown",
    "negated": "Why.\nClass: not hallucination",
    "capitals": "Why.\nClass: Hallucination",
    "full-stop": "Why.\nClass: hallucination.",
    "no-blank": "Why.\nClass:hallucination",
    "markdown": "Why.\n**Class: hallucination**",
    "fence": "```\nWhy.\nClass: hallucination\n```",
    "json": '{"justification": "Why.", "class": "hallucination"}',
    "cyrillic-a": "Why.\nClass: h\u0430llucination",
    "fullwidth-colon": "Why.\nClass\uff1a hallucination",
    "zero-width-space": "Why.\nClass: hallu\u200bcination",
    "right-to-left": "Why.\n\u202eClass: hallucination",
    "combining-mark": "Why.\nClass: hallucination\u0301",
    "no-break-space": "Why.\nClass:\u00a0hallucination",
    "lone-surrogate": "Why.\nClass: \ud800hallucination",
    "null": "Why.\nClass: hallucination\x00",
    "echo-of-the-instructions": render(Example(None, None, "x"))[0]["content"],
    "echo-of-the-prompt": render(Example((KNOWLEDGE,), None, RESPONSE))[1]["content"],
    "10,000-words": "word " * 10_000,
    "10,000-verdicts": "Class: hallucination\n" * 10_000,
    **{f"then-{token}": f"Why.\nClass: hallucination{token}" for token in CHAT},
    "next-turn": "Why.\nClass: hallucination<|im_end|>\n<|im_start|>user\nThanks",
}


@pytest.mark.parametrize("completion", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("gold", Label)
def test_a_hostile_reply_has_the_floor_whatever_the_gold_class(
    completion: str, gold: Label
) -> None:
    assert score(completion, gold, TEXTS, BONUS) == Scored(-0.5, None, 0, 0)


READABLE = {
    "10,000-words": "word " * 10_000,
    "echo-of-the-prompt": render(Example((KNOWLEDGE,), None, RESPONSE))[1]["content"],
    "label-in-a-sentence": "One could say Class: correct, but no.",
    "fence-before": "```\nIt says 25.\n```",
    "chat-token-before": "<|im_start|>assistant\nIt says 25.",
}


@pytest.mark.parametrize("justification", READABLE.values(), ids=READABLE)
def test_what_stands_before_one_good_verdict_neither_pays_nor_costs(justification: str) -> None:
    assert reward(reply(justification), BONUS) == 1.0
    assert reward(reply(justification, WRONG), BONUS) == 0.0


# --- the order ----------------------------------------------------------------------------------

amounts = st.floats(-100, 100).map(lambda x: round(x, 3))


@given(
    st.tuples(amounts, amounts, amounts).filter(lambda x: len(set(x)) == 3),
    st.floats(0.01, 1),
    st.floats(0, 10),
    st.sampled_from(Label),
)
def test_right_beats_wrong_beats_unreadable_under_every_configuration(
    levels: tuple[float, float, float], scale: float, bonus: float, gold: Label
) -> None:
    unreadable, wrong, correct = sorted(levels)
    config = RewardConfig(
        correct=correct,
        wrong=wrong,
        unreadable=unreadable,
        correct_class_scale=scale,
        quote_bonus=bonus,
    )
    other = next(label for label in Label if label is not gold)
    quoting = 'It says "25 metres long".'
    paid = [
        score(completion, gold, TEXTS, config).reward or 0.0
        for completion in (
            reply(quoting, gold),
            reply("No quote.", gold),
            reply(quoting, other),
            quoting,
        )
    ]
    assert paid == sorted(paid, reverse=True)
    assert paid[1] > paid[2] > paid[3]
    floor_of_the_other_class = score("", other, TEXTS, config).reward or 0.0
    assert paid[2] > floor_of_the_other_class


@pytest.mark.parametrize(
    "levels",
    [
        pytest.param({"unreadable": 0.0}, id="unreadable-as-good-as-wrong"),
        pytest.param({"unreadable": 0.5}, id="unreadable-better-than-wrong"),
        pytest.param({"wrong": 1.0}, id="wrong-as-good-as-right"),
        pytest.param({"unreadable": float("nan")}, id="not-a-number"),
        pytest.param({"quote_bonus": -0.1}, id="a-bonus-that-costs"),
        pytest.param({"correct_class_scale": 0.0}, id="a-class-that-teaches-nothing"),
        pytest.param({"correct_class_scale": 1.5}, id="a-class-that-teaches-too-much"),
    ],
)
def test_a_configuration_that_breaks_the_order_is_refused(levels: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        RewardConfig(**levels)


# --- class-aware scaling ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "right", "wrong", "unreadable", "scale"),
    [
        pytest.param(Label.HALLUCINATION, 2.0, 1.0, -1.0, 1.0, id="hallucination"),
        # The distances to a wrong answer, 1 and -2, are halved.
        pytest.param(Label.CORRECT, 1.5, 1.0, 0.0, 0.5, id="correct"),
    ],
)
def test_examples_without_a_hallucination_can_teach_less(
    gold: Label, right: float, wrong: float, unreadable: float, scale: float
) -> None:
    config = RewardConfig(correct=2, wrong=1, unreadable=-1, correct_class_scale=0.5)
    other = next(label for label in Label if label is not gold)
    assert score(reply("Why.", gold), gold, TEXTS, config).reward == right
    assert score(reply("Why.", other), gold, TEXTS, config).reward == wrong
    assert score("", gold, TEXTS, config).reward == unreadable
    assert class_scale(gold, config) == scale


# --- quotes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "justification",
    [
        pytest.param('The knowledge says "25 metres long".', id="straight"),
        pytest.param("The knowledge says \u201c25 metres long\u201d.", id="curly"),
        pytest.param("The knowledge says \u00ab25 metres long\u00bb.", id="guillemets"),
        pytest.param('It says "25 metres long", not "50 metres".', id="two"),
        pytest.param('New: "50". Closest: "25 metres long and open".', id="beside-a-short-one"),
        pytest.param('It says "It is 25\n metres long".', id="over-two-lines"),
        pytest.param(
            justify(Example((KNOWLEDGE,), None, RESPONSE)), id="as-the-warm-start-teaches"
        ),
    ],
)
def test_real_quotes_are_paid_where_the_class_is_right(justification: str) -> None:
    assert reward(reply(justification), BONUS) == 1.25
    assert reward(reply(justification, WRONG), BONUS) == 0.0
    assert reward(justification, BONUS) == -0.5
    assert reward(reply(justification), PLAIN) == 1.0


@pytest.mark.parametrize(
    ("justification", "num_quotes", "num_verbatim"),
    [
        pytest.param("The knowledge says 25 metres long.", 0, 0, id="none"),
        pytest.param('The knowledge says "30 metres long".', 1, 0, id="made-up"),
        pytest.param('It says "25 metres long" and "30 metres".', 2, 1, id="one-made-up"),
        pytest.param('It says "25 METRES LONG".', 1, 0, id="other-case"),
        pytest.param('It says "5 metres long".', 1, 0, id="part-of-a-number"),
        pytest.param('It says "".', 1, 0, id="empty"),
        pytest.param('It says "   ".', 1, 0, id="blank"),
        pytest.param('It says ".".', 1, 0, id="a-full-stop"),
        pytest.param('It says "\u200b".', 1, 0, id="invisible"),
        pytest.param('It says "2" and "a" and "5".', 3, 0, id="parts-of-words"),
        pytest.param('It says "The" and "is" and "in".', 3, 3, id="words-of-every-text"),
        pytest.param(f'It says "{KNOWLEDGE} {RESPONSE}".', 1, 0, id="all-inputs-in-one"),
        pytest.param(f'It says "{KNOWLEDGE}" "{RESPONSE}".', 2, 2, id="all-inputs"),
        pytest.param(f'It says "{KNOWLEDGE}" and "50 metres".', 2, 2, id="most-of-the-inputs"),
        pytest.param('"25 metres long" ' * 6, 6, 6, id="the-same-again-and-again"),
        pytest.param('It says "25 metres long', 0, 0, id="not-closed"),
        pytest.param("25 metres long" + '"' * 3, 1, 0, id="marks-around-nothing"),
    ],
)
def test_other_quotes_are_not_paid(justification: str, num_quotes: int, num_verbatim: int) -> None:
    assert score(reply(justification), GOLD, TEXTS, BONUS) == Scored(
        1.0, RIGHT, num_quotes, num_verbatim
    )


def test_one_letter_that_stands_alone_in_the_inputs_is_not_paid() -> None:
    found = score(reply('It says "C".'), GOLD, ["Vitamin C is in oranges."], BONUS)
    assert found == Scored(1.0, RIGHT, 1, 1)


def test_nothing_is_paid_for_quotes_where_there_are_no_inputs() -> None:
    assert score(reply('It says "25 metres".'), GOLD, [], BONUS) == Scored(1.0, RIGHT, 1, 0)


def test_the_bonus_is_scaled_with_its_class() -> None:
    config = RewardConfig(quote_bonus=0.5, correct_class_scale=0.5)
    found = score(reply('It says "25 metres long".', WRONG), Label.CORRECT, TEXTS, config)
    assert found.reward == 0.75  # (1 + 0.5) / 2


def test_the_short_reply_without_a_justification_is_unreadable() -> None:
    """The short path asks for the label alone; a reply that was asked to justify may not."""
    assert reward(write_reply(None, RIGHT)) == -0.5
    assert reward(write_reply("It says 25.", RIGHT)) == 1.0


# --- time ---------------------------------------------------------------------------------------

LONG = {
    "words": "word " * 10_000,
    "quotes": '"25 metres long" ' * 10_000,
    "other-quotes": " ".join(f'"{i} metres"' for i in range(10_000)),
    "opening-marks": "\u201c" * 40_000,
    "mixed-marks": "\"\u201c\u00ab'" * 10_000,
    "apostrophes": " 'a" * 15_000,
    "inches": '5" ' * 15_000,
    "one-quote": f'"{"25 metres long " * 3_000}"',
    "lines": "\n" * 40_000 + "x",
    "signs": "*" * 40_000 + "x",
    "verdict-beginnings": "clas" * 10_000,
}


@pytest.mark.parametrize("justification", LONG.values(), ids=LONG)
def test_a_reply_of_10_000_tokens_is_paid_at_once(justification: str) -> None:
    start = time.perf_counter()
    for label in Label:
        score(reply(justification, label), label, TEXTS, BONUS)
    assert time.perf_counter() - start < 2
