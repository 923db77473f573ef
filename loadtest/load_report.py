"""A load test that is over, and its tables: what every form of the report is made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluation.page import Table, TableRow
from loadtest.capacity import Point, Search
from loadtest.checks import Outcome
from loadtest.coldstart import Start, name_starts
from loadtest.figures import Figures, Spread
from loadtest.plan import Loop
from loadtest.run import Run
from loadtest.series import StageFigures
from loadtest.slo import Deployment, Status, Verdict, exit_code

_NONE = "-"


@dataclass(frozen=True, slots=True)
class LoadReport:
    """A load test that is over: one run, a search for the capacity, or starts.

    Attributes:
        title: What was measured.
        deployment: Whose goals were held against it.
        conditions: Name -> value: command, commit, machine, service, load.
        verdicts: On the goals.
        measured_at: Date and time, ISO 8601.
        run: Of a profile; of a search, the best one.
        search: For the capacity; else None.
        starts: Of the profile ``coldstart``; else none.
    """

    title: str
    deployment: Deployment
    conditions: Mapping[str, str]
    verdicts: Sequence[Verdict]
    measured_at: str
    run: Run | None = None
    search: Search | None = None
    starts: Sequence[Start] = ()

    @property
    def exit_code(self) -> int:
        """Return 0 where the goals are met, 1 where one is missed, 2 where it cannot be told."""
        if self.search is not None:
            if self.search.best is not None:
                return 0
            return 1 if self.search.points[0].status is Status.MISSED else 2
        if self.run is not None and self.run.why_not_measured is not None:
            return 2
        return exit_code(list(self.verdicts))

    @property
    def outcome(self) -> str:
        """The same in words."""
        return ("met", "missed", "could not measure")[self.exit_code]

    @property
    def reason(self) -> str:
        """Why, in one sentence without its end."""
        if self.search is not None:
            return _describe_search(self.search)
        if self.run is not None and self.run.why_not_measured is not None:
            return self.run.why_not_measured
        missed = [each for each in self.verdicts if each.status is Status.MISSED]
        if missed:
            return "; ".join(map(_describe_miss, missed))
        untold = [each.goal.name for each in self.verdicts if each.status is Status.UNTOLD]
        if untold:
            return f"too little was measured for {', '.join(untold)}: raise --duration or --rate"
        return "every goal is met"

    @property
    def notices(self) -> Iterator[str]:
        """What must not be missed."""
        if self.run is not None and self.run.plan.loop is Loop.CLOSED:
            yield (
                "Closed loop: each request waited for the answer before it, so that requests were "
                "not sent while the service was slow. These latencies leave that waiting out."
            )
        if not self.deployment.is_measured:
            yield (
                f"The goals of {self.deployment.name} are not confirmed by a measurement: "
                f"{self.deployment.note}."
            )
        if self.run is not None and self.run.metrics_fault is not None:
            yield f"The service's own view is incomplete: {self.run.metrics_fault}."


def _describe_miss(verdict: Verdict) -> str:
    measured, limit = _goal_cells(verdict)
    return f"the {verdict.goal.name} is {measured}, and should be {limit}"


def _goal_cells(verdict: Verdict) -> tuple[str, str]:
    quantity = verdict.goal.quantity
    measured = _NONE if verdict.value is None else show(verdict.value, quantity)
    bound = "at least" if verdict.goal.is_floor else "at most"
    return measured, f"{bound} {show(verdict.limit, quantity)}"


def _describe_search(search: Search) -> str:
    if search.best is None:
        return f"no rate that was tried meets the goals; the search ended {search.end}"
    return (
        f"{search.best.rate_per_s:.3g} requests/s is the highest rate that was seen to meet the "
        f"goals; the search ended {search.end}"
    )


def goal_table(verdicts: Sequence[Verdict]) -> Table:
    """Return the goals beside what was measured."""
    rows = tuple(
        TableRow((verdict.goal.name, str(verdict.status), *_goal_cells(verdict)))
        for verdict in verdicts
    )
    return Table("Goals", ("goal", "status", "measured", "goal's value"), rows)


def figure_tables(figures: Figures) -> list[Table]:
    """Return the figures of a run: times, rates, kinds, and why requests failed."""
    spreads = {
        "latency from the intended start": figures.latency_s,
        "latency from the send": figures.latency_from_send_s,
        "schedule lag": figures.lag_s,
        "queue in the engine (Server-Timing)": figures.queue_s,
        "computing (Server-Timing)": figures.inference_s,
    }
    within_s = figures.goodput_within_s
    bound = "" if within_s is None else f", within {show(within_s, 'time')}"
    rates = {
        "measured, warm-up left out": show(figures.window_s, "time"),
        "requests": str(figures.num_requests),
        "offered": f"{figures.offered_per_s:.2f} /s",
        "answered as they should be": f"{figures.answered_per_s:.2f} /s",
        "verdicts (items of batches counted)": f"{figures.verdicts_per_s:.2f} /s",
        f"goodput{bound}, share of the offered": show(figures.goodput, "share"),
        f"goodput{bound}": f"{figures.goodput_per_s:.2f} /s",
        "error rate": show(figures.error_rate, "share"),
        "shed rate": show(figures.shed_rate, "share"),
    }
    tables = [
        Table(
            f"Times ({figures.loop} loop)",
            ("time", "answers", "p50", "p95", "p99", "highest"),
            tuple(TableRow((name, *_spread_cells(each))) for name, each in spreads.items()),
        ),
        Table("Rates", ("figure", "value"), tuple(TableRow(pair) for pair in rates.items())),
        Table(
            "Kinds of requests",
            ("kind", *map(str, Outcome)),
            tuple(
                TableRow((str(kind), *(str(counts[outcome]) for outcome in Outcome)))
                for kind, counts in figures.kinds.items()
            ),
        ),
    ]
    if figures.reasons:
        reasons = tuple(TableRow((why, str(num))) for why, num in figures.reasons.items())
        tables.append(Table("Refused and failed", ("why", "requests"), reasons))
    return tables


def stage_table(stages: Sequence[StageFigures]) -> Table:
    """Return the figures of each stage of a load that has several."""
    rows = tuple(
        TableRow(
            (
                f"{stage.start_s:g} to {stage.end_s:g} s",
                f"{stage.offered_per_s:.2f} /s",
                *_spread_cells(stage.latency_s),
                show(stage.shed_rate, "share"),
                show(stage.error_rate, "share"),
            )
        )
        for stage in stages
    )
    columns = ("stage", "offered", "answers", "p50", "p95", "p99", "highest", "shed", "errors")
    return Table("Stages, by the intended start", columns, rows)


def curve_table(points: Sequence[Point]) -> Table:
    """Return the rates of a search."""
    rows = tuple(
        TableRow(
            (
                f"{point.rate_per_s:.3g} /s",
                str(point.status),
                f"{point.run.figures.answered_per_s:.2f} /s",
                *_spread_cells(point.run.figures.latency_s)[1:4],
                show(point.run.figures.shed_rate, "share"),
                show(point.run.figures.error_rate, "share"),
                show(point.run.figures.goodput, "share"),
            )
        )
        for point in points
    )
    columns = ("rate", "goals", "answered", "p50", "p95", "p99", "shed", "errors", "goodput")
    return Table("Rates that were tried, each in a fresh run", columns, rows)


def start_tables(starts: Sequence[Start]) -> list[Table]:
    """Return the starts by phase, as they were seen and as the service reports them."""
    tables = []
    views = (
        ("Starts, seen from outside", [start.phases for start in starts]),
        ("Starts, as the service reports them", [start.reported for start in starts]),
    )
    for caption, each in views:
        phases = list(dict.fromkeys(phase for view in each for phase in view))
        rows = tuple(
            TableRow(
                (
                    name,
                    *(show(view[phase], "time") if phase in view else _NONE for phase in phases),
                    show(start.total_s, "time"),
                )
            )
            for name, start, view in zip(name_starts(starts), starts, each, strict=True)
        )
        tables.append(Table(caption, ("start", *phases, "to the first verdict"), rows))
    return tables


def _spread_cells(spread: Spread) -> tuple[str, ...]:
    values = (spread.p50, spread.p95, spread.p99, spread.highest)
    shown = (_NONE if value is None else show(value, "time") for value in values)
    return (str(spread.num), *shown)


def show(value: float, quantity: str) -> str:
    """Return a quantity for people.

    Args:
        value: In seconds, or a share.
        quantity: ``time`` or ``share``.

    Example:
        >>> show(0.0123, "time"), show(1.5, "time"), show(0.25, "share")
        ('12.3 ms', '1.50 s', '25 %')
    """
    if quantity == "share":
        return f"{100 * value:.4g} %"
    return f"{1000 * value:.1f} ms" if value < 1 else f"{value:.2f} s"
