"""When requests arrive: an open loop, whose times are fixed before the first request is sent.

No answer, however late, moves an arrival. A loop that waits for answers before it sends the next
request stops asking exactly while the service is slow, and its percentiles leave out those who
would have waited ("coordinated omission": G. Tene, "How NOT to Measure Latency", 2015).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Spacing(StrEnum):
    """How arrivals are spaced.

    Attributes:
        POISSON: Independently, as those of many users are.
        CONSTANT: Evenly.
    """

    POISSON = "poisson"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of time in which the rate goes from one value to another in a straight line.

    Attributes:
        duration_s: Seconds, above 0.
        start_per_s: Requests a second at its start, at least 0.
        end_per_s: At its end, at least 0.
    """

    duration_s: float
    start_per_s: float
    end_per_s: float

    def __post_init__(self) -> None:
        """Refuse what is no stage."""
        rates = (self.start_per_s, self.end_per_s)
        if not 0 < self.duration_s < math.inf:
            raise ValueError("a stage's duration_s must be above 0 and finite")
        if not all(0 <= rate < math.inf for rate in rates):
            raise ValueError("a stage's rates must be at least 0 and finite")

    @property
    def num_expected(self) -> float:
        """Arrivals that it has on average: the area under its rate."""
        return self.duration_s * (self.start_per_s + self.end_per_s) / 2

    def time_of(self, num_arrived: float) -> float:
        """Return when so many arrivals are expected: the inverse of the area under the rate.

        With the rate ``a + k t`` the area is ``a t + k t**2 / 2``; its root is written so that it
        holds for ``k = 0`` too.

        Args:
            num_arrived: In [0, num_expected].

        Returns:
            Seconds since the start of the stage.

        Example:
            >>> Stage(10, 2, 2).time_of(5)
            2.5
            >>> Stage(10, 0, 2).time_of(2.5)
            5.0
        """
        slope = (self.end_per_s - self.start_per_s) / self.duration_s
        root = math.sqrt(max(0.0, self.start_per_s**2 + 2 * slope * num_arrived))
        below = self.start_per_s + root
        return min(self.duration_s, 2 * num_arrived / below) if below else self.duration_s


def total_duration_s(stages: Sequence[Stage]) -> float:
    """Return the seconds that the stages take one after the other."""
    return sum(stage.duration_s for stage in stages)


def schedule(stages: Sequence[Stage], spacing: Spacing, seed: int) -> list[float]:
    """Return the intended starts of all requests, in seconds since the first stage began.

    A Poisson process of a rate that changes is one of rate 1 on a clock that runs as fast as the
    rate is high: exponential gaps are added up and carried through the inverse of the area under
    the rate (inversion; E. Cinlar, "Introduction to Stochastic Processes", 1975).

    Args:
        stages: In their order.
        spacing: Poisson or constant. Constant arrivals stand in the middle of their turn.
        seed: Of the gaps; the same seed gives the same times.
    """
    times: list[float] = []
    marks = _marks(spacing, random.Random(f"arrivals:{seed}"))  # noqa: S311
    mark = next(marks)
    began_s = num_before = 0.0
    for stage in stages:
        while mark < num_before + stage.num_expected:
            times.append(began_s + stage.time_of(mark - num_before))
            mark = next(marks)
        num_before += stage.num_expected
        began_s += stage.duration_s
    return times


def gaps(rate_per_s: float, rng: random.Random) -> Iterator[float]:
    """Yield the seconds between arrivals of a Poisson process, without end."""
    while True:
        yield rng.expovariate(rate_per_s)


def _marks(spacing: Spacing, rng: random.Random) -> Iterator[float]:
    """Yield the area under the rate at which each request arrives."""
    mark = 0.5 if spacing is Spacing.CONSTANT else rng.expovariate(1.0)
    while True:
        yield mark
        mark += 1.0 if spacing is Spacing.CONSTANT else rng.expovariate(1.0)
