"""Lowering an adapter's rank, against the definition, on a random model of two layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_model import write_tiny_model
from support.tiny_trainer import make_config, make_policy

from training.lower_rank import lower_rank


@pytest.fixture
def policy(tmp_path: Path) -> Any:
    base = tmp_path / "base"
    write_tiny_model(base)
    return make_policy(make_config(base), base)


def changes(policy: Any) -> dict[str, torch.Tensor]:
    """What the adapter adds to each layer's weights."""
    return {
        name: module.get_delta_weight("default").detach()
        for name, module in policy.named_modules()
        if hasattr(module, "get_delta_weight")
    }


def test_the_lower_adapter_is_the_nearest_of_its_rank(policy: Any) -> None:
    before = changes(policy)
    lowered = lower_rank(policy, 2)
    after = changes(lowered)
    assert after.keys() == before.keys()
    assert len(after) == 14
    for name, whole in before.items():
        left, values, right = torch.linalg.svd(whole)
        nearest = left[:, :2] * values[:2] @ right[:2]
        torch.testing.assert_close(after[name], nearest, rtol=1e-4, atol=1e-6)
        assert float((after[name] - whole).norm()) > 0.01 * float(whole.norm())


def test_at_its_own_rank_the_policy_stays_the_same(policy: Any) -> None:
    tokens = torch.tensor([[1, 5, 9, 2]])
    expected = policy(tokens).logits.detach()
    lowered = lower_rank(policy, 4)
    torch.testing.assert_close(lowered(tokens).logits, expected, rtol=1e-4, atol=1e-5)


def test_the_lower_adapter_can_be_trained_and_has_scale_one(policy: Any) -> None:
    lowered = lower_rank(policy, 2)
    own = lowered.peft_config["default"]
    assert (own.r, own.lora_alpha) == (2, 2)
    lowered(torch.tensor([[1, 5, 9, 2]])).logits.square().sum().backward()
    trained = [p for p in lowered.parameters() if p.requires_grad]
    assert len(trained) == 28
    assert all(p.dtype == torch.float32 and float(p.grad.abs().max()) > 0 for p in trained)
