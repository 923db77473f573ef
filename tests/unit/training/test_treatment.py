"""What the treatment makes of rows written by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from support.records import POOL, make_record

from contract.labels import Label
from training.data_config import TreatmentConfig
from training.made.generator import make_records
from training.records import Record
from training.treatment import ORIGINAL_TREATMENTS, even_stop, limit_pairs, treat

ALL = TreatmentConfig(perturbed_claims=2)
PAIR = [
    make_record("q-0"),
    make_record("q-1", response="The pool was built by Eva Dahl.", label=Label.HALLUCINATION),
]
SUMMARY = [
    make_record("s-0", task="summarization", question=None, response="It is long , and deep ."),
    make_record(
        "s-1",
        task="summarization",
        question=None,
        response="It is short .",
        label=Label.HALLUCINATION,
    ),
]


def responses(rows: list[Record], treatment: str) -> set[tuple[str, Label]]:
    return {(r.response.rstrip("."), r.label) for r in rows if r.treatment == treatment}


def test_a_question_gets_short_and_long_answers_of_both_classes() -> None:
    rows = treat(PAIR, TreatmentConfig(), 1, is_training=False)
    assert responses(rows, "short-right") == {("Ada Berg", Label.CORRECT)}
    (wrong, label) = responses(rows, "short-wrong").pop()
    assert (wrong, label) in {(name, Label.HALLUCINATION) for name in ("Carl Moe", "Moss Library")}
    rights = {text for text, _ in responses(rows, "long-right")}
    wrongs = {text for text, _ in responses(rows, "long-wrong")}
    # The same forms, and one of them is the wrong response's own sentence.
    assert {text.replace("Ada Berg", wrong) for text in rights} == wrongs
    assert "The pool was built by Ada Berg" in rights


def test_outside_training_the_originals_stay_untouched() -> None:
    for seed in range(10):
        rows = treat([*PAIR, *SUMMARY], ALL, seed, is_training=False)
        kept = {row.id: row.response for row in rows if row.treatment in ORIGINAL_TREATMENTS}
        assert kept == {row.id: row.response for row in (*PAIR, *SUMMARY)}


def test_in_training_full_stops_and_tokenised_blanks_are_evened_out() -> None:
    found = {
        row.response
        for seed in range(60)
        for row in treat(SUMMARY, TreatmentConfig(), seed)
        if row.id == "s-0"
    }
    assert found == {
        "It is long, and deep",
        "It is long, and deep.",
        "It is long , and deep",
        "It is long , and deep.",
    }


def test_in_training_a_made_row_takes_the_place_of_its_original() -> None:
    rows = treat(PAIR, TreatmentConfig(), 1)
    assert Counter(row.response.rstrip(".") for row in rows)["Ada Berg"] == 1
    rows = treat(PAIR, TreatmentConfig(), 1, is_training=False)
    assert Counter(row.response.rstrip(".") for row in rows)["Ada Berg"] == 2


def test_the_full_stop_is_the_same_for_both_of_a_couple() -> None:
    stops = set()
    for seed in range(20):
        rows = {
            row.treatment: row.response.endswith(".")
            for row in treat(PAIR, TreatmentConfig(), seed, is_training=False)
            if row.treatment.startswith("short")
        }
        assert rows["short-right"] == rows["short-wrong"]
        stops.add(rows["short-right"])
    assert stops == {True, False}


@pytest.mark.parametrize(
    ("switch", "gone"),
    [
        ({"short_wrong": False}, {"short-right", "short-wrong"}),
        ({"long_right": False}, {"long-right", "long-wrong"}),
        ({"perturbed_claims": 0}, {"perturbed"}),
    ],
)
def test_each_switch_takes_its_rows_away(switch: dict[str, int], gone: set[str]) -> None:
    rows = [make_record(f"{pair}-{row.id[-1]}", response=row.response, label=row.label)
            for pair in range(30) for row in PAIR]  # fmt: skip
    with_all = {row.treatment for row in treat(rows, ALL, 1)}
    without = {row.treatment for row in treat(rows, ALL.model_copy(update=switch), 1)}
    assert with_all - without == gone


def test_without_punctuation_full_stops_stay_as_they_came() -> None:
    rows = treat(PAIR, TreatmentConfig(punctuation=False), 1)
    assert {row.response for row in rows if row.id == "q-1"} == {"The pool was built by Eva Dahl."}


def test_off_means_that_nothing_changes() -> None:
    assert treat(PAIR, TreatmentConfig(is_on=False, perturbed_claims=9), 1) == PAIR


def test_raw_rows_are_thinned_and_a_smaller_share_is_a_part_of_a_larger() -> None:
    rows = [
        make_record(f"{pair}-0", response=f"A long wrong response with the number {pair}.",
                    label=Label.HALLUCINATION)
        for pair in range(200)
    ]  # fmt: skip

    def kept(share: float) -> set[str]:
        return {row.id for row in treat(rows, TreatmentConfig(raw_share=share), 1)}

    assert kept(0.0) == set()
    assert kept(0.3) < kept(0.6) < kept(1.0)
    assert abs(len(kept(0.3)) - 60) < 26
    assert len(kept(1.0)) == 200


def test_originals_within_a_word_of_each_other_are_marked() -> None:
    rows = [
        make_record("q-0"),
        make_record("q-1", response="Eva Dahl", label=Label.HALLUCINATION),
        make_record("q-2", response="It was built by Eva Dahl", label=Label.HALLUCINATION),
    ]
    marks = {
        row.id: row.treatment
        for row in treat(rows, ALL, 1, is_training=False)
        if row.treatment in ORIGINAL_TREATMENTS
    }
    assert marks == {"q-0": "length-matched", "q-1": "length-matched", "q-2": "raw"}


def test_rows_that_answer_no_question_are_kept() -> None:
    rows = treat(SUMMARY, TreatmentConfig(), 1)
    assert {row.treatment for row in rows} == {"kept"}
    dialogue = [make_record("d-0", task="dialogue", question="Hi", response="Yes")]
    assert {row.treatment for row in treat(dialogue, TreatmentConfig(), 1)} == {"kept"}


def test_an_abstention_is_right_only_where_the_answer_was_cut_out() -> None:
    rows = [
        make_record(f"{pair}-0", knowledge=POOL.replace("Ada", f"Ada{pair}"),
                    response=f"Ada{pair} Berg")
        for pair in range(100)
    ]  # fmt: skip
    made = [row for row in treat(rows, TreatmentConfig(), 1) if row.treatment == "abstention"]
    says_nothing = [row for row in made if "Ada" not in row.response]
    assert len(says_nothing) > 10
    for row in says_nothing:
        has_answer = any("Berg" in text for text in row.knowledge or ())
        assert row.label is (Label.HALLUCINATION if has_answer else Label.CORRECT)
    answers = [row for row in made if "Ada" in row.response]
    assert {row.label for row in answers} == {Label.HALLUCINATION}
    assert not [row for row in answers if "Berg" in (row.knowledge or ("",))[0]]


def test_no_input_has_both_labels() -> None:
    rows = [
        make_record("q-0", response="no"),
        make_record("q-1", response="Yes.", label=Label.HALLUCINATION),
    ]
    for seed in range(20):
        labels: dict[object, set[Label]] = {}
        for row in treat(rows, ALL, seed):
            key = (row.knowledge, row.question, row.response.rstrip(".").casefold())
            labels.setdefault(key, set()).add(row.label)
        assert {len(found) for found in labels.values()} == {1}


def test_a_seed_gives_the_same_rows_again_and_a_pair_its_own() -> None:
    others = [make_record("z-0", response="Carl Moe", question="Who opened the Moss Library?")]
    assert treat(PAIR, ALL, 1) == treat(PAIR, ALL, 1)
    assert treat(PAIR, ALL, 1) != treat(PAIR, ALL, 2)
    of_pair = [row for row in treat([*others, *PAIR], ALL, 1) if row.pair_id == "q"]
    answers = [row for row in of_pair if row.treatment != "perturbed"]
    assert answers == [row for row in treat(PAIR, ALL, 1) if row.treatment != "perturbed"]


@pytest.mark.parametrize(
    ("response", "has_stop", "expected"),
    [
        ("Oslo", True, "Oslo."),
        ("Oslo.", True, "Oslo."),
        ("Oslo.", False, "Oslo"),
        ("Oslo .", False, "Oslo"),
        ("Oslo?", True, "Oslo?"),
        ("Apple Inc.", False, "Apple Inc."),
        ("...", False, "..."),
        (".", False, "."),
    ],
)
def test_a_full_stop_is_set_or_taken_away(response: str, has_stop: bool, expected: str) -> None:
    assert even_stop(response, has_stop) == expected


def make_pair(pair: str, num_right: int, num_wrong: int, set_name: str = "pools") -> list[Record]:
    labels = [Label.CORRECT] * num_right + [Label.HALLUCINATION] * num_wrong
    return [
        make_record(f"{pair}-{i}", set_name=set_name, response=f"In {i}.", label=label)
        for i, label in enumerate(labels)
    ]


@pytest.mark.parametrize(
    ("num_right", "num_wrong", "limit", "kept"),
    [
        (4, 3, 2, (1, 1)),
        (4, 3, 4, (2, 2)),
        # Where one class ends, the other fills up.
        (5, 1, 4, (3, 1)),
        (1, 5, 4, (1, 3)),
        (5, 0, 2, (2, 0)),
        (2, 1, 3, (2, 1)),
        (2, 1, 9, (2, 1)),
        (4, 3, None, (4, 3)),
    ],
)
def test_of_a_pair_with_many_rows_some_of_both_classes_are_kept(
    num_right: int, num_wrong: int, limit: int | None, kept: tuple[int, int]
) -> None:
    rows = limit_pairs(make_pair("a", num_right, num_wrong), {"pools": limit}, 1)
    counts = Counter(row.label for row in rows)
    assert (counts[Label.CORRECT], counts[Label.HALLUCINATION]) == kept


def test_each_set_has_its_own_limit_and_rows_keep_their_order() -> None:
    lakes = make_pair("a", 3, 3, set_name="lakes")
    rows = [*make_pair("a", 3, 3), *lakes, *make_pair("b", 1, 1)]
    kept = limit_pairs(rows, {"pools": 2, "lakes": None}, 1)
    assert Counter((row.set_name, row.pair_id) for row in kept) == {
        ("pools", "a"): 2, ("lakes", "a"): 6, ("pools", "b"): 2
    }  # fmt: skip
    assert kept == sorted(kept, key=rows.index)


def test_the_seed_draws_the_rows_that_are_kept_and_a_pair_has_its_own_draw() -> None:
    rows, limits = make_pair("a", 6, 6), {"pools": 2}
    assert limit_pairs(rows, limits, 1) == limit_pairs(rows, limits, 1)
    drawn = {tuple(row.id for row in limit_pairs(rows, limits, seed)) for seed in range(9)}
    assert len(drawn) > 3
    among_others = limit_pairs([*make_pair("z", 6, 6), *rows], limits, 1)
    assert [row for row in among_others if row.pair_id == "a"] == limit_pairs(rows, limits, 1)


@pytest.mark.parametrize("is_training", [True, False])
def test_made_rows_stay_as_they_are_and_change_no_others(is_training: bool) -> None:
    made = list(make_records("worlds", 20, seed=1))
    alone = treat([*PAIR, *SUMMARY], ALL, 1, is_training=is_training)
    together = treat([*PAIR, *made, *SUMMARY], ALL, 1, is_training=is_training)
    assert [row for row in together if row.set_name == "worlds"] == made
    assert [row for row in together if row.set_name != "worlds"] == alone
