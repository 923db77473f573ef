"""Evaluations, and JSON of any other shape, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from contract.labels import Label
from evaluation.page import Table, TableRow
from evaluation.prediction import Prediction
from evaluation.report import evaluate, to_json
from training.evaluation_tables import (
    MAX_ROWS,
    compare_evaluations,
    tabulate_evaluation,
    tabulate_values,
)


def estimate(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.125, "high": value + 0.125}


def make_slice(name: str, value: float) -> dict[str, Any]:
    return {
        "name": name,
        "num_rows": 8,
        "metrics": {
            "f1": estimate(value),
            "balanced_accuracy": estimate(value),
            "unreadable_rate": estimate(0.125),
            "ece": None,
        },
        "shortcuts": [
            {"name": "always", "f1": 0.75, "balanced_accuracy": 0.5, "num_rows": 8},
            {"name": "length", "f1": 0.25, "balanced_accuracy": 0.625, "num_rows": 8},
        ],
        "justifications": {
            "num_justifications": 7,
            "quoted": 0.5,
            "verbatim": 1.0,
            "agreeing": 0.25,
            "neutral": 0.5,
            "contradicting": 0.25,
        },
    }


def make_evaluation(*slices: dict[str, Any]) -> dict[str, Any]:
    return {"provenance": {"model": "m", "data_revisions": {"qa": "1"}}, "slices": list(slices)}


def cells_of(table: Table) -> list[tuple[str, ...]]:
    return [row.cells for row in table.rows]


def test_the_detector_stands_beside_the_rules() -> None:
    tables = tabulate_evaluation("grpo", make_evaluation(make_slice("overall", 0.875)))
    assert tables is not None
    assert tables[0].columns[:7] == (
        "slice", "who", "rows", "precision", "recall", "F1", "balanced accuracy",
    )  # fmt: skip
    shown = "0.875 (0.750-1.000)"
    rest = ("-", "0.125 (0.000-0.250)", "-", "-", "-")
    assert tables[0].rows == (
        TableRow(("overall", "detector", "8", "-", "-", shown, shown, *rest)),
        TableRow(
            ("overall", "rule: always", "8", "", "", "0.750", "0.500", "", "", "", "", ""), True
        ),
        TableRow(
            ("overall", "rule: length", "8", "", "", "0.250", "0.625", "", "", "", "", ""), True
        ),
    )
    assert cells_of(tables[1]) == [("overall", "7", "0.500", "1.000", "0.250", "0.500", "0.250")]
    assert cells_of(tables[2]) == [("model", "m"), ("data_revisions.qa", "1")]


def test_evaluations_are_compared_where_length_tells_nothing() -> None:
    table = compare_evaluations(
        {
            "warmstart": make_evaluation(make_slice("overall", 0.75)),
            "grpo": make_evaluation(
                make_slice("overall", 0.875), make_slice("length-matched", 0.625)
            ),
            "calibration": {"temperature": 1.5},
            "list": [1, 2],
        }
    )
    assert table is not None
    unreadable = "0.125 (0.000-0.250)"
    high, low = "0.875 (0.750-1.000)", "0.750 (0.625-0.875)"
    assert cells_of(table) == [
        ("warmstart", low, low, "-", "-", unreadable, "-"),
        ("grpo", high, high, "0.625 (0.500-0.750)", "0.625 (length)", unreadable, "-"),
    ]


def test_without_an_evaluation_there_is_nothing_to_compare() -> None:
    assert compare_evaluations({}) is None
    assert compare_evaluations({"calibration": {"temperature": 1.5}}) is None


def test_the_evaluation_that_the_project_writes_is_understood() -> None:
    predictions = [
        Prediction(f"{number}", f"{number // 2}", "qa", label, label, 0.5, None, "text")
        for number, label in enumerate([Label.HALLUCINATION, Label.CORRECT] * 2)
    ]
    provenance: dict[str, Any] = {
        "model": "m",
        "revision": None,
        "data_revisions": {},
        "command": "c",
    }
    keys = [("qa", "0"), ("qa", "1")]
    content = to_json(evaluate(predictions, None, keys, provenance, bootstrap_samples=10, seed=1))
    tables = tabulate_evaluation("x", content)
    assert tables is not None
    assert {row.cells[0] for row in tables[0].rows} >= {"overall", "qa", "length-matched"}
    compared = compare_evaluations({"x": content})
    assert compared is not None
    assert compared.rows[0].cells[:2] == ("x", "1.000 (1.000-1.000)")


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        1,
        "text",
        {"slices": 3},
        {"slices": [{}]},
        {"slices": []},
        {"provenance": {}, "slices": [{**make_slice("overall", 0.5), "metrics": {"f1": 3}}]},
        {"provenance": {}, "slices": [{**make_slice("overall", 0.5), "shortcuts": None}]},
        {"provenance": {}, "slices": [{**make_slice("overall", 0.5), "justifications": {}}]},
    ],
)
def test_another_shape_is_no_evaluation(content: Any) -> None:
    assert tabulate_evaluation("x", content) is None


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        pytest.param({"a": {"b": 1, "c": "x"}, "d": None},
                     [("a.b", "1"), ("a.c", "x"), ("d", "null")], id="nested"),
        pytest.param({"a": [1, 2.5, "x", True]}, [("a", "1, 2.5, x, true")], id="plain-list"),
        pytest.param({"a": [{"b": 1}, {"b": 2}]}, [("a[0].b", "1"), ("a[1].b", "2")],
                     id="list-of-objects"),
        pytest.param({"a": [], "b": {}}, [("a", "-"), ("b", "{}")], id="empty"),
        pytest.param(3, [("-", "3")], id="one-value"),
    ],
)  # fmt: skip
def test_any_values_are_listed_by_dotted_names(content: Any, rows: list[tuple[str, ...]]) -> None:
    assert cells_of(tabulate_values("caption", content)) == rows


def test_a_list_without_end_is_cut() -> None:
    table = tabulate_values("caption", {str(number): number for number in range(MAX_ROWS + 7)})
    assert len(table.rows) == MAX_ROWS + 1
    assert table.rows[-1].cells == ("...", "and 7 more")
