"""A judged comparison, and its tables: what every form of the report is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.baseline import Figures
from evaluation.checks import Check
from evaluation.drift import Side
from evaluation.gate import Judgement
from evaluation.limits import Limits
from evaluation.measuring import GoldenRow
from evaluation.paired import PairedCase
from evaluation.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Flip:
    """A case with another verdict.

    Attributes:
        case: What both sides said.
        response: What was judged.
        before: Justification; None where there is none, or its hash alone is known.
        after: Justification; None where there is none.
        is_text_known: ``before`` is the text, and not for want of it.
    """

    case: PairedCase
    response: str
    before: str | None
    after: str | None
    is_text_known: bool

    @property
    def is_justified_alike(self) -> bool:
        """Whether both justifications are the same, by their hashes."""
        old, new = self.case.before.first, self.case.after.first
        return old.justification_sha256 == new.justification_sha256

    def to_json(self) -> dict[str, Any]:
        """Return the members, JSON-ready."""
        old, new = self.case.before.first.to_json(), self.case.after.first.to_json()
        return {
            "id": self.case.row.id,
            "kind": str(self.case.row.kind),
            "gold": str(self.case.row.label),
            "before": {**old, "justification": self.before},
            "after": {**new, "justification": self.after},
            "is_justification_equal": self.is_justified_alike,
        }


@dataclass(frozen=True, slots=True)
class DriftReport:
    """A judged comparison, and all that it was made from.

    Attributes:
        title: Of the reports.
        before: What is compared with.
        after: What is judged.
        rows: The golden set.
        cases: Those that both sides judged.
        judgement: Of the cases.
        limits: What was tolerated.
        golden_sha256: Of the golden set.
        changes: In what the sides differ by intent, in words.
        command: That made it.
        measured_at: Date and time, ISO 8601.
    """

    title: str
    before: Side
    after: Side
    rows: Sequence[GoldenRow]
    cases: Sequence[PairedCase]
    judgement: Judgement
    limits: Limits
    golden_sha256: str
    changes: Sequence[str]
    command: str
    measured_at: str

    def figures(self, is_after: bool) -> Figures:
        """Return how good one side's verdicts are, on the cases that both judged."""
        predictions = []
        for case in self.cases:
            said = (case.after if is_after else case.before).first
            predictions.append(
                Prediction(
                    case.row.id,
                    case.row.pair_id,
                    str(case.row.kind),
                    case.row.label,
                    said.verdict,
                    said.probability,
                    None,
                    "",
                )
            )
        return Figures.of(predictions)

    @property
    def flips(self) -> list[Flip]:
        """The cases with another verdict."""
        responses = {row.id: row.response for row in self.rows}
        old, new = self.before.justifications, self.after.justifications or {}
        return [
            Flip(
                case,
                responses[case.row.id],
                None if old is None else old[case.row.id],
                new.get(case.row.id),
                old is not None,
            )
            for case in self.cases
            if case.is_flipped
        ]

    @property
    def kinds(self) -> dict[str, tuple[int, int, int]]:
        """Kind -> its cases, and how many were and are right."""
        counts: dict[str, tuple[int, int, int]] = {}
        for case in sorted(self.cases, key=lambda case: case.row.kind):
            total, old, new = counts.get(str(case.row.kind), (0, 0, 0))
            counts[str(case.row.kind)] = (
                total + 1, old + case.was_right, new + case.is_right
            )  # fmt: skip
        return counts


def tabulate_figures(report: DriftReport) -> list[tuple[str, str, str, str]]:
    """Return quality and speed, one row a figure: its name, before, after, and the change."""
    old, new = report.figures(False), report.figures(True)
    rows = []
    for title, name in (
        ("balanced accuracy", "balanced_accuracy"),
        ("F1", "f1"),
        ("recall of hallucination", "recall"),
        ("recall of correct", "correct_recall"),
        ("calibration error", "ece"),
        ("unreadable rate", "unreadable_rate"),
    ):
        before, after = asdict(old)[name], asdict(new)[name]
        change = "-" if before is None or after is None else f"{after - before:+.3f}"
        rows.append((title, _number(before), _number(after), change))
    speeds = [(report.before.speed, report.after.speed, "")]
    if report.before.alone is not None and report.after.alone is not None:
        speeds.append((report.before.alone, report.after.alone, ", alone"))
    for first, second, suffix in speeds:
        for title, was, now in (
            ("p50 latency, ms", first.p50_ms, second.p50_ms),
            ("p95 latency, ms", first.p95_ms, second.p95_ms),
            ("cases a second", first.cases_per_s, second.cases_per_s),
        ):
            ratio = f"x {now / was:.2f}" if was > 0 else "-"
            rows.append((title + suffix, f"{was:g}", f"{now:g}", ratio))
    return rows


def tabulate_checks(checks: Sequence[Check]) -> list[tuple[str, str, str, str, str, str]]:
    """Return one row a check: its name, status, value, limit, p-value, and what was seen."""
    rows = []
    for check in checks:
        known = check.adjusted_p_value if check.adjusted_p_value is not None else check.p_value
        p_value = "-" if known is None else f"{known:.3g}"
        if known is not None and check.adjusted_p_value is None:
            p_value += " (unadjusted)"
        rows.append(
            (check.name, str(check.status), _number(check.value), _number(check.limit), p_value,
             check.text)
        )  # fmt: skip
    return rows


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def describe(report: DriftReport) -> list[str]:
    """Return what was compared, one line each."""
    lines = []
    for side in (report.before, report.after):
        service = side.service
        lines.append(
            f"{side.name}: {service.model}@{service.revision}, contract {service.contract}, "
            f"{service.engine} {service.engine_version}, {service.dtype}, {service.hardware}"
        )
    lines.append(
        f"golden set {report.golden_sha256[:12]}: {len(report.cases)} of {len(report.rows)} cases, "
        f"{report.after.speed.concurrency} at once and alone"
    )
    lines += [f"accepted: {change}" for change in report.changes]
    return [*lines, f"measured {report.measured_at}: {report.command}"]
