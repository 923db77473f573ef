"""Whether a probability means what it says, and which temperature and threshold to serve with.

Everything here is about P(hallucination), the one number that the service reports: 0.8 is
calibrated where 80 % of such responses are hallucinations.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from contract.labels import Label
from evaluation.bootstrap import Sample
from evaluation.errors import CalibrationError
from evaluation.metrics import Confusion, Floats

logger = logging.getLogger(__name__)

NUM_BINS = 10
"""Equal-width bins of P(hallucination)."""

MIN_TEMPERATURE = 0.05
"""Lower bound of a fit: odds to the power of 20 are as sure as odds get."""

MAX_TEMPERATURE = 20.0
"""Upper bound of a fit: it turns log-odds of 10 into a probability of 0.62."""

TARGETS = (0.8, 0.9, 0.95)
"""Precisions and recalls that a threshold is looked up for."""


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The rows whose P(hallucination) is in ``[low, high)``; the last bin holds 1 too.

    Attributes:
        low: Of the bin, in [0, 1].
        high: Of the bin, in [0, 1].
        num_rows: In the bin; at least 1.
        mean_probability: Of the rows, in [0, 1].
        hallucination_share: Of the rows, in [0, 1]; calibrated where it is the mean probability.
    """

    low: float
    high: float
    num_rows: int
    mean_probability: float
    hallucination_share: float


class Goal(StrEnum):
    """What a threshold is chosen for."""

    BALANCED_ACCURACY = "balanced accuracy"
    PRECISION = "precision"
    RECALL = "recall"


@dataclass(frozen=True, slots=True)
class ThresholdRow:
    """A threshold and what it gives on the rows that it was chosen on.

    Attributes:
        goal: What was asked for.
        target: The least that was asked for, in [0, 1]; None for the best there is.
        threshold: A hallucination from this probability on; None where no threshold reaches the
            target. The three figures are None then, too.
        precision: In [0, 1].
        recall: In [0, 1].
        balanced_accuracy: In [0, 1].
    """

    goal: Goal
    target: float | None
    threshold: float | None
    precision: float | None
    recall: float | None
    balanced_accuracy: float | None


def expected_calibration_error(
    probabilities: Sequence[float], labels: Sequence[Label], num_bins: int = NUM_BINS
) -> float:
    """Return the expected calibration error, in [0, 1].

    Binary form of Guo et al. 2017 (arXiv 1706.04599, equation 3): rows are binned by
    P(hallucination) rather than by the probability of the predicted class, and the share of
    hallucinations stands for the accuracy. ECE = sum over bins of |share - mean probability|,
    weighted by the rows in the bin.

    Raises:
        ValueError: There is no row, or not one label a probability.

    Example:
        >>> wrong, right = Label.HALLUCINATION, Label.CORRECT
        >>> golds = [wrong, right, right, right]
        >>> round(expected_calibration_error([0.95, 0.95, 0.15, 0.15], golds), 3)
        0.3

        The bin of 0.95 is 0.45 off, the bin of 0.15 is 0.15 off, with two rows each.
    """
    known = _Judged.of(probabilities, labels)
    return float(_ece(known, num_bins)[0])


def brier_score(probabilities: Sequence[float], labels: Sequence[Label]) -> float:
    """Return the mean squared error of P(hallucination), in [0, 1] (Brier 1950).

    Raises:
        ValueError: There is no row, or not one label a probability.

    Example:
        >>> round(brier_score([0.9, 0.4], [Label.HALLUCINATION, Label.CORRECT]), 3)
        0.085
    """
    return float(_brier(_Judged.of(probabilities, labels))[0])


def auroc(probabilities: Sequence[float], labels: Sequence[Label]) -> float | None:
    """Return the chance that a hallucination has the higher probability; a tie counts half.

    The area under the ROC curve as the Mann-Whitney statistic. None where a class is missing.

    Raises:
        ValueError: There is no row, or not one label a probability.

    Example:
        >>> wrong, right = Label.HALLUCINATION, Label.CORRECT
        >>> auroc([0.9, 0.5, 0.5, 0.1], [wrong, wrong, right, right])
        0.875
    """
    value = float(_auroc(_Judged.of(probabilities, labels))[0])
    return None if np.isnan(value) else value


