"""Metrics over outcome counts; the numbers are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.labels import Label
from evaluation.metrics import Confusion, confuse, count_verdicts
from evaluation.prediction import Prediction

H, C = Label.HALLUCINATION, Label.CORRECT

labels = st.sampled_from(list(Label))
outcomes = st.lists(st.tuples(labels, st.none() | labels), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("counts", "precision", "recall", "f1", "balanced", "accuracy"),
    [
        # F1 = 2 * 3 / (2 * 3 + 1 + 2); balanced = (3/5 + 4/5) / 2.
        pytest.param(Confusion(3, 1, 4, 2), 3 / 4, 3 / 5, 2 / 3, 0.7, 0.7, id="mixed"),
        pytest.param(Confusion(5, 0, 5, 0), 1, 1, 1, 1, 1, id="perfect"),
        pytest.param(Confusion(0, 5, 0, 5), 0, 0, 0, 0, 0, id="all-wrong"),
        # Always "hallucination" on balanced data: precision 1/2, so F1 2/3.
        pytest.param(Confusion(5, 5, 0, 0), 0.5, 1, 2 / 3, 0.5, 0.5, id="always"),
        pytest.param(Confusion(0, 0, 5, 5), 0, 0, 0, 0.5, 0.5, id="never"),
        # One class alone: its recall is the balanced accuracy.
        pytest.param(Confusion(3, 0, 0, 1), 1, 0.75, 6 / 7, 0.75, 0.75, id="only-hallucinations"),
        pytest.param(Confusion(0, 1, 3, 0), 0, 0, 0, 0.75, 0.75, id="only-correct"),
        pytest.param(Confusion(0, 0, 0, 0), 0, 0, 0, 0, 0, id="nothing"),
    ],
)
def test_metrics(
    counts: Confusion, precision: float, recall: float, f1: float, balanced: float, accuracy: float
) -> None:
    assert counts.precision == pytest.approx(precision)
    assert counts.recall == pytest.approx(recall)
    assert counts.f1 == pytest.approx(f1)
    assert counts.balanced_accuracy == pytest.approx(balanced)
    assert counts.accuracy == pytest.approx(accuracy)


def test_an_unreadable_reply_is_wrong_for_the_class_that_it_has() -> None:
    golds = [H, H, H, H, C, C, C, C]
    verdicts = [H, H, C, None, C, C, H, None]
    counts = count_verdicts(golds, verdicts)
    assert counts == Confusion(tp=2, fp=2, tn=2, fn=2, unreadable=2, unreadable_correct=1)
    assert counts.unreadable_rate == 0.25
    # Of the six that were read, three were called hallucinations.
    assert counts.predicted_hallucination_share == 0.5
    assert counts.f1 == 0.5
    assert counts.balanced_accuracy == 0.5


def test_silence_on_the_correct_class_does_not_give_a_perfect_f1() -> None:
    counts = count_verdicts([H, H, C, C], [H, H, None, None])
    assert counts.recall == 1
    assert counts.precision == 0.5
    assert counts.balanced_accuracy == 0.5
    assert counts.predicted_hallucination_share == 1


def test_nothing_readable_gives_zeros() -> None:
    counts = count_verdicts([H, C], [None, None])
    assert counts.unreadable_rate == 1
    assert counts.predicted_hallucination_share == 0
    assert counts.f1 == 0
    assert counts.balanced_accuracy == 0


def test_predictions_are_counted(predict: Callable[..., Prediction]) -> None:
    rows = [predict("1", H, H), predict("2", C, H), predict("3", C, C), predict("4", H, None)]
    assert confuse(rows) == Confusion(1, 1, 1, 1, 1, 0)


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param((-1, 0, 0, 0, 0, 0), id="negative"),
        pytest.param((0, 0, 3, 0, 1, 0), id="unread-hallucination-not-in-fn"),
        pytest.param((0, 0, 3, 1, 1, 1), id="unread-correct-not-in-fp"),
        pytest.param((0, 2, 0, 0, 1, 2), id="more-of-one-class-than-in-all"),
    ],
)
def test_counts_that_contradict_each_other_are_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="counts"):
        Confusion(*counts)


def test_golds_and_verdicts_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="zip"):
        count_verdicts([H, C], [H])


@settings(deadline=None, database=None)
@given(outcomes, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    rows: list[tuple[Label, Label | None]], random: object
) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert count_verdicts(*zip(*shuffled, strict=True)) == count_verdicts(*zip(*rows, strict=True))


@settings(deadline=None, database=None)
@given(outcomes)
def test_more_right_negatives_do_not_move_f1(rows: list[tuple[Label, Label | None]]) -> None:
    golds, verdicts = zip(*rows, strict=True)
    before = count_verdicts(golds, verdicts)
    after = count_verdicts([*golds, C, C], [*verdicts, C, C])
    assert after.f1 == before.f1
    assert after.precision == before.precision


@settings(deadline=None, database=None)
@given(outcomes)
def test_f1_is_the_harmonic_mean_and_lies_between_precision_and_recall(
    rows: list[tuple[Label, Label | None]],
) -> None:
    counts = count_verdicts(*zip(*rows, strict=True))
    low, high = sorted((counts.precision, counts.recall))
    assert low - 1e-12 <= counts.f1 <= high + 1e-12
    if low > 0:
        assert 2 / counts.f1 == pytest.approx(1 / low + 1 / high)


@settings(deadline=None, database=None)
@given(outcomes)
def test_reading_a_reply_wrongly_is_as_bad_as_not_reading_it(
    rows: list[tuple[Label, Label | None]],
) -> None:
    golds, verdicts = zip(*rows, strict=True)
    other = {H: C, C: H}
    filled = [other[gold] if v is None else v for gold, v in rows]
    silent, loud = count_verdicts(golds, verdicts), count_verdicts(golds, filled)
    assert (silent.f1, silent.balanced_accuracy) == (loud.f1, loud.balanced_accuracy)


@settings(deadline=None, database=None)
@given(outcomes)
def test_balanced_accuracy_treats_both_classes_alike(
    rows: list[tuple[Label, Label | None]],
) -> None:
    other = {H: C, C: H, None: None}
    swapped = count_verdicts([other[g] for g, _ in rows], [other[v] for _, v in rows])  # type: ignore[misc]
    counts = count_verdicts(*zip(*rows, strict=True))
    assert swapped.balanced_accuracy == pytest.approx(counts.balanced_accuracy)
