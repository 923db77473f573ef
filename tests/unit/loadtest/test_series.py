"""Rows and samples over time."""

from __future__ import annotations

import pytest

from loadtest.arrivals import Stage
from loadtest.checks import Outcome
from loadtest.plan import Loop, Plan
from loadtest.series import make_series, split_by_stage
from loadtest.server_metrics import Interval, intervals, parse_metrics
from loadtest.workload import Kind

TEXT = """\
# HELP detector_shed_total Items refused
# TYPE detector_shed_total counter
detector_shed_total{reason="overloaded"} {shed}.0
detector_shed_total{reason="rate-limited"} 1.0
detector_queue_seconds_bucket{le="0.1"} 7.0
detector_queue_seconds_count {num}.0
detector_queue_seconds_sum {queue}
detector_inference_seconds_sum {inference}
detector_in_flight_items 5.0
detector_engine_waiting 2.0
vllm:num_requests_running{engine="0"} 99.0
"""


def sample(at_s: float, shed: int, num: int, queue: float, inference: float):
    text = TEXT.replace("{shed}", str(shed)).replace("{num}", str(num))
    text = text.replace("{queue}", str(queue)).replace("{inference}", str(inference))
    return parse_metrics(text, at_s)


def test_a_series_says_what_happened_when(make_row) -> None:
    rows = [
        make_row(0.0, 0.5),
        make_row(0.5, 1.0),
        make_row(0.5, 1.0, kind=Kind.BAD_REQUEST),
        make_row(1.5, 0.25, outcome=Outcome.SHED),
        make_row(1.5, 1.0, outcome=Outcome.ERROR),
    ]
    first, second, third = make_series(rows)
    assert (first.start_s, first.end_s) == (0, 1)
    assert (first.offered_per_s, first.ok_per_s) == (3, 1)
    assert (second.ok_per_s, second.shed_per_s, second.errors_per_s) == (2, 1, 0)
    assert third.errors_per_s == 1
    # 0.5 s of the first and 0.5 s of the two next; then half a second of three, a quarter of one.
    assert first.in_flight == pytest.approx(1.5)
    assert second.in_flight == pytest.approx(1.75)
    # Neither a bad request nor a refusal is a latency.
    assert (first.p50_s, second.p50_s) == (0.75, None)


def test_a_long_run_has_wider_bins(make_row) -> None:
    bins = make_series([make_row(float(n), 0.5) for n in range(3600)])
    assert len(bins) <= 121
    assert {each.end_s - each.start_s for each in bins} == {30}
    assert bins[5].offered_per_s == pytest.approx(1)


def test_stages_are_kept_apart_and_the_warm_up_is_left_out(make_row) -> None:
    stages = (Stage(5, 1, 1), Stage(10, 0.2, 0.2), Stage(4, 1, 1))
    rows = [
        make_row(4.9, 9.0),
        make_row(5.0, 0.5),
        make_row(14.9, 1.5),
        make_row(15.0, 0.001, outcome=Outcome.SHED),
        make_row(16.0, 2.0),
        make_row(17.0, 3.0, outcome=Outcome.ERROR),
        make_row(18.0, 0.001, kind=Kind.BAD_REQUEST),
    ]
    calm, burst = split_by_stage(Plan(stages, 5.0, 1, 70), rows)
    assert (calm.start_s, calm.end_s, calm.offered_per_s) == (5, 15, 0.2)
    assert (calm.latency_s.num, calm.latency_s.highest) == (2, pytest.approx(1.5))
    assert (calm.shed_rate, calm.error_rate) == (0, 0)
    assert (burst.start_s, burst.end_s, burst.offered_per_s) == (15, 19, 1)
    assert burst.latency_s.num == 1
    assert (burst.shed_rate, burst.error_rate) == (pytest.approx(1 / 3), 0.25)
    assert split_by_stage(Plan(stages, 5.0, 1, 70, Loop.CLOSED), rows) == []


def test_no_rows_are_no_series() -> None:
    assert make_series([]) == []


def test_metrics_are_added_up_over_their_labels() -> None:
    found = sample(3.0, 6, 10, 1.5, 4.0)
    assert (found.shed, found.in_flight, found.waiting, found.num_verdicts) == (7, 5, 2, 10)
    assert (found.queue_s, found.inference_s, found.at_s) == (1.5, 4.0, 3.0)


def test_intervals_have_means_and_rates() -> None:
    found = intervals([sample(0, 0, 10, 1.0, 4.0), sample(2, 6, 14, 3.0, 5.0)])
    assert found == [Interval(0, 2, 3.0, 2.0, 0.5, 0.25)]


def test_an_interval_without_a_verdict_has_no_mean_and_a_restart_none_at_all() -> None:
    idle = intervals([sample(0, 0, 10, 1, 4), sample(1, 0, 10, 1, 4)])
    assert (idle[0].queue_s, idle[0].verdicts_per_s) == (None, 0)
    assert intervals([sample(0, 0, 10, 1, 4), sample(1, 0, 2, 0.1, 0.2)]) == []