def reliability_bins(
    probabilities: Sequence[float], labels: Sequence[Label], num_bins: int = NUM_BINS
) -> tuple[ReliabilityBin, ...]:
    """Return the bins that hold a row, from low to high.

    Raises:
        ValueError: There is no row, or not one label a probability.
    """
    known = _Judged.of(probabilities, labels)
    places = _bin_places(known.probabilities, num_bins)
    bins = []
    for place in np.unique(places):
        own = places == place
        bins.append(
            ReliabilityBin(
                low=float(place / num_bins),
                high=float((place + 1) / num_bins),
                num_rows=int(own.sum()),
                mean_probability=float(known.probabilities[own].mean()),
                hallucination_share=float(known.positives[own].mean()),
            )
        )
    return tuple(bins)


def sampled_ece(sample: Sample) -> Floats:
    """Return ``expected_calibration_error`` of each resample; a ``bootstrap.Metric``."""
    return _ece(_Judged.within(sample), NUM_BINS)


def sampled_brier(sample: Sample) -> Floats:
    """Return ``brier_score`` of each resample; a ``bootstrap.Metric``."""
    return _brier(_Judged.within(sample))


def sampled_auroc(sample: Sample) -> Floats:
    """Return ``auroc`` of each resample; a ``bootstrap.Metric``."""
    return _auroc(_Judged.within(sample))


@dataclass(frozen=True, slots=True)
class _Judged:
    """Rows that have a probability: ``[rows]``, ``[rows]`` and weights ``[samples, rows]``."""

    probabilities: Floats
    positives: NDArray[np.bool_]
    weights: Floats

    @classmethod
    def of(cls, probabilities: Sequence[float], labels: Sequence[Label]) -> _Judged:
        if not probabilities or len(probabilities) != len(labels):
            raise ValueError("calibration needs one label a probability, and at least one")
        positives = np.array([label is Label.HALLUCINATION for label in labels])
        return cls(np.array(probabilities, dtype=float), positives, np.ones((1, len(labels))))

    @classmethod
    def within(cls, sample: Sample) -> _Judged:
        known = sample.only(~np.isnan(sample.probabilities))
        return cls(known.probabilities, known.positives, known.weights)


def _divide(part: Floats, whole: Floats) -> Floats:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), np.nan)


def _bin_places(probabilities: Floats, num_bins: int) -> NDArray[np.intp]:
    return np.minimum((probabilities * num_bins).astype(np.intp), num_bins - 1)


def _ece(rows: _Judged, num_bins: int) -> Floats:
    # In each bin the number of rows cancels: n |share - mean| = |sum of (label - probability)|.
    surplus = np.zeros((len(rows.probabilities), num_bins))
    places = _bin_places(rows.probabilities, num_bins)
    surplus[np.arange(len(places)), places] = rows.positives - rows.probabilities
    return _divide(np.abs(rows.weights @ surplus).sum(axis=1), rows.weights.sum(axis=1))


def _brier(rows: _Judged) -> Floats:
    errors = (rows.positives - rows.probabilities) ** 2
    return _divide(rows.weights @ errors, rows.weights.sum(axis=1))


