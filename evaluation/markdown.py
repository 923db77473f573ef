"""An evaluation as Markdown: what was measured, one table with the shortcuts in it, the checks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from evaluation.bootstrap import Estimate
from evaluation.shortcuts import ShortcutScore
from evaluation.slices import Slice, SliceKind

if TYPE_CHECKING:
    from evaluation.report import Evaluation

METRIC_TITLES = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "balanced_accuracy": "balanced accuracy",
    "predicted_hallucination_share": "flagged",
    "unreadable_rate": "unreadable",
    "ece": "ECE",
    "brier": "Brier",
    "auroc": "AUROC",
}
"""Metric -> how a table calls it, in the order of the columns."""
_NONE = "-"


def to_markdown(evaluation: Evaluation, plot_name: str | None = None) -> str:
    """Return the report.

    Args:
        evaluation: What to report.
        plot_name: File name of the reliability plot beside it, to link to.
    """
    lines = ["# Evaluation", "", *_provenance_lines(evaluation.provenance), ""]
    lines += [*_result_lines(evaluation), ""]
    lines += ["## Justifications", "", *_justification_lines(evaluation.slices), ""]
    if any(part.reliability for part in evaluation.slices):
        lines += ["## Calibration", ""]
        if plot_name is not None:
            lines += [f"![Reliability of the probabilities]({plot_name})", ""]
        lines += [*_reliability_lines(evaluation.slices[0]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _provenance_lines(provenance: Mapping[str, Any]) -> Iterator[str]:
    for name, value in provenance.items():
        title = name.replace("_", " ").capitalize()
        if isinstance(value, Mapping):
            shown = ", ".join(f"{key} {_inline(item)}" for key, item in value.items()) or _NONE
        else:
            shown = _NONE if value is None else _inline(value)
        yield f"- {title}: {shown}"


def _inline(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def _result_lines(evaluation: Evaluation) -> Iterator[str]:
    yield "## Results"
    yield ""
    yield (
        "The positive class is hallucination; an unreadable reply counts as wrong. In brackets: "
        f"95 % interval over pairs ({evaluation.bootstrap_samples} resamples, seed "
        f"{evaluation.seed}). In italics: rules that read nothing, on the same rows. A star: the "
        "rule's threshold was fitted on the scored rows, for want of others, which favours it."
    )
    yield ""
    yield f"| slice | rows | detector or rule | {' | '.join(METRIC_TITLES.values())} |"
    yield f"|---|---:|---|{'---:|' * len(METRIC_TITLES)}"
    for part in evaluation.slices:
        values = [_show(part.metrics[name]) for name in METRIC_TITLES]
        yield f"| **{_cell(part.name)}** | {part.num_rows} | **detector** | {' | '.join(values)} |"
        for score in part.shortcuts:
            yield _shortcut_line(part, score)
    weak = [part.name for part in evaluation.slices if not part.beats_shortcuts]
    yield ""
    if weak:
        yield (
            "**Not above every rule, in F1 and in balanced accuracy:** "
            f"{'; '.join(map(_cell, weak))}."
        )
    else:
        yield "Above every rule in every slice, in F1 and in balanced accuracy."


def _shortcut_line(part: Slice, score: ShortcutScore) -> str:
    rule = score.name
    if score.direction is not None and score.threshold is not None:
        sign = {">": "&gt;", "<=": "&le;"}[score.direction]
        rule += f" {sign} {score.threshold:.3g}"
    star = r" \*" if part.is_shortcut_fit_here and score.threshold is not None else ""
    figures = {"f1": score.f1, "balanced_accuracy": score.balanced_accuracy}
    values = [f"{figures[name]:.3f}" if name in figures else "" for name in METRIC_TITLES]
    return f"| | | *{rule}*{star} | {' | '.join(values)} |"


def _show(estimate: Estimate | None) -> str:
    if estimate is None:
        return _NONE
    interval = estimate.interval
    return f"{estimate.value:.3f} ({interval.low:.3f}-{interval.high:.3f})"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


def _justification_lines(slices: tuple[Slice, ...]) -> Iterator[str]:
    yield (
        "Of the readable replies: how many quote something, how many of those quote only what "
        "stands in the inputs, and whether the wording argues for the verdict, for neither class, "
        "or against the verdict (an English lexicon; other languages count as neutral)."
    )
    yield ""
    yield "| slice | justifications | quoted | verbatim | agreeing | neutral | contradicting |"
    yield f"|---|{'---:|' * 6}"
    for part in slices:
        if part.kind is SliceKind.MACRO:
            continue
        shares = part.justifications
        columns = (shares.quoted, shares.verbatim, shares.agreeing, shares.neutral)
        values = " | ".join(f"{value:.3f}" for value in (*columns, shares.contradicting))
        yield f"| {_cell(part.name)} | {shares.num_justifications} | {values} |"


def _reliability_lines(overall: Slice) -> Iterator[str]:
    yield f"Bins of P(hallucination), {overall.name}:"
    yield ""
    yield "| from | to | rows | mean probability | hallucinations |"
    yield "|---:|---:|---:|---:|---:|"
    for part in overall.reliability:
        yield (
            f"| {part.low:.2f} | {part.high:.2f} | {part.num_rows} "
            f"| {part.mean_probability:.3f} | {part.hallucination_share:.3f} |"
        )
