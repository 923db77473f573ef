"""The reports of a load test: JSON, Markdown, and one HTML page with pictures.

Made whole in memory and written last, ``report.json`` at the very end: where it is, all is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evaluation.files import write_whole
from evaluation.page import Picture, Section, Table, render_page
from loadtest import plots
from loadtest.errors import LoadTestError
from loadtest.load_report import (
    LoadReport,
    curve_table,
    figure_tables,
    goal_table,
    stage_table,
    start_tables,
)
from loadtest.run import Run
from loadtest.series import make_series, split_by_stage
from loadtest.slo import Verdict

FORMAT = 1
"""Of ``report.json``; raise it with every change that a reader would misread."""

REPORT_FILES = ("report.html", "report.md", "report.json")
"""In the order of writing."""

_DIGITS = 6


def to_json(report: LoadReport) -> dict[str, Any]:
    """Return the whole report, JSON-ready. Times in seconds, shares in [0, 1]."""
    search = report.search
    content: dict[str, Any] = {
        "format": FORMAT,
        "title": report.title,
        "outcome": report.outcome,
        "exit_code": report.exit_code,
        "reason": report.reason,
        "notices": list(report.notices),
        "measured_at": report.measured_at,
        "conditions": dict(report.conditions),
        "goals": _goals_json(report.verdicts),
        "run": None if report.run is None else _run_json(report.run),
        "capacity": None
        if search is None
        else {
            "rate_per_s": None if search.best is None else search.best.rate_per_s,
            "end": search.end,
            "points": [
                {
                    "rate_per_s": point.rate_per_s,
                    "status": str(point.status),
                    "why_not_measured": point.run.why_not_measured,
                    "goals": _goals_json(point.verdicts),
                    "figures": asdict(point.run.figures),
                }
                for point in search.points
            ],
        },
        "starts": [
            {
                "caches": str(start.caches),
                "total_s": start.total_s,
                "phases_s": dict(start.phases),
                "reported_s": dict(start.reported),
            }
            for start in report.starts
        ],
    }
    rounded: dict[str, Any] = _round(content)
    return rounded


def _goals_json(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    return [
        {
            "goal": verdict.goal.name,
            "quantity": verdict.goal.quantity,
            "is_floor": verdict.goal.is_floor,
            "limit": verdict.limit,
            "value": verdict.value,
            "status": str(verdict.status),
        }
        for verdict in verdicts
    ]


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "plan": asdict(run.plan),
        "why_not_measured": run.why_not_measured,
        "figures": asdict(run.figures),
        "stages": [asdict(each) for each in split_by_stage(run.plan, run.rows)],
        "series": [asdict(each) for each in make_series(run.rows)],
        "metrics_fault": run.metrics_fault,
        "samples": [
            {**asdict(sample), "at_s": sample.at_s - run.began_monotonic_s}
            for sample in run.samples
        ],
    }


def _round(value: Any) -> Any:
    """Return a JSON value with floats of a readable length."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, Mapping):
        return {str(name): _round(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_round(each) for each in value]
    return value


def to_markdown(report: LoadReport) -> str:
    """Return the report for a summary that others may read."""
    lines = [f"# {report.title}: {report.outcome}", "", f"{_sentence(report.reason)}", ""]
    for notice in report.notices:
        lines += [f"**Note:** {notice}", ""]
    lines += [f"- {name}: {value}" for name, value in report.conditions.items()]
    for table in _tables(report):
        lines += ["", *_markdown_table(table)]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _markdown_table(table: Table) -> Iterator[str]:
    yield f"**{table.caption}**"
    yield ""
    yield f"| {' | '.join(table.columns)} |"
    yield f"|---|{'---:|' * (len(table.columns) - 1)}"
    for row in table.rows:
        yield f"| {' | '.join(map(_cell, row.cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


def _tables(report: LoadReport) -> list[Table]:
    tables = [goal_table(report.verdicts)] if report.verdicts else []
    if report.search is not None:
        tables.append(curve_table(report.search.points))
    if report.run is not None:
        tables += figure_tables(report.run.figures)
        stages = split_by_stage(report.run.plan, report.run.rows)
        tables += [stage_table(stages)] if len(stages) > 1 else []
    if report.starts:
        tables += start_tables(report.starts)
    return tables


def render_load_page(report: LoadReport) -> str:
    """Return the HTML page; it needs nothing but itself."""
    sentence = f"{report.outcome}: {report.reason}."
    is_bad = report.exit_code != 0
    conditions = tuple(f"{name}: {value}" for name, value in report.conditions.items())
    sections = [
        Section(
            "Verdict",
            notices=(*((sentence,) if is_bad else ()), *report.notices),
            notes=(*(() if is_bad else (sentence,)), *conditions),
        ),
        Section("Pictures", pictures=tuple(_pictures(report))),
        Section("Figures", tables=tuple(_tables(report))),
    ]
    return render_page(f"{report.title}: {report.outcome}", sections)


def _pictures(report: LoadReport) -> Iterator[Picture]:
    if report.search is not None:
        yield Picture(
            "Latency against throughput",
            "Blue rates meet the goals, red ones miss one, grey ones could not be measured. Where "
            "the line turns up and throughput stands still, the service is full.",
            "Latency percentiles from the intended start over the requests that were answered a "
            "second. The figures are in the table of rates.",
            plots.draw_curve(report.search),
        )
    if report.run is not None:
        yield Picture(
            "The run over time",
            "Latency from the intended start (points: requests; lines: percentiles of each "
            "stretch); requests a second; what is open, as the generator and the service see it; "
            "and how the engine's time splits into queue and computing (points: Server-Timing; "
            "lines: /metrics).",
            "Four panels over the seconds of the run. The figures are in the tables.",
            plots.draw_run(report.run),
        )
    if report.starts:
        yield Picture(
            "Starts by phase",
            "One bar a start; cold ones had an empty cache folder, or had scaled to zero.",
            "Stacked bars of the seconds that each phase took. The figures are in the table.",
            plots.draw_starts(report.starts),
        )


def write_reports(folder: Path, report: LoadReport) -> Mapping[str, Path]:
    """Write all reports into a folder that is there, or none of them; return name -> path.

    Raises:
        LoadTestError: They cannot be written.
    """
    text = json.dumps(to_json(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    contents = (render_load_page(report), to_markdown(report), text)
    paths = {name: folder / name for name in REPORT_FILES}
    try:
        for path, content in zip(paths.values(), contents, strict=True):
            write_whole(path, content.encode("utf-8", "replace"))
    except BaseException as error:
        remove_reports(folder)
        if isinstance(error, OSError):
            raise LoadTestError(f"{folder} cannot be written ({error.strerror})") from error
        raise
    return paths


def remove_reports(folder: Path) -> None:
    """Remove the reports of an earlier test, which would be taken for those of the next."""
    for name in REPORT_FILES:
        (folder / name).unlink(missing_ok=True)
