"""The reference objectives against TRL's own: the same advantages, loss and gradient.

For each setting a trainer of TRL is built on a random model of two layers. What it samples, what
the replies earn and what its model says of their tokens is then given to it; from the rewards to
the loss its own code runs, as in training.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from training.advantages import AdvantageKind, group_advantages
from training.objectives import (
    GSPO_CLIP,
    NO_DIVERGENCE,
    Clip,
    Divergence,
    Replies,
    dr_grpo,
    grpo,
    gspo,
    reinforce,
)

NUM_GROUPS, NUM_GENERATIONS, NUM_TOKENS = 3, 4, 6
NUM_REPLIES = NUM_GROUPS * NUM_GENERATIONS
MAX_TOKENS = 10  # the longest allowed; the longest in a batch has NUM_TOKENS
NAN = math.nan

Loss = Callable[[Replies, Tensor, Clip, Divergence], Tensor]


@dataclass(frozen=True)
class Setting:
    """One algorithm: as it is written here, and as TRL is told."""

    loss: Loss
    kind: AdvantageKind
    options: dict[str, Any] = field(default_factory=dict)


SETTINGS = {
    "grpo": Setting(
        lambda replies, advantages, clip, divergence: grpo(
            replies, advantages, clip=clip, divergence=divergence
        ),
        "group-std",
        {"loss_type": "grpo", "scale_rewards": "group"},
    ),
    "dr_grpo": Setting(
        lambda replies, advantages, clip, divergence: dr_grpo(
            replies, advantages, max_tokens=MAX_TOKENS, clip=clip, divergence=divergence
        ),
        "group-mean",
        {"loss_type": "dr_grpo", "scale_rewards": "none"},
    ),
    "gspo": Setting(
        lambda replies, advantages, clip, divergence: gspo(
            replies, advantages, clip=clip, divergence=divergence
        ),
        "group-std",
        {"loss_type": "grpo", "scale_rewards": "group", "importance_sampling_level": "sequence"},
    ),
}
REINFORCE = Setting(
    lambda replies, advantages, clip, divergence: reinforce(replies, advantages) / MAX_TOKENS,
    "group-mean",
    {"loss_type": "dr_grpo", "scale_rewards": "none"},
)


@dataclass(frozen=True)
class Batch:
    """Log-probabilities of replies of 1 to 6 tokens, and what the replies earned."""

    logprobs: Tensor
    old_logprobs: Tensor
    reference_logprobs: Tensor
    mask: Tensor
    rewards: Tensor


def draw_batch(seed: int, spread: float) -> Batch:
    """Draw one; ``spread`` is how far the policy moved since it drew the replies."""
    generator = torch.Generator().manual_seed(seed)
    shape = (NUM_REPLIES, NUM_TOKENS)

    def normal() -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    logprobs = -normal().abs() - 0.1
    lengths = torch.randint(1, NUM_TOKENS + 1, (NUM_REPLIES, 1), generator=generator)
    lengths[0] = NUM_TOKENS
    return Batch(
        logprobs=logprobs,
        old_logprobs=logprobs - spread * normal(),
        reference_logprobs=logprobs + 0.3 * normal(),
        mask=torch.arange(NUM_TOKENS) < lengths,
        rewards=torch.tensor([[1.0, 0.0, 0.0, -0.5], [1.0, 1.0, 1.0, 0.0], [0.1] * 4]),
    )


@dataclass(frozen=True)
class Outcome:
    """A loss and its gradient by the log-probabilities."""

    loss: Tensor
    gradient: Tensor


def run_ours(
    setting: Setting, batch: Batch, clip: Clip, divergence: Divergence, num_iterations: int
) -> Outcome:
    logprobs = batch.logprobs.clone().requires_grad_()
    old_logprobs = batch.old_logprobs if num_iterations > 1 else None
    replies = Replies(logprobs, batch.mask, old_logprobs, batch.reference_logprobs)
    advantages = group_advantages(batch.rewards, setting.kind).flatten()
    loss = setting.loss(replies, advantages, clip, divergence)
    loss.backward()
    assert logprobs.grad is not None
    return Outcome(loss.detach(), logprobs.grad)


class Trl:
    """A trainer of TRL 1.16 that is told what to sample."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def say(self, logprobs: Tensor) -> None:
        """Let the model say this of the replies' tokens."""
        self.trainer._get_per_token_logps_and_entropies = lambda *_, **__: (
            logprobs,
            torch.zeros_like(logprobs),
            None,
        )

    def sample(self, rewards: Sequence[float | None], lengths: Sequence[int]) -> dict[str, Any]:
        """Let replies of these lengths earn these rewards; return what TRL makes of it."""
        self.trainer._generate = lambda prompts: (
            [[2] for _ in prompts],
            [[3] * (length - 1) + [1] for length in lengths],
            None,
            ["w3"] * len(prompts),
            None,
            {},
            None,
            None,
        )
        rows = [{"prompt": "w2", "given": reward} for reward in rewards]
        made: dict[str, Any] = self.trainer._generate_and_score_completions(rows)
        return made

    def run(self, batch: Batch, divergence: Divergence) -> Outcome:
        self.say(batch.old_logprobs)
        inputs = self.sample(batch.rewards.flatten().tolist(), batch.mask.sum(1).tolist())
        logprobs = batch.logprobs.clone().requires_grad_()
        self.say(logprobs)
        # Told only now, since TRL would load a reference model of its own.
        self.trainer.beta = divergence.beta
        loss = self.trainer._compute_loss(
            self.trainer.model, {**inputs, "ref_per_token_logps": batch.reference_logprobs}
        )
        self.trainer.beta = 0.0
        loss.backward()
        assert logprobs.grad is not None
        return Outcome(loss.detach(), logprobs.grad)


