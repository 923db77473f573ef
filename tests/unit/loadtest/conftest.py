"""Rows in one line each, and a run made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pytest

from loadtest.arrivals import Stage
from loadtest.checks import Judged, Outcome
from loadtest.figures import compute_figures, why_not_measured
from loadtest.generator import Generated
from loadtest.plan import Loop, Plan
from loadtest.rows import Row
from loadtest.run import Run
from loadtest.workload import Kind


class MakeRow(Protocol):
    def __call__(
        self,
        intended_s: float,
        latency_s: float,
        lag_s: float = 0.0,
        *,
        kind: Kind = Kind.SHORT_QA,
        outcome: Outcome = Outcome.OK,
        reason: str | None = None,
        num_verdicts: int = 1,
        queue_ms: float | None = None,
        inference_ms: float | None = None,
    ) -> Row: ...


class MakeRun(Protocol):
    def __call__(
        self,
        rows: Sequence[Row],
        *,
        seconds: float = 10.0,
        warm_up_s: float = 0.0,
        num_scheduled: int | None = None,
        loop: Loop = Loop.OPEN,
        goodput_within_s: float | None = None,
    ) -> Run: ...


@pytest.fixture(scope="session")
def make_row() -> MakeRow:
    """Make a row; ``lag_s`` is the part of the latency before the send."""

    def make(
        intended_s: float,
        latency_s: float,
        lag_s: float = 0.0,
        *,
        kind: Kind = Kind.SHORT_QA,
        outcome: Outcome = Outcome.OK,
        reason: str | None = None,
        num_verdicts: int = 1,
        queue_ms: float | None = None,
        inference_ms: float | None = None,
    ) -> Row:
        judged = Judged(
            outcome,
            reason,
            num_verdicts=num_verdicts,
            queue_ms=queue_ms,
            inference_ms=inference_ms,
        )
        done_s = intended_s + latency_s
        return Row(0, kind, intended_s, intended_s + lag_s, done_s, 200, judged)

    return make


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """Make a run of so many seconds, warm-up included."""

    def make(
        rows: Sequence[Row],
        *,
        seconds: float = 10.0,
        warm_up_s: float = 0.0,
        num_scheduled: int | None = None,
        loop: Loop = Loop.OPEN,
        goodput_within_s: float | None = None,
    ) -> Run:
        plan = Plan((Stage(seconds, 1, 1),), warm_up_s, 1, 70, loop)
        scheduled = len(rows) if num_scheduled is None else num_scheduled
        generated = Generated(list(rows), scheduled, 0.0)
        figures = compute_figures(plan, generated, goodput_within_s)
        return Run(plan, rows, figures, [], 0.0, None, why_not_measured(figures))

    return make
