"""The five algorithms as presets of one trainer: which of its options each of them means.

Every option that shapes the loss is set, so that no default of the library decides
(``training/objectives.py`` has the formulas and the papers). ``reinforce`` subtracts the mean of
the group and does not clip, so it takes one update from each reply; with one update ``dr_grpo``
has the same gradient, and ``gspo`` that of ``grpo`` (``find_notes``). ``ppo`` draws and clips as
the others do, takes its advantages from a value head (``training/ppo_trainer.py``), and averages
over all tokens of an update.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from contract.prompt import CHAT_TEMPLATE_KWARGS
from training.errors import ConfigError

if TYPE_CHECKING:
    from training.config import RlConfig, RunConfig

_NO_CLIP = 1e6


@dataclass(frozen=True, slots=True)
class Preset:
    """What an algorithm is to the trainer.

    Attributes:
        loss_type: Over which tokens the loss is averaged: each reply's own (``grpo``), a constant
            length (``dr_grpo``), or those of all replies together (``dapo``).
        scale_rewards: Whether advantages are divided by their group's deviation.
        importance_sampling_level: Whether a token or a whole reply has a ratio.
        epsilon: Clips the ratio from below.
        epsilon_high: Clips it from above.
    """

    loss_type: Literal["grpo", "dr_grpo", "dapo"]
    scale_rewards: Literal["group", "none"]
    importance_sampling_level: Literal["token", "sequence"]
    epsilon: float
    epsilon_high: float


PRESETS = {
    "reinforce": Preset("dr_grpo", "none", "token", _NO_CLIP, _NO_CLIP),
    "ppo": Preset("dapo", "none", "token", 0.2, 0.2),
    "grpo": Preset("grpo", "group", "token", 0.2, 0.2),
    "dr_grpo": Preset("dr_grpo", "none", "token", 0.2, 0.2),
    "gspo": Preset("grpo", "group", "sequence", 3e-4, 4e-4),
}

# What is the same where each reply makes one update (tests/unit/training/test_objectives.py).
_ON_POLICY = {
    "gspo": (
        "its gradient is that of grpo. They differ in the ratio, which is 1 in the only update "
        "from a reply; set rl.num_iterations to 2 or more to compare them"
    ),
    "dr_grpo": (
        "its gradient is that of reinforce. They differ in clipping, and the ratio is 1 in the "
        "only update from a reply"
    ),
}


def find_notes(config: RlConfig) -> list[str]:
    """Return in what the algorithm is another one under these settings, for the log.

    With one update from each reply the ratio is 1 (``rl.num_iterations``), and nothing clips.
    """
    note = _ON_POLICY.get(config.algorithm)
    if config.num_iterations > 1 or note is None:
        return []
    return [f"rl.algorithm is {config.algorithm} and rl.num_iterations is 1: {note}"]


def longest_prompt_tokens(config: RunConfig) -> int:
    """Return the longest prompt that reinforcement draws replies to, in tokens."""
    limit = config.model.max_prompt_tokens
    return min(limit, config.rl.max_prompt_tokens or limit)


def trainer_options(config: RlConfig, max_prompt_tokens: int) -> dict[str, Any]:
    """Return the options of TRL's ``GRPOConfig`` that make the algorithm and its rollouts.

    Args:
        config: Of the stage.
        max_prompt_tokens: From ``longest_prompt_tokens``.

    Raises:
        ConfigError: The options do not go together.
    """
    preset = PRESETS[config.algorithm]
    if config.algorithm == "reinforce" and config.num_iterations > 1:
        raise ConfigError(
            "rl.num_iterations must be 1 for reinforce, which has no ratio to clip: choose dr_grpo"
        )
    low = preset.epsilon if config.epsilon is None else config.epsilon
    high = preset.epsilon_high if config.epsilon_high is None else config.epsilon_high
    return {
        "loss_type": preset.loss_type,
        "scale_rewards": preset.scale_rewards,
        "importance_sampling_level": preset.importance_sampling_level,
        "epsilon": low,
        "epsilon_high": high,
        "delta": None,
        "beta": config.beta,
        # The papers' divergence term has no ratio before it.
        "use_bias_correction_kl": False,
        "num_iterations": config.num_iterations,
        "num_generations": config.num_generations,
        "temperature": config.temperature,
        # Anything else would have the trainer score another distribution than it drew from.
        "top_p": 1.0,
        "top_k": 0,
        "min_p": None,
        "repetition_penalty": 1.0,
        "max_completion_length": config.max_completion_tokens,
        # The order is made already, with both classes in every step.
        "shuffle_dataset": False,
        # A reply that does not end is paid as unreadable; masked, it would go unpunished.
        "mask_truncated_completions": False,
        "multi_objective_aggregation": "sum_then_normalize",
        "top_entropy_quantile": 1.0,
        "entropy_coef": 0.0,
        "use_adaptive_entropy": False,
        "off_policy_mask_threshold": None,
        "sync_ref_model": False,
        "cast_lm_head_to_fp32": False,
        "disable_dropout": False,
        "chat_template_kwargs": dict(CHAT_TEMPLATE_KWARGS),
        **_rollout_options(config, max_prompt_tokens),
    }


def _rollout_options(config: RlConfig, max_prompt_tokens: int) -> dict[str, Any]:
    if config.rollouts == "hf":
        return {"use_vllm": False}
    is_corrected = config.importance_correction != "none"
    options: dict[str, Any] = {
        "use_vllm": True,
        "vllm_importance_sampling_correction": is_corrected,
        "vllm_importance_sampling_clip_max": config.importance_cap,
        "vllm_importance_sampling_clip_min": None,
    }
    if is_corrected:
        options["vllm_importance_sampling_mode"] = config.importance_correction
    if config.rollouts == "vllm-server":
        return options | {
            "vllm_mode": "server",
            "vllm_server_base_url": config.vllm_server_url,
        }
    return options | {
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": config.vllm_memory_share,
        "vllm_enable_sleep_mode": config.vllm_sleep,
        # Unset, vLLM wants room for the model's own longest text: 262,144 tokens of Qwen3-4B are
        # 39 GB of keys and values, and it does not start without.
        "vllm_max_model_length": max_prompt_tokens + config.max_completion_tokens,
    }
