"""Couples of claims, one true and one false."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from support.records import POOL, make_record

from contract.labels import Label
from evaluation.shortcuts import ends_with_full_stop
from training.perturb import Surroundings, edit_truly, find_surroundings, make_claims
from training.records import Record
from training.spans import Kind

NOWHERE = Surroundings({}, ())
LONG = " ".join(f"Sentence number {n} tells how Ada Berg built part {n} of it." for n in range(60))


def claims(knowledge: str | tuple[str, ...], num_claims: int, seed: int) -> list[Record]:
    row = make_record("p-0", knowledge=knowledge, response="Whatever.")
    return make_claims([row], num_claims, NOWHERE, Random(seed))


@pytest.mark.parametrize("num_claims", [2, 4])
def test_there_are_as_many_true_claims_as_false(num_claims: int) -> None:
    for seed in range(20):
        made = claims(POOL, num_claims, seed)
        counts = Counter(row.label for row in made)
        assert counts[Label.CORRECT] == counts[Label.HALLUCINATION] <= num_claims / 2


def test_an_odd_number_ends_with_either() -> None:
    lasts = Counter(
        sum(row.label is Label.CORRECT for row in made)
        for seed in range(60)
        if len(made := claims(LONG, 3, seed)) == 3
    )
    assert lasts[1] > 10
    assert lasts[2] > 10


def test_claims_belong_to_the_pair_and_have_no_question() -> None:
    made = claims(POOL, 4, 3)
    assert made
    assert {row.pair_id for row in made} == {"p"}
    assert {row.treatment for row in made} == {"perturbed"}
    assert {row.question for row in made} == {None}
    assert len({row.id for row in made}) == len(made)


def test_the_two_of_a_couple_differ_in_little() -> None:
    made = claims(LONG, 40, 1)
    for one, other in zip(made[::2], made[1::2], strict=True):
        shared = set(one.response.split()) & set(other.response.split())
        assert one.knowledge == other.knowledge
        assert {one.label, other.label} == set(Label)
        assert len(shared) >= 4
        assert one.response != other.response


def test_a_false_claim_never_stands_in_the_knowledge() -> None:
    for seed in range(40):
        for row in claims(POOL, 4, seed):
            if row.label is Label.HALLUCINATION:
                assert row.response.casefold() not in "\n".join(row.knowledge or ()).casefold()


def test_long_knowledge_is_cut_to_a_window_around_the_claim() -> None:
    for row in claims(LONG, 40, 2):
        text = "\n".join(row.knowledge or ())
        assert len(text.split()) <= 220
        assert text in LONG


def test_short_knowledge_gets_other_texts_beside_it() -> None:
    row = make_record("p-0", knowledge="Ada Berg built the Lind Pool in Oslo in 1925.")
    others = Surroundings({}, ("Carl Moe sang in Bergen in 1931 with Liv Dahl.",))
    made = [each for seed in range(30) for each in make_claims([row], 2, others, Random(seed))]
    assert made
    assert any("Carl Moe" in "\n".join(each.knowledge or ()) for each in made)
    long = make_claims([make_record("p-0", knowledge=LONG)], 40, others, Random(1))
    # Windows of fewer than sixty words are short too.
    assert not any(
        "Carl Moe" in "\n".join(each.knowledge or ())
        for each in long
        if len("\n".join(each.knowledge or ()).split()) > 80
    )


def test_surroundings_hold_short_texts_and_plausible_details() -> None:
    found = find_surroundings([make_record("a-0"), make_record("b-0", knowledge=LONG)])
    assert found.texts == [POOL]
    assert "1925" in found.spans[Kind.YEAR]
    assert "Ada Berg" in found.spans[Kind.NAME]


@pytest.mark.parametrize("knowledge", ["Too short.", "x " * 50, ("...",)])
def test_where_no_sentence_fits_there_are_no_claims(knowledge: str | tuple[str, ...]) -> None:
    assert claims(knowledge, 4, 1) == []


def test_rows_without_knowledge_give_none() -> None:
    assert make_claims([make_record("p-0", knowledge=None)], 4, NOWHERE, Random(1)) == []


def test_a_true_edit_keeps_names_and_years_of_the_sentence() -> None:
    sentence = "The Lind Pool was built in 1925 by Ada Berg in Oslo"
    for seed in range(30):
        edited = edit_truly(sentence, POOL, Random(seed))
        assert "Lind Pool" in edited
        assert "1925" in edited


def test_the_punctuation_is_left_to_the_treatment() -> None:
    assert {ends_with_full_stop(row) for row in claims(LONG, 40, 4)} == {0.0}
