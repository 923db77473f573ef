"""The reliability plot: where a probability is given, how often is it a hallucination?"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evaluation.slices import Slice, SliceKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NUM_COLUMNS = 3
_PANEL_INCHES = 3.2
_POINT, _LINE, _BAR = "#1f4e79", "#888888", "#c9d8e8"


def draw_reliability(slices: Sequence[Slice]) -> bytes:
    """Return a PNG with one panel for all predictions and one for each set.

    A point is a bin: on the diagonal it is calibrated, above it the detector is too careful, below
    it too sure. Bars are the shares of the rows in the bins.
    """
    # The Agg canvas and no pyplot: no display, and no figure that stays in memory.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = [part for part in slices if part.kind in (SliceKind.OVERALL, SliceKind.SET)]
    if len(shown) == 2:
        shown = shown[:1]  # The one set is the whole.
    columns = min(_NUM_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = Figure(
        figsize=(columns * _PANEL_INCHES, rows * _PANEL_INCHES), layout="constrained", dpi=120
    )
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes, part in zip(grid.flat, shown, strict=False):
        _draw_panel(axes, part)
    for axes in list(grid.flat)[len(shown) :]:
        axes.set_visible(False)
    figure.supxlabel("P(hallucination)")
    figure.supylabel("share of hallucinations")
    png = io.BytesIO()
    figure.savefig(png, format="png")
    return png.getvalue()


def _draw_panel(axes: Axes, part: Slice) -> None:
    ece = part.metrics["ece"]
    title = f"{part.name}, n = {part.num_rows}"
    axes.set_title(title if ece is None else f"{title}\nECE {ece.value:.3f}", fontsize=9)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.tick_params(labelbottom=True, labelsize=8)
    axes.grid(visible=True, linewidth=0.4, color="#dddddd")
    axes.plot([0, 1], [0, 1], linestyle="--", linewidth=1, color=_LINE, label="calibrated")
    if not part.reliability:
        axes.text(0.5, 0.5, "no probabilities", ha="center", va="center")
        return
    total = sum(found.num_rows for found in part.reliability)
    axes.bar(
        [found.low for found in part.reliability],
        [found.num_rows / total for found in part.reliability],
        width=[found.high - found.low for found in part.reliability],
        align="edge",
        color=_BAR,
        edgecolor="white",
        label="share of rows",
    )
    axes.plot(
        [found.mean_probability for found in part.reliability],
        [found.hallucination_share for found in part.reliability],
        marker="o",
        markersize=4,
        linewidth=1.2,
        color=_POINT,
        label="bins",
    )
    if part.kind is SliceKind.OVERALL:
        axes.legend(fontsize=7, loc="upper left", frameon=False)
