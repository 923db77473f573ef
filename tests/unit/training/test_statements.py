"""Questions turned into statements, and carriers."""

from __future__ import annotations

from random import Random

import pytest

from training.spans import Kind
from training.statements import choose_form, fill, rewrite, say_yes_no, state_yes_no


@pytest.mark.parametrize(
    ("question", "form"),
    [
        ("Who directed a film about Oslo?", "{a} directed a film about Oslo"),
        ("Who writes poetry such as Rain?", "{a} writes poetry such as Rain"),
        ("Which band was formed first, Lit or Doom?", "{a} was formed first"),
        ("Who was born first Ann Lee or Bo Ek?", "{a} was born first"),
        ("What is the name of the dog?", "the name of the dog is {a}"),
        ("What is the population of Oslo?", "the population of Oslo is {a}"),
        ("When was Ann Lee born?", "Ann Lee was born {when}"),
        ("Where was the opera first performed?", None),
        ("Where is the lab located?", "the lab is located in {a}"),
        ("Which actor starred in Rain?", "{a} starred in Rain"),
        ("The game was played in what arena?", "The game was played in {a}"),
        ("The film was made by whom?", "The film was made by {a}"),
        ("How many medals did she win?", None),
        ("What city is Oslo College in?", None),
        ("Which is closer to Rome, Paris or Bonn?", None),
    ],
)
def test_a_question_becomes_a_statement_where_a_rule_fits(question: str, form: str | None) -> None:
    assert rewrite(question) == form


@pytest.mark.parametrize(
    ("form", "answer", "sentence"),
    [
        ("the name of the dog is {a}", "Rex", "The name of the dog is Rex"),
        ("Ann Lee was born {when}", "1984", "Ann Lee was born in 1984"),
        ("Ann Lee was born {when}", "March 8, 1984", "Ann Lee was born on March 8, 1984"),
    ],
)
def test_a_form_is_filled(form: str, answer: str, sentence: str) -> None:
    assert fill(form, answer) == sentence


@pytest.mark.parametrize(
    ("question", "positive", "negative"),
    [
        (
            "Are Lit and Doom both bands?",
            "Lit and Doom are both bands",
            "Lit and Doom are not both bands",
        ),
        (
            "Is the Moss Library in Oslo?",
            "the Moss Library is in Oslo",
            "the Moss Library is not in Oslo",
        ),
        ("Will it rain?", None, None),
    ],
)
def test_a_yes_no_question_is_stated_and_denied(
    question: str, positive: str | None, negative: str | None
) -> None:
    assert state_yes_no(question, is_yes=True) == positive
    assert state_yes_no(question, is_yes=False) == negative


def test_every_form_has_one_slot() -> None:
    rng = Random(1)
    for kind in Kind:
        for question in (None, "Who built the Lind Pool?"):
            for _ in range(50):
                form = choose_form(question, kind, rng)
                assert form.count("{a}") + form.count("{when}") == 1


def test_without_a_text_no_form_names_one() -> None:
    rng = Random(1)
    forms = {choose_form("Who built it?", Kind.NAME, rng, has_text=False) for _ in range(300)}
    sentences = {say_yes_no(None, is_yes, rng, has_text=False) for is_yes in (True, False)}
    assert len(forms) > 5
    assert not [each for each in forms | sentences if "text" in each or "passage" in each]


def test_a_form_can_be_asked_for_by_its_length() -> None:
    forms = [choose_form(None, Kind.NAME, Random(n), num_words=2) for n in range(20)]
    # "It is {a}", "It was {a}" and the like: two words beside the answer.
    assert {len(form.split()) for form in forms} == {3}
