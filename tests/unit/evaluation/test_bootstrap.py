"""Intervals: reproducible, wide where there is little, and drawn by pair."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from contract.labels import Label
from evaluation import metrics
from evaluation.bootstrap import Estimate, Interval, Sample, average_over_sets, bootstrap
from evaluation.calibration import sampled_auroc, sampled_brier, sampled_ece
from evaluation.prediction import Prediction
from evaluation.slices import METRICS

H, C = Label.HALLUCINATION, Label.CORRECT
Make = Callable[..., Prediction]


def made(predict: Make, num_pairs: int, error_rate: float = 0.2, seed: int = 5) -> list[Prediction]:
    """Pairs of one hallucination and one correct response; some verdicts are wrong."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(num_pairs):
        for gold in (H, C):
            is_right = random.random() >= error_rate
            verdict = gold if is_right else (C if gold is H else H)
            probability = random.uniform(0.5, 1) if verdict is H else random.uniform(0, 0.5)
            rows.append(
                predict(
                    f"{number}-{gold}", gold, verdict, float(probability), pair_id=str(number),
                    set_name=f"set-{number % 2}",
                )
            )  # fmt: skip
    return rows


def width(estimate: Estimate | None) -> float:
    assert estimate is not None
    return estimate.interval.high - estimate.interval.low


def test_the_value_is_the_metric_on_the_rows(predict: Make) -> None:
    rows = [predict(str(i), H, H) for i in range(3)] + [predict("3", H, C), predict("4", C, C)]
    found = bootstrap(rows, {"recall": metrics.recall, "accuracy": metrics.accuracy}, 50)
    recall, accuracy = found["recall"], found["accuracy"]
    assert recall is not None
    assert accuracy is not None
    assert recall.value == 0.75
    assert accuracy.value == 0.8


def test_the_interval_of_a_share_is_the_binomial_one(predict: Make) -> None:
    # 400 rows of their own, 100 wrong: standard error sqrt(0.25 * 0.75 / 400) = 0.02165.
    rows = [predict(str(i), C, H if i < 100 else C) for i in range(400)]
    found = bootstrap(rows, {"accuracy": metrics.accuracy}, 4000)["accuracy"]
    assert found is not None
    assert found.interval.low == pytest.approx(0.75 - 1.96 * 0.02165, abs=0.004)
    assert found.interval.high == pytest.approx(0.75 + 1.96 * 0.02165, abs=0.004)


def test_pairs_are_drawn_whole(predict: Make) -> None:
    """Ten copies of each row say nothing new: the interval is that of the pairs."""
    pairs = [predict(str(i), C, H if i < 25 else C) for i in range(100)]
    copies = [
        predict(f"{i}-{copy}", C, H if i < 25 else C, pair_id=str(i))
        for i in range(100)
        for copy in range(10)
    ]
    metric = {"accuracy": metrics.accuracy}
    assert bootstrap(copies, metric, 200) == bootstrap(pairs, metric, 200)
    independent = [predict(row.id, row.gold, row.verdict) for row in copies]
    assert width(bootstrap(independent, metric, 200)["accuracy"]) < 0.5 * width(
        bootstrap(copies, metric, 200)["accuracy"]
    )


def test_sets_keep_their_size(predict: Make) -> None:
    """All right in one set and all wrong in another: no draw can change the accuracy."""
    rows = [predict(str(i), C, C, set_name="a") for i in range(10)]
    rows += [predict(str(i), C, H, set_name="b") for i in range(30)]
    found = bootstrap(rows, {"accuracy": metrics.accuracy}, 100)["accuracy"]
    assert found == Estimate(0.25, Interval(0.25, 0.25))


def test_equal_pair_ids_of_two_sets_are_two_pairs(predict: Make) -> None:
    rows = [predict("1", C, C, set_name="a"), predict("1", C, H, set_name="b")]
    found = bootstrap(rows, {"accuracy": metrics.accuracy}, 20)["accuracy"]
    assert found == Estimate(0.5, Interval(0.5, 0.5))


def test_the_seed_decides(predict: Make) -> None:
    rows = made(predict, 40)
    first = bootstrap(rows, METRICS, 200, seed=7)
    assert bootstrap(rows, METRICS, 200, seed=7) == first
    assert bootstrap(rows, METRICS, 200, seed=8) != first


def test_the_order_of_the_rows_does_not_matter(predict: Make) -> None:
    rows = made(predict, 40)
    turned = bootstrap(rows[::-1], {"f1": metrics.f1}, 200)
    assert turned == bootstrap(rows, {"f1": metrics.f1}, 200)


