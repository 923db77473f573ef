"""What a figure was measured with: commit, machine, Python."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def find_commit() -> str:
    """Return the short hash of the checked-out commit, or that there is none."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607
            cwd=Path(__file__).parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        ).stdout.strip()
    except OSError:
        commit = ""
    return commit or "not a checkout"


def describe_machine() -> str:
    """Return cores, processor and Python's version of the machine that this runs on."""
    return f"{os.cpu_count()} cores, {_find_processor()}, Python {platform.python_version()}"


def _find_processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()
