"""What each algorithm means to TRL's trainer; nothing is left to the library's defaults."""

from __future__ import annotations

from typing import Any

import pytest

from contract.prompt import CHAT_TEMPLATE_KWARGS
from training.config import RlConfig
from training.errors import ConfigError
from training.presets import PRESETS, trainer_options


def options(**rl: Any) -> dict[str, Any]:
    return trainer_options(RlConfig.model_validate(rl))


@pytest.mark.parametrize(
    ("algorithm", "loss_type", "scale_rewards", "level", "epsilon", "epsilon_high"),
    [
        ("reinforce", "dr_grpo", "none", "token", 1e6, 1e6),
        ("ppo", "dapo", "none", "token", 0.2, 0.2),
        ("grpo", "grpo", "group", "token", 0.2, 0.2),
        ("dr_grpo", "dr_grpo", "none", "token", 0.2, 0.2),
        ("gspo", "grpo", "group", "sequence", 3e-4, 4e-4),
    ],
)
def test_a_preset_is_the_papers(
    algorithm: str,
    loss_type: str,
    scale_rewards: str,
    level: str,
    epsilon: float,
    epsilon_high: float,
) -> None:
    found = options(algorithm=algorithm)
    assert found["loss_type"] == loss_type
    assert found["scale_rewards"] == scale_rewards
    assert found["importance_sampling_level"] == level
    assert found["epsilon"] == epsilon
    assert found["epsilon_high"] == epsilon_high


def test_there_is_a_preset_for_each_algorithm_of_the_configuration() -> None:
    field = RlConfig.model_fields["algorithm"]
    assert field.annotation is not None
    assert {*PRESETS, "none"} == set(field.annotation.__args__)


@pytest.mark.parametrize("algorithm", PRESETS)
def test_the_options_are_known_to_trl_and_shape_no_other_distribution(algorithm: str) -> None:
    found = options(algorithm=algorithm, temperature=0.9, num_generations=4)
    assert found["temperature"] == 0.9
    assert found["num_generations"] == 4
    assert (found["top_p"], found["top_k"], found["min_p"]) == (1.0, 0, None)
    assert found["repetition_penalty"] == 1.0
    assert found["mask_truncated_completions"] is False
    assert found["use_vllm"] is False
    assert found["chat_template_kwargs"] == CHAT_TEMPLATE_KWARGS
    assert found["delta"] is None


LOSS_OPTIONS = (
    "beta",
    "cast_lm_head_to_fp32",
    "delta",
    "disable_dropout",
    "entropy_coef",
    "epsilon",
    "epsilon_high",
    "importance_sampling_level",
    "loss_type",
    "mask_truncated_completions",
    "multi_objective_aggregation",
    "num_iterations",
    "off_policy_mask_threshold",
    "scale_rewards",
    "sync_ref_model",
    "temperature",
    "top_entropy_quantile",
    "use_adaptive_entropy",
    "use_bias_correction_kl",
)


@pytest.mark.parametrize("name", LOSS_OPTIONS)
def test_an_option_that_shapes_the_loss_is_set(name: str) -> None:
    assert name in options()


def test_what_is_set_by_hand_is_stronger_than_the_preset() -> None:
    found = options(algorithm="gspo", epsilon=0.1, epsilon_high=0.3, beta=0.04)
    assert found["epsilon"] == 0.1
    assert found["epsilon_high"] == 0.3
    assert found["beta"] == 0.04
    # One alone leaves the other as the preset has it.
    assert options(algorithm="grpo", epsilon_high=0.28)["epsilon"] == 0.2


def test_reinforce_takes_one_update_from_each_reply() -> None:
    with pytest.raises(ConfigError, match="choose dr_grpo"):
        options(algorithm="reinforce", num_iterations=2)


def test_a_server_of_vllm_is_named_and_corrected_for() -> None:
    found = options(
        rollouts="vllm-server",
        vllm_server_url="http://localhost:8000",
        importance_correction="token_mask",
        importance_cap=2.0,
    )
    assert found["use_vllm"] is True
    assert found["vllm_mode"] == "server"
    assert found["vllm_server_base_url"] == "http://localhost:8000"
    assert found["vllm_importance_sampling_correction"] is True
    assert found["vllm_importance_sampling_mode"] == "token_mask"
    assert found["vllm_importance_sampling_clip_max"] == 2.0


def test_colocated_vllm_has_its_share_and_may_sleep() -> None:
    found = options(
        rollouts="vllm-colocate",
        vllm_memory_share=0.4,
        vllm_sleep=False,
        importance_correction="none",
    )
    assert found["vllm_mode"] == "colocate"
    assert found["vllm_gpu_memory_utilization"] == 0.4
    assert found["vllm_enable_sleep_mode"] is False
    assert found["vllm_importance_sampling_correction"] is False
