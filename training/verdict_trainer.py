"""TRL's GRPO trainer over verdicts, without the work that teaches nothing.

What is TRL's stays TRL's: advantages, ratios, clipping, normalisation, logging, checkpoints. What
is replaced computes the same numbers for less: a group's prompt is scored once, not once for each
of its replies (``training/tries.py``); groups whose replies all earned the same are not scored at
all, since their advantages are zero; and the replies to a prompt are drawn together
(``training/rollouts.py``).
``python -m training.step_cost`` times both beside each other.

Imported inside functions only, since it imports torch and TRL itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from trl import GRPOTrainer
from trl.trainer.utils import split_tensor_dict

from contract.labels import Label
from training.config import RewardConfig
from training.group_statistics import Rollout
from training.models import Codec
from training.monitor import Monitor, Phase
from training.rewards import class_scale, score
from training.rollouts import draw
from training.tries import Target, fold, predict

REFERENCE = "ref"
"""With a divergence term TRL keeps a copy of the start as an adapter of this name."""


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What the policy says of the tokens of replies, each [replies, tokens].

    Attributes:
        logprobs: At the sampling temperature, 0 at padding.
        entropies: Of the distributions that the tokens were drawn from, in nats.
        values: What a critic expects before each token; 0 where there is none.
    """

    logprobs: torch.Tensor
    entropies: torch.Tensor
    values: torch.Tensor


