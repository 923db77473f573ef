"""TRL's GRPO trainer over verdicts, without the work that teaches nothing.

What is TRL's stays TRL's: advantages, ratios, clipping, normalisation, logging, checkpoints. What
is replaced computes the same numbers for less: a group's prompt is scored once, not once for each
of its replies (``training/tries.py``); groups whose replies all earned the same are not scored at
all, since their advantages are zero; and replies are drawn after one pass over each prompt.
``python -m training.step_cost`` times both beside each other.

Imported inside functions only, since it imports torch and TRL itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache
from trl import GRPOTrainer  # type: ignore[import-untyped]

from contract.labels import Label
from training.config import RewardConfig
from training.group_statistics import Rollout
from training.models import Codec
from training.monitor import Monitor, Phase
from training.rewards import score
from training.tries import Target, fold, target_logits

Columns = dict[str, list[Any]]


class VerdictTrainer(GRPOTrainer):  # type: ignore[misc]  # its types are not followed
    """Policy-gradient training in which a reply is paid for its verdict."""

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
        self._is_scored: torch.Tensor | None = None
        super().__init__(reward_funcs=self._reward, **arguments)

    @property
    def __name__(self) -> str:
        """Return the name under which TRL logs the reward."""
        return "verdict"

    def _reward(
        self,
        completions: Sequence[Sequence[dict[str, str]]],
        completion_ids: Sequence[Sequence[int]],
        record: Sequence[str],
        gold: Sequence[str],
        texts: Sequence[Sequence[str]],
        **_: object,
    ) -> list[float]:
        rewards, rollouts = [], []
        end = set(self.eos_token_ids)
        for i, completion in enumerate(completions):
            is_truncated = completion_ids[i][-1] not in end
            text = completion[0]["content"]
            scored = score(text, Label(gold[i]), texts[i], self._rewards, is_truncated)
            reward = 0.0 if scored.reward is None else scored.reward
            rewards.append(reward)
            rollouts.append(
                Rollout(
                    group=record[i],
                    reward=reward,
                    verdict=scored.label,
                    gold=Label(gold[i]),
                    num_tokens=len(completion_ids[i]),
                    is_truncated=is_truncated,
                )
            )
        self._monitor.observe(rollouts)
        return rewards

    def _generate_single_turn(
        self,
        prompt_ids: list[list[int]],
        images: object,
        multimodal_fields: dict[str, object],
        num_generations: int,
        has_tool_images: bool = False,
    ) -> tuple[list[list[int]], list[list[float]] | None]:
        with self._monitor.timed(Phase.ROLLOUT):
            if self.use_vllm:
                result: tuple[list[list[int]], list[list[float]] | None]
                result = super()._generate_single_turn(
                    prompt_ids, images, multimodal_fields, num_generations, has_tool_images
                )
                return result
            model = self.accelerator.unwrap_model(self.model_wrapped)
            model.eval()
            with torch.no_grad(), self.accelerator.autocast():
                replies = self._sample(model, prompt_ids[::num_generations], num_generations)
            model.train()
            return replies, None

    def _sample(
        self, model: torch.nn.Module, prompts: list[list[int]], num_generations: int
    ) -> list[list[int]]:
        """Draw replies to each prompt after one pass over all prompts but their last token."""
        pad, device = int(self._tokenizer.pad_token_id), self.accelerator.device
        longest = max(map(len, prompts))
        tokens = torch.full((len(prompts), longest), pad)
        mask = torch.zeros_like(tokens)
        for i, prompt in enumerate(prompts):
            tokens[i, longest - len(prompt) :] = torch.tensor(prompt)
            mask[i, longest - len(prompt) :] = 1
        tokens, mask = tokens.to(device), mask.to(device)
        cache = DynamicCache()
        # The layers alone: nobody asks what comes after the prompt's own tokens.
        model.get_base_model().model(
            input_ids=tokens[:, :-1],
            attention_mask=mask[:, :-1],
            position_ids=(mask[:, :-1].cumsum(1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
        )
        cache.batch_repeat_interleave(num_generations)
        output = model.generate(
            input_ids=tokens.repeat_interleave(num_generations, 0),
            attention_mask=mask.repeat_interleave(num_generations, 0),
            past_key_values=cache,
            generation_config=self.generation_config,
        )
        replies = []
        end = set(self.eos_token_ids)
        for row in output[:, longest:].tolist():
            stop = next((i for i, token in enumerate(row) if token in end), len(row) - 1)
            replies.append(row[: stop + 1])
        return replies

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        # Without a divergence term, a reply without advantage has no gradient.
        if self.beta == 0.0 and inputs["advantages"].dim() == 1:
            self._is_scored = inputs["advantages"] != 0
        try:
            loss: torch.Tensor = super()._compute_loss(model, inputs)
        finally:
            self._is_scored = None
        return loss

    def _get_per_token_logps_and_entropies(
        self,
        model: torch.nn.Module,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **_: object,
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        """Return log-probabilities and entropies of the replies' tokens, [batch, logits_to_keep].

        Both are those of the policy at ``temperature``. A reply that is not scored has 0 and the
        mean entropy of the others, so that the logged mean is that of the scored ones.
        """
        with self._monitor.timed(Phase.SCORE):
            sequences, starts = _unpad(input_ids, attention_mask, logits_to_keep)
            chosen = list(range(len(sequences)))
            if self._is_scored is not None:
                chosen = [i for i in chosen if bool(self._is_scored[i])]
            logps = torch.zeros(input_ids.shape[0], logits_to_keep, device=input_ids.device)
            entropies = torch.zeros_like(logps)
            if not chosen:
                # Nothing to learn in this step; the optimizer still wants a gradient.
                anchor = next(p for p in model.parameters() if p.requires_grad)
                return logps + 0.0 * anchor.sum(), entropies, None
            groups: dict[tuple[int, ...], list[int]] = {}
            for i in chosen:
                groups.setdefault(tuple(sequences[i][: starts[i]]), []).append(i)
            targets, rows, columns = [], [], []
            for number, members in enumerate(groups.values()):
                for sequence, i in enumerate(members):
                    for place in range(starts[i], len(sequences[i])):
                        targets.append(Target(number, sequence, place))
                        rows.append(i)
                        columns.append(place - starts[i])
            folded = fold([[sequences[i] for i in members] for members in groups.values()])
            with self.accelerator.autocast():
                logits = target_logits(model, folded, targets)
            all_logps = (logits / self.temperature).log_softmax(-1)
            ids = input_ids[:, -logits_to_keep:][rows, columns]
            logps = logps.index_put(
                (torch.tensor(rows), torch.tensor(columns)),
                all_logps.gather(1, ids[:, None])[:, 0],
            )
            if compute_entropy:
                with torch.no_grad():
                    values = -(all_logps.exp() * all_logps).sum(-1)
                    entropies += values.mean()
                    entropies[rows, columns] = values
            return logps, entropies, None


def _unpad(
    input_ids: torch.Tensor, attention_mask: torch.Tensor, num_kept: int
) -> tuple[list[list[int]], list[int]]:
    """Return each row's own tokens, and how many of them are its prompt."""
    width = input_ids.shape[1] - num_kept
    sequences, starts = [], []
    for tokens, mask in zip(input_ids.tolist(), attention_mask.tolist(), strict=True):
        sequences.append([t for t, m in zip(tokens, mask, strict=True) if m])
        starts.append(sum(mask[:width]))
    return sequences, starts