BuildTrl = Callable[..., Trl]


def build_model() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=200,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config)


def build_tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i for i in range(2, 200)}}
    model = WordLevel(vocabulary, unk_token="<pad>")
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(model), pad_token="<pad>", eos_token="<eos>"
    )


@pytest.fixture(scope="module")
def build_trl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuildTrl]:
    """Builds trainers with the options of ``GRPOConfig``."""
    from datasets import Dataset
    from huggingface_hub import constants

    with warnings.catch_warnings():
        # torch 2.13 warns of what an optional import of TRL 1.16 still uses.
        warnings.filterwarnings("ignore", "`torch.jit.script_method` is deprecated")
        from trl.trainer.grpo_config import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer

    model, tokenizer = build_model(), build_tokenizer()
    folder = tmp_path_factory.mktemp("trainer")

    @cache
    def build(**options: Any) -> Trl:
        config = GRPOConfig(
            output_dir=str(folder),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            per_device_train_batch_size=NUM_REPLIES,
            num_generations=NUM_GENERATIONS,
            max_completion_length=MAX_TOKENS,
            beta=0.0,
            **options,
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=lambda given, **_: given,
            args=config,
            train_dataset=Dataset.from_list([{"prompt": "w2"}] * NUM_REPLIES),
            processing_class=tokenizer,
        )
        trainer.current_gradient_accumulation_steps = 1
        trainer.model.train()
        return Trl(trainer)

    with pytest.MonkeyPatch.context() as patch:
        # A trainer says on the Hub that it was built; the variable is read before this.
        patch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        yield build


DIVERGENCES = {
    "no-penalty": NO_DIVERGENCE,
    "k3": Divergence(beta=0.1),
    "k3-times-ratio": Divergence(beta=0.1, is_ratio_weighted=True),
}


@pytest.mark.parametrize("divergence", DIVERGENCES.values(), ids=DIVERGENCES)
@pytest.mark.parametrize(
    ("num_iterations", "clip", "spread"),
    [
        pytest.param(1, Clip(), 0.5, id="on-policy"),
        pytest.param(2, Clip(), 0.05, id="off-policy"),
        pytest.param(2, Clip(0.2, 0.28), 0.5, id="clip-higher"),
        pytest.param(4, Clip(1e-3, 1e-3), 0.5, id="nearly-all-clipped"),
        pytest.param(2, GSPO_CLIP, 3e-4, id="clip-of-gspo"),
    ],
)
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_loss_and_gradient_are_those_of_trl(
    build_trl: BuildTrl,
    setting: Setting,
    num_iterations: int,
    clip: Clip,
    spread: float,
    divergence: Divergence,
) -> None:
    trl = build_trl(
        **setting.options,
        num_iterations=num_iterations,
        epsilon=clip.low,
        epsilon_high=clip.high,
        use_bias_correction_kl=divergence.is_ratio_weighted,
    )
    for seed in range(5):
        batch = draw_batch(seed, spread)
        theirs = trl.run(batch, divergence)
        ours = run_ours(setting, batch, clip, divergence, num_iterations)
        torch.testing.assert_close(ours.loss, theirs.loss, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(ours.gradient, theirs.gradient, rtol=1e-6, atol=1e-7)
        assert ours.gradient.abs().max() > 1e-3


def test_the_gradient_of_reinforce_is_that_of_trl_before_an_update(build_trl: BuildTrl) -> None:
    """The losses differ: TRL's is the ratio, 1 everywhere, whose gradient is the same."""
    trl = build_trl(**REINFORCE.options, num_iterations=1)
    for seed in range(5):
        batch = draw_batch(seed, 0.5)
        theirs = trl.run(batch, NO_DIVERGENCE)
        ours = run_ours(REINFORCE, batch, Clip(), NO_DIVERGENCE, 1)
        torch.testing.assert_close(ours.gradient, theirs.gradient, rtol=1e-6, atol=1e-7)
        assert ours.gradient.abs().max() > 1e-3


@pytest.mark.parametrize(
    "rewards",
    [
        pytest.param([[1.0, 0.0, 0.0, 0.0]] * 3, id="one-right"),
        pytest.param([[1.0, 0.0, -0.5, 1.25], [0.5, 0.25, 0.0, 0.5], [0.0] * 4], id="mixed"),
        pytest.param([[1.0, NAN, 0.0, -0.5], [NAN] * 4, [1.0, 1.0, NAN, 1.0]], id="left-out"),
    ],
)
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_advantages_are_those_of_trl(
    build_trl: BuildTrl, setting: Setting, rewards: list[list[float]]
) -> None:
    trl = build_trl(**setting.options, num_iterations=1)
    given = [None if math.isnan(reward) else reward for group in rewards for reward in group]
    theirs = trl.sample(given, [1] * NUM_REPLIES)["advantages"]
    ours = group_advantages(torch.tensor(rewards), setting.kind).flatten()
    torch.testing.assert_close(ours, theirs)
