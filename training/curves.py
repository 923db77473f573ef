"""Draws the metrics of a stage: a few figures, each of panels above a common axis of steps."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from evaluation.metrics import Confusion
from training.figure_plans import PLANS, FigurePlan, Line, Panel
from training.metrics_file import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH_INCHES, _PANEL_INCHES, _DPI = 8.0, 2.6, 110
_GRID = "#dddddd"
_MAX_MARKED_POINTS = 40
"""Above it, points are too close for marks, and a running mean is drawn over the steps."""

_COUNTS = ("train_tp", "train_fp", "train_tn", "train_fn")
_POOLED: Mapping[str, Callable[[Confusion], float]] = {
    "train_precision": lambda counts: counts.precision,
    "train_recall": lambda counts: counts.recall,
    "train_f1": lambda counts: counts.f1,
    "train_balanced_accuracy": lambda counts: counts.balanced_accuracy,
}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawn figure.

    Attributes:
        name: For its file, such as ``reward``.
        title: Its heading.
        caption: What to look for in it.
        description: Its figures in words, for those who do not see it.
        png: The picture.
    """

    name: str
    title: str
    caption: str
    description: str
    png: bytes


@dataclass(frozen=True, slots=True)
class Curve:
    """The values of one metric over the steps that have it.

    Attributes:
        line: How it is drawn.
        steps: Rising.
        values: One for each step; NaN where it was not finite.
    """

    line: Line
    steps: tuple[int, ...]
    values: tuple[float, ...]

    def describe(self) -> str:
        """Return first, last, lowest and highest value in words."""
        known = [(v, s) for s, v in zip(self.steps, self.values, strict=True) if v == v]
        if not known:
            return f"{self.line.label} never a finite number"
        (first, first_step), (last, last_step) = known[0], known[-1]
        text = f"{self.line.label} {first:.3g} at step {first_step}"
        if len(known) > 1:
            text += f", {last:.3g} at step {last_step}"
        if len(known) > 2:
            (low, low_step), (high, high_step) = min(known), max(known)
            text += f" (lowest {low:.3g} at {low_step}, highest {high:.3g} at {high_step})"
        lost = len(self.values) - len(known)
        return f"{text}, not finite in {lost} rows" if lost else text


def find_curve(rows: Sequence[Row], line: Line) -> Curve | None:
    """Return a metric's curve; None where no row has it."""
    points = [
        (int(row["step"] or 0), math.nan if (value := row[line.metric]) is None else value)
        for row in rows
        if line.metric in row
    ]
    if not points:
        return None
    return Curve(line, tuple(step for step, _ in points), tuple(value for _, value in points))


def pool_verdicts(rows: Sequence[Row], num_windows: int = _MAX_MARKED_POINTS) -> list[Row]:
    """Return the rows with precision, recall, F1 and balanced accuracy of windows of training rows.

    Each window's values are those of its counts together, and stand in its last row; a running
    mean of F1 would be the F1 of nothing.

    Args:
        rows: Those without counts stay as they are.
        num_windows: At most so many windows, of equally many rows but for the last.
    """
    pooled = [dict(row) for row in rows]
    counted = [row for row in pooled if all(row.get(name) is not None for name in _COUNTS)]
    size = max(1, math.ceil(len(counted) / num_windows))
    for start in range(0, len(counted), size):
        window = counted[start : start + size]
        tp, fp, tn, fn = (sum(int(row[name] or 0) for row in window) for name in _COUNTS)
        confusion = Confusion(tp=tp, fp=fp, tn=tn, fn=fn)
        for row in window:
            for name in _POOLED:
                row.pop(name, None)
        window[-1].update((name, value(confusion)) for name, value in _POOLED.items())
    return pooled


def draw_figures(rows: Sequence[Row]) -> list[Drawing]:
    """Return every figure that the rows have something for, in order."""
    rows = pool_verdicts(rows)
    return [drawing for plan in PLANS if (drawing := _draw(plan, rows)) is not None]


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """Return the mean of the finite values around each place, NaN where there is none.

    Args:
        values: One a row.
        window: Odd number of places; fewer are used at the ends.

    Example:
        >>> running_mean([1.0, 2.0, 6.0, math.nan], 3)
        [1.5, 3.0, 4.0, 6.0]
    """
    half = window // 2
    means = []
    for place in range(len(values)):
        near = values[max(0, place - half) : place + half + 1]
        known = [value for value in near if value == value]
        means.append(fmean(known) if known else math.nan)
    return means