def test_more_rows_give_a_narrower_interval_around_the_value(predict: Make) -> None:
    few, many = (bootstrap(made(predict, n), METRICS, 300) for n in (50, 800))
    for name in ("precision", "recall", "f1", "balanced_accuracy", "accuracy", "auroc", "brier"):
        estimate = many[name]
        assert estimate is not None
        assert estimate.interval.low < estimate.value < estimate.interval.high
        assert width(estimate) < 0.5 * width(few[name])


@pytest.mark.parametrize("seed", range(5))
def test_the_interval_of_the_calibration_error_holds_its_value(predict: Make, seed: int) -> None:
    """Its resamples are nearly all above it: noise adds to each bin."""
    found = bootstrap(made(predict, 15, seed=seed), {"ece": sampled_ece}, 100)["ece"]
    assert found is not None
    assert found.interval.low <= found.value <= found.interval.high


def test_a_metric_that_is_not_defined_is_none(predict: Make) -> None:
    silent = [predict("1", C, C), predict("2", H, H)]
    names = {"ece": sampled_ece, "brier": sampled_brier, "auroc": sampled_auroc}
    assert bootstrap(silent, names, 10) == {"ece": None, "brier": None, "auroc": None}
    one_class = [predict("1", C, C, 0.2), predict("2", C, C, 0.4)]
    found = bootstrap(one_class, names, 10)
    assert found["auroc"] is None
    assert found["brier"] is not None
    assert found["brier"].value == pytest.approx(0.1)


def test_rows_without_a_probability_do_not_count_for_calibration(predict: Make) -> None:
    rows = [predict("1", H, H, 0.9), predict("2", C, None), predict("3", C, C, 0.3)]
    found = bootstrap(rows, {"brier": sampled_brier}, 10)["brier"]
    assert found is not None
    # (0.1 squared + 0.3 squared) / 2
    assert found.value == pytest.approx(0.05)


def test_the_macro_average_weighs_sets_alike(predict: Make) -> None:
    rows = [predict(str(i), C, C, set_name="large") for i in range(9)]
    rows += [predict("1", C, H, set_name="small")]
    found = bootstrap(rows, {"accuracy": average_over_sets(metrics.accuracy)}, 20)["accuracy"]
    assert found == Estimate(0.5, Interval(0.5, 0.5))


def test_the_macro_average_leaves_out_sets_where_a_metric_is_not_defined(predict: Make) -> None:
    rows = [predict("1", H, H, 0.9, set_name="a"), predict("2", C, C, 0.2, set_name="a")]
    rows += [predict("1", C, C, 0.2, set_name="b")]
    found = bootstrap(rows, {"auroc": average_over_sets(sampled_auroc)}, 20)["auroc"]
    assert found is not None
    assert found.value == 1
    only_b = bootstrap(rows[2:], {"auroc": average_over_sets(sampled_auroc)}, 20)
    assert only_b == {"auroc": None}


def test_a_weighted_row_counts_as_often_as_it_was_drawn() -> None:
    # Two resamples of three rows: a hallucination found, one missed, a correct one not read.
    sample = Sample(
        set_names=np.array(["s", "s", "s"]),
        positives=np.array([True, True, False]),
        right=np.array([True, False, False]),
        unread=np.array([False, False, True]),
        probabilities=np.array([0.9, 0.2, np.nan]),
        weights=np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]]),
    )
    assert metrics.recall(sample).tolist() == pytest.approx([2 / 3, 0])
    assert metrics.unreadable_rate(sample).tolist() == pytest.approx([0, 2 / 3])
    assert metrics.balanced_accuracy(sample).tolist() == pytest.approx([2 / 3, 0])
    # (2 * 0.01 + 0.64) / 3, and 0.64.
    assert sampled_brier(sample).tolist() == pytest.approx([0.22, 0.64])


@pytest.mark.parametrize("samples", [0, -1])
def test_it_needs_a_resample(predict: Make, samples: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        bootstrap([predict("1", C, C)], {"f1": metrics.f1}, samples)


def test_it_needs_a_row() -> None:
    with pytest.raises(ValueError, match="at least"):
        bootstrap([], {"f1": metrics.f1})


def test_a_thousand_resamples_of_five_thousand_rows_take_seconds(predict: Make) -> None:
    rows = made(predict, 2500)
    start = time.process_time()
    bootstrap(rows, METRICS, 1000)
    assert time.process_time() - start < 10  # 1.3 s on an idle core
