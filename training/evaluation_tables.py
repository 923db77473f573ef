"""Turns the JSON of an evaluation, or any other, into tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.markdown import METRIC_TITLES
from evaluation.page import Table, TableRow
from evaluation.slices import LENGTH_MATCHED, OVERALL

MAX_ROWS = 500
"""Of a table of plain values; more would bury the page."""

_RULE_METRICS = ("f1", "balanced_accuracy")
_CHECKS = ("quoted", "verbatim", "agreeing", "neutral", "contradicting")
_NONE = "-"
# What a file of another shape breaks with.
_SHAPE_ERRORS = (AttributeError, KeyError, IndexError, TypeError, ValueError)


def tabulate_evaluation(name: str, content: Any) -> tuple[Table, ...] | None:
    """Return the tables of an evaluation; None for any other JSON."""
    try:
        return (
            _slice_table(name, content),
            _check_table(name, content),
            tabulate_values(f"Where {name} comes from", content["provenance"]),
        )
    except _SHAPE_ERRORS:
        return None


def compare_evaluations(contents: Mapping[str, Any]) -> Table | None:
    """Return one row for each evaluation among the files; None where there is none."""
    rows = []
    for name, content in contents.items():
        try:
            rows.append(_summary_row(name, content))
        except _SHAPE_ERRORS:
            continue
    columns = (
        "evaluation",
        "F1",
        "balanced accuracy",
        "length-matched balanced accuracy",
        "best rule on these",
        "unreadable",
        "ECE",
    )
    return Table("All evaluations", columns, tuple(rows)) if rows else None


def tabulate_values(caption: str, content: Any) -> Table:
    """Return nested values as dotted names beside plain values."""
    pairs = list(_flatten(content, ""))
    rows = [TableRow((name or _NONE, value)) for name, value in pairs[:MAX_ROWS]]
    if len(pairs) > MAX_ROWS:
        rows.append(TableRow(("...", f"and {len(pairs) - MAX_ROWS} more")))
    return Table(caption, ("name", "value"), tuple(rows), is_prose=True)


def _flatten(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield what is nested; a list of plain values is one value."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _flatten(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, each in enumerate(value):
            yield from _flatten(each, f"{name}[{number}]")
    elif isinstance(value, list):
        yield name, ", ".join(map(_plain, value)) or _NONE
    else:
        yield name, _plain(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _slice_table(name: str, content: Any) -> Table:
    rows = []
    for part in content["slices"]:
        figures = [_estimate(part["metrics"].get(metric)) for metric in METRIC_TITLES]
        rows.append(TableRow((part["name"], "detector", str(part["num_rows"]), *figures)))
        for score in part["shortcuts"]:
            shown = [
                f"{score[metric]:.3f}" if metric in _RULE_METRICS else ""
                for metric in METRIC_TITLES
            ]
            cells = (part["name"], f"rule: {score['name']}", str(score["num_rows"]), *shown)
            rows.append(TableRow(cells, is_baseline=True))
    columns = ("slice", "who", "rows", *METRIC_TITLES.values())
    return Table(f"{name}: the detector beside rules that read nothing", columns, tuple(rows))


def _check_table(name: str, content: Any) -> Table:
    rows = []
    for part in content["slices"]:
        shares = part["justifications"]
        figures = [f"{shares[check]:.3f}" for check in _CHECKS]
        rows.append(TableRow((part["name"], str(shares["num_justifications"]), *figures)))
    return Table(f"{name}: justifications", ("slice", "justifications", *_CHECKS), tuple(rows))


def _summary_row(name: str, content: Any) -> TableRow:
    slices = {part["name"]: part for part in content["slices"]}
    overall = slices[OVERALL]["metrics"]
    matched = slices.get(LENGTH_MATCHED)
    cells = [_estimate(overall["f1"]), _estimate(overall["balanced_accuracy"])]
    if matched is None:
        cells += [_NONE, _NONE]
    else:
        best = max(matched["shortcuts"], key=lambda score: float(score["balanced_accuracy"]))
        cells.append(_estimate(matched["metrics"]["balanced_accuracy"]))
        cells.append(f"{best['balanced_accuracy']:.3f} ({best['name']})")
    cells += [_estimate(overall["unreadable_rate"]), _estimate(overall["ece"])]
    return TableRow((name, *cells))


def _estimate(value: Any) -> str:
    if value is None:
        return _NONE
    return f"{value['value']:.3f} ({value['low']:.3f}-{value['high']:.3f})"
