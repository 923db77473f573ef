"""How far a distribution of probabilities is from another one: whole samples, not paired cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from contract import reference

_BEYOND_CHANCE = 3.1
"""Times the index that sampling alone gives on average: it exceeds that once in a thousand, as
chi-squared with 9 degrees of freedom exceeds 27.9. The alerts of live drift take the same."""


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
    """Return ``contract.reference.stability_index`` of two samples of P(hallucination), from 0.

    Raises:
        ValueError: A sample is empty, or holds a number outside [0, 1].

    Example:
        >>> round(stability_index([0.05, 0.15, 0.15, 0.15], [0.05, 0.05, 0.05, 0.15]), 4)
        1.0986
    """
    return reference.stability_index(reference.count_bins(before), reference.count_bins(after))


def chance_index(num_before: int, num_after: int) -> float:
    """Return the stability index that two samples of one distribution hardly ever exceed.

    Args:
        num_before: At least 1.
        num_after: At least 1.

    Example:
        >>> round(chance_index(328, 328), 3), round(chance_index(100, 100), 3)
        (0.17, 0.558)
    """
    return _BEYOND_CHANCE * reference.expected_index(num_before, num_after)
