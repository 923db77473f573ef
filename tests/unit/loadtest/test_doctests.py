"""The worked examples in the docstrings hold."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["arrivals", "checks", "load_report", "rows", "slo"])
def test_the_examples_of_the_module_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"loadtest.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
