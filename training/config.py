"""What a TOML file under ``training/configs/`` may say; ``training.config_file`` reads it.

The section about the data is in ``training.data_config``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from contract.prompt import OUTPUT_BUDGET_TOKENS
from training.config_fields import (
    REPO_PATTERN,
    Commit,
    Name,
    Positive,
    Repo,
    Section,
    Share,
    say_how_to_pin,
)
from training.data_config import DataConfig

BUILT_IN_MODELS = ("embedded", "tiny")
"""Models that need no download: the shipped one, and a random one of two layers for smoke runs."""


class ModelConfig(Section):
    """The policy: a base model with a LoRA adapter."""

    name: str = Field(default="embedded", min_length=1)
    """`embedded`, `tiny`, a folder (with `./`, `../` or `/` in front), or `org/repo`."""
    revision: Commit | None = None
    """Commit of `org/repo` on the Hub, 40 hex digits."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of the base weights; the adapter is float32 always."""
    rank: int = Field(default=16, ge=1, le=512)
    """Rank of the adapter."""
    alpha: int = Field(default=32, ge=1)
    """Scale of the adapter, over its rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout of the adapter's inputs."""
    is_rslora: bool = False
    """Scale by alpha over the square root of the rank."""
    max_prompt_tokens: int = Field(default=1024, ge=192, le=131_072)
    """Examples with longer prompts are left out and counted."""

    @property
    def is_on_hub(self) -> bool:
        """Whether ``name`` is ``org/repo``."""
        return self.name not in BUILT_IN_MODELS and not self.name.startswith(("/", "./", "../"))

    @model_validator(mode="after")
    def _check_revision(self) -> ModelConfig:
        if not self.is_on_hub:
            if self.revision is not None:
                raise ValueError(f"revision belongs to org/repo on the Hub, not to {self.name!r}")
        elif not re.fullmatch(REPO_PATTERN, self.name):
            raise ValueError(
                f"name {self.name!r} is neither {' nor '.join(BUILT_IN_MODELS)} nor org/repo; a "
                "folder is written with ./ in front"
            )
        elif self.revision is None:
            raise ValueError(say_how_to_pin(self.name))
        return self


class WarmstartConfig(Section):
    """Supervised training in the full format of a reply, before any reward."""

    kind: Literal["templated", "self-distilled", "relabelled", "none"] = "templated"
    """Justifications by template, own right replies, the gold class after own ones, or nothing."""
    adapter: Path | None = None
    """Of a finished warm start, to draw replies from and to go on from; the base where unset."""
    epochs: Positive = 1.0
    """Passes over the training data."""
    max_steps: int | None = Field(default=None, ge=1)
    """Ends earlier."""
    batch_tokens: int = Field(default=4096, ge=256)
    """Tokens of a batch, prompts included."""
    learning_rate: Positive = 1e-4
    """At its peak."""
    warmup_share: Share = 0.05
    """Share of the steps in which the learning rate rises."""
    label_weight: float = Field(default=1.0, ge=0)
    """Weight of the label's tokens after a justification."""
    short_path_weight: float = Field(default=1.0, ge=0)
    """Weight of the label's tokens without a justification."""
    justified_share: Share = 1.0
    """Share of the examples whose whole reply is taught; the rest teach the short path alone."""
    justification_weight: float = Field(default=0.3, ge=0)
    """Weight of the justification's tokens."""
    is_class_balanced: bool = False
    """Weigh the labels, so that each set's originals and made rows teach both classes alike."""
    max_grad_norm: Positive = 1.0
    """Longer gradients are scaled down to it."""
    save_steps: int = Field(default=50, ge=1)
    """Steps between checkpoints."""
    num_samples: int = Field(default=8, ge=1)
    """Replies drawn for each prompt (self-distilled, relabelled)."""
    num_records: int | None = Field(default=None, ge=1)
    """Examples that replies are drawn for, of all sets alike; all where unset (as above)."""

    @model_validator(mode="after")
    def _check_kind(self) -> WarmstartConfig:
        if self.adapter is not None and self.kind == "none":
            raise ValueError('kind = "none" trains no adapter to go on from: take adapter out')
        if self.adapter is None and self.kind == "relabelled":
            raise ValueError("relabelled: set adapter to that of a finished templated warm start")
        return self


