"""Short wrong answers of the right kind."""

from __future__ import annotations

from random import Random

import pytest
from support.records import POOL, make_record

from training.spans import bare, kind_of
from training.wrong_answers import AnswerBank, choose_wrong

BANK = AnswerBank(
    [
        make_record("b-0", response="Eva Dahl", knowledge="Eva Dahl sang."),
        make_record("c-0", response="June 1, 1990", knowledge="It opened on June 1, 1990."),
        make_record("d-0", response="public bath", knowledge="It is a public bath."),
        make_record("e-0", response="concert hall", knowledge="It is a concert hall."),
    ]
)
SEEDS = range(30)


def draw(answer: str, question: str | None = None, knowledge: str = POOL) -> set[str]:
    found = (choose_wrong(answer, question, knowledge, BANK, Random(seed)) for seed in SEEDS)
    return {each.text for each in found if each is not None}


@pytest.mark.parametrize(
    ("answer", "wrong"), [("yes", "no"), ("no", "yes"), ("Yes", "No"), ("No.", "Yes")]
)
def test_yes_and_no_are_turned_round(answer: str, wrong: str) -> None:
    assert draw(answer) == {wrong}


def test_of_two_things_compared_the_other_is_wrong() -> None:
    question = "Which was built first, the Lind Pool or the Moss Library?"
    assert draw("Lind Pool", question) == {"Moss Library"}
    assert draw("the Moss Library", question) == {"the Lind Pool"}


def test_a_span_of_the_knowledge_comes_first() -> None:
    assert draw("1925") == {"1931"}
    assert "Carl Moe" in draw("Ada Berg")


def test_what_the_question_names_is_no_wrong_answer() -> None:
    assert "Lind Pool" in draw("Ada Berg")
    assert "Lind Pool" not in draw("Ada Berg", "Who built the Lind Pool?")


def test_what_stands_in_one_list_or_place_with_the_right_answer_is_none_either() -> None:
    knowledge = "Oskar Ness, Tor Aas and Liv Dahl sang with Kari Foss. Later Nils Rud played."
    assert draw("Tor Aas", None, knowledge) <= {"Kari Foss", "Nils Rud"}
    assert draw("Norwalk", None, "She was born in Norwalk, Kent and died in Bergen.") == {"Bergen"}


def test_a_phrase_is_another_answer_that_stands_in_the_knowledge() -> None:
    assert draw("public bath", None, "It was a public bath, later a concert hall.") == {
        "concert hall"
    }


def test_a_number_or_date_without_another_beside_it_is_changed() -> None:
    for answer in ("1925", "14,674", "eight", "third", "4 March 1974"):
        found = draw(answer, None, f"It was {answer}.")
        assert found
        assert bare(answer) not in {bare(each) for each in found}
        assert {kind_of(each) for each in found} == {kind_of(answer)}


def test_another_question_helps_out_and_brings_its_text() -> None:
    found = choose_wrong("Ada Berg", None, "Ada Berg swam.", BANK, Random(1))
    assert found is not None
    assert (found.text, found.source) == ("Eva Dahl", "Eva Dahl sang.")


@pytest.mark.parametrize("answer", ["Ada Berg", "1925", "Oslo", "25", "public bath", "Lind Pool"])
def test_a_wrong_answer_never_equals_or_holds_the_right_one(answer: str) -> None:
    for wrong in draw(answer):
        assert bare(answer) not in bare(wrong)
        assert bare(wrong) not in bare(answer)


def test_without_any_candidate_there_is_none() -> None:
    assert choose_wrong("Ada Berg", None, "", AnswerBank([]), Random(1)) is None
