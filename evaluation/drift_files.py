"""The files of the drift gate: JSON, Markdown, JUnit XML and one HTML page.

Made whole in memory and written last, ``report.json`` at the very end: where it is, all is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from evaluation.checks import Status
from evaluation.drift_page import render_drift_page
from evaluation.drift_report import DriftReport, describe, tabulate_checks, tabulate_figures
from evaluation.errors import EvaluationError
from evaluation.files import write_whole

FORMAT = 1
"""Of ``report.json``; raise it with every change that a reader would misread."""

REPORT_FILES = ("report.html", "report.md", "junit.xml", "report.json")
"""In the order of writing."""

_MAX_LISTED = 20
# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        "speed_alone": None if side.alone is None else asdict(side.alone),
    }


def to_markdown(report: DriftReport) -> str:
    """Return the report without any text of a case, for a summary that others may read."""
    judgement, flips = report.judgement, [flip.case.row.id for flip in report.flips]
    lines = [f"# {report.title}: {judgement.outcome}", "", f"{_sentence(judgement.reason)}", ""]
    lines += [f"- {line}" for line in describe(report)]
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
    checks = report.judgement.checks
    counts = {status: sum(check.status is status for check in checks) for status in Status}
    suite = ElementTree.Element(
        "testsuite",
        name=_xml(report.title),
        tests=str(len(checks)),
        failures=str(counts[Status.FAILED]),
        errors=str(counts[Status.UNSURE]),
        skipped=str(counts[Status.REPORTED]),
    )
    elements = {Status.FAILED: "failure", Status.UNSURE: "error", Status.REPORTED: "skipped"}
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname="drift", name=check.name)
        if check.status in elements:
            ElementTree.SubElement(case, elements[check.status], message=_xml(check.text))
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(check.text)
    text: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", text)


def write_reports(folder: Path, report: DriftReport) -> Mapping[str, Path]:
    """Write all reports into a folder that is there, or none of them; return name -> path.

    Raises:
        EvaluationError: They cannot be written.
    """
    text = json.dumps(to_json(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    page = render_drift_page(report)
    contents = (page.encode("utf-8"), _utf8(to_markdown(report)), to_junit(report), _utf8(text))
    paths = {name: folder / name for name in REPORT_FILES}
    try:
        for path, content in zip(paths.values(), contents, strict=True):
            write_whole(path, content)
    except BaseException as error:
        remove_reports(folder)
        if isinstance(error, OSError):
            raise EvaluationError(f"{folder} cannot be written ({error.strerror})") from error
        raise
    return paths


def remove_reports(folder: Path) -> None:
    """Remove the reports of an earlier measurement, which would be taken for those of the next."""
    for name in REPORT_FILES:
        (folder / name).unlink(missing_ok=True)


def _utf8(text: str) -> bytes:
    # A lone surrogate, which JSON can hold, is no text to UTF-8.
    return text.encode("utf-8", "replace")
