"""Edits that make a claim false."""

from __future__ import annotations

from random import Random

import pytest
from support.records import POOL

from training import false_edits
from training.false_edits import FALSE_EDITS, FalseEdit, Material, other_number
from training.spans import Kind, find_spans
from training.word_lists import ANTONYMS, ROLES

OTHERS = {Kind.PLACE: ("Texas",), Kind.YEAR: ("1888",), Kind.NAME: ("Eva Dahl",)}
MATERIAL = Material(POOL, find_spans(POOL), OTHERS)


def results(edit: str, claim: str, material: Material = MATERIAL) -> set[str | None]:
    apply: FalseEdit = getattr(false_edits, edit)
    return {apply(claim, material, Random(seed)) for seed in range(40)}


@pytest.mark.parametrize(
    ("edit", "claim", "expected"),
    [
        ("oppose", "It was the first pool", {"It was the last pool"}),
        ("oppose", "It was the last pool", {"It was the first pool"}),
        ("oppose", "First they swam", {"Last they swam"}),
        # Inside a sentence a large word is part of a name.
        ("oppose", "She bought First Avenue", {"She sold First Avenue"}),
        ("change_role", "Ada is the author", {"Ada is the publisher"}),
        ("change_role", "Bo is an actor here", {"Bo is a director here"}),
        ("change_unit", "It is 25 metres long", {"It is 25 feet long"}),
        ("change_quantifier", "It holds at least ten people", {"It holds at most ten people"}),
        ("change_modality", "It may rain", {"It will rain"}),
        ("negate", "It is not open", {"It is open"}),
        ("negate", "It isn't open", {"It is open"}),
        ("negate", "The pool is open", {"The pool is not open", "The pool isn't open"}),
        ("negate", "It has been open", {"It has not been open"}),
        (
            "swap_entity",
            "Ada Berg swims",
            {"Lind Pool swims", "Carl Moe swims", "Moss Library swims"},
        ),
        ("swap_entity", "The river is long", {None}),
        ("import_entity", "Ada Berg swims", {"Eva Dahl swims"}),
        ("exchange_entities", "Ada Berg invited Carl Moe", {"Carl Moe invited Ada Berg"}),
        ("exchange_entities", "Ada Berg married Carl Moe", {None}),
        ("change_number", "It was built in Oslo", {None}),
        ("change_unit", "It is deep", {None}),
    ],
)
def test_an_edit_changes_what_is_said(edit: str, claim: str, expected: set[str | None]) -> None:
    assert results(edit, claim) == expected


def test_years_come_from_the_knowledge_or_from_near() -> None:
    found = results("change_number", "The pool was built in 1925")
    assert "The pool was built in 1931" in found
    years = {int(str(each)[-4:]) for each in found}
    assert 1925 not in years
    assert all(1905 <= year <= 1945 for year in years)


def test_a_date_changes_in_one_place() -> None:
    found = {str(each) for each in results("change_date", "It opened on 3 May 1990")} - {"None"}
    assert len(found) > 5
    for each in found:
        parts = each.removeprefix("It opened on ").split()
        assert sum(a != b for a, b in zip(parts, ["3", "May", "1990"], strict=True)) == 1


def test_may_is_a_month_only_beside_a_number() -> None:
    assert results("change_date", "It may rain in May again") == {None}


def test_an_added_detail_is_not_in_the_knowledge() -> None:
    assert results("add_detail", "It leaks") - {None} == {
        "It leaks in Texas",
        "It leaks in 1888",
        "It leaks with Eva Dahl",
    }
    known = Material("It leaks in Texas", (), {Kind.PLACE: ("Texas",)})
    assert results("add_detail", "It leaks", known) == {None}


def test_a_first_word_is_a_name_only_where_the_knowledge_writes_it_large() -> None:
    knowledge = "fish swim in Oslo"
    material = Material(knowledge, find_spans(knowledge), {Kind.NAME: ("Eva Dahl",)})
    assert results("import_entity", "Fish swim here", material) == {None}


@pytest.mark.parametrize(
    ("text", "kind"),
    [("1925", Kind.YEAR), ("14,674", Kind.NUMBER), ("1st", Kind.ORDINAL), ("two", Kind.NUMBER)],
)
def test_another_number_is_written_alike(text: str, kind: Kind) -> None:
    for seed in range(40):
        other = other_number(text, kind, Random(seed))
        assert other is not None
        assert other != text
        assert other[:1].isdigit() == text[:1].isdigit()
        assert ("," in other) == ("," in text)


def test_no_edit_gives_the_claim_back() -> None:
    claim = "On 3 May 1925 Ada Berg built the first pool of 25 metres and all may swim"
    for edit, _ in FALSE_EDITS:
        for seed in range(10):
            assert edit(claim, MATERIAL, Random(seed)) != claim


def test_the_word_lists_are_long_and_change_something() -> None:
    assert len(ANTONYMS) >= 80
    assert all(one != other and one and other for one, other in (*ANTONYMS, *ROLES))