class StopConfig(Section):
    """When a run that no longer learns is ended."""

    starved_share: Share = 0.8
    """Groups of equal rewards, together with ..."""
    starved_reward: float = 0.7
    """... a mean reward below this."""
    one_class_share: Share = 0.9
    """Readable replies that all name one class."""
    clipped_share: Share = 0.3
    """Replies cut off at `max_completion_tokens`."""
    unreadable_share: Share = 0.2
    """Replies without a readable verdict."""
    patience_steps: int = Field(default=10, ge=1)
    """Steps in a row that a limit must be passed."""


class RlConfig(Section):
    """Reinforcement learning on the verdict."""

    algorithm: Literal["none", "reinforce", "ppo", "grpo", "dr_grpo", "gspo"] = "grpo"
    """The objective; `none` is the supervised arm of a comparison."""
    seed: int | None = Field(default=None, ge=0, lt=2**32)
    """Of the prompts' order and the sampling alone; the run's where unset."""
    max_steps: int = Field(default=50, ge=1)
    """Updates."""
    num_generations: int = Field(default=8, ge=2, le=1024)
    """Replies for each prompt: a group."""
    max_prompt_tokens: int | None = Field(default=None, ge=192)
    """Longer prompts are left out here too; as `model.max_prompt_tokens` where unset."""
    prompts_per_step: int = Field(default=8, ge=1)
    """Prompts of one update."""
    pass_rate_low: Share = 0.0
    """Prompts that the warm start gets right less often than this are left out."""
    pass_rate_high: Share = 1.0
    """And those that it gets right more often than this."""
    prompts_per_forward: int = Field(default=8, ge=1)
    """Prompts whose groups are scored at once; it divides `prompts_per_step`."""
    learning_rate: Positive = 1e-5
    """Constant after the warm-up."""
    beta: float = Field(default=0.0, ge=0)
    """Weight of the divergence from the policy before RL."""
    epsilon: Positive | None = None
    """Clips the probability ratio below 1 minus this; the algorithm's own where unset."""
    epsilon_high: Positive | None = None
    """Clips it above 1 plus this; the algorithm's own where unset."""
    num_iterations: int = Field(default=1, ge=1)
    """Updates from the same replies."""
    temperature: Positive = 1.0
    """Of the sampled replies."""
    max_completion_tokens: int = Field(default=OUTPUT_BUDGET_TOKENS, ge=8, le=OUTPUT_BUDGET_TOKENS)
    """Tokens of a reply, at most what the contract allows when serving."""
    max_grad_norm: Positive = 1.0
    """Longer gradients are scaled down to it."""
    save_steps: int = Field(default=10, ge=1)
    """Steps between checkpoints."""
    eval_steps: int = Field(default=25, ge=1)
    """Steps between greedy evaluations on the validation part."""
    eval_rows: int = Field(default=200, ge=1)
    """Rows of such an evaluation."""
    warmup_steps: int = Field(default=3, ge=0)
    """Steps in which the learning rate rises."""
    rollouts: Literal["hf", "vllm-colocate", "vllm-server"] = "hf"
    """What draws the replies; vLLM needs a GPU here."""
    vllm_server_url: str | None = Field(default=None, pattern=r"^https?://[^\s@]+$")
    """Where `vllm serve` listens (vllm-server)."""
    vllm_memory_share: float = Field(default=0.3, gt=0, lt=1)
    """Share of the GPU's memory for vLLM (vllm-colocate)."""
    vllm_sleep: bool = True
    """Let vLLM free its memory during the update (vllm-colocate)."""
    importance_correction: Literal["token_truncate", "token_mask", "sequence_mask", "none"] = (
        "token_truncate"
    )
    """What is done where vLLM and the trainer disagree on a probability."""
    importance_cap: float = Field(default=3.0, ge=1)
    """Ratio from which the correction cuts."""
    gae_lambda: Share = 1.0
    """Decay of the advantage estimate (ppo)."""
    gamma: Share = 1.0
    """Discount of later rewards (ppo)."""
    value_learning_rate: Positive = 1e-4
    """Of the value head (ppo)."""
    value_clip: Positive = 0.2
    """Range in which one update may move a value (ppo)."""
    stops: StopConfig = StopConfig()
    """When to give up."""

    @model_validator(mode="after")
    def _check_together(self) -> RlConfig:
        if self.prompts_per_step % self.prompts_per_forward:
            raise ValueError(
                f"prompts_per_forward ({self.prompts_per_forward}) must divide prompts_per_step "
                f"({self.prompts_per_step})"
            )
        if self.pass_rate_low >= self.pass_rate_high:
            raise ValueError("pass_rate_low must be below pass_rate_high")
        if self.rollouts == "vllm-server" and self.vllm_server_url is None:
            raise ValueError('rollouts = "vllm-server" needs vllm_server_url')
        return self


