"""PPO over verdicts: the rollouts and the clipped loss of the others, advantages from a critic.

The critic is a linear head on the policy's last hidden states. It learns from them and does not
change them, so that it needs no weight beside the policy's loss. Its value of a token is that of
the state before it; the reward of a reply stands on its last token (``training/advantages.py``).
With ``rl.beta`` the divergence from the reference is in the loss, as with the other algorithms.

Imported inside functions only, since it imports torch and TRL itself.
"""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import torch

from training.advantages import estimate_advantages, spread_rewards, whiten
from training.config import RlConfig
from training.errors import CheckpointError
from training.objectives import ppo_value
from training.verdict_trainer import VerdictTrainer

VALUE_NAME = "value_head.pt"
"""In a checkpoint: the critic, and the state of its optimizer."""


class PpoTrainer(VerdictTrainer):
    """Policy-gradient training with a learned value for every token.

    Attributes:
        value_head: The critic, [hidden] -> [1], float32; 0 everywhere at first.
    """

    def __init__(self, *arguments: Any, ppo: RlConfig, **rest: Any) -> None:
        """Take what ``VerdictTrainer`` takes.

        Args:
            arguments: Of ``VerdictTrainer``.
            ppo: Holds discount, decay, learning rate and clip of the critic.
            rest: Of ``VerdictTrainer``.
        """
        super().__init__(*arguments, **rest)
        size = self.model.config.get_text_config().hidden_size
        self.value_head = torch.nn.Linear(size, 1, device=self.accelerator.device)
        torch.nn.init.zeros_(self.value_head.weight)
        torch.nn.init.zeros_(self.value_head.bias)
        self._value_optimizer = torch.optim.AdamW(
            self.value_head.parameters(), lr=ppo.value_learning_rate, weight_decay=0.0
        )
        self._ppo = ppo

    def _estimate_values(self, states: torch.Tensor) -> torch.Tensor:
        with torch.autocast(states.device.type, enabled=False):
            values: torch.Tensor = self.value_head(states.detach().float())[:, 0]
        return values

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        drawn = super()._generate_and_score_completions(inputs)
        mask = drawn["completion_mask"]
        with torch.no_grad():
            self._get_per_token_logps_and_entropies(
                self.model,
                torch.cat([drawn["prompt_ids"], drawn["completion_ids"]], 1),
                torch.cat([drawn["prompt_mask"], mask], 1),
                mask.size(1),
                batch_size=self.args.per_device_train_batch_size,
            )
        values = self.scores.values
        found = estimate_advantages(
            spread_rewards(self.earned, mask),
            values,
            mask,
            gamma=self._ppo.gamma,
            gae_lambda=self._ppo.gae_lambda,
        )
        explained = explained_variance(values, found.returns, mask)
        self._metrics["train"]["explained_variance"].append(explained)
        return drawn | {
            "advantages": whiten(found.advantages, mask),
            "old_values": values,
            "returns": found.returns,
        }

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss = super()._compute_loss(model, inputs)
        mask = inputs["completion_mask"]
        value_loss = ppo_value(
            self.scores.values,
            inputs["old_values"],
            inputs["returns"],
            mask,
            value_clip=self._ppo.value_clip,
        )
        self._metrics["train"]["value_loss"].append(value_loss.item())
        # A mean over the tokens of the whole update, as the policy's loss is.
        (value_loss * mask.sum() / inputs["num_items_in_batch"]).backward()
        return loss

    def training_step(self, *arguments: Any, **rest: Any) -> torch.Tensor:
        """Do a forward and a backward pass, and at the end of an update the critic's step."""
        loss: torch.Tensor = super().training_step(*arguments, **rest)
        if self.accelerator.sync_gradients:
            self._value_optimizer.step()
            self._value_optimizer.zero_grad()
        return loss

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        state = {
            "head": self.value_head.state_dict(),
            "optimizer": self._value_optimizer.state_dict(),
        }
        torch.save(state, Path(output_dir) / VALUE_NAME)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = Path(checkpoint) / VALUE_NAME
        try:
            state = torch.load(path, map_location=self.accelerator.device, weights_only=True)
            self.value_head.load_state_dict(state["head"])
            self._value_optimizer.load_state_dict(state["optimizer"])
        except (OSError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError) as error:
            raise CheckpointError(
                f"{path} cannot be gone on from ({error}): move {checkpoint} away, and the run "
                "goes on from the checkpoint before it"
            ) from error


def explained_variance(values: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor) -> float:
    """Return how much of the returns the critic foresaw: 1 all, 0 no more than their mean.

    Args:
        values: [replies, tokens].
        returns: [replies, tokens].
        mask: [replies, tokens], true for the tokens of a reply.

    Returns:
        ``1 - Var(returns - values) / Var(returns)``, at most 1; NaN where all returns are equal
        but for rounding.

    Example:
        >>> returns, mask = torch.tensor([[0.0, 1.0, 5.0]]), torch.tensor([[1, 1, 0]])
        >>> explained_variance(torch.tensor([[0.25, 0.75, 9.0]]), returns, mask)
        0.75
    """
    is_token = mask.bool()
    wanted, missed = returns[is_token], (returns - values)[is_token]
    if wanted.numel() == 0 or wanted.max() - wanted.min() < 1e-6:
        return math.nan
    return float(1 - missed.var(correction=0) / wanted.var(correction=0))
