"""A disk that fills up in the middle of a training checkpoint, and a run that goes on with room."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.small_disk import mounted
from support.tiny_model import write_tiny_model
from support.tiny_trainer import make_records

from training.checkpoints import find_fault, latest_checkpoint
from training.config_file import load_config
from training.inputs import DATA
from training.records import write_records
from training.runs import RunFolder

ROOT = Path(__file__).resolve().parents[2]
NUM_STEPS = 4
DISK_BYTES = 16 * 2**20
PAGE_BYTES = 4096

# A random model says nothing readable, which would end a run that is watched for it.
CONFIG = f"""
name = "full"

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
save_steps = 2
eval_steps = {NUM_STEPS}
eval_rows = 2
warmup_steps = 0
stops = {{ patience_steps = 1000 }}
"""


def train(config: Path, runs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "training", "grpo", config, "--runs-dir", runs, *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def prepare(config: Path, runs: Path) -> RunFolder:
    run = RunFolder(runs / "full")
    records = make_records(8)
    write_records(run.data("train"), records)
    write_records(run.data("validation"), records[:4])
    run.stage(DATA).finish(load_config(config))
    return run


def disk_bytes(folder: Path) -> int:
    """Return what a folder's files take on a disk."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(-(-size // PAGE_BYTES) * PAGE_BYTES for size in sizes)


def leave_free(disk: Path, num_bytes: int) -> Path:
    """Fill a disk up to so many bytes; return the file that does."""
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - num_bytes))
    return filler


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    path = folder / "full.toml"
    path.write_text(CONFIG.replace("BASE", str(write_tiny_model(folder / "base"))))
    return path


def test_a_checkpoint_that_a_full_disk_cuts_off_is_not_gone_on_from(
    config: Path, tmp_path: Path
) -> None:
    with mounted(tmp_path / "disk", f"size={DISK_BYTES}") as disk:
        ample = prepare(config, tmp_path / "ample")
        done = train(config, tmp_path / "ample")
        assert done.returncode == 0, done.stderr
        checkpoint = latest_checkpoint(ample.stage("ppo").path)
        assert checkpoint is not None
        size = disk_bytes(checkpoint)
        other = disk_bytes(ample.path) - disk_bytes(ample.stage("ppo").path)

        run = prepare(config, disk)
        stage = run.stage("ppo")
        # One checkpoint and half of the next, besides what a run writes else.
        filler = leave_free(disk, size + size // 2 + other)
        ended = train(config, disk)
        assert ended.returncode == 1, ended.stderr
        assert f"cannot go on: the disk of {disk} is full. Nothing half-written" in ended.stderr
        assert "Traceback" not in ended.stderr
        whole = latest_checkpoint(stage.path)
        assert whole is not None
        assert whole.name == "checkpoint-2"
        cut_off = [path for path in stage.path.glob("*checkpoint-4*") if path.is_dir()]
        assert len(cut_off) == 1
        assert cut_off[0].name != "checkpoint-4" or find_fault(cut_off[0]) is not None
        assert not stage.marker("DONE").exists()
        assert not stage.adapter.exists()

        filler.unlink()
        again = train(config, disk, "--resume")
        assert again.returncode == 0, again.stderr
        assert stage.marker("DONE").exists()
        weights = (stage.adapter / "adapter_model.safetensors").read_bytes()
        expected = ample.stage("ppo").adapter / "adapter_model.safetensors"
        assert weights == expected.read_bytes()