@dataclass(frozen=True, slots=True)
class Unpadded:
    """A batch's own tokens.

    Attributes:
        sequences: Prompt and reply of each row.
        starts: How many of them are the prompt.
    """

    sequences: list[list[int]]
    starts: list[int]

    def group(self, chosen: Sequence[int]) -> list[list[int]]:
        """Return the chosen rows by their prompts."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for i in chosen:
            groups.setdefault(tuple(self.sequences[i][: self.starts[i]]), []).append(i)
        return list(groups.values())


class VerdictTrainer(GRPOTrainer):  # type: ignore[misc]  # its types are not followed
    """Policy-gradient training in which a reply is paid for its verdict.

    Attributes:
        earned: What the replies that were drawn last earned, [replies].
        scores: Of the replies that were scored last.
    """

    earned: torch.Tensor
    scores: TokenScores
    _buffered_inputs: list[dict[str, Any]] | None

    def __init__(
        self, codec: Codec, monitor: Monitor, rewards: RewardConfig, **arguments: Any
    ) -> None:
        """Take what ``GRPOTrainer`` takes, but for the rewards.

        Args:
            codec: Of the model.
            monitor: Told of every reply, and of how long drawing and scoring took.
            rewards: What is paid.
            arguments: Of ``GRPOTrainer``; the data set has the columns ``prompt``, ``record``,
                ``gold`` and ``texts``.
        """
        self._codec = codec
        self._monitor = monitor
        self._rewards = rewards
        # Of the update that is being computed: which replies teach, and what is known of the rest.
        self._is_scored: torch.Tensor | None = None
        self._old_logprobs: torch.Tensor | None = None
        super().__init__(reward_funcs=self.verdict, **arguments)

    def verdict(
        self,
        completion_ids: Sequence[Sequence[int]],
        record: Sequence[str],
        gold: Sequence[str],
        texts: Sequence[Sequence[str]],
        **_: object,
    ) -> list[float]:
        """Return what each reply earns; TRL logs it under this function's name."""
        rollouts = []
        for i, tokens in enumerate(completion_ids):
            label = Label(gold[i])
            is_truncated = tokens[-1] not in self.eos_token_ids
            # Not TRL's own text, from which it may take a part that looks like reasoning.
            text = self._codec.decode(tokens)
            scored = score(text, label, texts[i], self._rewards, is_truncated)
            rollouts.append(
                Rollout(
                    group=record[i],
                    reward=scored.reward or 0.0,  # never None, as there is a gold class
                    verdict=scored.label,
                    gold=label,
                    num_tokens=len(tokens),
                    is_truncated=is_truncated,
                )
            )
        self._monitor.observe(rollouts)
        return [rollout.reward for rollout in rollouts]

    def _calculate_rewards(self, *arguments: Any) -> torch.Tensor:
        paid: torch.Tensor = super()._calculate_rewards(*arguments)
        self.earned = paid[:, 0]
        return paid

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """Draw replies where it is time, and return those of the next forward pass.

        As TRL does it, but the replies are not shuffled, so that groups stay whole: an update is
        the mean over all of them anyway.
        """
        if not self.model.training:
            return super()._prepare_inputs(generation_batch)
        num_parts: int = self.args.steps_per_generation
        if self._buffered_inputs is None:
            # After a restart TRL counts from 0, in the middle of what one batch is used for.
            self._step = self.state.global_step * self.args.gradient_accumulation_steps
        if self._buffered_inputs is None or self._step % (num_parts * self.num_iterations) == 0:
            drawn = self._generate_and_score_completions(generation_batch)
            self._buffered_inputs = split_tensor_dict(drawn, num_parts)
        return self._buffered_inputs[self._step % num_parts]

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        if REFERENCE in self.model.peft_config:
            # transformers 5.17 loads what has a folder of its own there, which is the reference,
            # and passes over the policy beside it.
            policy = self.model.active_adapters[0]
            self.model.load_adapter(resume_from_checkpoint, policy, is_trainable=True)

    def _generate_single_turn(
        self, prompt_ids: list[list[int]], images: Any, fields: Any, num_generations: int, *_: Any
    ) -> tuple[list[list[int]], list[list[float]] | None]:
        with self._monitor.timed(Phase.ROLLOUT):
            if self.use_vllm:
                drawn: tuple[list[list[int]], list[list[float]] | None]
                drawn = super()._generate_single_turn(prompt_ids, images, fields, num_generations)
                return drawn
            model = self.accelerator.unwrap_model(self.model_wrapped)
            model.eval()
            with self.accelerator.autocast():
                replies = draw(
                    model,
                    prompt_ids[::num_generations],
                    num_generations,
                    self.max_completion_length,
                    self.eos_token_ids,
                    self.temperature,
                )
            model.train()
            return [reply.tokens for reply in replies], None

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        drawn: dict[str, Any] = super()._generate_and_score_completions(inputs)
        advantages = drawn["advantages"]
        rewards = self.earned.view(-1, self.num_generations)
        # The mean of equal rewards need not be that reward in floating point.
        is_flat = (rewards == rewards[:, :1]).all(1).repeat_interleave(self.num_generations)
        if self.scale_rewards == "group":
            # Divided by the deviation of their group, they have lost what the rewards had of it.
            scales = [class_scale(Label(row["gold"]), self._rewards) for row in inputs]
            advantages = advantages * advantages.new_tensor(scales)
        return drawn | {"advantages": advantages.masked_fill(is_flat, 0.0)}

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        # Without a divergence term, a reply without advantage has no gradient.
        if self.beta == 0.0 and inputs["advantages"].dim() == 1:
            self._is_scored = inputs["advantages"] != 0
            self._old_logprobs = inputs.get("old_per_token_logps")
        try:
            loss: torch.Tensor = super()._compute_loss(model, inputs)
        finally:
            self._is_scored = self._old_logprobs = None
        return loss

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **_: object,
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Return log-probabilities and entropies of the replies' tokens, [batch, logits_to_keep].

        A reply that is not scored has the log-probabilities that it was drawn with, 0 where they
        are not known, and the mean entropy of the others, which leaves the logged mean theirs.
        """
        with self._monitor.timed(Phase.SCORE), self.accelerator.autocast():
            parts = [
                self._score(model, *part, logits_to_keep)
                for part in zip(
                    input_ids.split(batch_size or len(input_ids)),
                    attention_mask.split(batch_size or len(input_ids)),
                    strict=True,
                )
            ]
        self.scores = TokenScores(
            torch.cat([part.logprobs for part in parts]),
            torch.cat([part.entropies for part in parts]),
            torch.cat([part.values for part in parts]),
        )
        return self.scores.logprobs, self.scores.entropies, None

    def _score(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, num_kept: int
    ) -> TokenScores:
        batch = _unpad(input_ids, attention_mask, num_kept)
        chosen = list(range(len(batch.sequences)))
        if self._is_scored is not None:
            chosen = self._is_scored.nonzero()[:, 0].tolist()
        nothing = torch.zeros(len(input_ids), num_kept, device=input_ids.device)
        logprobs = nothing if self._old_logprobs is None else self._old_logprobs
        if not chosen:
            # The optimizer still wants a gradient of every parameter.
            for parameter in filter(lambda each: each.requires_grad, model.parameters()):
                logprobs = logprobs + 0.0 * parameter.sum()
            return TokenScores(logprobs, torch.full_like(nothing, torch.nan), nothing)
        groups = batch.group(chosen)
        targets, rows, columns = [], [], []
        for number, members in enumerate(groups):
            for sequence, i in enumerate(members):
                for place in range(batch.starts[i], len(batch.sequences[i])):
                    targets.append(Target(number, sequence, place))
                    rows.append(i)
                    columns.append(place - batch.starts[i])
        folded = fold([[batch.sequences[i] for i in members] for members in groups])
        found = predict(model, folded, targets)
        at = (torch.tensor(rows), torch.tensor(columns))
        whole = (found.logits / self.temperature).log_softmax(-1)
        logprobs = logprobs.index_put(at, whole[found.order, input_ids[:, -num_kept:][at]])
        entropies = _entropy(whole)[found.order]
        values = self._estimate_values(found.states)[found.order]
        return TokenScores(
            logprobs,
            torch.full_like(nothing, float(entropies.mean())).index_put(at, entropies),
            nothing.index_put(at, values),
        )

    def _estimate_values(self, states: torch.Tensor) -> torch.Tensor:
        """Return what a critic expects in each state, float32 [states]; here is none."""
        return torch.zeros(len(states), device=states.device)


def _unpad(input_ids: torch.Tensor, attention_mask: torch.Tensor, num_kept: int) -> Unpadded:
    width = input_ids.shape[1] - num_kept
    batch = Unpadded([], [])
    for tokens, mask in zip(input_ids.tolist(), attention_mask.tolist(), strict=True):
        batch.sequences.append([t for t, m in zip(tokens, mask, strict=True) if m])
        batch.starts.append(sum(mask[:width]))
    return batch


def _entropy(logprobs: torch.Tensor) -> torch.Tensor:
    """Return -sum p log p, a part at a time: twice [targets, vocabulary] would be much memory."""
    parts = [(part.exp() * part).sum(-1) for part in logprobs.detach().split(256)]
    return -torch.cat(parts)
