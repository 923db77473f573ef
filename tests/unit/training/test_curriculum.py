"""Which prompts come, in which order."""

from __future__ import annotations

import math
import time
from collections import Counter

import pytest
from support.records import make_record

from contract.labels import Label
from training.curriculum import order_prompts, pass_rate
from training.errors import DataError
from training.records import Record

RIGHT, WRONG = Label.CORRECT, Label.HALLUCINATION


def make_pairs(num_pairs: int, set_name: str = "pools") -> list[Record]:
    return [
        make_record(f"{i}-{label}", set_name=set_name, label=label)
        for i in range(num_pairs)
        for label in Label
    ]


@pytest.mark.parametrize(
    ("log_odds", "gold", "expected"),
    [
        (0.0, WRONG, 0.5),
        (math.log(9), WRONG, 0.9),
        (math.log(9), RIGHT, 0.1),
        (-math.log(4), RIGHT, 0.8),
        (1000.0, WRONG, 1.0),
        (-1000.0, WRONG, 0.0),
    ],
)
def test_a_pass_rate_is_the_probability_of_the_gold_class(
    log_odds: float, gold: Label, expected: float
) -> None:
    assert pass_rate(log_odds, gold) == pytest.approx(expected)


@pytest.mark.parametrize("num_prompts", [2, 6, 20, 25])
def test_each_two_in_a_row_are_one_of_each_class_from_one_pair(num_prompts: int) -> None:
    chosen = order_prompts(make_pairs(5), num_prompts, {"pools": 1.0}, seed=1)
    assert len(chosen) == num_prompts + num_prompts % 2
    for first, second in zip(chosen[::2], chosen[1::2], strict=True):
        assert {first.label, second.label} == {RIGHT, WRONG}
        assert first.pair_id == second.pair_id


def test_a_pass_holds_each_pair_once_and_the_next_has_another_order() -> None:
    chosen = [each.pair_id for each in order_prompts(make_pairs(8), 32, {"pools": 1.0}, 1)][::2]
    assert sorted(chosen[:8]) == sorted(chosen[8:]) == [str(i) for i in range(8)]
    assert chosen[:8] != chosen[8:]


def test_the_seed_alone_decides() -> None:
    records = make_pairs(8)
    first = order_prompts(records, 16, {"pools": 1.0}, seed=1)
    assert order_prompts(list(reversed(records)), 16, {"pools": 1.0}, seed=1) == first
    assert order_prompts(records, 16, {"pools": 1.0}, seed=2) != first


def test_a_set_comes_as_often_as_it_is_repeated() -> None:
    records = [*make_pairs(4, "often"), *make_pairs(4, "seldom")]
    chosen = order_prompts(records, 28, {"often": 3.0, "seldom": 0.5}, seed=1)
    counts = Counter(record.set_name for record in chosen)
    # A pass holds 12 pairs of the one and about 2 of the other.
    assert 20 <= counts["often"] <= 26
    assert counts["seldom"] == 28 - counts["often"]


def test_a_class_that_a_pair_lacks_comes_from_its_set() -> None:
    records = [
        make_record("0-0", set_name="a", label=WRONG),
        make_record("1-0", set_name="a", label=RIGHT),
        make_record("2-0", set_name="b", label=RIGHT),
        make_record("3-0", set_name="b", label=WRONG),
    ]
    chosen = order_prompts(records, 40, {"a": 1.0, "b": 1.0}, seed=1)
    for first, second in zip(chosen[::2], chosen[1::2], strict=True):
        assert {first.label, second.label} == {RIGHT, WRONG}
        assert first.set_name == second.set_name


def test_a_class_that_a_set_lacks_comes_from_another() -> None:
    records = [
        make_record("0-0", set_name="a", label=WRONG),
        make_record("1-0", set_name="b", label=RIGHT),
    ]
    chosen = order_prompts(records, 4, {"a": 1.0, "b": 1.0}, seed=1)
    assert Counter(record.label for record in chosen) == {RIGHT: 2, WRONG: 2}


def test_all_responses_of_a_pair_have_their_turn() -> None:
    records = [
        make_record("0-0", label=WRONG, response="Carl Moe"),
        make_record("0-1", label=WRONG, response="Nobody"),
        make_record("0-2", label=RIGHT),
    ]
    chosen = order_prompts(records, 40, {"pools": 1.0}, seed=1)
    assert {record.response for record in chosen} == {"Carl Moe", "Nobody", "Ada Berg"}


@pytest.mark.parametrize("label", Label)
def test_one_class_alone_teaches_nothing(label: Label) -> None:
    with pytest.raises(DataError, match="both classes: widen"):
        order_prompts([make_record(label=label)], 2, {"pools": 1.0}, seed=1)


def test_ten_thousand_responses_without_partners_take_no_time() -> None:
    """For each, all pairs of its set were walked through."""
    records = [make_record(f"{i}-0", label=RIGHT if i % 2 else WRONG) for i in range(10_000)]
    started = time.process_time()
    assert len(order_prompts(records, 10_000, {"pools": 1.0}, seed=1)) == 10_000
    assert time.process_time() - started < 2.0
