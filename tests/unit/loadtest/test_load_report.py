"""The reports: what they say first, and what they must not leave out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.stub_service import INFO

from evaluation.identity import ServiceIdentity
from evaluation.json_fields import Fields
from loadtest.capacity import Point, Search
from loadtest.checks import Outcome
from loadtest.coldstart import Caches, Start
from loadtest.load_files import REPORT_FILES, render_load_page, to_json, to_markdown, write_reports
from loadtest.load_report import LoadReport
from loadtest.plan import Loop
from loadtest.slo import Deployment, judge_figures, judge_starts

DEPLOYMENT = Deployment("here", 1.0, True, "cpu", "a test", {}, {})
GUESSED = Deployment("there", 1.0, False, "cuda", "no GPU has run it", {}, {})
GOALS = {"p50": 1.0, "error_rate": 0.0}


@pytest.fixture
def report(make_row, make_run):
    """Make the report of a run whose requests all took so long."""

    def make(latency_s: float = 0.5, lag_s: float = 0.0, *, loop=Loop.OPEN, deployment=DEPLOYMENT):
        rows = [
            make_row(n / 10, latency_s, lag_s, queue_ms=5, inference_ms=400) for n in range(100)
        ]
        run = make_run(rows, loop=loop, warm_up_s=1.0)
        verdicts = judge_figures(GOALS, run.figures)
        conditions = {"Command": "python -m loadtest", "Load": "1 /s | poisson"}
        return LoadReport("Load test, slo", deployment, conditions, verdicts, "2026-01-01", run)

    return make


def test_a_goal_that_is_met(report) -> None:
    made = report()
    assert (made.exit_code, made.outcome, made.reason) == (0, "met", "every goal is met")
    text = to_markdown(made)
    assert text.startswith("# Load test, slo: met\n\nEvery goal is met.\n")
    assert "| p50 | met | 500.0 ms | at most 1.00 s |" in text
    assert "| latency from the intended start | 90 | 500.0 ms |" in text
    assert "Note:" not in text


def test_a_goal_that_is_missed(report) -> None:
    made = report(1.5)
    assert (made.exit_code, made.outcome) == (1, "missed")
    page = render_load_page(made)
    assert "<strong>Note:</strong> missed: the p50 is 1.50 s, and should be at most 1.00 s." in page
    assert page.count("<img ") == 1


def test_a_run_that_measured_nothing_is_never_green(report) -> None:
    made = report(0.8, 0.3)
    assert {str(each.status) for each in made.verdicts} == {"met"}
    assert (made.exit_code, made.outcome) == (2, "could not measure")
    assert to_markdown(made).startswith(
        "# Load test, slo: could not measure\n\nThe generator fell behind: "
    )
    assert "could not measure: the generator fell behind" in render_load_page(made)


def test_a_closed_loop_says_so_in_every_report(report) -> None:
    made = report(loop=Loop.CLOSED)
    content = to_json(made)
    assert content["run"]["figures"]["loop"] == "closed"
    for text in (to_markdown(made), render_load_page(made), *content["notices"]):
        assert "Closed loop: each request waited for the answer before it" in text
    assert "Closed loop" not in to_markdown(report())


def test_goals_that_nothing_has_confirmed_say_so(report) -> None:
    text = to_markdown(report(deployment=GUESSED))
    assert "goals of there are not confirmed by a measurement: no GPU has run it." in text


def test_the_json_has_the_figures_and_the_series(report, tmp_path: Path) -> None:
    paths = write_reports(tmp_path, report())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(REPORT_FILES)
    content = json.loads(paths["report.json"].read_text(encoding="utf-8"))
    assert (content["format"], content["exit_code"]) == (1, 0)
    assert content["goals"][0] == {
        "goal": "p50", "quantity": "time", "is_floor": False, "limit": 1.0, "value": 0.5,
        "status": "met",
    }  # fmt: skip
    assert content["run"]["figures"]["latency_s"]["p95"] == 0.5
    assert content["run"]["figures"]["outcomes"] == {"ok": 90, "shed": 0, "error": 0}
    assert content["run"]["series"][3]["offered_per_s"] == 10
    assert "|" in content["conditions"]["Load"]


def test_a_search_shows_its_curve(make_row, make_run) -> None:
    def point(rate_per_s: float, latency_s: float, outcome=Outcome.OK) -> Point:
        rows = [make_row(n / 10, latency_s, outcome=outcome) for n in range(100)]
        run = make_run(rows)
        return Point(rate_per_s, run, judge_figures(GOALS, run.figures))

    good, bad = point(4, 0.5), point(8, 1.5)
    search = Search((good, bad), good, "with 8 requests/s as the lowest rate that misses a goal")
    made = LoadReport(
        "Load test, capacity", DEPLOYMENT, {}, good.verdicts, "2026", good.run, search
    )
    assert made.exit_code == 0
    assert made.reason.startswith("4 requests/s is the highest rate that was seen to meet")
    assert "| 8 /s | missed | 10.00 /s | 1.50 s |" in to_markdown(made).replace("8.50", "10.00")
    assert render_load_page(made).count("<img ") == 2
    assert to_json(made)["capacity"]["rate_per_s"] == 4
    none = LoadReport("x", DEPLOYMENT, {}, (), "2026", search=Search((bad,), None, "after 1 runs"))
    assert (none.exit_code, none.outcome) == (1, "missed")
    dead = point(4, 1, Outcome.ERROR)
    untold = LoadReport("x", DEPLOYMENT, {}, (), "2026", search=Search((dead,), None, "at 4"))
    assert (untold.exit_code, untold.outcome) == (2, "could not measure")


def test_starts_are_shown_by_phase() -> None:
    service = ServiceIdentity.from_json(Fields(INFO))
    starts = [
        Start(Caches.COLD, {"process up": 1.0, "load": 4.0}, {"load": 3.5}, service),
        Start(Caches.WARM, {"process up": 1.0, "first verdict": 0.5}, {}, service),
    ]
    verdicts = judge_starts({"cold_start": 4.0}, {"cold_start": 5.0})
    made = LoadReport("Load test, cold start", DEPLOYMENT, {}, verdicts, "2026", starts=starts)
    assert made.exit_code == 1
    text = to_markdown(made)
    assert "| cold 1 | 1.00 s | 4.00 s | - | 5.00 s |" in text
    assert "| warm 1 | 1.00 s | - | 500.0 ms | 1.50 s |" in text
    assert "| cold 1 | 3.50 s | 5.00 s |" in text
    assert render_load_page(made).count("<img ") == 1
