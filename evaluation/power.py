"""What a measurement could have seen: the power of the exact McNemar test, without simulation."""

from __future__ import annotations

import numpy as np
from scipy import optimize, stats

from evaluation.metrics import Floats


def power(drop: float, noise: float, num_cases: int, alpha: float) -> float:
    """Return the chance that a drop of accuracy is found.

    Of ``num_cases`` cases each is lost (right before, wrong after) with chance noise + drop, and
    gained with chance noise. The number that moved is binomial, and of those the lost ones are; for
    each number that may move, the critical count of the one-sided exact test is known. The sum over
    all numbers is exact, as long as cases are independent.

    Args:
        drop: Of accuracy, in [0, 1].
        noise: Chance of a loss, and of a gain, without any drop, in [0, 0.5].
        num_cases: At least 1.
        alpha: Level of the test.

    Example:
        >>> round(power(0.5, 0.0, 4, 0.0625), 4)  # All four must be lost.
        0.0625
    """
    return _power(drop, noise, num_cases, _critical(num_cases, alpha))


def _critical(num_cases: int, alpha: float) -> Floats:
    """Return, for 1 to ``num_cases`` moved cases, the least losses whose p-value is at most alpha.

    It is one more than moved where there is none.
    """
    moved = np.arange(1, num_cases + 1)
    return np.asarray(stats.binom.isf(alpha, moved, 0.5) + 1, dtype=np.float64)


def _power(drop: float, noise: float, num_cases: int, critical: Floats) -> float:
    lost, gained = noise + drop, noise
    if lost <= 0:
        return 0.0
    moved = np.arange(1, num_cases + 1)
    found = stats.binom.sf(critical - 1, moved, lost / (lost + gained))
    return float((stats.binom.pmf(moved, num_cases, min(1.0, lost + gained)) * found).sum())


def smallest_drop(
    noise: float, num_cases: int, alpha: float, wanted_power: float = 0.8
) -> float | None:
    """Return the drop of accuracy that is found with the wanted chance; None where none is.

    Args:
        noise: See ``power``.
        num_cases: At least 1.
        alpha: Level of the test.
        wanted_power: In (0, 1).

    Example:
        >>> round(smallest_drop(noise=0.0, num_cases=328, alpha=0.05), 4)
        0.0204
    """
    highest, critical = 1.0 - 2 * noise, _critical(num_cases, alpha)
    if highest <= 0 or _power(highest, noise, num_cases, critical) < wanted_power:
        return None

    def surplus(drop: float) -> float:
        return _power(drop, noise, num_cases, critical) - wanted_power

    return float(optimize.brentq(surplus, 0.0, highest, xtol=1e-4))
