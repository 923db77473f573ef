"""Checkpoint folders as a Trainer leaves them, without a model."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path


def make_checkpoint(folder: Path, step: int) -> Path:
    """Write what a Trainer writes, with one tensor of 8 bytes."""
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (checkpoint / "adapter_model.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header + bytes(8)
    )
    with zipfile.ZipFile(checkpoint / "optimizer.pt", "w") as file:
        file.writestr("data", "states")
    (checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return checkpoint
