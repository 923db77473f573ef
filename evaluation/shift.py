"""How far a distribution of probabilities is from another one: whole samples, not paired cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

NUM_BINS = 10
"""Equal-width bins of P(hallucination), as calibration has them."""

_EMPTY_SHARE = 1e-4
"""What an empty bin counts as, for its logarithm; Evidently takes the same."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The two-sample Kolmogorov-Smirnov test.

    Attributes:
        distance: Largest difference of the two cumulative shares, in [0, 1].
        p_value: Asymptotic. The samples here are paired, which the test does not know: it then
            finds less than it could, and no more false alarms.
    """

    distance: float
    p_value: float


def kolmogorov_smirnov(before: Sequence[float], after: Sequence[float]) -> Shift:
    """Compare two samples.

    Raises:
        ValueError: One is empty.

    Example:
        >>> kolmogorov_smirnov([0.1, 0.2, 0.3, 0.4], [0.3, 0.4, 0.5, 0.6]).distance
        0.5
    """
    found = stats.ks_2samp(before, after, method="asymp")
    return Shift(float(found.statistic), float(min(1.0, found.pvalue)))


def stability_index(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the population stability index: sum over bins of (b - a) ln(b / a), from 0.

    It is the symmetric Kullback-Leibler divergence of the binned shares (Siddiqi 2006); a bin that
    is empty on one side counts as a share of 0.0001 there.

    Raises:
        ValueError: A sample is empty.

    Example:
        >>> round(stability_index([0.05, 0.15, 0.15, 0.15], [0.05, 0.05, 0.05, 0.15]), 4)
        1.0986

        Shares 1/4 and 3/4 became 3/4 and 1/4: twice 1/2 times ln 3.
    """
    if not len(before) or not len(after):
        raise ValueError("the stability index needs two samples")
    shares = []
    for sample in (before, after):
        counts, _ = np.histogram(sample, bins=NUM_BINS, range=(0.0, 1.0))
        shares.append(np.where(counts > 0, counts / len(sample), _EMPTY_SHARE))
    old, new = shares
    return float(((new - old) * np.log(new / old)).sum())
