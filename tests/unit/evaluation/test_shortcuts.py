"""Rules that read nothing; features and thresholds are worked out by hand."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.labels import Label
from evaluation.shortcuts import (
    FEATURES,
    Direction,
    Rule,
    ShortcutScore,
    count_words,
    ends_with_full_stop,
    fit_rule,
    overlap_share,
    shortcut_table,
    stands_verbatim,
    words,
)

H, C = Label.HALLUCINATION, Label.CORRECT


@dataclass(frozen=True)
class Row:
    response: str
    knowledge: tuple[str, ...] | None = None
    label: Label = C


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("It is 25 m long.", ["it", "is", "25", "m", "long"], id="plain"),
        pytest.param('"Yes," (he said)', ["yes", "he", "said"], id="signs-around"),
        pytest.param("It's 1.5 km / re-use", ["it's", "1.5", "km", "re-use"], id="signs-inside"),
        pytest.param("a real place .", ["a", "real", "place"], id="tokenised"),
        pytest.param("\u957f\u57ce\u5f88\u957f\u3002", list("\u957f\u57ce\u5f88\u957f"), id="han"),
        pytest.param("2024\u5e74 ok", ["2024", "\u5e74", "ok"], id="mixed"),
        pytest.param("\u30c6\u30b9\u30c8", list("\u30c6\u30b9\u30c8"), id="kana"),
        pytest.param("\ud55c\uad6d \uc0ac\ub78c", ["\ud55c\uad6d", "\uc0ac\ub78c"], id="hangul"),
        pytest.param("STRASSE Stra\u00dfe", ["strasse", "strasse"], id="case"),
        pytest.param(" ... !? ", [], id="no-word"),
        pytest.param("", [], id="empty"),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_length_counts_words() -> None:
    assert count_words(Row("One two three.")) == 3


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("It is.", 1), ("It is. ", 1), ("\u662f\u3002", 1), ("It is", 0), ("Is it?", 0), ("1.5", 0),
    ],
)  # fmt: skip
def test_full_stop(response: str, expected: int) -> None:
    assert ends_with_full_stop(Row(response)) == expected


@pytest.mark.parametrize(
    ("response", "knowledge", "expected"),
    [
        pytest.param("Nicolas Hayek", ("Founded by Nicolas Hayek.",), 1, id="inside"),
        pytest.param("nicolas hayek!", ("Founded by NICOLAS\nHAYEK",), 1, id="case-blanks-sign"),
        pytest.param("Hayek", ("None.", "By Hayek."), 1, id="second-text"),
        pytest.param("By Hayek", ("By", "Hayek"), 0, id="not-across-texts"),
        pytest.param("Nick Hayek", ("Founded by Nicolas Hayek.",), 0, id="other"),
        pytest.param("Hayek", None, 0, id="no-knowledge"),
        pytest.param("...", ("Any text.",), 0, id="nothing-but-signs"),
    ],
)
def test_substring(response: str, knowledge: tuple[str, ...] | None, expected: int) -> None:
    assert stands_verbatim(Row(response, knowledge)) == expected


@pytest.mark.parametrize(
    ("response", "knowledge", "expected"),
    [
        pytest.param("The pool is deep", ("The pool is long.",), 0.75, id="three-of-four"),
        pytest.param("Long pool, LONG", ("A pool.", "It is long"), 1, id="two-texts"),
        pytest.param("long pool", None, 0, id="no-knowledge"),
        pytest.param("!!!", ("A pool.",), 0, id="no-word"),
    ],
)
def test_overlap(response: str, knowledge: tuple[str, ...] | None, expected: float) -> None:
    assert overlap_share(Row(response, knowledge)) == expected


@pytest.mark.parametrize(
    ("values", "labels", "rule"),
    [
        pytest.param([1, 2, 8, 9], [C, C, H, H], Rule(2, Direction.ABOVE), id="long-is-wrong"),
        pytest.param([1, 2, 8, 9], [H, H, C, C], Rule(2, Direction.AT_MOST), id="short-is-wrong"),
        pytest.param([5, 5, 5, 5], [H, C, H, C], Rule(5, Direction.AT_MOST), id="tells-nothing"),
        pytest.param([5], [H], Rule(5, Direction.AT_MOST), id="one-hallucination"),
        pytest.param([5], [C], Rule(5, Direction.ABOVE), id="one-correct"),
    ],
)
def test_the_fitted_rule(values: list[float], labels: list[Label], rule: Rule) -> None:
    assert fit_rule(values, labels) == rule


def test_the_rule_is_fitted_for_balanced_accuracy() -> None:
    """Accuracy alone would take "> 5" (7 of 8), which misses half of the hallucinations."""
    values, labels = [1, 1, 1, 1, 5, 5, 5, 9], [C, C, C, C, C, C, H, H]
    # "> 1": recalls 1 and 4/6, mean 0.83. "> 5": recalls 1/2 and 1, mean 0.75.
    assert fit_rule(values, labels) == Rule(1, Direction.ABOVE)


@pytest.mark.parametrize(("values", "labels"), [([], []), ([1.0], [H, C])])
def test_a_rule_needs_rows_that_fit(values: list[float], labels: list[Label]) -> None:
    with pytest.raises(ValueError, match="one label a value"):
        fit_rule(values, labels)


@settings(deadline=None, database=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(list(Label))), min_size=1))
def test_no_threshold_is_better_than_the_fitted_one(rows: list[tuple[int, Label]]) -> None:
    def quality(rule: Rule) -> float:
        recalls = []
        for label in Label:
            own = [value for value, gold in rows if gold is label]
            if own:
                recalls.append(sum(rule.decide(value) is label for value in own) / len(own))
        return sum(recalls) / len(recalls)

    values, labels = zip(*rows, strict=True)
    fitted = quality(fit_rule(values, labels))
    tried = [quality(Rule(t, direction)) for t in range(-1, 8) for direction in Direction]
    assert fitted == pytest.approx(max(tried))
    assert fitted >= 0.5


def test_the_table_is_fitted_on_one_list_and_scored_on_the_other() -> None:
    knowledge = ("The pool is 25 metres long.",)
    fit_rows = [
        Row("25 metres", knowledge, C),
        Row("It is fifty yards wide.", knowledge, H),
        Row("metres", knowledge, C),
        Row("Nobody can say that.", knowledge, H),
    ]
    score_rows = [
        Row("25 metres", knowledge, C),
        Row("It is 25 metres long.", knowledge, C),
        Row("50", knowledge, H),
        Row("It is thirty yards wide.", knowledge, H),
    ]
    table = {score.name: score for score in shortcut_table(fit_rows, score_rows)}
    assert list(table) == ["always", "length", "full stop", "substring", "overlap"]
    assert table["always"] == ShortcutScore("always", None, None, 0.5, 2 / 3, 4)
    # "> 2 words" flags rows 2 and 4 of the scored ones: one right, one wrong.
    assert table["length"] == ShortcutScore("length", 2, Direction.ABOVE, 0.5, 0.5, 4)
    assert table["full stop"] == ShortcutScore("full stop", 0, Direction.ABOVE, 0.5, 0.5, 4)
    # "It is 25 metres long" is no part of "The pool is 25 metres long".
    assert table["substring"] == ShortcutScore("substring", 0, Direction.AT_MOST, 0.75, 0.8, 4)
    # Overlap of the hallucinations to fit on: 1/5 and 0. Scored: 1, 4/5, 0, 1/5.
    assert table["overlap"] == ShortcutScore("overlap", 0.2, Direction.AT_MOST, 1, 1, 4)


@pytest.mark.parametrize(("fit", "score"), [([], [Row("a")]), ([Row("a")], [])])
def test_the_table_needs_rows(fit: list[Row], score: list[Row]) -> None:
    with pytest.raises(ValueError, match=r"there is no row|on at least one"):
        shortcut_table(fit, score)


def test_rows_without_knowledge_have_every_feature() -> None:
    assert [feature(Row("Two words.")) for feature in FEATURES.values()] == [2, 1, 0, 0]


def test_a_long_response_costs_no_more_than_its_length() -> None:
    start = time.process_time()
    for text in ("a" + "!" * 100_000, "a-" * 50_000, "\u957f" * 100_000):
        row = Row(text, (text[::-1],))
        assert [feature(row) for feature in FEATURES.values()]
    assert time.process_time() - start < 5
