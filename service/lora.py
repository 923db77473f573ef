"""Merging a LoRA adapter into the weights that it was trained on: W += scale * B @ A.

By own arithmetic, since peft is no part of what serves; it reads peft's files. Plain LoRA on linear
layers only: whatever else an adapter could hold is refused, never left out in silence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.errors import WeightsError

if TYPE_CHECKING:
    import torch

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_TENSORS = "adapter_model.safetensors"

_PREFIX = "base_model.model."  # what peft wraps around the model's own names
_TIED = {"lm_head", "model.embed_tokens"}  # one tensor under two names: merging into it hits both

# What plain LoRA has at each of these; whatever else peft can do shows in the tensors' names.
_REQUIRED: dict[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "use_dora": (False, None),
    "fan_in_fan_out": (False, None),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    # The named ways to begin (PiSSA, OLoRA, LoftQ) change the base weights too.
    "init_lora_weights": (True, False, None, "gaussian"),
}


def merge_lora(weights: Mapping[str, torch.Tensor], adapter: Path) -> int:
    """Add the adapter to the weights, in place and in float32; return the number of layers.

    Args:
        weights: Name, such as ``model.layers.0.self_attn.q_proj.weight`` -> float32 [out, in].
        adapter: Folder in peft's format.

    Raises:
        WeightsError: The adapter is no plain LoRA, or is not for these weights.
    """
    import torch
    from safetensors.torch import load_file

    scale = _read_scale(adapter)
    tensors = load_file(adapter / ADAPTER_TENSORS)
    layers = sorted(name.removesuffix(".lora_A.weight") for name in tensors if ".lora_A." in name)
    pairs = {f"{layer}.lora_{half}.weight" for layer in layers for half in "AB"}
    if not layers or pairs != tensors.keys():
        raise _refuse(adapter, "it must hold a lora_A and a lora_B for each layer, and no more")
    with torch.no_grad():
        for layer in layers:
            module = layer.removeprefix(_PREFIX)
            weight = weights.get(f"{module}.weight")
            if weight is None or module in _TIED:
                raise _refuse(adapter, f"the model has no linear layer {module} to merge it into")
            a = tensors[f"{layer}.lora_A.weight"].float()
            b = tensors[f"{layer}.lora_B.weight"].float()
            if a.shape[0] != b.shape[1] or (b.shape[0], a.shape[1]) != weight.shape:
                raise _refuse(adapter, f"its {module} has another shape than the model's")
            weight.add_(b @ a, alpha=scale)
    return len(layers)


def _read_scale(adapter: Path) -> float:
    try:
        config: dict[str, Any] = json.loads((adapter / ADAPTER_CONFIG).read_text(encoding="utf-8"))
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
    except (ValueError, KeyError, TypeError) as error:
        raise _refuse(adapter, f"its {ADAPTER_CONFIG} cannot be read: {error}") from error
    for key, allowed in _REQUIRED.items():
        value = config.get(key)
        if key in config and value not in allowed:
            raise _refuse(adapter, f"{key} is {value!r}")
    # Rank-stabilised LoRA (Kalajdzievski 2023, arXiv 2312.03732) divides by the root of the rank.
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _refuse(adapter: Path, reason: str) -> WeightsError:
    return WeightsError(
        f"the adapter in {adapter} cannot be merged: {reason}. Train and export it again as plain "
        "LoRA on linear layers"
    )
