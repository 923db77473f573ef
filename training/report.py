"""The report of a run: its curves as PNG, and one HTML page with all that the run folder says.

``python -m training report CONFIG`` writes ``report.html`` and ``report/*.png`` into the run
folder. It reads what is there, so it works while a stage still trains and after one was stopped.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.page import Picture, Section, Table, TableRow, render_page
from training.curves import Drawing, draw_figures
from training.errors import TrainingError
from training.evaluation_tables import compare_evaluations, tabulate_evaluation, tabulate_values
from training.inputs import EVALUATION, WARMSTART
from training.metrics_file import METRICS_NAME, Row, read_metrics
from training.provenance import CONFIG_NAME
from training.runs import DONE, STOPPED, RunFolder, whole_folder, write_text

PAGE_NAME = "report.html"
PICTURES_NAME = "report"

_SMOOTHED_NOTE = (
    "Where there are many steps, a faint line is what was logged, a bold one its running mean."
)

# The metrics of the overview -> their headings.
_OVERVIEW = {
    "loss": "loss",
    "reward": "reward",
    "train_balanced_accuracy": "training balanced accuracy",
    "validation_balanced_accuracy": "validation balanced accuracy",
    "validation_f1": "validation F1",
    "unreadable_rate": "unreadable",
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stage:
    """What a stage left in its folder.

    Attributes:
        name: Of the folder.
        state: In words.
        notice: Why it was stopped, None where it was not.
        rows: At least one.
        drawings: Of the rows.
    """

    name: str
    state: str
    notice: str | None
    rows: Sequence[Row]
    drawings: Sequence[Drawing]


def report(run: RunFolder | Path) -> Path:
    """Write the report of a run; return the page.

    Raises:
        TrainingError: No stage has logged anything yet, or a file of metrics is none.
    """
    folder = run if isinstance(run, Path) else run.path
    paths = _find_metrics(folder)
    logged = {path.parent.name: rows for path in paths if (rows := read_metrics(path))}
    if not logged:
        raise TrainingError(
            f"no stage in {folder} has logged a step yet: run `python -m training warmstart` or "
            "`python -m training grpo` first"
        )
    stages = [_read_stage(folder / name, rows) for name, rows in logged.items()]
    with whole_folder(folder / PICTURES_NAME) as pictures:
        for stage in stages:
            for drawing in stage.drawings:
                (pictures / f"{stage.name}-{drawing.name}.png").write_bytes(drawing.png)
    sections = [
        _overview(stages),
        *_evaluation_sections(folder / EVALUATION),
        *map(_stage_section, stages),
        *_configuration_sections(folder / CONFIG_NAME),
    ]
    page = folder / PAGE_NAME
    write_text(page, render_page(f"Training run: {folder.resolve().name}", sections))
    logger.info("the report is in %s", page)
    return page


def _find_metrics(folder: Path) -> list[Path]:
    """Return the files of metrics in the order of the stages."""
    found = sorted(folder.glob(f"*/{METRICS_NAME}"))
    return sorted(found, key=lambda path: path.parent.name != WARMSTART)


def _read_stage(folder: Path, rows: Sequence[Row]) -> _Stage:
    state, notice = "not finished", None
    if (folder / DONE).is_file():
        state = "finished"
    stopped = _read_json(folder / STOPPED)
    if isinstance(stopped, dict):
        state = "stopped"
        notice = (
            f"Stage {folder.name} was stopped: {stopped.get('reason')}. "
            f"What to change: {stopped.get('knob')}."
        )
    return _Stage(folder.name, state, notice, rows, draw_figures(rows))


def _overview(stages: Sequence[_Stage]) -> Section:
    rows = []
    for stage in stages:
        last = stage.rows[-1]
        figures = [_last_value(stage.rows, name) for name in _OVERVIEW]
        minutes = f"{(last.get('time_s') or 0.0) / 60:.1f}"
        rows.append(TableRow((stage.name, stage.state, str(last["step"]), minutes, *figures)))
    columns = ("stage", "state", "step", "minutes", *_OVERVIEW.values())
    return Section(
        "Overview",
        notices=tuple(stage.notice for stage in stages if stage.notice is not None),
        tables=(Table("Stages, and what each logged last", columns, tuple(rows)),),
    )


def _last_value(rows: Sequence[Row], name: str) -> str:
    known = [value for row in rows if (value := row.get(name)) is not None]
    return f"{known[-1]:.3f}" if known else "-"


def _stage_section(stage: _Stage) -> Section:
    return Section(
        title=f"Stage {stage.name}",
        notices=() if stage.notice is None else (stage.notice,),
        notes=(_SMOOTHED_NOTE,),
        pictures=tuple(
            Picture(each.title, each.caption, each.description, each.png) for each in stage.drawings
        ),
        tables=(_summarise_metrics(stage.name, stage.rows),),
    )


def _summarise_metrics(stage: str, rows: Sequence[Row]) -> Table:
    names = dict.fromkeys(name for row in rows for name in row if name != "step")
    lines = []
    for name in names:
        values = [value for row in rows if (value := row.get(name)) is not None]
        figures = (values[0], values[-1], min(values), max(values)) if values else ()
        cells = [f"{value:.4g}" for value in figures] or ["never finite", "", "", ""]
        lines.append(TableRow((name, str(len(values)), *cells)))
    columns = ("metric", "rows", "first", "last", "lowest", "highest")
    return Table(f"All that was logged in {stage}", columns, tuple(lines))


def _evaluation_sections(folder: Path) -> Iterator[Section]:
    found = {path.stem: _read_json(path) for path in sorted(folder.glob("*.json"))}
    contents = {name: content for name, content in found.items() if content is not None}
    summary = compare_evaluations(contents)
    if summary is not None:
        yield Section(
            "Evaluations",
            notes=(
                "A figure counts for what it is above a rule that reads nothing, on the same rows. "
                "In brackets: 95 % interval.",
            ),
            tables=(summary,),
        )
    others = []
    for name, content in contents.items():
        tables = tabulate_evaluation(name, content)
        if tables is None:
            others.append(tabulate_values(f"{name}.json", content))
            continue
        plot = folder / f"{name}.png"
        pictures = (_reliability_picture(name, plot.read_bytes()),) if plot.is_file() else ()
        yield Section(f"Evaluation {name}", pictures=pictures, tables=tables)
    if others:
        yield Section("Beside the evaluations", tables=tuple(others))


def _reliability_picture(name: str, png: bytes) -> Picture:
    return Picture(
        "Reliability of the probabilities",
        "On the diagonal a probability means what it says; above it the detector is too careful, "
        "below it too sure.",
        f"Reliability of {name}: for bins of P(hallucination), the share of hallucinations. The "
        "calibration error is in the table below.",
        png,
    )


def _configuration_sections(path: Path) -> Iterator[Section]:
    content = _read_json(path)
    if content is not None:
        yield Section(
            "Configuration and origin",
            tables=(tabulate_values("Everything that the run was made from", content),),
        )


def _read_json(path: Path) -> Any:
    """Return what a file holds, None where it is missing or cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("%s cannot be read and is left out: %s", path, error)
        return None
