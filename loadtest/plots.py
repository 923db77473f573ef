"""Pictures: a run over time, latency against throughput, and starts by phase."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadtest.capacity import Search
from loadtest.checks import Outcome
from loadtest.coldstart import Start, name_starts
from loadtest.run import Run
from loadtest.series import Bin, make_series
from loadtest.server_metrics import intervals
from loadtest.slo import Status
from loadtest.workload import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _PANEL = 9.0, 2.3  # inches
_OK, _SHED, _ERROR, _OTHER = "#1f4e79", "#d98e04", "#b3261e", "#888888"
_GRID = "#dddddd"
_STATUS_COLOURS = {Status.MET: _OK, Status.MISSED: _ERROR, Status.UNTOLD: _OTHER}


def draw_run(run: Run) -> bytes:
    """Return a PNG: latency, throughput, in-flight and the service's own split, over time."""
    figure = _new_figure(_WIDTH, 4 * _PANEL)
    latency, throughput, in_flight, split = figure.subplots(4, 1, sharex=True)
    bins = make_series(run.rows)
    _draw_latency(latency, run, bins)
    _draw_throughput(throughput, bins)
    _draw_in_flight(in_flight, run, bins)
    _draw_split(split, run)
    for axes in (latency, throughput, in_flight, split):
        axes.grid(visible=True, linewidth=0.4, color=_GRID)
        axes.set_ylim(bottom=0)
        if run.plan.warm_up_s:
            axes.axvspan(0, run.plan.warm_up_s, color="#f0f0f0", zorder=0)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=7, loc="upper right", ncols=4)
    split.set_xlabel("seconds since the load began (grey: warm-up, not counted)")
    split.set_xlim(left=0)
    return _png(figure)


def _draw_latency(axes: Axes, run: Run, bins: Sequence[Bin]) -> None:
    good = [
        row
        for row in run.rows
        if row.judged.outcome is Outcome.OK and row.kind is not Kind.BAD_REQUEST
    ]
    axes.scatter(
        [row.intended_s for row in good], [row.latency_s for row in good], s=3, color="#c9d8e8"
    )
    for name, colour in (("p50", _OK), ("p95", _SHED)):
        shown = [(each.start_s, each.p50_s if name == "p50" else each.p95_s) for each in bins]
        known = [(at_s, value) for at_s, value in shown if value is not None]
        axes.plot(
            [at_s for at_s, _ in known], [value for _, value in known], color=colour, label=name
        )
    axes.set_ylabel("latency, s")


def _draw_throughput(axes: Axes, bins: Sequence[Bin]) -> None:
    at_s = [each.start_s for each in bins]
    lines = (
        ("offered", [each.offered_per_s for each in bins], _OTHER),
        ("ok", [each.ok_per_s for each in bins], _OK),
        ("shed", [each.shed_per_s for each in bins], _SHED),
        ("errors", [each.errors_per_s for each in bins], _ERROR),
    )
    for name, values, colour in lines:
        axes.step(at_s, values, where="post", color=colour, label=name, linewidth=1)
    axes.set_ylabel("requests/s")


def _draw_in_flight(axes: Axes, run: Run, bins: Sequence[Bin]) -> None:
    axes.plot(
        [(each.start_s + each.end_s) / 2 for each in bins],
        [each.in_flight for each in bins],
        color=_OTHER,
        label="requests open at the generator",
    )  # fmt: skip
    at_s = [sample.at_s - run.began_monotonic_s for sample in run.samples]
    accepted = [sample.in_flight for sample in run.samples]
    axes.plot(at_s, accepted, color=_OK, label="items in the service (/metrics)")
    waiting = [sample.waiting for sample in run.samples]
    axes.plot(at_s, waiting, color=_SHED, label="waiting in the engine")
    axes.set_ylabel("in flight")


def _draw_split(axes: Axes, run: Run) -> None:
    known = [
        (row.intended_s, row.judged.queue_ms / 1000, row.judged.inference_ms / 1000)
        for row in run.rows
        if row.judged.queue_ms is not None and row.judged.inference_ms is not None
    ]
    at_s = [at for at, _, _ in known]
    axes.scatter(at_s, [compute_s for _, _, compute_s in known], s=3, color="#c9d8e8")
    axes.scatter(at_s, [queue_s for _, queue_s, _ in known], s=3, color="#f2d5a0")
    means = [each for each in intervals(run.samples) if each.queue_s is not None]
    middle = [(each.start_s + each.end_s) / 2 - run.began_monotonic_s for each in means]
    axes.plot(
        middle, [each.inference_s or 0.0 for each in means], color=_OK, label="computing (mean)"
    )
    axes.plot(middle, [each.queue_s or 0.0 for each in means], color=_SHED, label="queue (mean)")
    axes.set_ylabel("in the engine, s")


def draw_curve(search: Search) -> bytes:
    """Return a PNG: latency against throughput, a point for each rate that was tried."""
    figure = _new_figure(_WIDTH, 2 * _PANEL)
    axes = figure.subplots()
    points = [point for point in search.points if point.run.figures.latency_s.num]
    spreads = [point.run.figures.latency_s for point in points]
    rates = [point.run.figures.answered_per_s for point in points]
    lines = (
        ("p50", "o", [each.p50 or 0.0 for each in spreads]),
        ("p95", "s", [each.p95 or 0.0 for each in spreads]),
        ("p99", "^", [each.p99 or 0.0 for each in spreads]),
    )
    for name, marker, values in lines:
        axes.plot(rates, values, color=_OTHER, linewidth=1, zorder=1)
        axes.scatter(
            rates, values, marker=marker, s=28, zorder=2, label=name,
            color=[_STATUS_COLOURS[point.status] for point in points],
        )  # fmt: skip
    axes.set(xlabel="requests answered as they should be, a second", ylabel="latency, s")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, linewidth=0.4, color=_GRID)
    axes.legend(fontsize=8)
    return _png(figure)


def draw_starts(starts: Sequence[Start]) -> bytes:
    """Return a PNG: one bar a start, its phases on top of each other."""
    figure = _new_figure(_WIDTH, 2 * _PANEL)
    axes = figure.subplots()
    phases = list(dict.fromkeys(phase for start in starts for phase in start.phases))
    names = name_starts(starts)
    below = [0.0] * len(starts)
    for phase in phases:
        heights = [start.phases.get(phase, 0.0) for start in starts]
        axes.bar(names, heights, bottom=below, label=phase)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set_ylabel("seconds to the first verdict")
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis="y", linewidth=0.4, color=_GRID)
    axes.legend(fontsize=8)
    return _png(figure)


def _new_figure(width: float, height: float) -> Figure:
    # The Agg canvas and no pyplot: no display, and no figure that stays in memory.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    return figure


def _png(figure: Figure) -> bytes:
    png = io.BytesIO()
    figure.savefig(png, format="png")
    return png.getvalue()
