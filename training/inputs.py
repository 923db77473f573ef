"""What a stage is made from, as one flat table that its markers keep.

Two tables are compared key by key, so that a message can name what has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from contract.manifest import CONTRACT_VERSION, fingerprint
from training.config import RunConfig
from training.merging import ADAPTER_TENSORS, hash_adapter

DATA, WARMSTART, EVALUATION, EXPORT, PUSH = "data", "warmstart", "evaluation", "export", "push"
"""Folders of the stages; the reinforcement stage's is named after its algorithm."""

# What changes how a run goes on, and not what comes out of it.
_FREE = (
    "report_to",
    "warmstart.save_steps",
    "rl.save_steps",
    "evaluation.url",
    "rl.eval_steps",
    "rl.eval_rows",
    "rl.prompts_per_forward",
    "rl.stops.",
    "rl.vllm_server_url",
    "rl.vllm_memory_share",
    "rl.vllm_sleep",
)

# Where an upload goes: the export is the same.
_WHERE_TO = ("export.repo", "export.tag", "export.is_private")

ADAPTER_KEY = "adapter's weights"
"""What ``warmstart.adapter`` was: its path alone would let another one be put in its place."""

Inputs = dict[str, object]


def describe_contract() -> str:
    """Return this code's contract as the markers name it."""
    return f"version {CONTRACT_VERSION}, {fingerprint()}"


def stage_inputs(config: RunConfig, stage: str, run: Path) -> Inputs:
    """Return everything that a stage's result depends on, as dotted key -> JSON value.

    Args:
        config: Of the run.
        stage: Name of the stage's folder.
        run: The run's folder; the data and the adapter in it count too.
    """
    sections = ["seed", "data"]
    if stage != DATA:
        sections += ["model", "warmstart"]
    if stage not in (DATA, WARMSTART):
        sections += ["rl", "rewards"]
    if stage in (EVALUATION, EXPORT, PUSH):
        sections += ["evaluation"]
    if stage in (EXPORT, PUSH):
        sections += ["export"]
    whole = config.model_dump(mode="json", include=set(sections))
    free = _FREE if stage == PUSH else (*_FREE, *_WHERE_TO)
    inputs = {key: value for key, value in _flatten(whole) if not key.startswith(free)}
    inputs["contract"] = describe_contract()
    if stage != DATA:
        inputs["data/train.jsonl"] = _digest(run / DATA / "train.jsonl")
        adapter = config.warmstart.adapter
        if adapter is not None and (adapter / ADAPTER_TENSORS).is_file():
            inputs[ADAPTER_KEY] = hash_adapter(adapter)
    if stage in (EVALUATION, EXPORT, PUSH):
        for name in (WARMSTART, config.rl.algorithm):
            adapter = run / name / "adapter" / "adapter_model.safetensors"
            inputs[f"{name}/adapter"] = _digest(adapter)
    return inputs


def changed_inputs(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """Return ``key: old -> new`` for every difference.

    An adapter that is gone, or that markers of before it was recorded do not name, is none.

    Example:
        >>> changed_inputs({"seed": 1, "rl.beta": 0.0}, {"seed": 2, "rl.beta": 0.0})
        ['seed: 1 -> 2']
    """
    return [
        f"{key}: {old.get(key, 'not there')} -> {new.get(key, 'not there')}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
        and not (key == ADAPTER_KEY and (key not in old or key not in new))
    ]


def _flatten(value: object, prefix: str = "") -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        children = [(f"{prefix}.{key}" if prefix else key, each) for key, each in value.items()]
    elif isinstance(value, list):
        # A set is known by its name: another order is no change, a further set is one.
        named = [each["name"] if isinstance(each, Mapping) else i for i, each in enumerate(value)]
        children = [(f"{prefix}.{name}", each) for name, each in zip(named, value, strict=True)]
    else:
        return [(prefix, value)]
    return [pair for key, each in children for pair in _flatten(each, key)]


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except FileNotFoundError:
        return None
