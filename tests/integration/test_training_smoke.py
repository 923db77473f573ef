"""``make train-smoke``: every stage of training as a process of its own, on a random model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from contract.manifest import fingerprint
from training.metrics_file import METRICS_NAME

ROOT = Path(__file__).resolve().parents[2]
SMOKE = "training/configs/smoke.toml"
STAGES = ("prepare", "warmstart", "grpo", "evaluate", "export", "report")


def run_smoke(runs: Path) -> subprocess.CompletedProcess[str]:
    """Run what the Makefile's target runs."""
    return subprocess.run(
        [sys.executable, "-m", "training", "run", SMOKE, "--runs-dir", str(runs)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_every_stage_runs_and_a_second_run_finds_them_finished(tmp_path: Path) -> None:
    first = run_smoke(tmp_path)
    assert first.returncode == 0, first.stderr
    told = first.stdout + first.stderr
    assert [f"{stage}: done" in told for stage in STAGES] == [True] * len(STAGES)
    run = tmp_path / "smoke"
    steps = [json.loads(line) for line in (run / "grpo" / METRICS_NAME).read_text().splitlines()]
    assert max(row["step"] for row in steps) == 2
    assert "validation_balanced_accuracy" in steps[-1]
    manifest = json.loads((run / "export" / "contract.json").read_text())
    assert manifest["fingerprint"] == fingerprint()
    assert (run / "export" / "adapter_model.safetensors").stat().st_size > 0
    assert (run / "report.html").stat().st_size > 0
    weights = (run / "grpo" / "adapter" / "adapter_model.safetensors").read_bytes()

    again = run_smoke(tmp_path)
    assert again.returncode == 0, again.stderr
    assert "grpo: passed over, it is finished" in again.stdout + again.stderr
    assert (run / "grpo" / "adapter" / "adapter_model.safetensors").read_bytes() == weights