def _draw(plan: FigurePlan, rows: Sequence[Row]) -> Drawing | None:
    # The Agg canvas and no pyplot: no display, and no figure that stays in memory.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = [(panel, _find_curves(panel, rows)) for panel in plan.panels]
    panels = [(panel, curves) for panel, curves in found if curves]
    if not panels:
        return None
    figure = Figure(
        figsize=(_WIDTH_INCHES, 0.5 + _PANEL_INCHES * len(panels)), dpi=_DPI, layout="constrained"
    )
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(panels), 1, squeeze=False, sharex=True)
    for axes, (panel, curves) in zip(grid[:, 0], panels, strict=True):
        _draw_panel(axes, panel, curves)
    steps = [step for _, curves in panels for curve in curves for step in curve.steps]
    margin = max(0.5, 0.02 * (max(steps) - min(steps)))
    grid[-1, 0].set_xlim(min(steps) - margin, max(steps) + margin)
    grid[-1, 0].xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    grid[-1, 0].set_xlabel("step")
    png = io.BytesIO()
    figure.savefig(png, format="png")
    return Drawing(
        plan.name,
        plan.title,
        plan.caption,
        " ".join(f"{panel.title}: {_describe(curves)}." for panel, curves in panels),
        png.getvalue(),
    )


def _describe(curves: Sequence[Curve]) -> str:
    return "; ".join(curve.describe() for curve in curves)


def _find_curves(panel: Panel, rows: Sequence[Row]) -> list[Curve]:
    curves = [curve for line in panel.lines if (curve := find_curve(rows, line)) is not None]
    if panel.is_stacked:
        # A phase that a stage does not have would only stand in the legend.
        curves = [curve for curve in curves if any(value > 0 for value in curve.values)]
    return curves


def _draw_panel(axes: Axes, panel: Panel, curves: Sequence[Curve]) -> None:
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_ylabel(panel.unit, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, linewidth=0.5, color=_GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.is_stacked:
        _stack(axes, curves)
    else:
        for curve in curves:
            _draw_curve(axes, curve)
    if panel.is_share:
        axes.set_ylim(-0.03, 1.03)
    elif panel.is_from_zero:
        axes.set_ylim(bottom=0)
    if len(panel.lines) > 1:
        # Beside the panel: inside it, it would lie on some run's curves.
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_curve(axes: Axes, curve: Curve) -> None:
    line = curve.line
    is_marked = len(curve.values) <= _MAX_MARKED_POINTS
    values: Sequence[float] = curve.values
    if line.is_noisy and not is_marked:
        axes.plot(curve.steps, values, color=line.colour, linewidth=0.7, alpha=0.3)
        values = running_mean(values, _window(len(values)))
    axes.plot(
        curve.steps,
        values,
        color=line.colour,
        linestyle="--" if line.is_dashed else "-",
        linewidth=1.6,
        marker="o" if is_marked else None,
        markersize=3,
        label=line.label,
    )


def _window(num_points: int) -> int:
    """Return an odd number of points, about a twentieth of them."""
    return 2 * max(2, num_points // 40) + 1


def _stack(axes: Axes, curves: Sequence[Curve]) -> None:
    steps = sorted({step for curve in curves for step in curve.steps})
    gaps = [later - earlier for earlier, later in itertools.pairwise(steps)]
    width = median(gaps) if gaps else 1
    bottom = dict.fromkeys(steps, 0.0)
    for curve in curves:
        heights = dict.fromkeys(steps, 0.0)
        heights.update(
            (step, value)
            for step, value in zip(curve.steps, curve.values, strict=True)
            if value == value
        )
        axes.bar(
            steps,
            list(heights.values()),
            bottom=list(bottom.values()),
            width=width,
            color=curve.line.colour,
            edgecolor="white",
            linewidth=0.4 if len(steps) <= _MAX_MARKED_POINTS else 0,
            label=curve.line.label,
        )
        for step in steps:
            bottom[step] += heights[step]
