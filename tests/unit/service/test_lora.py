"""Merging an adapter, on layers small enough to work out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the service's extra)")

from safetensors.torch import save_file  # noqa: E402

from service.errors import WeightsError  # noqa: E402
from service.lora import merge_lora  # noqa: E402

LAYER = "base_model.model.model.layers.0.self_attn.q_proj"
CONFIG = {
    "peft_type": "LORA",
    "r": 1,
    "lora_alpha": 4,
    "use_rslora": False,
    "use_dora": False,
    "fan_in_fan_out": False,
    "bias": "none",
    "modules_to_save": None,
    "rank_pattern": {},
    "alpha_pattern": {},
    "init_lora_weights": True,
    "megatron_core": "megatron.core",
    "target_modules": ["q_proj"],
}
A = [[1.0, 2.0, 3.0]]  # [rank, in]
B = [[10.0], [20.0]]  # [out, rank]


def write_adapter(folder: Path, tensors: dict[str, Any], **changes: Any) -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({**CONFIG, **changes}))
    save_file(
        {name: torch.tensor(value) for name, value in tensors.items()},
        folder / "adapter_model.safetensors",
    )
    return folder


def plain(layer: str = LAYER) -> dict[str, Any]:
    return {f"{layer}.lora_A.weight": A, f"{layer}.lora_B.weight": B}


def weights() -> dict[str, Any]:
    return {
        "model.layers.0.self_attn.q_proj.weight": torch.ones(2, 3),
        "model.layers.0.self_attn.k_proj.weight": torch.ones(2, 3),
        "model.embed_tokens.weight": torch.ones(2, 3),
        "lm_head.weight": torch.ones(2, 3),
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # 1 + 4 / 1 * (B @ A)
        ({}, [[41.0, 81.0, 121.0], [81.0, 161.0, 241.0]]),
        # Rank 1: its root is 1 as well, and so the scale.
        ({"use_rslora": True}, [[41.0, 81.0, 121.0], [81.0, 161.0, 241.0]]),
        ({"lora_alpha": 0.5}, [[6.0, 11.0, 16.0], [11.0, 21.0, 31.0]]),
    ],
    ids=["plain", "rank-stabilised", "half"],
)
def test_the_adapter_is_added_to_its_layer_alone(
    tmp_path: Path, changes: dict[str, Any], expected: list[list[float]]
) -> None:
    model = weights()
    assert merge_lora(model, write_adapter(tmp_path / "adapter", plain(), **changes)) == 1
    assert model.pop("model.layers.0.self_attn.q_proj.weight").tolist() == expected
    assert all(tensor.tolist() == [[1.0] * 3] * 2 for tensor in model.values())


def test_a_rank_above_one_divides_the_scale(tmp_path: Path) -> None:
    tensors = {f"{LAYER}.lora_A.weight": [A[0]] * 4, f"{LAYER}.lora_B.weight": [[1.0] * 4] * 2}
    for name, changes, first in [("plain", {}, 5.0), ("root", {"use_rslora": True}, 9.0)]:
        model = weights()
        merge_lora(model, write_adapter(tmp_path / name, tensors, r=4, **changes))
        # B @ A = 4 at the first place; 1 + 4 / 4 * 4 = 5, and 1 + 4 / 2 * 4 = 9.
        assert model["model.layers.0.self_attn.q_proj.weight"][0, 0].item() == first


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "dora": (plain(), {"use_dora": True}, "use_dora is True"),
    "other-method": (plain(), {"peft_type": "IA3"}, "peft_type is 'IA3'"),
    "ranks-by-layer": (plain(), {"rank_pattern": {"q_proj": 2}}, "rank_pattern is"),
    "changed-base": (plain(), {"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa'"),
    "no-rank": (plain(), {"r": None}, "cannot be read"),
    "whole-module": (
        {**plain(), "base_model.model.lm_head.weight": A},
        {},
        "a lora_A and a lora_B for each layer, and no more",
    ),
    "half-a-pair": ({f"{LAYER}.lora_A.weight": A}, {}, "a lora_A and a lora_B for each layer"),
    "empty": ({}, {}, "a lora_A and a lora_B for each layer"),
    "unknown-layer": (plain(LAYER.replace(".0.", ".7.")), {}, "no linear layer model.layers.7"),
    "tied": (plain("base_model.model.lm_head"), {}, "no linear layer lm_head"),
    "other-shape": (
        {f"{LAYER}.lora_A.weight": [[1.0, 2.0]], f"{LAYER}.lora_B.weight": B},
        {},
        "has another shape than the model's",
    ),
}


@pytest.mark.parametrize(("tensors", "changes", "message"), REFUSED.values(), ids=REFUSED)
def test_whatever_else_is_refused(
    tmp_path: Path, tensors: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    adapter = write_adapter(tmp_path / "adapter", tensors, **changes)
    with pytest.raises(WeightsError, match=f"cannot be merged: .*{message}"):
        merge_lora(weights(), adapter)
