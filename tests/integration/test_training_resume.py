"""A training run that is killed, and gone on with: two processes on a model of two layers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from support.tiny_model import write_tiny_model
from support.tiny_trainer import make_records

from training.checkpoints import find_fault, latest_checkpoint
from training.config_file import load_config
from training.inputs import DATA
from training.records import write_records
from training.runs import RunFolder

ROOT = Path(__file__).resolve().parents[2]
NUM_STEPS = 40
KILL_AFTER_STEP = 10

# A random model says nothing readable, which would end a run that is watched for it.
CONFIG = f"""
name = "killed"

[model]
name = "BASE"
rank = 4
alpha = 8

[[data.sets]]
name = "made"
kind = "file"
file = "made.jsonl"
columns = {{ response = "response", label = "label" }}

[warmstart]
kind = "none"

[rl]
algorithm = "ppo"
max_steps = {NUM_STEPS}
num_generations = 2
prompts_per_step = 4
prompts_per_forward = 2
max_completion_tokens = 8
save_steps = 4
eval_steps = {NUM_STEPS}
eval_rows = 2
warmup_steps = 0
stops = {{ patience_steps = 1000 }}
"""


def start(config: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "training", "grpo", config, "--runs-dir", config.parent, *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_steps(path: Path) -> list[str]:
    """Return the whole lines of a file of metrics."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [line for line in lines if line.endswith("\n")]


def kill_after(process: subprocess.Popen[str], metrics: Path, num_steps: int) -> None:
    while len(read_steps(metrics)) < num_steps:
        if process.poll() is not None:
            raise AssertionError(f"exit code {process.returncode}: {process.communicate()[1]}")
        time.sleep(0.01)
    process.kill()
    process.communicate()


def test_a_killed_run_goes_on_from_its_last_whole_checkpoint(tmp_path: Path) -> None:
    base = write_tiny_model(tmp_path / "base")
    config = tmp_path / "killed.toml"
    config.write_text(CONFIG.replace("BASE", str(base)))
    run = RunFolder(tmp_path / "killed")
    records = make_records(8)
    write_records(run.data("train"), records)
    write_records(run.data("validation"), records[:4])
    run.stage(DATA).finish(load_config(config))
    stage = run.stage("ppo")
    metrics = stage.path / "metrics.jsonl"

    kill_after(start(config), metrics, KILL_AFTER_STEP)
    assert not stage.marker("DONE").exists()
    assert not stage.adapter.exists()
    # The newest one is cut off, as when the process dies while it is written.
    newest = latest_checkpoint(stage.path)
    assert newest is not None
    critic = newest / "value_head.pt"
    critic.write_bytes(critic.read_bytes()[:-100])
    assert find_fault(newest) == "value_head.pt is cut off"
    whole = latest_checkpoint(stage.path)
    assert whole is not None
    num_kept = int(whole.name.removeprefix("checkpoint-"))
    kept = read_steps(metrics)[:num_kept]
    prompts = (stage.path / "prompts.jsonl").read_bytes()

    again = start(config, "--resume")
    said = again.communicate()[1]
    assert again.returncode == 0, said
    lines = read_steps(metrics)
    assert [f'"step": {step},' in line for step, line in enumerate(lines, 1)] == [True] * NUM_STEPS
    assert lines[:num_kept] == kept
    assert stage.marker("DONE").exists()
    assert (stage.adapter / "adapter_model.safetensors").exists()
    assert (stage.path / f"broken-{newest.name}").is_dir()
    assert (stage.path / "prompts.jsonl").read_bytes() == prompts
