"""The drift gate's HTML page: the verdict, the checks, pictures, and every changed verdict."""

from __future__ import annotations

from evaluation import drift_plots
from evaluation.drift_report import (
    DriftReport,
    Flip,
    describe,
    tabulate_checks,
    tabulate_figures,
)
from evaluation.gate import Outcome
from evaluation.page import Picture, Section, Table, TableRow, render_page


def render_drift_page(report: DriftReport) -> str:
    """Return the page; it needs nothing but itself."""
    sections = [
        _verdict(report),
        _figures(report),
        Section("Pictures", pictures=_pictures(report)),
        _flips(report),
    ]
    return render_page(f"{report.title}: {report.judgement.outcome}", sections)


def _verdict(report: DriftReport) -> Section:
    judgement = report.judgement
    is_bad = judgement.outcome in (Outcome.WORSE, Outcome.UNTOLD)
    columns = ("check", "status", "value", "limit", "p (Holm)", "what was seen")
    rows = tuple(TableRow(row) for row in tabulate_checks(judgement.checks))
    sentence = f"{judgement.outcome}: {judgement.reason}."
    return Section(
        "Verdict",
        notices=(sentence,) if is_bad else (),
        notes=(*(() if is_bad else (sentence,)), *describe(report)),
        tables=(Table("Checks", columns, rows),),
    )


def _figures(report: DriftReport) -> Section:
    names = (report.before.name, report.after.name)
    figures = tuple(TableRow(row) for row in tabulate_figures(report))
    kinds = tuple(
        TableRow((kind, str(total), str(old), str(new), f"{new - old:+d}"))
        for kind, (total, old, new) in report.kinds.items()
    )
    return Section(
        "Figures",
        tables=(
            Table("Quality and speed", ("figure", *names, "change"), figures),
            Table("Right verdicts by kind", ("kind", "cases", *names, "change"), kinds),
        ),
    )


def _pictures(report: DriftReport) -> tuple[Picture, ...]:
    golds = [case.row.label for case in report.cases]
    sides = [
        drift_plots.Judged(report.before.name, golds, [case.before.first for case in report.cases]),
        drift_plots.Judged(report.after.name, golds, [case.after.first for case in report.cases]),
    ]
    return (
        Picture(
            "Reliability of the probabilities",
            "On the diagonal a probability means what it says; above it the detector is too "
            "careful, below it too sure.",
            "Share of hallucinations in bins of P(hallucination), before and after. The "
            "calibration errors are in the table of figures.",
            drift_plots.draw_reliability(sides),
        ),
        Picture(
            "Probabilities before and after",
            "A threshold that was chosen before means the same only where the two look alike.",
            "Number of cases in bins of P(hallucination), before and after, one panel for each "
            "gold class.",
            drift_plots.draw_histograms(sides),
        ),
        Picture(
            "Gold class and verdict",
            "Off the diagonal, and under unreadable, verdicts are wrong.",
            "Cases by gold class and verdict, before and after. The recalls are in the table of "
            "figures.",
            drift_plots.draw_confusion(sides),
        ),
    )


def _flips(report: DriftReport) -> Section:
    flips = report.flips
    title = f"Changed verdicts ({len(flips)})"
    if not flips:
        return Section(title, notes=("No verdict changed.",))
    columns = ("case, kind, gold class: before, after", "response", "justification before",
               "justification after")  # fmt: skip
    return Section(
        title,
        notes=(
            "Of a baseline only the hash of a justification is known: whether it is the same text.",
        ),
        tables=(Table("One row a case", columns, tuple(map(_flip_row, flips)), is_prose=True),),
    )


def _flip_row(flip: Flip) -> TableRow:
    row, old, new = flip.case.row, flip.case.before.first, flip.case.after.first
    before = flip.before or "none"
    if not flip.is_text_known:
        before = "the same" if flip.is_justified_alike else "another one"
    verdicts = [
        f"{side.verdict or 'unreadable'}"
        + ("" if side.probability is None else f" ({side.probability:.3f})")
        for side in (old, new)
    ]
    head = f"{row.id}, {row.kind}, {row.label}: {', '.join(verdicts)}"
    return TableRow((head, flip.response, before, flip.after or "none"))
