"""The highest rate that meets the goals, by a bounded search: double or halve, then bisect."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadtest.run import Run
from loadtest.slo import Status, Verdict

MAX_RUNS = 10
PRECISION = 1.1
"""The search ends once a rate that misses a goal is at most so many times one that meets all."""

MIN_REQUESTS = 150
"""That a run must have for its 99th percentile to mean something."""


@dataclass(frozen=True, slots=True)
class Point:
    """One rate, measured in a fresh run.

    Attributes:
        rate_per_s: Requests a second.
        run: What came of it.
        verdicts: On the goals.
    """

    rate_per_s: float
    run: Run
    verdicts: Sequence[Verdict]

    @property
    def status(self) -> Status:
        """Whether all goals are met; ``untold`` where the figures say nothing."""
        statuses = {verdict.status for verdict in self.verdicts}
        if self.run.why_not_measured is not None:
            return Status.UNTOLD
        if Status.MISSED in statuses:
            return Status.MISSED
        return Status.MET if statuses == {Status.MET} else Status.UNTOLD


@dataclass(frozen=True, slots=True)
class Search:
    """A search that has ended.

    Attributes:
        points: By their rates.
        best: The highest rate that meets the goals; None where none did.
        end: Why it ended, in words.
    """

    points: tuple[Point, ...]
    best: Point | None
    end: str


def find_capacity(
    measure: Callable[[float], Point], start_per_s: float, max_runs: int = MAX_RUNS
) -> Search:
    """Search for the highest rate that meets the goals.

    Args:
        measure: Puts the service under a rate.
        start_per_s: The first rate, above 0. While the goals are met it is doubled, while they are
            missed it is halved; then the geometric mean of the two nearest is tried, until they
            are within ``PRECISION``.
        max_runs: At most so many rates.
    """
    points: list[Point] = []
    good: Point | None = None
    bad: Point | None = None
    rate_per_s = start_per_s
    end = f"after {max_runs} runs"
    while len(points) < max_runs:
        point = measure(rate_per_s)
        points.append(point)
        if point.status is Status.UNTOLD:
            reason = point.run.why_not_measured or "too few answers for a goal"
            end = f"at {rate_per_s:.3g} requests/s, where nothing could be measured: {reason}"
            break
        if point.status is Status.MET:
            good = point
        else:
            bad = point
        if good is not None and bad is not None:
            if bad.rate_per_s <= PRECISION * good.rate_per_s:
                end = f"with {bad.rate_per_s:.3g} requests/s as the lowest rate that misses a goal"
                break
            rate_per_s = math.sqrt(good.rate_per_s * bad.rate_per_s)
        else:
            rate_per_s = 2 * rate_per_s if good is not None else rate_per_s / 2
    return Search(tuple(sorted(points, key=lambda point: point.rate_per_s)), good, end)
