"""What the service computes on, for ``/info``; accelerators are named by the engine."""

from __future__ import annotations

import functools
import os
import platform
import re
from pathlib import Path


@functools.cache
def find_processor() -> str:
    """Return the processor's model name; its architecture where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    # Arm's /proc/cpuinfo has no such line.
    found = re.search(r"(?m)^model name\s*:\s*(\S.*)$", text)
    return found[1].strip() if found else platform.processor() or platform.machine()


def count_cores() -> int:
    """Return the cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
