"""Replies as if they had been drawn, in the folder of a run whose policy is a tiny model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from support.tiny_trainer import make_config

from training.config import RunConfig
from training.inputs import stage_inputs
from training.merging import hash_adapter
from training.models import load_policy
from training.own_replies import OwnReply
from training.records import Record
from training.runs import RunFolder, write_json


def make_own_config(base: Path, kind: str, **changes: Any) -> RunConfig:
    """Return two steps of a warm start that teaches what the policy says itself."""
    settings = {
        "kind": kind,
        "num_samples": 2,
        "max_steps": 2,
        "batch_tokens": 512,
        "epochs": 2,
        **changes,
    }
    return make_config(base, warmstart=settings, rl={"eval_steps": 2, "eval_rows": 2})


def save_adapter(config: RunConfig, base: Path, folder: Path) -> Path:
    """Write an adapter that changes nothing yet, as a finished stage leaves it; return its path."""
    load_policy(config.model, base, seed=5).save_pretrained(str(folder / "adapter"))
    return folder / "adapter"


def replies_folder(run: RunFolder) -> Path:
    """Where the replies of a run lie."""
    return run.stage("warmstart").path / "replies"


def write_replies(
    run: RunFolder, config: RunConfig, replies: Mapping[Record, Sequence[OwnReply]]
) -> None:
    """Write replies to records, all of one part, as if the run's policy had given them."""
    adapter = config.warmstart.adapter
    inputs = stage_inputs(config, "warmstart", run.path)
    inputs["adapter's weights"] = None if adapter is None else hash_adapter(adapter)
    write_json(replies_folder(run) / "made_from.json", inputs)
    rows = [
        {"record": f"{record.set_name}/{record.id}", "replies": [asdict(each) for each in said]}
        for record, said in replies.items()
    ]
    path = replies_folder(run) / "00000.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
