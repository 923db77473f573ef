"""``python -m loadtest.compare`` from end to end, with the fake engine in place of the real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.service_process import ROOT


def test_a_comparison_of_one_contender_is_measured_and_reported(tmp_path: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("DETECTOR_")}
    sizes = ("--rounds", "1", "--alone", "3", "--loaded", "4", "--data", str(tmp_path / "none"))
    done = subprocess.run(
        [
            sys.executable, "-m", "loadtest.compare", "--only", "this service", "--no-bare",
            "--folder", str(tmp_path), "--out", str(tmp_path / "out"), *sizes,
        ],
        cwd=ROOT,
        env={**environ, "DETECTOR_ENGINE": "fake", "DETECTOR_FAKE_LATENCY_S": "0.05"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8"))
    assert record["conditions"]["prompts"] == "made prompts"
    assert "cores" in record["conditions"]["machine"]
    ((figures,),) = record["rounds"]
    assert [level["concurrency"] for level in figures["levels"]] == [1, 8, 32, 32]
    alone = figures["levels"][0]
    assert alone["num_requests"] == 3
    assert 0.05 <= alone["p50_s"] <= alone["p95_s"] < figures["first_verdict_s"]
    text = (tmp_path / "out" / "compare.md").read_text(encoding="utf-8")
    assert "| this service | 1 | full |" in text
