"""The cost of a step beside TRL's, on a random model of two layers; the numbers say nothing."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from huggingface_hub import constants
from support.tiny_model import write_tiny_model
from support.tiny_trainer import make_config, make_records, quiet_imports

from training import step_cost
from training.step_cost import PARTS, make_rewards, measure


def test_the_examples_are_right() -> None:
    found = doctest.testmod(step_cost)
    assert found.attempted >= 2
    assert found.failed == 0


@pytest.mark.parametrize(
    ("flat_share", "flat"),
    [(0.0, [False] * 4), (0.5, [True, True, False, False]), (1.0, [True] * 4)],
)
def test_as_many_groups_are_flat_as_asked_for(flat_share: float, flat: list[bool]) -> None:
    rewards = make_rewards(4, 2, flat_share)
    assert [rewards[i] == rewards[i + 1] for i in range(0, 8, 2)] == flat


def test_both_trainers_do_the_same_work_and_are_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    base = write_tiny_model(tmp_path / "base")
    config = make_config(base, rl={"max_steps": 1, "save_steps": 1000, "learning_rate": 1e-6})
    with quiet_imports():
        costs = measure(config, make_records(1), 2, [0.0, 1.0], None, tmp_path)
    assert [cost.name for cost in costs] == [
        "TRL's GRPOTrainer",
        "this project's, 0% of the groups flat",
        "this project's, 100% of the groups flat",
    ]
    for cost in costs:
        assert cost.dtype == "float32"
        assert cost.seconds.keys() == set(PARTS)
        assert all(value > 0 for value in cost.seconds.values())
        # Two prompts, four replies to each, of eight tokens unless one of them ends.
        assert 32 <= cost.num_tokens <= 64
