"""The made set as a whole: nothing that a response looks like tells its class."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from contract.labels import Label
from contract.reply import Verdict, parse
from evaluation.justifications import check_quotes
from evaluation.shortcuts import shortcut_table, words
from evaluation.wording import wording
from training.cleaning import clean
from training.evidence import NO_ANSWER, justify_record, write_reply
from training.made.generator import kind_of_pair, make_records
from training.records import Record

KINDS = {
    "addition", "cause", "change", "claims", "code", "comparison", "computation", "condition",
    "configuration", "count", "csv", "dates", "dialogue", "duration", "hostile", "html-list",
    "html-table", "ini", "json", "languages", "list", "log", "long", "near", "negation",
    "number-words", "off-target", "other-attribute", "other-entity", "partial", "quantifier",
    "roles", "silence", "summary", "superlative", "table", "units", "yaml", "yes-no",
}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> list[Record]:
    return list(make_records("made", 2000, seed=11))


@pytest.fixture(scope="module")
def pairs(rows: list[Record]) -> list[list[Record]]:
    found: dict[str, list[Record]] = {}
    for row in rows:
        found.setdefault(row.pair_id, []).append(row)
    return list(found.values())


def test_all_kinds_are_there(rows: list[Record]) -> None:
    assert {kind_of_pair("made", row.pair_id) for row in rows} == KINDS
    assert {row.task for row in rows} == {"qa", "general", "summarization", "dialogue"}
    assert {row.treatment for row in rows} == {"made"}
    assert len({row.id for row in rows}) == len(rows)


def test_every_pair_has_as_many_right_responses_as_wrong_ones(pairs: list[list[Record]]) -> None:
    assert len(pairs) == 2000
    for pair in pairs:
        counts = Counter(row.label for row in pair)
        assert counts[Label.CORRECT] == counts[Label.HALLUCINATION] > 0
        assert len(pair) in (2, 4)


def test_no_rule_that_reads_nothing_gets_far(rows: list[Record]) -> None:
    scores = shortcut_table(rows, rows)
    assert {score.name for score in scores} == {
        "always",
        "length",
        "full stop",
        "substring",
        "overlap",
    }
    for score in scores:
        # Fitted on the scored rows themselves, which favours the rules.
        assert score.balanced_accuracy < 0.55, score


def test_no_word_of_a_response_tells_its_class(rows: list[Record]) -> None:
    counts: dict[str, Counter[Label]] = defaultdict(Counter)
    for row in rows:
        for word in set(words(row.response)):
            counts[word][row.label] += 1
    frequent = {word: count for word, count in counts.items() if count.total() >= 120}
    assert {"not", "no", "the", "is", "answer"} <= frequent.keys()
    for word, count in frequent.items():
        assert 0.4 < count[Label.HALLUCINATION] / count.total() < 0.6, word


@pytest.mark.parametrize(
    "pattern",
    [r"\d", r"(?i)\bnot\b|\bno\b", r"(?i)not (?:say|said|given|mention)|silent", r"Class|label"],
    ids=["number", "denial", "silence", "order"],
)
def test_no_form_of_a_response_tells_its_class(rows: list[Record], pattern: str) -> None:
    found = Counter(row.label for row in rows if re.search(pattern, row.response))
    assert found.total() > 40
    assert 0.45 < found[Label.CORRECT] / found.total() < 0.55


def test_what_is_taught_first_is_the_same_for_both_classes(pairs: list[list[Record]]) -> None:
    for pair in pairs:
        said = {
            label: sorted(str(row.justification) for row in pair if row.label is label)
            for label in Label
        }
        assert said[Label.CORRECT] == said[Label.HALLUCINATION]


def test_justifications_quote_the_knowledge_and_argue_for_no_class(rows: list[Record]) -> None:
    for row in clean(rows).records:
        text = justify_record(row, {})
        assert text == row.justification
        quotes = check_quotes(text, row.knowledge or ())
        assert quotes.num_quotes == quotes.num_verbatim, row
        assert text == NO_ANSWER or quotes.num_quotes or re.search(r"\d", text), row
        assert wording(text) is None or text == NO_ANSWER, row
        assert parse(write_reply(text, row.label)) == Verdict(row.label, text)


def test_cleaning_finds_nothing_to_drop(rows: list[Record]) -> None:
    assert clean(rows).dropped == {}


def test_the_seed_decides_all_and_more_pairs_change_none(rows: list[Record]) -> None:
    few = list(make_records("made", 50, seed=11))
    assert few == rows[: len(few)]
    other = list(make_records("made", 50, seed=12))
    assert {row.response for row in other} != {row.response for row in few}


def test_orders_to_the_judge_say_nothing_about_the_class(rows: list[Record]) -> None:
    hostile = [row for row in rows if kind_of_pair("made", row.pair_id) == "hostile"]
    for label in Label:
        ordered = [
            row.label
            for row in hostile
            if str(label) in row.response or any(str(label) in text for text in row.knowledge or ())
        ]
        assert len(ordered) > 40
        assert ordered.count(Label.CORRECT) * 2 == len(ordered)
