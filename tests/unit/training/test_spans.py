"""Short spans by kind."""

from __future__ import annotations

import doctest
from itertools import pairwise

import pytest

from training import cleaning, false_edits, spans, statements, treatment, true_edits
from training.spans import Kind, find_spans, is_related, kind_of, split_sentences


def test_the_examples_in_the_docstrings_hold() -> None:
    for module in (cleaning, false_edits, spans, statements, treatment, true_edits):
        assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("No.", Kind.YES_NO),
        ("1973", Kind.YEAR),
        ("March 8, 1869", Kind.DATE),
        ("26 May 1960", Kind.DATE),
        ("14,674", Kind.NUMBER),
        ("seven", Kind.NUMBER),
        ("7.46 mi long", Kind.NUMBER),
        ("22nd", Kind.ORDINAL),
        ("third", Kind.ORDINAL),
        ("Norwegian", Kind.NATIONALITY),
        ("South Korean", Kind.NATIONALITY),
        ("New Jersey", Kind.PLACE),
        ("Bergen County", Kind.PLACE),
        ("Boston College", Kind.ORGANISATION),
        ('"The Simpsons"', Kind.TITLE),
        ("Nate Dogg", Kind.NAME),
        ("the Beatles", Kind.NAME),
        ("rock band", Kind.PHRASE),
    ],
)
def test_an_answer_has_a_kind(text: str, kind: Kind) -> None:
    assert kind_of(text) is kind


def test_a_year_after_the_first_word_of_a_sentence_is_found() -> None:
    """The name pattern once took "In 1984" for a name that began with "In", and lost the year."""
    found = [
        (span.text, span.kind) for span in find_spans("In 1984 it ended. The Oslo plan failed.")
    ]
    assert found == [("1984", Kind.YEAR), ("Oslo", Kind.PLACE)]


def test_spans_point_into_the_text_and_do_not_overlap() -> None:
    text = 'Dr. Ann Lee\'s "Red Sky" sold 1,200 copies on 3 May 1999; the second, two.'
    found = find_spans(text)
    assert all(text[span.start : span.end] == span.text for span in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert [span.text for span in found] == [
        "Dr", "Ann Lee", '"Red Sky"', "1,200", "3 May 1999", "second", "two",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("Ada Berg", "Berg", True),
        ("James L. Jones", 'James Logan "Jim" Jones', True),
        ("two", "2", True),
        ("BC", "Boston College", True),
        ("the Beatles", "Beatles", True),
        ("Ada Berg", "Carl Moe", False),
        ("1925", "1931", False),
    ],
)
def test_spans_that_may_name_one_thing_are_related(one: str, other: str, is_same: bool) -> None:
    assert is_related(one, other) is is_same
    assert is_related(other, one) is is_same


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One is here. Two is there.", ["One is here.", "Two is there."]),
        ("Sold by Apple Inc. of Ohio. It grew.", ["Sold by Apple Inc. of Ohio.", "It grew."]),
        ("J. R. Doe left.He died.", ["J. R. Doe left.", "He died."]),
        ("Olson v. Smith is a case.", ["Olson v. Smith is a case."]),
        ("First line\nsecond line", ["First line", "second line"]),
        ("It cost 1.5 million.", ["It cost 1.5 million."]),
    ],
)
def test_sentences_end_at_full_stops_but_not_at_abbreviations(
    text: str, sentences: list[str]
) -> None:
    assert split_sentences(text) == sentences
