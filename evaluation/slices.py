"""Named parts of the predictions, each with its metrics, intervals and shortcut baselines.

A part is scored beside rules that read nothing, fitted on the same kind of rows: no figure stands
alone that a rule would reach as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Protocol

from contract.labels import Label
from contract.reference import LengthQuantiles
from evaluation import calibration, metrics
from evaluation.bootstrap import Estimate, Metric, average_over_sets, bootstrap
from evaluation.calibration import ReliabilityBin, reliability_bins
from evaluation.justifications import JustificationShares, check_justifications
from evaluation.metrics import Confusion, confuse
from evaluation.prediction import Prediction
from evaluation.shortcuts import LabelledText, ShortcutScore, shortcut_table

METRICS: Mapping[str, Metric] = {
    "precision": metrics.precision,
    "recall": metrics.recall,
    "f1": metrics.f1,
    "balanced_accuracy": metrics.balanced_accuracy,
    "accuracy": metrics.accuracy,
    "predicted_hallucination_share": metrics.predicted_hallucination_share,
    "unreadable_rate": metrics.unreadable_rate,
    "ece": calibration.sampled_ece,
    "brier": calibration.sampled_brier,
    "auroc": calibration.sampled_auroc,
}
"""What every slice is measured by; the last three need probabilities."""

OVERALL = "overall"
MACRO = "macro average over sets"
LENGTH_MATCHED = "length-matched"


RowKey = tuple[str, str]
"""Set and id: ids are unique in a set alone."""


class SliceKind(StrEnum):
    """How the rows of a slice were chosen."""

    OVERALL = "overall"
    MACRO = "macro"
    SET = "set"
    PART = "part"


class FitRow(LabelledText, Protocol):
    """A row that thresholds of shortcuts are fitted on."""

    @property
    def id(self) -> str:
        """Unique in its set."""

    @property
    def set_name(self) -> str:
        """The data set."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What a part of the predictions reaches.

    Attributes:
        name: Such as the data set, or ``halueval_qa, length-matched``.
        kind: How its rows were chosen.
        num_rows: Predictions.
        num_pairs: Of them, resampled as wholes.
        num_hallucinations: Rows whose gold class is hallucination.
        metrics: A key of ``METRICS`` -> value and interval; None where it is not defined.
        confusion: Outcome counts; None for a macro average.
        shortcuts: What the rules reach on the same rows.
        is_shortcut_fit_here: The rules were fitted on the scored rows themselves, for want of
            others; it favours them.
        justifications: What the justifications are like.
        justification_chars: How long they are, 0 where a readable reply has none; None where no
            reply was read.
        reliability: Bins of P(hallucination); empty where there are no probabilities.
    """

    name: str
    kind: SliceKind
    num_rows: int
    num_pairs: int
    num_hallucinations: int
    metrics: Mapping[str, Estimate | None]
    confusion: Confusion | None
    shortcuts: tuple[ShortcutScore, ...]
    is_shortcut_fit_here: bool
    justifications: JustificationShares
    justification_chars: LengthQuantiles | None
    reliability: tuple[ReliabilityBin, ...]

    @property
    def best_shortcut(self) -> ShortcutScore:
        """The rule with the highest balanced accuracy."""
        return max(self.shortcuts, key=lambda score: score.balanced_accuracy)

    @property
    def beats_shortcuts(self) -> bool:
        """Whether both F1 and balanced accuracy are above what any of the rules reaches."""
        own_f1, own_balanced = self.metrics["f1"], self.metrics["balanced_accuracy"]
        if own_f1 is None or own_balanced is None:
            return False
        return own_f1.value > max(score.f1 for score in self.shortcuts) and (
            own_balanced.value > self.best_shortcut.balanced_accuracy
        )


@dataclass(frozen=True, slots=True)
class Measuring:
    """How slices are measured.

    Attributes:
        fit_rows: Where thresholds of shortcuts come from; may be empty.
        samples: Bootstrap resamples.
        seed: Of the bootstrap.
    """

    fit_rows: Sequence[FitRow]
    samples: int
    seed: int

    def measure(
        self,
        name: str,
        kind: SliceKind,
        predictions: Sequence[Prediction],
        keys: Collection[RowKey] | None = None,
    ) -> Slice:
        """Return a slice.

        Args:
            name: Of the slice.
            kind: How the rows were chosen.
            predictions: Its rows, at least one.
            keys: Where rows were chosen one by one: shortcuts are fitted on those of these keys.
        """
        set_names = {p.set_name for p in predictions}
        fit_rows: list[FitRow] = [
            row
            for row in self.fit_rows
            if row.set_name in set_names and (keys is None or (row.set_name, row.id) in keys)
        ]
        is_fit_here = len({row.label for row in fit_rows}) < len(Label)
        table = shortcut_table(predictions if is_fit_here else fit_rows, predictions)
        judged = [p for p in predictions if p.probability is not None]
        probabilities = [p.probability for p in judged if p.probability is not None]
        return Slice(
            name=name,
            kind=kind,
            num_rows=len(predictions),
            num_pairs=len({(p.set_name, p.pair_id) for p in predictions}),
            num_hallucinations=sum(p.gold is Label.HALLUCINATION for p in predictions),
            metrics=bootstrap(predictions, METRICS, self.samples, self.seed),
            confusion=confuse(predictions),
            shortcuts=tuple(table),
            is_shortcut_fit_here=is_fit_here,
            justifications=check_justifications(predictions),
            justification_chars=_measure_lengths(predictions),
            reliability=(
                reliability_bins(probabilities, [p.gold for p in judged]) if judged else ()
            ),
        )

    def average(self, predictions: Sequence[Prediction], sets: Sequence[Slice]) -> Slice:
        """Return the macro average over sets, each with the same weight.

        Args:
            predictions: All of them.
            sets: Their slices by set.
        """
        averaged = {name: average_over_sets(metric) for name, metric in METRICS.items()}
        return Slice(
            name=MACRO,
            kind=SliceKind.MACRO,
            num_rows=len(predictions),
            num_pairs=sum(part.num_pairs for part in sets),
            num_hallucinations=sum(part.num_hallucinations for part in sets),
            metrics=bootstrap(predictions, averaged, self.samples, self.seed),
            confusion=None,
            shortcuts=tuple(
                ShortcutScore(
                    name=scores[0].name,
                    threshold=None,
                    direction=None,
                    balanced_accuracy=fmean(score.balanced_accuracy for score in scores),
                    f1=fmean(score.f1 for score in scores),
                    num_rows=sum(score.num_rows for score in scores),
                )
                for scores in zip(*(part.shortcuts for part in sets), strict=True)
            ),
            is_shortcut_fit_here=any(part.is_shortcut_fit_here for part in sets),
            justifications=check_justifications(predictions),
            justification_chars=_measure_lengths(predictions),
            reliability=(),
        )


def _measure_lengths(predictions: Sequence[Prediction]) -> LengthQuantiles | None:
    lengths = [len(p.justification or "") for p in predictions if p.verdict is not None]
    return LengthQuantiles.of(lengths) if lengths else None
