"""The worked examples in the docstrings hold."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap",
        "calibration",
        "forged",
        "json_fields",
        "junit",
        "justifications",
        "metrics",
        "noise",
        "paired",
        "power",
        "shift",
        "shortcuts",
        "step_summary",
        "wording",
    ],
)
def test_the_examples_of_the_module_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"evaluation.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
