"""A golden set of forty cases, a service's replies to them, and the command that measures it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.made_baseline import RIGHT, WRONG, MadeCase, answer

from evaluation.__main__ import main

ROWS = [MadeCase(f"c{n:02}", (WRONG, RIGHT)[n % 2], "numbers", f"p{n // 2:02}") for n in range(40)]
GOLDS = {row.id: row.label for row in ROWS}
SPEED = ("p50 latency", "p95 latency", "throughput")
# Of such a measurement, only what was asked and said counts.
LENIENT = (
    *("--max-p50-ratio", "1e9", "--max-p95-ratio", "1e9", "--min-throughput-ratio", "1e-9"),
    *("--max-detectable-drop", "0.6", "--margin", "0.9", "--alpha", "0.0001"),
)


def say(name: str, *wrong: str) -> Any:
    """Return the stub's reply to a case: right, but for those that are named."""
    is_wrong = (GOLDS[name] is WRONG) is (name not in wrong)
    return answer(0.9 if is_wrong else 0.1, f"Because of {name}.")


def write_golden(path: Path) -> Path:
    """Write the set; return its path."""
    path.write_text("".join(json.dumps(row.to_json()) + "\n" for row in ROWS))
    return path


def measure_baseline(stub: Any, golden: Path, out: Path, *options: str) -> int:
    """Run ``baseline``; return its exit code."""
    paths = ["--set", str(golden), "--out", str(out)]
    return main(["baseline", "--url", stub.url, *paths, *options])


def drift_words(stub: Any, golden: Path, baseline: Path) -> list[str]:
    """Return the command line of ``drift``, but for --out."""
    paths = ["--set", str(golden), "--baseline", str(baseline)]
    return ["drift", "--url", stub.url, *paths, *LENIENT]


def read_report(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "report.json").read_text())
    return content


def count_lines(path: Path) -> int:
    return path.read_text().strip().count("\n") + 1 if path.exists() else 0
