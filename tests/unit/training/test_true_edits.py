"""Edits that keep a sentence true."""

from __future__ import annotations

from random import Random

import pytest

from training import true_edits
from training.true_edits import Edit


@pytest.mark.parametrize(
    ("edit", "sentence", "edited"),
    [
        ("drop_parenthesis", "Ada (born 1900) built the pool", "Ada built the pool"),
        ("drop_parenthesis", "Ada built the pool", None),
        ("drop_apposition", "Moss, a small town, has a pool", "Moss has a pool"),
        ("drop_opening", "In 1925, the pool was built here", "The pool was built here"),
        ("move_opening", "In 1925, the pool was built", "The pool was built in 1925"),
        ("move_opening", "In 1925, the pool, a gift, was built", None),
        ("move_closing", "The pool was built in 1925", "In 1925, the pool was built"),
        ("move_closing", "The pool was built in Oslo", None),
        ("cut_tail", "The pool was built here, which pleased Ada", "The pool was built here"),
        ("cut_tail", "The pool which leaked", None),
        ("drop_fillers", "The pool was also built here", "The pool was built here"),
        ("drop_quotes", 'Ada wrote "The Pool" in Oslo', "Ada wrote The Pool in Oslo"),
        ("contract", "The pool is not open today", "The pool isn't open today"),
        ("contract", "The pool isn't open today", "The pool is not open today"),
        ("respell_number", "The pool has 3 doors today", "The pool has three doors today"),
        ("respell_number", "The pool has three doors today", "The pool has 3 doors today"),
        ("respell_number", "It ended 3-1 after one hour", None),
        ("replace_words", "The pool is located in Oslo", "The pool is situated in Oslo"),
        ("replace_words", "The pool is deep", None),
    ],
)
def test_an_edit_keeps_what_is_said(edit: str, sentence: str, edited: str | None) -> None:
    apply: Edit = getattr(true_edits, edit)
    assert apply(sentence, Random(1)) == edited


def test_a_birth_and_an_occupation_are_taken_out_of_a_sentence() -> None:
    sentence = "Ada Berg (born 8 March 1900) was a Norwegian architect from Oslo"
    facts = {true_edits.extract_fact(sentence, Random(seed)) for seed in range(60)}
    assert facts == {
        "Ada Berg was born on 8 March 1900",
        "Ada Berg was born in 1900",
        "Ada Berg's year of birth is 1900",
        "Ada Berg was a Norwegian architect",
        "A Norwegian architect is what Ada Berg was",
    }


def test_what_is_cut_leaves_no_loose_end() -> None:
    sentence = "Rain is a film directed by Ann Lee and starring Bo Ek"
    assert true_edits.cut_tail(sentence, Random(1)) == "Rain is a film directed by Ann Lee"
    assert "a fort made" not in str(
        true_edits.extract_fact("Burg is a fort made of earth", Random(1))
    )


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("The pool leaks", "It is said that the pool leaks"),
        ("Ada swims", "It is said that Ada swims"),
    ],
)
def test_a_name_stays_large_after_other_words(sentence: str, said: str) -> None:
    assert true_edits.attribute(sentence, "It is said that {}") == said