class RewardConfig(Section):
    """What a reply is paid."""

    correct: float = 1.0
    """The gold class."""
    wrong: float = 0.0
    """The other class."""
    unreadable: float = -0.5
    """No readable verdict."""
    correct_class_scale: float = Field(default=1.0, gt=0, le=1)
    """Scales the rewards of examples whose gold class is correct (RL4HS, arXiv 2510.02173)."""
    quote_bonus: float = Field(default=0.0, ge=0)
    """For a right class whose quotes all stand in the inputs."""

    @model_validator(mode="after")
    def _check_order(self) -> RewardConfig:
        if not self.correct > self.wrong > self.unreadable:
            raise ValueError(
                "rewards must fall from correct to wrong to unreadable, else saying nothing "
                f"readable pays: {self.correct:g}, {self.wrong:g}, {self.unreadable:g}"
            )
        return self


class EvaluationConfig(Section):
    """How the test part is judged."""

    rows_per_set: int = Field(default=300, ge=1)
    """Rows of each set, whole pairs, chosen by the seed."""
    batch_size: int = Field(default=32, ge=1)
    """Prompts at once."""
    sets: tuple[str, ...] = ()
    """Names of the sets; all where empty."""
    url: str | None = Field(default=None, pattern=r"^https?://[^\s@]+$")
    """Service that serves this run's exported adapter: it is asked instead of transformers."""
    bootstrap_samples: int = Field(default=1000, ge=10)
    """Samples behind an interval."""


class ExportConfig(Section):
    """What leaves the run folder."""

    kind: Literal["adapter", "merged"] = "merged"
    """The adapter alone, or whole weights with the adapter merged in."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Number format of the exported weights."""
    repo: Repo | None = None
    """Where `push` uploads to."""
    tag: Name | None = None
    """Tag of the upload; `v<contract version>-<hash of the weights>` where unset."""
    is_private: bool = True
    """Whether a repository that `push` makes is private."""
    license: str = Field(default="apache-2.0", min_length=1)
    """On the model card; the base model's licence may forbid others."""


class RunConfig(Section):
    """Everything about one run."""

    name: Name
    """Its folder below `--runs-dir`."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """Of every random choice."""
    model: ModelConfig = ModelConfig()
    data: DataConfig
    warmstart: WarmstartConfig = WarmstartConfig()
    rl: RlConfig = RlConfig()
    rewards: RewardConfig = RewardConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    export: ExportConfig = ExportConfig()
    report_to: tuple[Literal["jsonl", "wandb", "trackio"], ...] = ("jsonl",)
    """Where metrics go; the files in the run folder are always written."""

    @model_validator(mode="after")
    def _check_together(self) -> RunConfig:
        known = {each.name for each in self.data.sets}
        unknown = [name for name in self.evaluation.sets if name not in known]
        if unknown:
            raise ValueError(
                f"evaluation.sets names {', '.join(unknown)}, which is not in data.sets "
                f"({', '.join(sorted(known))})"
            )
        return self
