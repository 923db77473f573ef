"""An evaluation: every slice of the predictions beside its shortcuts, as JSON, Markdown, PNG."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contract.manifest import CONTRACT_VERSION, fingerprint
from evaluation.bootstrap import Estimate
from evaluation.errors import EvaluationError
from evaluation.files import write_whole
from evaluation.markdown import to_markdown
from evaluation.plot import draw_reliability
from evaluation.prediction import Prediction
from evaluation.slices import (
    LENGTH_MATCHED,
    OVERALL,
    FitRow,
    Measuring,
    RowKey,
    Slice,
    SliceKind,
)

__all__ = ["Evaluation", "ReportPaths", "evaluate", "to_json", "to_markdown", "write_report"]

REQUIRED_PROVENANCE = ("model", "revision", "data_revisions", "command")
"""Without these, nobody could repeat the figures."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a detector reaches, and on what.

    Attributes:
        provenance: Name -> value, JSON-ready: model, revision, data_revisions, command, the
            contract's version and fingerprint, and whatever else the caller knows.
        slices: Overall first, then the macro average, the sets, and the parts by id.
        bootstrap_samples: Behind every interval.
        seed: Of the bootstrap.
    """

    provenance: Mapping[str, Any]
    slices: tuple[Slice, ...]
    bootstrap_samples: int
    seed: int

    def find(self, name: str) -> Slice:
        """Return the slice of that name.

        Raises:
            EvaluationError: There is none; the message lists those there are.
        """
        for part in self.slices:
            if part.name == name:
                return part
        names = ", ".join(part.name for part in self.slices)
        raise EvaluationError(f"there is no slice {name!r}; there are: {names}")


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """Where a report was written."""

    json: Path
    markdown: Path
    plot: Path


def evaluate(
    predictions: Sequence[Prediction],
    fit_rows: Sequence[FitRow] | None,
    length_matched: Collection[RowKey],
    provenance: Mapping[str, Any],
    *,
    parts: Mapping[str, Collection[RowKey]] | None = None,
    bootstrap_samples: int = 1000,
    seed: int = 1,
) -> Evaluation:
    """Measure the predictions: overall, as a macro average, by set, length-matched, and in parts.

    Args:
        predictions: At least one, each example once.
        fit_rows: Rows that the predictions do not cover, such as the training split, to fit the
            thresholds of the shortcuts on. A slice without such rows of both classes fits them on
            itself, which favours the shortcuts.
        length_matched: (set, id) of rows whose pair has responses of the same length, among the
            predictions and, to fit on, among ``fit_rows``.
        provenance: What was measured and how; ``REQUIRED_PROVENANCE`` must be in it. The contract's
            version and fingerprint are this code's where it does not say otherwise.
        parts: Further slices: name -> (set, id), such as ``raw`` and ``treated``. As with
            length-matched rows, each gives a slice over all sets and, where there are several, one
            for each.
        bootstrap_samples: Resamples, at least 1.
        seed: Of the bootstrap.

    Raises:
        EvaluationError: There is no prediction, an example occurs twice, or the provenance lacks a
            value.
    """
    _check(predictions, provenance)
    measuring = Measuring(fit_rows or (), bootstrap_samples, seed)
    by_set: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        by_set.setdefault(prediction.set_name, []).append(prediction)
    sets = [measuring.measure(name, SliceKind.SET, by_set[name]) for name in sorted(by_set)]
    slices = [
        measuring.measure(OVERALL, SliceKind.OVERALL, predictions),
        measuring.average(predictions, sets),
        *sets,
    ]
    for name, keys in {LENGTH_MATCHED: length_matched, **(parts or {})}.items():
        slices += _measure_part(measuring, name, frozenset(keys), by_set)
    contract = {"contract_version": CONTRACT_VERSION, "contract_fingerprint": fingerprint()}
    return Evaluation({**contract, **provenance}, tuple(slices), bootstrap_samples, seed)


def _check(predictions: Sequence[Prediction], provenance: Mapping[str, Any]) -> None:
    if not predictions:
        raise EvaluationError("there is no prediction: give the evaluation at least one example")
    seen = set()
    for prediction in predictions:
        key = (prediction.set_name, prediction.id)
        if key in seen:
            raise EvaluationError(
                f"example {prediction.id!r} of {prediction.set_name} occurs twice: predict it once"
            )
        seen.add(key)
    missing = [name for name in REQUIRED_PROVENANCE if name not in provenance]
    if missing:
        raise EvaluationError(f"the provenance lacks {', '.join(missing)}: add it")


def _measure_part(
    measuring: Measuring,
    name: str,
    keys: frozenset[RowKey],
    by_set: Mapping[str, Sequence[Prediction]],
) -> Iterator[Slice]:
    """Yield the slice of the rows over all sets and, where there are several, one for each."""
    chosen = {
        set_name: [row for row in rows if (set_name, row.id) in keys]
        for set_name, rows in by_set.items()
    }
    rows = [row for own in chosen.values() for row in own]
    if not rows:
        return
    yield measuring.measure(name, SliceKind.PART, rows, keys)
    cut = [set_name for set_name in sorted(chosen) if chosen[set_name]]
    for set_name in cut if len(by_set) > 1 else []:
        yield measuring.measure(f"{set_name}, {name}", SliceKind.PART, chosen[set_name], keys)


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the evaluation as JSON-ready values.

    Keys: ``provenance``, ``bootstrap_samples``, ``seed`` and ``slices``, a list. Each slice has
    ``name``, ``kind``, ``num_rows``, ``num_pairs``, ``num_hallucinations``, ``metrics`` (name ->
    ``{value, low, high}`` or null), ``confusion``, ``shortcuts`` (a list), ``best_shortcut``,
    ``beats_shortcuts``, ``is_shortcut_fit_here``, ``justifications``, ``justification_chars``
    (percentiles, or null) and ``reliability``.
    """
    return {
        "provenance": dict(evaluation.provenance),
        "bootstrap_samples": evaluation.bootstrap_samples,
        "seed": evaluation.seed,
        "slices": [
            {
                **asdict(part),
                "metrics": {name: _flatten(value) for name, value in part.metrics.items()},
                "best_shortcut": part.best_shortcut.name,
                "beats_shortcuts": part.beats_shortcuts,
            }
            for part in evaluation.slices
        ],
    }


def _flatten(estimate: Estimate | None) -> dict[str, float] | None:
    if estimate is None:
        return None
    return {"value": estimate.value, **asdict(estimate.interval)}


def write_report(folder: Path, name: str, evaluation: Evaluation) -> ReportPaths:
    """Write ``<name>.png``, ``<name>.md`` and, last, ``<name>.json``, each whole or not at all.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = ReportPaths(*(folder / f"{name}.{ending}" for ending in ("json", "md", "png")))
    text = json.dumps(to_json(evaluation), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(paths.plot, draw_reliability(evaluation.slices))
    write_whole(paths.markdown, to_markdown(evaluation, plot_name=paths.plot.name).encode("utf-8"))
    write_whole(paths.json, text.encode("utf-8"))
    return paths
