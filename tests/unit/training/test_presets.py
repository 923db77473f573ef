"""What each algorithm means to TRL's trainer; nothing is left to the library's defaults."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import pytest

from contract.prompt import CHAT_TEMPLATE_KWARGS
from training.config import RlConfig, RunConfig
from training.config_file import load_config
from training.errors import ConfigError, ModelError
from training.grpo import train
from training.presets import PRESETS, find_notes, longest_prompt_tokens, trainer_options
from training.runs import RunFolder

CONFIGS = Path(__file__).resolve().parents[3] / "training" / "configs"
REINFORCED = [
    path for path in sorted(CONFIGS.rglob("*.toml")) if load_config(path).rl.algorithm != "none"
]


def options(**rl: Any) -> dict[str, Any]:
    return trainer_options(RlConfig.model_validate(rl), 512)


def make_config(model: dict[str, Any] | None = None, **rl: Any) -> RunConfig:
    sets = [{"name": "made", "kind": "folder", "file": "made.jsonl"}]
    raw = {"name": "made", "model": model or {}, "data": {"sets": sets}, "rl": rl}
    return RunConfig.model_validate(raw)


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


def test_colocated_vllm_has_room_for_the_longest_prompt_and_reply_and_no_more() -> None:
    """Without a limit it wants room for 262,144 tokens, and does not start on 80 GB."""
    found = options(rollouts="vllm-colocate", max_completion_tokens=64)
    assert found["vllm_max_model_length"] == 576
    assert "vllm_max_model_length" not in options()


@pytest.mark.parametrize(
    ("of_model", "of_rl", "longest"),
    [(512, None, 512), (512, 400, 400), (512, 600, 512)],
    ids=["unset", "shorter", "longer"],
)
def test_the_longest_prompt_is_the_smaller_of_both_limits(
    of_model: int, of_rl: int | None, longest: int
) -> None:
    config = make_config({"max_prompt_tokens": of_model}, max_prompt_tokens=of_rl)
    assert longest_prompt_tokens(config) == longest


@pytest.mark.parametrize(
    ("algorithm", "num_iterations", "words"),
    [
        ("gspo", 1, ["gspo", "that of grpo", "rl.num_iterations to 2"]),
        ("dr_grpo", 1, ["dr_grpo", "that of reinforce"]),
        ("gspo", 2, []),
        ("dr_grpo", 2, []),
        ("grpo", 1, []),
        ("ppo", 1, []),
    ],
)
def test_an_algorithm_that_is_another_one_on_policy_is_named(
    algorithm: str, num_iterations: int, words: list[str]
) -> None:
    config = RlConfig.model_validate({"algorithm": algorithm, "num_iterations": num_iterations})
    notes = find_notes(config)
    assert len(notes) == (1 if words else 0)
    assert all(word in notes[0] for word in words)


def test_such_a_note_is_logged_before_anything_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = make_config({"name": str(tmp_path / "nowhere")}, algorithm="gspo")
    with caplog.at_level(logging.WARNING), pytest.raises(ModelError, match="is no folder"):
        train(config, RunFolder(tmp_path / "run"))
    assert "its gradient is that of grpo" in caplog.text


# Options of TRL's own that nothing here sets, and why that is no accident.
LEFT_ALONE = {
    "model_init_kwargs": "the model is given loaded",
    "trust_remote_code": "the model is given loaded",
    "router_aux_loss_coef": "of mixtures of experts",
    "num_generations_eval": "validation is greedy and this project's own",
    "pad_to_multiple_of": "padding is taken out before replies are scored",
    "generation_batch_size": "follows from steps_per_generation",
    "steps_per_generation": "the accumulation's steps: one draw an update",
    "ds3_gather_for_generation": "of DeepSpeed, which is not used",
    "generation_kwargs": "nothing beside what is set",
    "cache_implementation": "training/rollouts.py or vLLM draws",
    "use_transformers_continuous_batching": "training/rollouts.py or vLLM draws",
    "transformers_continuous_batching_config": "training/rollouts.py or vLLM draws",
    "use_transformers_paged": "training/rollouts.py or vLLM draws",
    "vllm_model_impl": "vLLM's own layers",
    "vllm_structured_outputs_regex": "replies are free, and paid for their form",
    "vllm_server_host": "the URL is given",
    "vllm_server_port": "the URL is given",
    "vllm_server_timeout": "how long a server may take to start",
    "vllm_group_port": "any port that is free",
    "vllm_tensor_parallel_size": "one GPU",
    "vllm_importance_sampling_cap": "the old name of ..._clip_max",
    "sapo_temperature_neg": "of a loss that no preset has",
    "sapo_temperature_pos": "of a loss that no preset has",
    "vespo_k_pos": "of a loss that no preset has",
    "vespo_lambda_pos": "of a loss that no preset has",
    "vespo_k_neg": "of a loss that no preset has",
    "vespo_lambda_neg": "of a loss that no preset has",
    "reward_weights": "there is one reward",
    "ref_model_mixup_alpha": "sync_ref_model is off",
    "ref_model_sync_steps": "sync_ref_model is off",
    "entropy_coef_min": "use_adaptive_entropy is off",
    "entropy_coef_max": "use_adaptive_entropy is off",
    "entropy_coef_delta": "use_adaptive_entropy is off",
    "entropy_target": "use_adaptive_entropy is off",
    "max_tool_calling_iterations": "there are no tools",
    "log_completions": "training/monitor.py logs",
    "log_multimodal": "training/monitor.py logs",
    "num_completions_to_print": "training/monitor.py logs",
    "log_unique_prompts": "training/monitor.py logs",
    "log_completions_hub_repo": "training/monitor.py logs",
}


def test_every_option_of_trls_own_is_set_or_left_alone_for_a_reason() -> None:
    """A new version of TRL with a new option must not decide it in silence."""
    trl = pytest.importorskip("trl", reason="needs the training libraries")
    transformers = pytest.importorskip("transformers", reason="needs the training libraries")
    inherited = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    own = {field.name for field in dataclasses.fields(trl.GRPOConfig)} - inherited
    chosen = {
        *options(),
        *options(rollouts="vllm-colocate"),
        *options(rollouts="vllm-server", vllm_server_url="http://localhost:8000"),
    }
    assert own - chosen == set(LEFT_ALONE)
    assert chosen <= own


@pytest.mark.parametrize("path", REINFORCED, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_trl_takes_the_options_of_every_configuration(path: Path, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl", reason="needs the training libraries")
    config = load_config(path)
    found = trainer_options(config.rl, longest_prompt_tokens(config))
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=config.rl.prompts_per_forward * config.rl.num_generations,
        gradient_accumulation_steps=config.rl.prompts_per_step // config.rl.prompts_per_forward,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        **found,
    )
    assert {name: getattr(arguments, name) for name in found} == found
    prompts = arguments.generation_batch_size // config.rl.num_generations
    assert prompts == config.rl.prompts_per_step
