"""The search for the capacity, on services that are made up."""

from __future__ import annotations

import math

import pytest

from loadtest.capacity import PRECISION, Point, find_capacity
from loadtest.slo import Status, judge_figures


@pytest.fixture
def service(make_row, make_run):
    """Make a service that is quick up to a rate, and a generator that keeps up to another."""

    def make(capacity_per_s: float, generator_per_s: float = math.inf):
        def measure(rate_per_s: float) -> Point:
            latency_s = 0.5 if rate_per_s <= capacity_per_s else 5.0
            lag_s = 0.0 if rate_per_s <= generator_per_s else 2.0
            run = make_run([make_row(n / 10, latency_s + lag_s, lag_s) for n in range(100)])
            return Point(rate_per_s, run, judge_figures({"p50": 1.0}, run.figures))

        return measure

    return make


@pytest.mark.parametrize("capacity_per_s", [0.3, 1.0, 7.3, 100.0])
def test_the_capacity_is_found_from_below_and_from_above(service, capacity_per_s: float) -> None:
    search = find_capacity(service(capacity_per_s), 4.0, max_runs=20)
    assert search.best is not None
    assert capacity_per_s / PRECISION <= search.best.rate_per_s <= capacity_per_s
    assert "lowest rate that misses a goal" in search.end
    rates = [point.rate_per_s for point in search.points]
    assert rates == sorted(rates)
    assert len(rates) <= 12


def test_the_search_is_bounded(service) -> None:
    search = find_capacity(service(1e9), 1.0, max_runs=4)
    assert [point.rate_per_s for point in search.points] == [1, 2, 4, 8]
    assert search.best is not None
    assert search.best.rate_per_s == 8
    assert search.end == "after 4 runs"


def test_a_service_that_never_meets_the_goals_has_no_capacity(service) -> None:
    search = find_capacity(service(0.0), 1.0, max_runs=3)
    assert search.best is None
    assert [point.status for point in search.points] == [Status.MISSED] * 3


def test_a_generator_that_is_too_slow_ends_the_search(service) -> None:
    search = find_capacity(service(100, generator_per_s=10), 4.0)
    assert search.best is not None
    assert search.best.rate_per_s == 8
    assert "at 16 requests/s, where nothing could be measured: the generator fell" in search.end
