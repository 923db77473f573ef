"""Splits by pair: nothing crosses, and what is there stays where it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import make_record

from training.errors import DataError
from training.records import Record
from training.splits import Fractions, Split, check_disjoint, leave_out_shared, split_by_pair

HALF = Fractions(validation=0.25, test=0.25)

numbers = st.integers(0, 9)
rows = st.lists(
    st.tuples(numbers, st.none() | st.lists(numbers, min_size=1, max_size=2, unique=True)),
    max_size=30,
)


def build(drawn: list[tuple[int, list[int] | None]], first: int = 0) -> list[Record]:
    return [
        make_record(
            f"{pair}-{place}",
            knowledge=None if texts is None else tuple(f"text {text}" for text in texts),
        )
        for place, (pair, texts) in enumerate(drawn, first)
    ]


def places(split: Split) -> dict[str, str]:
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    return {row.id: part for part, part_rows in parts.items() for row in part_rows}


@given(rows, st.integers(0, 3))
def test_no_pair_and_no_knowledge_crosses(
    drawn: list[tuple[int, list[int] | None]], seed: int
) -> None:
    records = build(drawn)
    split = split_by_pair(records, HALF, seed)
    found = places(split)
    assert found.keys() == {row.id for row in records}
    for one in records:
        for other in records:
            is_tied = one.pair_id == other.pair_id or set(one.knowledge or ()) & set(
                other.knowledge or ()
            )
            assert not is_tied or found[one.id] == found[other.id]


@given(rows, rows)
def test_rows_that_tie_nothing_together_move_nothing(
    drawn: list[tuple[int, list[int] | None]], added: list[tuple[int, list[int] | None]]
) -> None:
    before = places(split_by_pair(build(drawn), HALF, 1))
    # Other pairs, other texts.
    others = [
        (pair + 10, None if texts is None else [text + 10 for text in texts])
        for pair, texts in added
    ]
    after = places(split_by_pair([*build(others, 100), *build(drawn)], HALF, 1))
    assert before.items() <= after.items()


@given(st.integers(0, 50), st.integers(51, 99))
def test_a_new_pair_about_a_known_text_joins_it_without_moving_it(old: int, new: int) -> None:
    one = make_record(f"{old}-0", knowledge="A text.")
    other = make_record(f"{new}-0", knowledge="A text.")
    before = places(split_by_pair([one], HALF, 1))
    after = places(split_by_pair([other, one], HALF, 1))
    assert after == {one.id: before[one.id], other.id: before[one.id]}


@given(rows)
def test_the_order_of_the_rows_does_not_matter(drawn: list[tuple[int, list[int] | None]]) -> None:
    records = build(drawn)
    one = places(split_by_pair(records, HALF, 1))
    assert one == places(split_by_pair(records[::-1], HALF, 1))


def test_the_parts_have_about_the_size_asked_for() -> None:
    records = [make_record(f"{number}-0", knowledge=None) for number in range(4000)]
    split = split_by_pair(records, Fractions(validation=0.05, test=0.2), 1)
    # Four standard deviations are 55 and 101 rows.
    assert abs(len(split.validation) - 200) < 55
    assert abs(len(split.test) - 800) < 101


def test_another_seed_splits_otherwise() -> None:
    records = [make_record(f"{number}-0", knowledge=None) for number in range(100)]
    assert places(split_by_pair(records, HALF, 1)) != places(split_by_pair(records, HALF, 2))


def test_one_question_in_two_languages_stays_together() -> None:
    english = [make_record(f"{n}-0", knowledge=None, set_name="en") for n in range(50)]
    spanish = [make_record(f"{n}-1", knowledge=None, set_name="es") for n in range(50)]
    found = places(split_by_pair([*english, *spanish], HALF, 1))
    assert all(found[f"{n}-0"] == found[f"{n}-1"] for n in range(50))


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (make_record("a-0", knowledge="One."), make_record("a-1", knowledge="Two.")),
        (make_record("a-0", knowledge="One."), make_record("b-0", knowledge=("Two.", "One."))),
    ],
    ids=["pair", "knowledge"],
)
def test_parts_that_share_a_pair_or_a_text_are_refused(train: Record, test: Record) -> None:
    with pytest.raises(DataError, match=r"of pools is in test, and 'a' .* in train: .*Delete"):
        check_disjoint(Split((train,), (), (test,)))


SHARED = "The Lind Pool was built in 1925 by Ada Berg."


def test_training_rows_that_share_a_sentence_with_a_held_out_text_are_left_out() -> None:
    train = (
        make_record("a-0", knowledge=f"{SHARED} It leaks."),
        make_record("a-1", knowledge="Something else."),
        make_record("b-0", knowledge="It leaks. Nothing else is shared here."),
    )
    test = (make_record("c-0", knowledge=f"It leaks. {SHARED}"),)
    split = leave_out_shared(Split(train, (), test))
    # The whole pair goes; a short sentence in common is no reason.
    assert [row.id for row in split.train] == ["b-0"]
    assert split.test == test


def test_a_sentence_of_many_pairs_is_no_reason_to_leave_rows_out() -> None:
    train = tuple(make_record(f"{n}-0", knowledge=f"{SHARED} Text {n}.") for n in range(11))
    test = (make_record("t-0", knowledge=SHARED),)
    assert leave_out_shared(Split(train, (), test)).train == train
    assert leave_out_shared(Split(train[:9], (), test)).train == ()
