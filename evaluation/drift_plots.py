"""Pictures of a comparison: reliability, histograms of the probability, and confusion, twice."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.labels import Label
from evaluation.calibration import NUM_BINS, reliability_bins
from evaluation.noise import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANEL_INCHES = 3.4
_COLOURS = ("#888888", "#1f4e79")
_LINE, _GRID = "#888888", "#dddddd"


@dataclass(frozen=True, slots=True)
class Judged:
    """What one side said, beside the gold classes.

    Attributes:
        name: Of the side.
        golds: Of each case.
        outcomes: Of each case.
    """

    name: str
    golds: Sequence[Label]
    outcomes: Sequence[Outcome]

    @property
    def known(self) -> tuple[list[float], list[Label]]:
        """The probabilities that there are, with their gold classes."""
        pairs = [
            (outcome.probability, gold)
            for outcome, gold in zip(self.outcomes, self.golds, strict=True)
            if outcome.probability is not None
        ]
        return [probability for probability, _ in pairs], [gold for _, gold in pairs]

    def count(self, gold: Label, verdict: Label | None) -> int:
        """Return how many cases of a class got a verdict."""
        pairs = zip(self.outcomes, self.golds, strict=True)
        return sum(o.verdict is verdict and own is gold for o, own in pairs)


def draw_reliability(sides: Sequence[Judged]) -> bytes:
    """Return a PNG: the share of hallucinations in each bin of the probability, for each side."""
    figure = _new_figure(1.6 * _PANEL_INCHES, 1.2 * _PANEL_INCHES)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], linestyle="--", linewidth=1, color=_LINE, label="calibrated")
    for side, colour, marker in zip(sides, _COLOURS, "so", strict=True):
        probabilities, golds = side.known
        if probabilities:
            bins = reliability_bins(probabilities, golds)
            axes.plot(
                [each.mean_probability for each in bins],
                [each.hallucination_share for each in bins],
                marker=marker, markersize=4, linewidth=1.2, color=colour, label=side.name,
            )  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="P(hallucination)")
    axes.set_ylabel("share of hallucinations")
    axes.grid(visible=True, linewidth=0.4, color=_GRID)
    axes.legend(fontsize=8, frameon=False)
    return _png(figure)


def draw_histograms(sides: Sequence[Judged]) -> bytes:
    """Return a PNG: how many cases have which probability, for each side, one panel a class."""
    figure = _new_figure(2 * _PANEL_INCHES, _PANEL_INCHES)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, label in zip(panels, Label, strict=True):
        shown = []
        for side in sides:
            probabilities, golds = side.known
            shown.append([p for p, g in zip(probabilities, golds, strict=True) if g is label])
        axes.hist(
            shown, bins=NUM_BINS, range=(0, 1), color=_COLOURS, label=[side.name for side in sides]
        )
        axes.set_title(f"gold class: {label}", fontsize=9)
        axes.set_xlabel("P(hallucination)")
        axes.grid(visible=True, axis="y", linewidth=0.4, color=_GRID)
    panels[0].set_ylabel("cases")
    panels[1].legend(fontsize=8, frameon=False)
    return _png(figure)


def draw_confusion(sides: Sequence[Judged]) -> bytes:
    """Return a PNG: gold class against verdict, one panel a side."""
    figure = _new_figure(2 * _PANEL_INCHES, 0.8 * _PANEL_INCHES)
    verdicts: tuple[Label | None, ...] = (*Label, None)
    panels = figure.subplots(1, 2, sharey=True)
    panels[0].set_ylabel("gold class")
    for axes, side in zip(panels, sides, strict=True):
        counts = [[side.count(gold, verdict) for verdict in verdicts] for gold in Label]
        highest = max(max(row) for row in counts)
        axes.imshow(counts, cmap="Blues", vmin=0, vmax=max(1, highest), aspect="auto")
        axes.set_title(side.name, fontsize=9)
        axes.set_xticks(range(len(verdicts)), [str(each or "unreadable") for each in verdicts])
        axes.set_yticks(range(len(Label)), list(map(str, Label)))
        axes.tick_params(labelsize=8)
        axes.set_xlabel("verdict")
        for row, line in enumerate(counts):
            for column, count in enumerate(line):
                colour = "white" if count > highest / 2 else "black"
                axes.text(column, row, str(count), ha="center", va="center", color=colour)
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
