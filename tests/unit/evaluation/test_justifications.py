"""Quotes that stand in the inputs, and shares over predictions."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from contract.labels import Label
from evaluation.justifications import (
    JustificationShares,
    QuoteCheck,
    check_justifications,
    check_quotes,
)
from evaluation.prediction import Prediction

H, C = Label.HALLUCINATION, Label.CORRECT
POOL = "The pool is 25 metres long. It opened in 1925."


@pytest.mark.parametrize(
    "quote",
    [
        pytest.param('"25 metres"', id="straight"),
        pytest.param("'25 metres'", id="straight-single"),
        pytest.param("\u201c25 metres\u201d", id="curly"),
        pytest.param("\u201e25 metres\u201c", id="low"),
        pytest.param("\u201825 metres\u2019", id="curly-single"),
        pytest.param("\u00ab25 metres\u00bb", id="guillemets"),
        pytest.param("\u203925 metres\u203a", id="single-guillemets"),
        pytest.param("\u300c25 metres\u300d", id="corner"),
        pytest.param('"25  \n metres"', id="blanks"),
        pytest.param('"25\u200b metres"', id="invisible"),
        pytest.param('"25 metres,"', id="comma-of-the-writer"),
        pytest.param('"25 metres."', id="full-stop-of-the-writer"),
        pytest.param('"25 metres long."', id="full-stop-of-the-text"),
        pytest.param('"... is 25 metres ..."', id="ellipsis"),
        pytest.param('"\u2026 25 metres\u2026"', id="ellipsis-sign"),
    ],
)
def test_a_quote_that_stands_in_the_inputs(quote: str) -> None:
    assert check_quotes(f"The knowledge says {quote} of it", [POOL]) == QuoteCheck(1, 1)


@pytest.mark.parametrize(
    "quote",
    [
        pytest.param('"50 metres"', id="other-number"),
        pytest.param('"25 Metres"', id="other-case"),
        pytest.param('"etres"', id="part-of-a-word"),
        pytest.param('"25 metre"', id="word-cut-short"),
        pytest.param('""', id="empty"),
        pytest.param('" "', id="blank"),
        pytest.param('"."', id="only-a-sign"),
        pytest.param('"..."', id="only-an-ellipsis"),
        pytest.param('"25 ... long"', id="something-left-out"),
        pytest.param('"\ud800"', id="invalid"),
    ],
)
def test_a_quote_that_does_not(quote: str) -> None:
    assert check_quotes(f"The knowledge says {quote}", [POOL]) == QuoteCheck(1, 0)


def test_a_number_inside_a_number_is_no_quote() -> None:
    assert check_quotes('It opened in "25".', ["It opened in 1925."]) == QuoteCheck(1, 0)
    assert check_quotes('It opened in "25".', ["1925, or 25."]) == QuoteCheck(1, 1)


def test_scripts_without_blanks_have_no_edges_of_words() -> None:
    text = "\u957f\u57ce\u5f88\u957f"
    assert check_quotes("\u77e5\u8bc6\u8bf4\u201c\u57ce\u5f88\u201d", [text]) == QuoteCheck(1, 1)


@pytest.mark.parametrize(
    ("text", "num_quotes"),
    [
        pytest.param("It's John's dog, the players' own.", 0, id="apostrophes"),
        pytest.param("It\u2019s John\u2019s dog.", 0, id="curly-apostrophes"),
        pytest.param("says 'John's dog' and 'it'", 2, id="apostrophe-in-a-quote"),
        pytest.param('It is 5" by 6" wide.', 0, id="inches"),
        pytest.param('It says "25 metres', 0, id="never-closed"),
        pytest.param('"a" "b""c"', 3, id="side-by-side"),
        pytest.param("\u201ca \u201cb\u201d c\u201d", 1, id="opened-twice"),
        pytest.param("No quote.", 0, id="none"),
        pytest.param("", 0, id="empty"),
    ],
)
def test_what_counts_as_a_quote(text: str, num_quotes: int) -> None:
    assert check_quotes(text, []).num_quotes == num_quotes


def test_every_quote_counts_and_any_text_may_hold_it() -> None:
    justification = '"25 metres" and "25 metres" and "red" and "blue"'
    assert check_quotes(justification, [POOL, "A red door."]) == QuoteCheck(4, 3)


def test_a_quote_does_not_stand_across_two_texts() -> None:
    assert check_quotes('"long red"', ["It is long", "red"]) == QuoteCheck(1, 0)


def test_chat_tokens_are_disarmed_on_both_sides() -> None:
    text = "Say <|im_end|> now"
    assert check_quotes('"Say <|im_end|> now"', [text]) == QuoteCheck(1, 1)


def test_a_blank_text_holds_nothing() -> None:
    assert check_quotes('"a"', [" ", "\u200b"]) == QuoteCheck(1, 0)


@pytest.mark.parametrize("text", ['"', "'a ", "\u2018a ", "\u201ca ", '"a" ', "'a'b"])
def test_a_hostile_justification_costs_no_more_than_its_length(text: str) -> None:
    start = time.process_time()
    check_quotes(text * 20_000, ["a b " * 2_000] * 3)
    assert time.process_time() - start < 5  # 0.1 s on an idle core


def test_shares(predict: Callable[..., Prediction]) -> None:
    def row(id: str, verdict: Label | None, justification: str | None) -> Prediction:
        return predict(id, C, verdict, justification=justification, knowledge=(POOL,))

    shares = check_justifications(
        [
            row("1", C, 'The knowledge confirms it: "25 metres".'),
            row("2", C, 'It contradicts "50 metres" and "1925".'),
            row("3", H, "The knowledge does not say so."),
            row("4", H, 'Closest: "It opened in 1925."'),
            row("5", C, None),
            row("6", None, 'Unread: "25 metres".'),
        ]
    )
    assert shares == JustificationShares(
        num_justifications=4,
        quoted=0.75,
        verbatim=2 / 3,
        agreeing=0.5,
        neutral=0.25,
        contradicting=0.25,
    )


def test_no_justification_gives_zeros(predict: Callable[..., Prediction]) -> None:
    assert check_justifications([predict("1", C, C)]) == JustificationShares(0, 0, 0, 0, 0, 0)
