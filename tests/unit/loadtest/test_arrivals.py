"""Arrivals against what theory says of them."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from loadtest.arrivals import Spacing, Stage, gaps, schedule, total_duration_s

STEADY = [Stage(400, 25, 25)]
RAMP = [Stage(100, 0, 40), Stage(100, 40, 10)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_poisson_gaps_are_exponential(seed: int) -> None:
    between = np.diff(schedule(STEADY, Spacing.POISSON, seed))
    # 10,000 gaps: the mean is 1/25 s within 4 standard errors, and as large as the deviation.
    assert between.mean() == pytest.approx(0.04, rel=0.04)
    assert between.std() / between.mean() == pytest.approx(1, abs=0.05)
    # The share of gaps above a bound is exp(-rate * bound).
    for bound_s in (0.02, 0.04, 0.12):
        assert (between > bound_s).mean() == pytest.approx(math.exp(-25 * bound_s), abs=0.02)
    # Neighbouring gaps have nothing to do with each other.
    assert abs(np.corrcoef(between[:-1], between[1:])[0, 1]) < 0.04


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_number_of_poisson_arrivals_in_a_second_varies_as_its_mean(seed: int) -> None:
    times = schedule(STEADY, Spacing.POISSON, seed)
    counts = np.histogram(times, bins=400, range=(0, 400))[0]
    assert counts.mean() == pytest.approx(25, rel=0.04)
    # The index of dispersion of n counts has a standard error of sqrt(2 / n): 0.07.
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.28)


@pytest.mark.parametrize("spacing", list(Spacing))
def test_a_ramp_has_the_area_under_its_rate(spacing: Spacing) -> None:
    times = schedule(RAMP, spacing, 5)
    # 0 to 40 /s in 100 s is 2,000 requests, of which a quarter arrive in the first half; 40 to 10
    # in 100 s is 2,500, of which 1,625 in the first half.
    wanted = {(0, 50): 500, (50, 100): 1500, (100, 150): 1625, (150, 200): 875}
    for (low, high), num in wanted.items():
        found = sum(low <= time < high for time in times)
        slack = 1 if spacing is Spacing.CONSTANT else 4 * math.sqrt(num)
        assert abs(found - num) <= slack
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= total_duration_s(RAMP) == 200


def test_constant_arrivals_stand_in_the_middle_of_their_turns() -> None:
    assert schedule([Stage(2, 2, 2)], Spacing.CONSTANT, 1) == [0.25, 0.75, 1.25, 1.75]


def test_nothing_arrives_while_the_rate_is_zero() -> None:
    times = schedule([Stage(10, 5, 5), Stage(10, 0, 0), Stage(10, 5, 5)], Spacing.CONSTANT, 1)
    assert len(times) == 100
    assert not any(10 <= time < 20 for time in times)


def test_a_seed_gives_the_same_times_and_another_one_others() -> None:
    first = schedule(RAMP, Spacing.POISSON, 7)
    assert schedule(RAMP, Spacing.POISSON, 7) == first
    assert schedule(RAMP, Spacing.POISSON, 8)[:5] != first[:5]


def test_sources_that_are_added_up_are_a_source_of_their_rates_together() -> None:
    """So it is that N users of the web page make N times the rate of one."""
    times: list[float] = []
    for user in range(20):
        own = gaps(1.0, random.Random(user))
        times += itertools.takewhile(lambda time: time < 400, itertools.accumulate(own))
    counts = np.histogram(times, bins=400, range=(0, 400))[0]
    assert counts.mean() == pytest.approx(20, rel=0.045)
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.28)


@pytest.mark.parametrize(
    ("duration_s", "start", "end"), [(0, 1, 1), (math.inf, 1, 1), (1, -1, 1), (1, 1, math.nan)]
)
def test_what_is_no_stage_is_refused(duration_s: float, start: float, end: float) -> None:
    with pytest.raises(ValueError, match="a stage's"):
        Stage(duration_s, start, end)
