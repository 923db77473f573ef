from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = (
    "import logging, os; logging.basicConfig(level='INFO');"
    "from training.allocator import relaunch_under_tcmalloc;"
    "print('runs', flush=True); relaunch_under_tcmalloc(); print(os.environ.get('LD_PRELOAD'))"
)


def run_program(**environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.fixture
def library() -> str | None:
    if any(Path(node).exists() for node in ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")):
        pytest.skip("on a machine with a GPU nothing is preloaded: run this on one without")
    return ctypes.util.find_library("tcmalloc_minimal") or ctypes.util.find_library("tcmalloc")


def test_the_program_runs_once_more_with_tcmalloc_where_it_is_installed(library: str | None):
    done = run_program()
    if library is None:
        assert done.stdout.split() == ["runs", "None"]
        assert "apt-get install libtcmalloc-minimal4" in done.stderr
    else:
        assert done.stdout.split() == ["runs", "runs", library]


def test_what_is_preloaded_already_stays(library: str | None):
    if library is None:
        pytest.skip("tcmalloc is not installed: apt-get install libtcmalloc-minimal4")
    assert run_program(LD_PRELOAD=library).stdout.split() == ["runs", library]
