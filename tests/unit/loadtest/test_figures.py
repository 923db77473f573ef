"""Figures of runs that were made by hand, and when they are none."""

from __future__ import annotations

import pytest

from loadtest.checks import Outcome
from loadtest.figures import why_not_measured
from loadtest.plan import Loop
from loadtest.workload import Kind


def test_the_figures_of_a_run(make_row, make_run) -> None:
    rows = [
        make_row(1.0, 9.0),  # warm-up
        make_row(2.0, 0.5, 0.1, queue_ms=100, inference_ms=300),
        make_row(3.0, 1.5, kind=Kind.BATCH, num_verdicts=4),
        make_row(4.0, 2.5),
        make_row(5.0, 0.001, kind=Kind.BAD_REQUEST, num_verdicts=0),
        make_row(6.0, 0.002, outcome=Outcome.SHED, reason="503 overloaded", num_verdicts=0),
        make_row(7.0, 3.0, outcome=Outcome.ERROR, reason="504 deadline", num_verdicts=0),
        make_row(11.0, 1.5),  # begun in time, finished after the end
    ]
    figures = make_run(rows, seconds=12, warm_up_s=2, goodput_within_s=1.5).figures
    assert figures.window_s == 10
    assert figures.num_requests == 7
    assert figures.outcomes == {Outcome.OK: 5, Outcome.SHED: 1, Outcome.ERROR: 1}
    assert figures.kinds[Kind.BATCH] == {Outcome.OK: 1, Outcome.SHED: 0, Outcome.ERROR: 0}
    assert figures.reasons == {"503 overloaded": 1, "504 deadline": 1}
    assert figures.offered_per_s == pytest.approx(0.7)
    # That of the warm-up was answered in the window, the last one after it.
    assert figures.answered_per_s == pytest.approx(0.4)
    assert figures.verdicts_per_s == pytest.approx(0.7)
    assert figures.latency_s.num == 4
    assert figures.latency_s.p50 == pytest.approx(1.5)
    assert figures.latency_s.highest == pytest.approx(2.5)
    assert figures.error_rate == pytest.approx(1 / 7)
    assert figures.shed_rate == pytest.approx(1 / 6)
    assert figures.goodput == pytest.approx(3 / 6)
    assert figures.goodput_per_s == pytest.approx(0.3)
    assert (figures.queue_s.p50, figures.inference_s.p50) == pytest.approx((0.1, 0.3))


def test_latency_counts_from_the_intended_start(make_row, make_run) -> None:
    """The service stood still for 4 s: who measures from the send sees one slow request of five."""
    rows = [make_row(float(n), max(0.1, 4.1 - n), max(0.0, 4.0 - n)) for n in range(5)]
    figures = make_run(rows, seconds=5).figures
    assert figures.latency_s.p50 == pytest.approx(2.1)
    assert figures.latency_from_send_s.p50 == pytest.approx(0.1)
    assert figures.lag_s.highest == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("lag_s", "latency_s", "is_measured"),
    [(0.09, 0.1, True), (0.11, 0.12, False), (0.11, 2.0, True), (0.3, 2.0, False)],
    ids=["below-100-ms", "above", "below-a-tenth", "above-a-tenth"],
)
def test_a_generator_that_lags_measures_nothing(
    make_row, make_run, lag_s: float, latency_s: float, is_measured: bool
) -> None:
    run = make_run([make_row(n / 10, latency_s, lag_s) for n in range(100)])
    assert (run.why_not_measured is None) is is_measured
    if not is_measured:
        assert run.why_not_measured is not None
        assert "the generator fell behind" in run.why_not_measured
        assert f"{1000 * lag_s:.0f} ms" in run.why_not_measured


def test_one_late_request_in_thousand_is_no_lagging_generator(make_row, make_run) -> None:
    rows = [make_row(n / 100, 0.5, 0.4 if n == 500 else 0.0) for n in range(1000)]
    assert make_run(rows).why_not_measured is None


def test_requests_that_were_never_sent_are_not_left_out(make_row, make_run) -> None:
    run = make_run([make_row(n / 10, 0.1) for n in range(50)], num_scheduled=60)
    assert run.why_not_measured == "10 scheduled requests were never sent"
    assert run.figures.offered_per_s == pytest.approx(6.0)
    assert run.figures.goodput == pytest.approx(50 / 60)


def test_nothing_finished_is_nothing_measured(make_row, make_run) -> None:
    assert "no request was sent" in (make_run([]).why_not_measured or "")
    failed = make_row(1, 1, outcome=Outcome.ERROR, reason="no answer: x")
    reason = make_run([failed, failed]).why_not_measured or ""
    assert "no request for a verdict finished (2 x no answer: x)" in reason
    refused = [make_row(1, 0.001, kind=Kind.BAD_REQUEST)]
    assert "only bad requests" in (make_run(refused).why_not_measured or "")


def test_a_closed_loop_has_no_schedule_to_fall_behind(make_row, make_run) -> None:
    rows = [make_row(n / 10, 0.1) for n in range(50)]
    run = make_run(rows, num_scheduled=0, loop=Loop.CLOSED)
    assert why_not_measured(run.figures) is None
    assert run.figures.num_unsent == 0
