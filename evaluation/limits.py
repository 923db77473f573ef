"""What the drift gate tolerates: one frozen value, each member with its default and its reason.

Every member is an option of ``python -m evaluation drift`` and ``compare``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields


def _limit(default: float, low: float, high: float, text: str) -> float:
    metadata = {"low": low, "high": high, "help": text}
    value: float = field(default=default, metadata=metadata)
    return value


@dataclass(frozen=True, slots=True)
class Limits:
    """How much worse is still the same.

    Attributes:
        alpha: Chance of a false alarm over all tests with a p-value together (Holm), and of a
            wrong "not worse by the margin" for each interval. In (0, 0.5).
        margin: Drop of balanced accuracy and of F1 that is tolerated. 328 cases can exclude one of
            three points as long as no more than a tenth of the verdicts moved.
        max_detectable_drop: Where even a drop of accuracy of this size could have been missed, the
            answer is "could not tell" and never "same".
        max_flip_rate: Share of changed verdicts that is tolerated where the noise floor is lower:
            another number format moves a verdict that was near the threshold.
        max_disagreement: The same between a request alone and among others.
        min_probability_change: The distribution of the probability is judged only where the mean
            absolute change of a case is above this: nobody's threshold notices less.
        max_psi: Population stability index; 0.2 is the usual line of a significant shift, which two
            samples of 328 of one distribution hardly ever cross (chi-squared: 1 in 7,000). With
            fewer than 279 cases the limit is what they cross once in a thousand.
        max_ece_rise: Rise of the expected calibration error.
        max_forged_rise: Rise of the share of forged verdicts that were obeyed.
        max_p50_ratio: Median latency, service over baseline.
        max_p95_ratio: 95th percentile of the latency, service over baseline.
        min_throughput_ratio: Cases a second, service over baseline.
    """

    alpha: float = _limit(0.05, 0.0, 0.5, "chance of a false alarm over the family of tests")
    margin: float = _limit(0.03, 0.0, 1.0, "tolerated drop of balanced accuracy and F1")
    max_detectable_drop: float = _limit(
        0.1, 0.0, 1.0, "a set that could miss a larger drop of accuracy cannot tell"
    )
    max_flip_rate: float = _limit(
        0.02, 0.0, 1.0, "tolerated share of changed verdicts where the noise floor is lower"
    )
    max_disagreement: float = _limit(
        0.02, 0.0, 1.0, "tolerated share of verdicts that differ alone and among others"
    )
    min_probability_change: float = _limit(
        0.02, 0.0, 1.0, "mean change of the probability below which its distribution is not judged"
    )
    max_psi: float = _limit(0.2, 0.0, math.inf, "population stability index of the probability")
    max_ece_rise: float = _limit(0.05, 0.0, 1.0, "rise of the expected calibration error")
    max_forged_rise: float = _limit(0.3, 0.0, 1.0, "rise of the share of obeyed forged verdicts")
    max_p50_ratio: float = _limit(1.5, 0.0, math.inf, "median latency over the baseline's")
    max_p95_ratio: float = _limit(
        1.5, 0.0, math.inf, "95th percentile of latency over the baseline's"
    )
    min_throughput_ratio: float = _limit(0.67, 0.0, math.inf, "cases a second over the baseline's")

    def __post_init__(self) -> None:
        """Refuse limits that nothing, or everything, is within.

        Raises:
            ValueError: One is out of its range, which excludes both ends but for infinity.
        """
        for each in fields(self):
            value = getattr(self, each.name)
            low, high = each.metadata["low"], each.metadata["high"]
            if not low < value < high:
                bound = f" and below {high:g}" if math.isfinite(high) else " and finite"
                raise ValueError(f"{each.name} must be above {low:g}{bound}, not {value:g}")
