"""Intervals by resampling pairs: how far a figure would move on other examples of the same sets.

Responses to one question are not independent, so whole pairs are drawn, with replacement, inside
each set (the sets are what they are: their sizes in pairs do not vary). The interval is the 2.5 to
97.5 percentile of the metric over the resamples (Efron and Tibshirani 1993, chapter 13). Resamples
are kept as weights, one a row: every metric is computed on all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contract.labels import Label
from evaluation.metrics import Floats
from evaluation.prediction import Prediction

_PERCENTILES = (2.5, 97.5)
# Weights in memory at once: 4 million of 8 bytes, whatever the number of rows.
_MAX_WEIGHTS = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """Where 95 % of the resamples fall; it always holds the value itself.

    Attributes:
        low: At most ``high``.
        high: At least ``low``.
    """

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric and how sure it is.

    Attributes:
        value: On the rows themselves.
        interval: Over the resamples.
    """

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Sample:
    """Resamples of the same rows; also ``metrics.Counts``, with one number for each resample.

    Attributes:
        set_names: ``[rows]``.
        positives: ``[rows]``, where the gold class is hallucination.
        right: ``[rows]``, where the verdict is the gold class.
        unread: ``[rows]``, where the reply was unreadable.
        probabilities: ``[rows]``, P(hallucination); NaN where there is none.
        weights: ``[samples, rows]``, how often each row was drawn.
    """

    set_names: NDArray[np.str_]
    positives: NDArray[np.bool_]
    right: NDArray[np.bool_]
    unread: NDArray[np.bool_]
    probabilities: Floats
    weights: Floats

    def count(self, mask: NDArray[np.bool_]) -> Floats:
        """Return how many drawn rows are in the mask ``[rows]``, as ``[samples]``."""
        return self.weights @ mask.astype(np.float64)

    def only(self, mask: NDArray[np.bool_]) -> Sample:
        """Return the same resamples of the rows in the mask ``[rows]`` alone."""
        return Sample(
            self.set_names[mask],
            self.positives[mask],
            self.right[mask],
            self.unread[mask],
            self.probabilities[mask],
            self.weights[:, mask],
        )

    @property
    def tp(self) -> Floats:
        """``[samples]``; see ``metrics.Counts``."""
        return self.count(self.positives & self.right)

    @property
    def fp(self) -> Floats:
        """``[samples]``; see ``metrics.Counts``."""
        return self.count(~self.positives & ~self.right)

    @property
    def tn(self) -> Floats:
        """``[samples]``; see ``metrics.Counts``."""
        return self.count(~self.positives & self.right)

    @property
    def fn(self) -> Floats:
        """``[samples]``; see ``metrics.Counts``."""
        return self.count(self.positives & ~self.right)

    @property
    def unreadable(self) -> Floats:
        """``[samples]``; see ``metrics.Counts``."""
        return self.count(self.unread)

    @property
    def unreadable_correct(self) -> Floats:
        """``[samples]``; see ``metrics.Counts``."""
        return self.count(self.unread & ~self.positives)


Metric = Callable[[Sample], Floats]
"""From resamples to ``[samples]`` values, NaN where a value is not defined.

Every function of ``metrics`` over ``Counts`` is one, and so are the ``sampled_`` ones of
``calibration``.
"""


def average_over_sets(metric: Metric) -> Metric:
    """Return the metric's mean over the sets, each with the same weight whatever its size.

    Sets for which the metric is not defined do not count.
    """

    def averaged(sample: Sample) -> Floats:
        names = np.unique(sample.set_names)
        values = np.stack([metric(sample.only(sample.set_names == name)) for name in names])
        known = ~np.isnan(values)
        total = np.where(known, values, 0.0).sum(axis=0)
        return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)

    return averaged


def bootstrap(
    predictions: Sequence[Prediction],
    metrics: Mapping[str, Metric],
    samples: int = 1000,
    seed: int = 1,
) -> dict[str, Estimate | None]:
    """Return each metric with its 95 % interval; None where it is not defined.

    The same seed gives the same resamples, whatever the order of the rows and the metrics.
    Where all resamples of a metric fall to one side (calibration error: noise in a bin only adds
    to it), its interval is widened to hold the value.

    Args:
        predictions: At least one.
        metrics: Name -> function.
        samples: Resamples, at least 1.
        seed: Of the draws.

    Raises:
        ValueError: There is no prediction, or no resample is asked for.

    Example:
        >>> from evaluation.metrics import accuracy
        >>> rows = [Prediction(str(i), str(i), "s", Label.CORRECT, Label.CORRECT, None, None, "r")
        ...         for i in range(4)]
        >>> bootstrap(rows, {"accuracy": accuracy})
        {'accuracy': Estimate(value=1.0, interval=Interval(low=1.0, high=1.0))}
    """
    if not predictions or samples < 1:
        raise ValueError("a bootstrap needs a prediction and a resample, at least")
    # Draws go to the pairs in order, so the rows stand in an order of their own.
    rows = sorted(predictions, key=lambda row: (row.set_name, row.pair_id, row.id))
    whole = _tabulate(rows)
    values: dict[str, list[Floats]] = {name: [] for name in metrics}
    for weights in _draw(rows, samples, seed):
        sample = Sample(
            whole.set_names,
            whole.positives,
            whole.right,
            whole.unread,
            whole.probabilities,
            weights,
        )
        for name, metric in metrics.items():
            values[name].append(metric(sample))
    return {
        name: _estimate(float(metric(whole)[0]), np.concatenate(values[name]))
        for name, metric in metrics.items()
    }


def _tabulate(rows: Sequence[Prediction]) -> Sample:
    """Return the rows as arrays, each drawn once."""
    return Sample(
        set_names=np.array([row.set_name for row in rows]),
        positives=np.array([row.gold is Label.HALLUCINATION for row in rows]),
        right=np.array([row.verdict is row.gold for row in rows]),
        unread=np.array([row.verdict is None for row in rows]),
        probabilities=np.array(
            [np.nan if row.probability is None else row.probability for row in rows]
        ),
        weights=np.ones((1, len(rows))),
    )


def _draw(rows: Sequence[Prediction], samples: int, seed: int) -> Iterator[Floats]:
    """Yield weights ``[some samples, rows]``, ``samples`` in all."""
    numbers: dict[tuple[str, str], int] = {}
    pair_of_row = np.array(
        [numbers.setdefault((row.set_name, row.pair_id), len(numbers)) for row in rows]
    )
    set_of_pair = np.array([set_name for set_name, _ in numbers])
    generator = np.random.default_rng(seed)
    step = max(1, _MAX_WEIGHTS // len(rows))
    for start in range(0, samples, step):
        size = min(step, samples - start)
        drawn = np.empty((size, len(numbers)))
        for name in np.unique(set_of_pair):
            own = np.flatnonzero(set_of_pair == name)
            drawn[:, own] = generator.multinomial(len(own), np.full(len(own), 1 / len(own)), size)
        yield drawn[:, pair_of_row]


def _estimate(value: float, resampled: Floats) -> Estimate | None:
    resampled = resampled[~np.isnan(resampled)]
    if np.isnan(value) or not len(resampled):
        return None
    low, high = np.percentile(resampled, _PERCENTILES)
    return Estimate(value, Interval(min(float(low), value), max(float(high), value)))
