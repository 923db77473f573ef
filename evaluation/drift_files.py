"""The files of the drift gate: JSON, Markdown, JUnit XML and one HTML page.

Made whole in memory and written last (``evaluation/drift_folder.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evaluation.checks import Status
from evaluation.drift_folder import FORMAT, REPORT_FILES, dump_json, to_utf8, write_files
from evaluation.drift_page import render_drift_page
from evaluation.drift_report import DriftReport, describe, tabulate_checks, tabulate_figures
from evaluation.junit import SuiteCase
from evaluation.junit import to_junit as to_suite
from evaluation.step_summary import to_line

_MAX_LISTED = 20


def to_json(report: DriftReport) -> dict[str, Any]:
    """Return the whole report, JSON-ready."""
    judgement = report.judgement
    return {
        "format": FORMAT,
        "title": report.title,
        "outcome": str(judgement.outcome),
        "exit_code": judgement.outcome.exit_code,
        "reason": judgement.reason,
        "measured_at": report.measured_at,
        "command": report.command,
        "golden": {
            "sha256": report.golden_sha256,
            "num_cases": len(report.rows),
            "num_compared": len(report.cases),
        },
        "changes": list(report.changes),
        "before": _side_json(report, False),
        "after": _side_json(report, True),
        "limits": asdict(report.limits),
        "checks": [check.to_json() for check in judgement.checks],
        "by_kind": {
            kind: {"num_cases": total, "right_before": old, "right_after": new}
            for kind, (total, old, new) in report.kinds.items()
        },
        "flips": [flip.to_json() for flip in report.flips],
    }


def _side_json(report: DriftReport, is_after: bool) -> dict[str, Any]:
    side = report.after if is_after else report.before
    return {
        "name": side.name,
        "service": side.service.to_json(),
        "figures": asdict(report.figures(is_after)),
        "speed": asdict(side.speed),
        "is_speed_resumed": side.is_resumed,
        "speed_alone": None if side.alone is None else asdict(side.alone),
    }


def to_markdown(report: DriftReport) -> str:
    """Return the report without any text of a case, for a summary that others may read."""
    judgement, flips = report.judgement, [flip.case.row.id for flip in report.flips]
    lines = [f"# {report.title}: {judgement.outcome}", "", f"{_sentence(judgement.reason)}", ""]
    lines += [f"- {to_line(line)}" for line in describe(report)]
    lines += ["", "| check | status | value | limit | p (Holm) | seen |"]
    lines += ["|---|---|---:|---:|---:|---|"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in tabulate_checks(judgement.checks)]
    names = f"{_cell(report.before.name)} | {_cell(report.after.name)}"
    lines += ["", f"| figure | {names} | change |", "|---|---:|---:|---:|"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in tabulate_figures(report)]
    shown = ", ".join(flips[:_MAX_LISTED]) + (", ..." if len(flips) > _MAX_LISTED else "")
    lines += ["", f"Changed verdicts: {len(flips)}{f' ({_cell(shown)})' if flips else ''}."]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


def to_junit(report: DriftReport) -> bytes:
    """Return JUnit XML: one test case a check; what is unsure is an error, not a failure."""
    results = []
    for check in report.judgement.checks:
        match check.status:
            case Status.FAILED:
                results.append(SuiteCase(check.name, "failure", check.text))
            case Status.UNSURE:
                results.append(SuiteCase(check.name, "error", check.text))
            case Status.REPORTED:
                results.append(SuiteCase(check.name, "skipped", check.text))
            case Status.PASSED:
                results.append(SuiteCase(check.name, None, check.text))
    return to_suite(report.title, results)


def write_reports(folder: Path, report: DriftReport) -> Mapping[str, Path]:
    """Write all reports into a folder that is there, or none of them; return name -> path.

    Raises:
        EvaluationError: They cannot be written.
    """
    contents = {
        "report.html": render_drift_page(report).encode("utf-8"),
        "report.md": to_utf8(to_markdown(report)),
        "junit.xml": to_junit(report),
        "report.json": dump_json(to_json(report)),
    }
    write_files(folder, contents)
    return {name: folder / name for name in REPORT_FILES}
