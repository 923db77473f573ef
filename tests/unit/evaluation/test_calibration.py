"""Calibration, thresholds and temperature; the numbers are worked out by hand."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.calibration import Calibration, LabelLogprobs, classify
from contract.labels import Label
from evaluation.calibration import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    Goal,
    ReliabilityBin,
    ThresholdRow,
    auroc,
    brier_score,
    expected_calibration_error,
    fit_temperature,
    reliability_bins,
    threshold_table,
)
from evaluation.errors import CalibrationError

H, C = Label.HALLUCINATION, Label.CORRECT
LN2, LN3, LN9 = 0.6931471805599453, 1.0986122886681098, 2.1972245773362196

judged = st.lists(
    st.tuples(st.floats(0, 1, width=16), st.sampled_from(list(Label))), min_size=1, max_size=80
)


@pytest.mark.parametrize(
    ("probabilities", "labels", "error"),
    [
        pytest.param([0.95, 0.95, 0.15, 0.15], [H, C, C, C], 0.3, id="two-bins"),
        pytest.param([1.0, 0.0], [H, C], 0.0, id="certain-and-right"),
        pytest.param([1.0, 0.0], [C, H], 1.0, id="certain-and-wrong"),
        # One bin of four: mean 0.55, share 0.5. Errors inside a bin cancel.
        pytest.param([0.52, 0.54, 0.56, 0.58], [H, C, H, C], 0.05, id="one-bin"),
        # Bins of 3 and 1: 3/4 * |2/3 - 0.75| + 1/4 * |0 - 0.25|.
        pytest.param([0.75, 0.75, 0.75, 0.25], [H, H, C, C], 0.125, id="weighted"),
    ],
)
def test_expected_calibration_error(
    probabilities: list[float], labels: list[Label], error: float
) -> None:
    assert expected_calibration_error(probabilities, labels) == pytest.approx(error)


def test_more_bins_keep_errors_from_cancelling() -> None:
    # Ten bins: both rows in [0.6, 0.7), mean 0.64, share 0.5. Fifteen: apart, at 0.62 and 0.68.
    assert expected_calibration_error([0.62, 0.68], [H, C], 10) == pytest.approx(0.15)
    assert expected_calibration_error([0.62, 0.68], [H, C], 15) == pytest.approx(0.53)


def test_reliability_bins() -> None:
    bins = reliability_bins([0.0, 0.3, 0.5, 1.0], [C, H, H, H], num_bins=2)
    assert bins == (
        ReliabilityBin(0.0, 0.5, 2, 0.15, 0.5),
        ReliabilityBin(0.5, 1.0, 2, 0.75, 1.0),
    )


def test_empty_bins_are_left_out() -> None:
    assert [part.low for part in reliability_bins([0.05, 0.95], [C, H])] == [0.0, 0.9]


def test_brier_score() -> None:
    # (0.01 + 0.16 + 0.25) / 3
    assert brier_score([0.9, 0.4, 0.5], [H, C, H]) == pytest.approx(0.14)


@pytest.mark.parametrize(
    ("probabilities", "labels", "area"),
    [
        pytest.param([0.9, 0.8, 0.2, 0.1], [H, H, C, C], 1.0, id="apart"),
        pytest.param([0.1, 0.2, 0.8, 0.9], [H, H, C, C], 0.0, id="reversed"),
        pytest.param([0.5, 0.5, 0.5], [H, C, C], 0.5, id="all-tied"),
        # Of the four pairs, (0.9, 0.6), (0.9, 0.1) and (0.4, 0.1) are in order.
        pytest.param([0.9, 0.4, 0.6, 0.1], [H, H, C, C], 0.75, id="one-swap"),
        pytest.param([0.9, 0.4], [H, H], None, id="one-class"),
    ],
)
def test_auroc(probabilities: list[float], labels: list[Label], area: float | None) -> None:
    assert auroc(probabilities, labels) == area


@settings(deadline=None, database=None)
@given(judged)
def test_measures_agree_with_scikit_learn(rows: list[tuple[float, Label]]) -> None:
    from sklearn.metrics import (  # type: ignore[import-untyped]
        brier_score_loss,
        roc_auc_score,
    )

    probabilities, labels = (list(column) for column in zip(*rows, strict=True))
    truth = [label is H for label in labels]
    expected = brier_score_loss(truth, probabilities, pos_label=True)
    assert brier_score(probabilities, labels) == pytest.approx(expected)
    if len(set(truth)) == 2:
        assert auroc(probabilities, labels) == pytest.approx(roc_auc_score(truth, probabilities))


@settings(deadline=None, database=None)
@given(judged)
def test_the_error_is_at_most_the_mean_distance(rows: list[tuple[float, Label]]) -> None:
    probabilities, labels = (list(column) for column in zip(*rows, strict=True))
    distance = sum(abs((g is H) - p) for p, g in rows) / len(rows)
    assert expected_calibration_error(probabilities, labels) <= distance + 1e-9


@pytest.mark.parametrize("measure", [expected_calibration_error, brier_score, auroc])
@pytest.mark.parametrize(("probabilities", "labels"), [([], []), ([0.5], [H, C])])
def test_measures_need_rows_that_fit(
    measure: object, probabilities: list[float], labels: list[Label]
) -> None:
    assert callable(measure)
    with pytest.raises(ValueError, match="one label a probability"):
        measure(probabilities, labels)


@pytest.mark.parametrize(
    ("log_odds", "num_right", "temperature"),
    [
        # Says 0.9 (odds 9), is right in 3 of 4 (odds 3 = 9 to the power of 1/2).
        pytest.param(LN9, 3, 2.0, id="too-sure"),
        # Says 2/3 (odds 2), is right in 8 of 9 (odds 8 = 2 to the power of 3).
        pytest.param(LN2, 8, 1 / 3, id="too-careful"),
        pytest.param(LN3, 3, 1.0, id="calibrated"),
    ],
)
def test_temperature(log_odds: float, num_right: int, temperature: float) -> None:
    num_rows = {3: 4, 8: 9}[num_right]
    labels = [H] * num_right + [C] * (num_rows - num_right)
    labels += [C] * num_right + [H] * (num_rows - num_right)
    odds = [log_odds] * num_rows + [-log_odds] * num_rows
    assert fit_temperature(odds, labels) == pytest.approx(temperature, rel=1e-3)


def test_a_fitted_temperature_calibrates_what_the_contract_serves() -> None:
    labels = [H] * 3 + [C]
    labels += [C] * 3 + [H]
    temperature = fit_temperature([LN9] * 4 + [-LN9] * 4, labels)
    served = Calibration(temperature).probability(LabelLogprobs(math.log(0.9), math.log(0.1)))
    assert served == pytest.approx(0.75, abs=1e-3)


@pytest.mark.parametrize(
    ("labels", "bound"),
    [
        pytest.param([H, H, C, C], MIN_TEMPERATURE, id="all-right"),
        pytest.param([C, C, H, H], MAX_TEMPERATURE, id="all-wrong"),
    ],
)
def test_a_temperature_stays_in_its_bounds_and_says_so(
    labels: list[Label], bound: float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert fit_temperature([1.0, 2.0, -1.0, -2.0], labels) == pytest.approx(bound, rel=0.01)
    assert "ends at its bound" in caplog.text


def test_huge_log_odds_overflow_nothing() -> None:
    assert fit_temperature([9999.0, -9999.0, 9999.0], [H, C, C]) == pytest.approx(20, rel=0.01)


@pytest.mark.parametrize(
    ("log_odds", "labels", "message"),
    [
        pytest.param([1.0, 2.0], [H, H], "both classes", id="one-class"),
        pytest.param([], [], "both classes", id="no-row"),
        pytest.param([1.0, math.inf], [H, C], "finite", id="infinite"),
        pytest.param([1.0, math.nan], [H, C], "finite", id="nan"),
    ],
)
def test_a_temperature_that_cannot_be_fitted(
    log_odds: list[float], labels: list[Label], message: str
) -> None:
    with pytest.raises(CalibrationError, match=message):
        fit_temperature(log_odds, labels)


def test_threshold_table() -> None:
    # From the top: H C H H C. Precision 1, 1/2, 2/3, 3/4, 3/5; recall 1/3, 1/3, 2/3, 1, 1.
    table = threshold_table([0.875, 0.75, 0.625, 0.375, 0.25], [H, C, H, H, C])
    best, *rest = table
    assert best == ThresholdRow(Goal.BALANCED_ACCURACY, None, 0.3125, 0.75, 1.0, 0.75)
    assert [(row.goal, row.target) for row in rest] == [
        (Goal.PRECISION, 0.8), (Goal.PRECISION, 0.9), (Goal.PRECISION, 0.95),
        (Goal.RECALL, 0.8), (Goal.RECALL, 0.9), (Goal.RECALL, 0.95),
    ]  # fmt: skip
    assert [row.threshold for row in rest] == [0.8125] * 3 + [0.3125] * 3
    assert rest[0].precision == 1
    assert rest[0].recall == pytest.approx(1 / 3)
    assert rest[0].balanced_accuracy == pytest.approx((1 / 3 + 1) / 2)


def test_a_precision_takes_the_lowest_threshold_that_reaches_it() -> None:
    # Precision from the top: 0, 1/2, 2/3, 3/4, 4/5.
    table = threshold_table([0.9, 0.8, 0.7, 0.6, 0.5], [C, H, H, H, H])
    precise = next(row for row in table if row.goal is Goal.PRECISION and row.target == 0.8)
    assert precise.threshold == pytest.approx(0.25)
    assert precise.recall == 1


def test_a_target_out_of_reach_has_no_threshold() -> None:
    table = threshold_table([0.9, 0.8], [C, H])
    unreached = ThresholdRow(Goal.PRECISION, 0.8, None, None, None, None)
    assert unreached in table


def test_of_equal_thresholds_the_nearest_to_one_half_is_best() -> None:
    # Flagging 0.85 alone (from 0.675 on) and all but 0.1 (from 0.275 on) both give 0.75.
    best = threshold_table([0.85, 0.5, 0.45, 0.1], [H, C, H, C])[0]
    assert best.balanced_accuracy == 0.75
    assert best.threshold == pytest.approx(0.675)
    best = threshold_table([0.95, 0.5, 0.45, 0.3], [H, C, H, C])[0]
    assert best.threshold == pytest.approx(0.375)


def test_neighbouring_floats_are_told_apart() -> None:
    high = 0.5
    low = float(np.nextafter(high, 0))
    best = threshold_table([high, low], [H, C])[0]
    assert best.balanced_accuracy == 1
    assert best.threshold is not None
    assert [classify(p, best.threshold) for p in (high, low)] == [H, C]


@settings(deadline=None, database=None)
@given(judged)
def test_every_threshold_gives_the_figures_beside_it(rows: list[tuple[float, Label]]) -> None:
    if len({label for _, label in rows}) < 2:
        return
    probabilities, labels = (list(column) for column in zip(*rows, strict=True))
    for row in threshold_table(probabilities, labels):
        if row.threshold is None:
            continue
        assert row.precision is not None
        assert row.recall is not None
        flagged = [label for p, label in rows if classify(p, row.threshold) is H]
        assert row.precision == pytest.approx(flagged.count(H) / len(flagged))
        assert row.recall == pytest.approx(flagged.count(H) / labels.count(H))
        if row.goal is Goal.PRECISION:
            assert row.precision >= (row.target or 0)
        if row.goal is Goal.RECALL:
            assert row.recall >= (row.target or 0)


def test_thresholds_need_both_classes() -> None:
    with pytest.raises(CalibrationError, match="both classes"):
        threshold_table([0.4, 0.6], [H, H])
    with pytest.raises(ValueError, match="one label a probability"):
        threshold_table([0.4], [H, C])
