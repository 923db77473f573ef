"""Which baseline goes into an export, and what is said where none does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.made_baseline import SHA, make_baseline

from training.baselines import find_baseline
from training.errors import ExportError


def test_a_baseline_of_the_weights_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_baseline().write(tmp_path / "baseline.json")
    assert find_baseline(tmp_path, SHA) == make_baseline()
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("service", "message"),
    [
        (None, "baseline.json is missing: the export will have no baseline"),
        ({"weights_sha256": "0" * 64}, "baseline.json is of other weights: the export will"),
        (
            {"weights_sha256": None},
            "baseline.json was measured on made@0123abcd, which does not say which adapter",
        ),
        ({"contract": "0" * 16}, "baseline.json was measured under another contract: the"),
        ({"contract_version": 99}, "baseline.json was measured under another contract: the"),
    ],
    ids=["none", "other-weights", "no-hash", "other-contract", "other-version"],
)
def test_without_one_it_is_said_how_to_make_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, service: dict[str, Any] | None, message: str
) -> None:
    path = tmp_path / "baseline.json"
    if service is not None:
        make_baseline(**service).write(path)
    assert find_baseline(tmp_path, SHA) is None
    assert message in caplog.text
    assert f"run `python -m evaluation baseline --url URL --out {path}`, then" in caplog.text


def test_a_broken_one_stops_the_export(tmp_path: Path) -> None:
    (tmp_path / "baseline.json").write_text('{"format": 1}')
    with pytest.raises(ExportError, match=r"baseline.json is broken: .*, or delete it to export"):
        find_baseline(tmp_path, SHA)
