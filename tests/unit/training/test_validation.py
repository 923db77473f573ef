"""Which rows are judged while a stage trains, and what is measured of them."""

from __future__ import annotations

from collections import Counter

import pytest
from support.records import make_record

from contract.labels import Label
from training.judging import Judgement
from training.records import Record
from training.validation import labels_of, measure, pick_rows

H, C = Label.HALLUCINATION, Label.CORRECT


def make_pairs(set_name: str, num_pairs: int, num_rows: int = 2) -> list[Record]:
    return [
        make_record(f"{pair}-{row}", set_name=set_name)
        for pair in range(num_pairs)
        for row in range(num_rows)
    ]


def count_sets(records: list[Record]) -> Counter[str]:
    return Counter(record.set_name for record in records)


def test_every_set_gives_as_many_rows_as_any_other_while_it_lasts() -> None:
    records = make_pairs("large", 50) + make_pairs("small", 2) + make_pairs("middle", 20)
    picked = pick_rows(records, 24, seed=1)
    assert count_sets(picked) == {"small": 4, "large": 10, "middle": 10}
    # Of two pairs more, each goes to one of the sets that still have some.
    assert count_sets(pick_rows(records, 28, seed=1)) == {"small": 4, "large": 12, "middle": 12}


def test_pairs_stay_whole() -> None:
    picked = pick_rows(make_pairs("a", 20, num_rows=3), 10, seed=1)
    assert len(picked) == 12
    assert set(Counter(record.pair_id for record in picked).values()) == {3}


def test_a_pair_with_many_rows_gives_eight() -> None:
    picked = pick_rows(make_pairs("a", 3, num_rows=30), 20, seed=1)
    assert sorted(Counter(record.pair_id for record in picked).values()) == [8, 8, 8]
    assert len(set(picked)) == 24


def test_all_rows_are_picked_where_fewer_are_there_than_asked_for() -> None:
    records = make_pairs("a", 3)
    assert sorted(pick_rows(records, 100, seed=1), key=str) == sorted(records, key=str)
    assert pick_rows([], 100, seed=1) == []


def test_the_seed_picks_and_the_order_of_the_file_does_not() -> None:
    records = make_pairs("a", 40)
    picked = pick_rows(records, 10, seed=1)
    assert {r.pair_id for r in pick_rows(records[::-1], 10, seed=1)} == {r.pair_id for r in picked}
    assert {r.pair_id for r in pick_rows(records, 10, seed=2)} != {r.pair_id for r in picked}


def judge_as(*labels: Label | None) -> list[Judgement]:
    """Return judgements of these labels; None for one that could not be read."""
    return [
        Judgement("A reply.", "A reply.", label or H, label is not None, 0.0) for label in labels
    ]


def test_an_unreadable_reply_is_an_error_and_counted_apart() -> None:
    records = [make_record(f"a-{i}", label=label) for i, label in enumerate((H, H, H, C, C))]
    judgements = judge_as(H, H, C, C, None)
    assert labels_of(judgements) == [H, H, C, C, None]
    # TP 2, FN 1, TN 1, and the correct response that was not read counts with the FP.
    assert measure(records, judgements) == {
        "f1": pytest.approx(2 / 3),
        "precision": pytest.approx(2 / 3),
        "recall": pytest.approx(2 / 3),
        "balanced_accuracy": pytest.approx(7 / 12),
        "predicted_hallucination_share": pytest.approx(0.5),
        "unreadable_rate": pytest.approx(0.2),
    }


def test_a_policy_of_one_answer_shows() -> None:
    records = [make_record(f"a-{i}", label=label) for i, label in enumerate((H, C, C, C))]
    measured = measure(records, judge_as(H, H, H, H))
    assert measured["recall"] == 1.0
    assert measured["precision"] == 0.25
    assert measured["balanced_accuracy"] == 0.5
    assert measured["predicted_hallucination_share"] == 1.0
