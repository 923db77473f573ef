"""Which checkpoints of a stage are whole.

A checkpoint is a folder ``checkpoint-N`` as transformers' Trainer writes it: weights, optimizer
and random states, and ``trainer_state.json`` last. A killed process or a full disk can leave any of
them cut off, so each file is looked at before it is trusted.
"""

from __future__ import annotations

import json
import logging
import os
import re
import zipfile
from pathlib import Path

logger = logging.getLogger(__name__)

STATE_NAME = "trainer_state.json"
_NAME = re.compile(r"checkpoint-(\d+)")


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the whole checkpoint with the most steps, None where there is none."""
    for checkpoint in reversed(_list(folder)):
        fault = find_fault(checkpoint)
        if fault is None:
            return checkpoint
        logger.warning("%s is not whole (%s) and is passed over", checkpoint, fault)
    return None


def checkpoint_step(checkpoint: Path) -> int:
    """Return the number of steps in a checkpoint's name.

    Example:
        >>> checkpoint_step(Path("runs/a/grpo/checkpoint-40"))
        40
    """
    found = _NAME.fullmatch(checkpoint.name)
    if found is None:
        raise ValueError(f"{checkpoint} is not named checkpoint-N")
    return int(found[1])


def find_fault(checkpoint: Path) -> str | None:
    """Return what is wrong with a checkpoint, None where it is whole."""
    try:
        state = json.loads((checkpoint / STATE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"{STATE_NAME}, which is written last, is missing"
    except (OSError, ValueError):
        return f"{STATE_NAME} is cut off"
    if not isinstance(state, dict) or state.get("global_step") != checkpoint_step(checkpoint):
        return f"{STATE_NAME} is of another step"
    weights = list(checkpoint.rglob("*.safetensors"))
    if not weights:
        return "no weights"
    for file in weights:
        if not _is_whole_safetensors(file):
            return f"{file.name} is cut off"
    # torch writes zip files, whose table of contents stands at the end.
    for file in checkpoint.rglob("*.pt"):
        if not zipfile.is_zipfile(file):
            return f"{file.name} is cut off"
    return None


def set_broken_checkpoints_aside(folder: Path) -> None:
    """Rename what is not whole, so that no rotation keeps it in place of a whole one."""
    for checkpoint in _list(folder):
        if find_fault(checkpoint) is None:
            continue
        aside = checkpoint.with_name(f"broken-{checkpoint.name}")
        number = 1
        while aside.exists():
            number += 1
            aside = checkpoint.with_name(f"broken-{checkpoint.name}-{number}")
        os.replace(checkpoint, aside)
        logger.warning("%s is not whole: moved to %s, delete it at will", checkpoint, aside.name)


def _list(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)]
    return sorted(found, key=checkpoint_step)


def _is_whole_safetensors(file: Path) -> bool:
    """Compare the file's size with what its header promises.

    The format: 8 bytes with the header's length (little-endian), the header as JSON, the tensors.
    """
    try:
        with file.open("rb") as stream:
            num_header_bytes = int.from_bytes(stream.read(8), "little")
            size_bytes = file.stat().st_size
            if not 0 < num_header_bytes <= size_bytes - 8:
                return False
            header = json.loads(stream.read(num_header_bytes))
        ends = [each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return size_bytes == 8 + num_header_bytes + max(ends, default=0)