def _auroc(rows: _Judged) -> Floats:
    if not len(rows.probabilities):
        return np.full(len(rows.weights), np.nan)
    order = np.argsort(rows.probabilities, kind="stable")
    ordered, positives = rows.probabilities[order], rows.positives[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    weights = rows.weights[:, order]
    hallucinations = np.add.reduceat(weights * positives, starts, axis=1)
    correct = np.add.reduceat(weights * ~positives, starts, axis=1)
    below = np.cumsum(correct, axis=1) - correct
    won = (hallucinations * (below + correct / 2)).sum(axis=1)
    return _divide(won, hallucinations.sum(axis=1) * correct.sum(axis=1))


def fit_temperature(log_odds: Sequence[float], labels: Sequence[Label]) -> float:
    """Return the temperature with the least negative log-likelihood (Guo et al. 2017).

    Args:
        log_odds: ln P(hallucination) - ln P(correct) of each row, finite, at temperature 1.
        labels: The gold classes. Rows that training has seen make it too sure.

    Returns:
        In [``MIN_TEMPERATURE``, ``MAX_TEMPERATURE``]; above 1 where the model is too sure.

    Raises:
        CalibrationError: A class is missing, or a number is not finite.
        ValueError: There is not one label a number.

    Example:
        >>> wrong, right = Label.HALLUCINATION, Label.CORRECT
        >>> sure = [2.1972] * 4 + [-2.1972] * 4  # Says 0.9 and 0.1; right in 3 of 4: odds 3, not 9.
        >>> round(fit_temperature(sure, [wrong] * 3 + [right] + [right] * 3 + [wrong]), 3)
        2.0
    """
    from scipy.optimize import minimize_scalar

    odds = np.asarray(log_odds, dtype=np.float64)
    if len(odds) != len(labels):
        raise ValueError("a temperature is fitted on one label a number")
    if len(set(labels)) < len(Label):
        raise CalibrationError("a temperature is fitted on rows of both classes: give it more rows")
    if not np.isfinite(odds).all():
        raise CalibrationError(
            "log-odds must be finite: leave out the rows in which a label has probability 0"
        )
    margins = np.where([label is Label.HALLUCINATION for label in labels], odds, -odds)

    def loss(log_temperature: float) -> float:
        return float(np.logaddexp(0.0, -margins / np.exp(log_temperature)).mean())

    bounds = (float(np.log(MIN_TEMPERATURE)), float(np.log(MAX_TEMPERATURE)))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    temperature = float(np.exp(found.x))
    if not MIN_TEMPERATURE * 1.01 < temperature < MAX_TEMPERATURE / 1.01:
        logger.warning(
            "The temperature ends at its bound (%.3g): the rows are all right, or tell nothing",
            temperature,
        )
    return temperature


def threshold_table(
    probabilities: Sequence[float], labels: Sequence[Label]
) -> tuple[ThresholdRow, ...]:
    """Return the thresholds to choose from.

    First the best balanced accuracy (of equals the nearest to 0.5). Then for each precision of
    ``TARGETS`` the lowest threshold that reaches it, which flags the most; and for each recall the
    highest, which flags the least. Thresholds lie halfway between two probabilities that occur, so
    that rounding cannot move a row across.

    Raises:
        CalibrationError: A class is missing.
        ValueError: There is not one label a probability.

    Example:
        >>> wrong, right = Label.HALLUCINATION, Label.CORRECT
        >>> rows = threshold_table([0.9, 0.7, 0.5, 0.3], [wrong, right, wrong, right])
        >>> [(row.target, row.threshold) for row in rows if row.goal is Goal.RECALL]
        [(0.8, 0.4), (0.9, 0.4), (0.95, 0.4)]
    """
    if len(probabilities) != len(labels):
        raise ValueError("thresholds are chosen on one label a probability")
    if len(set(labels)) < len(Label):
        raise CalibrationError("thresholds are chosen on rows of both classes: give them more rows")
    options = _threshold_options(probabilities, labels)
    best = max(options, key=lambda o: (o.counts.balanced_accuracy, -abs(o.threshold - 0.5)))
    table = [best.row(Goal.BALANCED_ACCURACY, None)]
    for target in TARGETS:
        precise = [option for option in options if option.counts.precision >= target]
        lowest = min(precise, key=lambda option: option.threshold, default=None)
        table.append(_row(lowest, Goal.PRECISION, target))
    for target in TARGETS:
        complete = [option for option in options if option.counts.recall >= target]
        highest = max(complete, key=lambda option: option.threshold, default=None)
        table.append(_row(highest, Goal.RECALL, target))
    return tuple(table)


@dataclass(frozen=True, slots=True)
class _Option:
    threshold: float
    counts: Confusion

    def row(self, goal: Goal, target: float | None) -> ThresholdRow:
        counts = self.counts
        return ThresholdRow(
            goal, target, self.threshold, counts.precision, counts.recall, counts.balanced_accuracy
        )


def _row(option: _Option | None, goal: Goal, target: float) -> ThresholdRow:
    return option.row(goal, target) if option else ThresholdRow(goal, target, *[None] * 4)


def _threshold_options(probabilities: Sequence[float], labels: Sequence[Label]) -> list[_Option]:
    """Return one option for each probability that occurs: it is flagged, and all above."""
    positives = np.array([label is Label.HALLUCINATION for label in labels])
    values, places = np.unique(np.asarray(probabilities, dtype=float), return_inverse=True)
    tp = np.cumsum(np.bincount(places[positives], minlength=len(values))[::-1])[::-1]
    fp = np.cumsum(np.bincount(places[~positives], minlength=len(values))[::-1])[::-1]
    below = np.r_[0.0, values[:-1]]
    middles = (values + below) / 2
    # Two neighbouring floats have no number between them.
    thresholds = np.where(middles > below, middles, values)
    return [
        _Option(
            float(threshold),
            Confusion(int(right), int(wrong), int(fp[0] - wrong), int(tp[0] - right)),
        )
        for threshold, right, wrong in zip(thresholds, tp, fp, strict=True)
    ]
