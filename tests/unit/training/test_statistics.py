"""What the data look like, worked out by hand."""

from __future__ import annotations

import pytest
from support.records import make_record

from contract.labels import Label
from training.records import Record
from training.statistics import describe, length_matched_ids, to_markdown

WRONG = Label.HALLUCINATION


def rows(treatment: str = "raw") -> list[Record]:
    made = []
    for pair in range(4):
        made += [
            make_record(f"{pair}-0", knowledge="a b c", response="b", treatment=treatment),
            make_record(f"{pair}-1", knowledge="a b c", response="It is x y.", label=WRONG,
                        treatment=treatment),
            make_record(f"{pair}-2", knowledge="a b c", response="It is z.", label=WRONG,
                        treatment=treatment),
        ]  # fmt: skip
    return made


def test_sizes_are_counted_by_set_and_treatment() -> None:
    statistics = describe(rows(), rows("short-right"))
    (group,) = statistics.groups
    assert (group.name, group.num_rows, group.num_pairs) == ("pools", 24, 4)
    assert group.num_hallucinations == 16
    assert group.median_knowledge_words == 3
    assert group.median_hallucination_words == 3.5
    assert group.median_correct_words == 1
    assert group.num_by_treatment == {"raw": 12, "short-right": 12}


def test_shortcuts_are_scored_apart_for_originals_answers_and_claims() -> None:
    every = [*rows(), *rows("long-right"), *rows("perturbed")]
    statistics = describe(every, every)
    assert [(row.name, row.num_fit, row.num_scored) for row in statistics.shortcuts] == [
        ("pools", 36, 12),
        ("pools: made", 12, 12),
        ("pools: perturbed", 12, 12),
    ]
    by_name = {score.name: score for score in statistics.shortcuts[0].scores}
    assert by_name["always"].balanced_accuracy == 0.5
    assert by_name["length"].balanced_accuracy == 1.0
    assert by_name["full stop"].balanced_accuracy == 1.0


def test_a_group_of_one_class_is_not_scored() -> None:
    only = [row for row in rows() if row.label is WRONG]
    assert describe(only, only).shortcuts == ()


def test_the_table_shows_raw_beside_treated() -> None:
    raw = describe(rows(), rows())
    treated = describe(rows("long-right"), rows("long-right"))
    table = to_markdown(raw, treated)
    assert "| pools | raw | 24 | 4 | 67% | 3 | 3.5 | 1 |" in table
    assert "| pools: made | treated | 12 | 12 | 0.50 (0.80) | 1.00 (1.00) |" in table
    assert "| always | length | full stop | substring | overlap |" in table


@pytest.mark.parametrize(
    ("correct", "hallucination", "matched"),
    [
        (["one two"], ["one two three"], {"c0", "h0"}),
        (["one two"], ["one two three four"], set()),
        # The shortest first: the second correct one is left over.
        (["a", "a b"], ["a b"], {"c0", "h0"}),
        (["a b c d", "a"], ["a b c d e", "a b"], {"c0", "c1", "h0", "h1"}),
        ([], ["a"], set()),
    ],
)
def test_rows_within_a_word_pair_up(
    correct: list[str], hallucination: list[str], matched: set[str]
) -> None:
    found = [
        *(make_record(f"c{n}", pair_id="p", response=text) for n, text in enumerate(correct)),
        *(
            make_record(f"h{n}", pair_id="p", response=text, label=WRONG)
            for n, text in enumerate(hallucination)
        ),
    ]
    assert length_matched_ids(found) == matched


def test_rows_of_different_pairs_do_not_match() -> None:
    found = [make_record("a-0"), make_record("b-0", response="Bo Ek", label=WRONG)]
    assert length_matched_ids(found) == frozenset()
