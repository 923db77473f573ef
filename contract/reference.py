"""What verdicts were like when the weights were evaluated, and how far others are from it.

It travels in ``contract.json``, and live drift is measured against it. It holds counts and lengths,
never a text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NUM_BINS = 10
"""Equal-width bins of P(hallucination); the last one holds 1 too."""

_EMPTY_SHARE = 1e-4
"""What an empty bin counts as, for its logarithm; Evidently takes the same."""


@dataclass(frozen=True, slots=True)
class LengthQuantiles:
    """How long texts are, in Unicode code points.

    Attributes:
        p10: One in ten is at most this long.
        p50: The median.
        p90: One in ten is at least this long.
    """

    p10: float
    p50: float
    p90: float

    def __post_init__(self) -> None:
        """Refuse numbers that are no lengths, or not in order."""
        if not (0 <= self.p10 <= self.p50 <= self.p90 < math.inf):
            raise ValueError("lengths must be finite, not negative, and p10 <= p50 <= p90")

    @classmethod
    def of(cls, lengths: Iterable[int]) -> LengthQuantiles:
        """Return the quantiles, interpolated between neighbours.

        Raises:
            ValueError: There is no length.

        Example:
            >>> LengthQuantiles.of([10, 20, 30, 40, 50])
            LengthQuantiles(p10=14.0, p50=30.0, p90=46.0)
        """
        ordered = sorted(lengths)
        if not ordered:
            raise ValueError("quantiles need at least one length")
        return cls(*(_quantile(ordered, share) for share in (0.1, 0.5, 0.9)))


def _quantile(ordered: Sequence[int], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


@dataclass(frozen=True, slots=True)
class Reference:
    """The verdicts of an evaluation of the weights, with justifications, on rows of no training.

    Attributes:
        rows: Which rows these were, in words.
        num_rows: Of them, with a verdict that could be read; at least 1.
        probability_counts: How many of them have their calibrated P(hallucination) in each bin,
            ``[NUM_BINS]``.
        hallucination_share: Of the class, at the threshold of the weights, in [0, 1]; None where it
            was not recorded.
        justification_chars: How long the justifications were; None where it was not recorded.
    """

    rows: str
    num_rows: int
    probability_counts: tuple[int, ...]
    hallucination_share: float | None = None
    justification_chars: LengthQuantiles | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other: every alarm would rest on them."""
        if len(self.probability_counts) != NUM_BINS or min(self.probability_counts) < 0:
            raise ValueError(f"probability_counts must be {NUM_BINS} counts from 0")
        if self.num_rows < 1 or sum(self.probability_counts) != self.num_rows:
            raise ValueError("num_rows must be the sum of probability_counts, and at least 1")
        if self.hallucination_share is not None and not 0 <= self.hallucination_share <= 1:
            raise ValueError("hallucination_share must be in [0, 1]")


def count_bins(probabilities: Iterable[float]) -> tuple[int, ...]:
    """Return how many probabilities are in each bin, ``[NUM_BINS]``.

    Raises:
        ValueError: One is not in [0, 1].

    Example:
        >>> count_bins([0.0, 0.05, 0.1, 0.95, 1.0])
        (2, 1, 0, 0, 0, 0, 0, 0, 0, 2)
    """
    counts = [0] * NUM_BINS
    for probability in probabilities:
        if not 0 <= probability <= 1:
            raise ValueError("a probability must be in [0, 1]")
        counts[min(int(NUM_BINS * probability), NUM_BINS - 1)] += 1
    return tuple(counts)


def stability_index(before: Sequence[int], after: Sequence[int]) -> float:
    """Return the population stability index: sum over bins of (b - a) ln(b / a), from 0.

    It is the symmetric Kullback-Leibler divergence of the binned shares (Siddiqi 2006); a bin that
    is empty on one side counts as a share of 0.0001 there.

    Args:
        before: Counts of each bin.
        after: Counts of the same bins.

    Raises:
        ValueError: A side has no count, or the sides differ in their bins.

    Example:
        >>> round(stability_index([1, 3], [3, 1]), 4)
        1.0986

        Shares 1/4 and 3/4 became 3/4 and 1/4: twice 1/2 times ln 3.
    """
    old, new = _shares(before), _shares(after)
    return sum((b - a) * math.log(b / a) for a, b in zip(old, new, strict=True))


def _shares(counts: Sequence[int]) -> list[float]:
    total = sum(counts)
    if not total:
        raise ValueError("the stability index needs two samples")
    return [count / total if count else _EMPTY_SHARE for count in counts]


def expected_index(num_before: int, num_after: int) -> float:
    """Return the stability index that sampling alone gives on average, where nothing has changed.

    Both samples from one distribution, the index is about (1/n + 1/m) times a chi-squared variable
    of ``NUM_BINS - 1`` degrees of freedom (Yurdakul 2018, "Statistical properties of population
    stability index", Western Michigan University), whose mean is that number. It holds while every
    bin can expect about five of either sample; rarer bins are now and then empty, which adds to it.

    Args:
        num_before: At least 1.
        num_after: At least 1.

    Example:
        >>> round(expected_index(1000, 1000), 6)
        0.018
    """
    return (NUM_BINS - 1) * (1 / num_before + 1 / num_after)
