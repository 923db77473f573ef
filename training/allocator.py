"""tcmalloc for training on CPU, where the C library's own allocator is most of a step's time."""

from __future__ import annotations

import ctypes.util
import logging
import os
import sys
from pathlib import Path

logger = logging.getLogger(__name__)

# Set in the environment of the second run, so that it does not run a third time.
_MARKER = "_HALLUCINATION_DETECTOR_TRAINING_RELAUNCHED"
# Of NVIDIA, of AMD, and of either under Windows.
_GPU_NODES = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")


def relaunch_under_tcmalloc() -> None:
    """Run this program again with tcmalloc preloaded; return where that is done or of no use."""
    if os.environ.pop(_MARKER, None) is not None or not sys.platform.startswith("linux"):
        return
    preload = os.environ.get("LD_PRELOAD", "")
    if "malloc" in preload or any(Path(node).exists() for node in _GPU_NODES):
        return
    library = ctypes.util.find_library("tcmalloc_minimal") or ctypes.util.find_library("tcmalloc")
    if library is None:
        logger.info(
            "tcmalloc is not installed, so steps on this CPU take longer; on Debian and Ubuntu: "
            "apt-get install libtcmalloc-minimal4"
        )
        return
    preload = f"{preload}:{library}" if preload else library
    environ = {**os.environ, "LD_PRELOAD": preload, _MARKER: "1"}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)  # noqa: S606
