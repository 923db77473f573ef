"""From rewards to advantages: how much better a reply was than was to be expected.

With a group of replies to each prompt the group itself is the yardstick (REINFORCE, GRPO and
relatives); PPO has a learned value for every token instead. torch only; the losses that take
advantages are in ``training/objectives.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

AdvantageKind = Literal["batch-mean", "group-mean", "leave-one-out", "group-std"]
"""What a reward is compared with; see ``group_advantages``."""

_WHITEN_EPS = 1e-8  # as in the first public PPO for language models (openai/lm-human-preferences)


@dataclass(frozen=True, slots=True)
class TokenAdvantages:
    """What PPO learns from, both [batch, tokens] and 0 at padding.

    Attributes:
        advantages: For the policy.
        returns: What the values are fitted to.
    """

    advantages: Tensor
    returns: Tensor


def group_advantages(
    rewards: Tensor, kind: AdvantageKind, *, std_eps: float = 1e-4, is_bessel: bool = True
) -> Tensor:
    """Return the advantage of each reply, [groups, n] as the rewards.

    ======================  ===================================================================
    ``batch-mean``          r - mean of the batch. REINFORCE with a baseline (Williams 1992,
                            Machine Learning 8:229)
    ``group-mean``          r - mean of the group. Dr. GRPO (Liu et al. 2025, arXiv 2503.20783)
    ``leave-one-out``       r - mean of the others in the group. RLOO (Kool et al. 2019; Ahmadian
                            et al. 2024, arXiv 2402.14740); n / (n - 1) times ``group-mean``
    ``group-std``           (r - mean) / (std + ``std_eps``), of the group. GRPO (Shao et al. 2024,
                            arXiv 2402.03300)
    ======================  ===================================================================

    Where all that is compared is equal, the advantages are exactly 0: the rounding error of a mean,
    divided by a tiny standard deviation, would be an update out of nothing.

    Args:
        rewards: [groups, n]; NaN where a reply is left out. It counts in no mean, and its
            advantage is 0.
        kind: What a reward is compared with.
        std_eps: Added to the standard deviation (1e-4 in TRL 1.16).
        is_bessel: Divide the variance by n - 1, as TRL does, or by n.

    Example:
        >>> import torch
        >>> rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
        >>> [round(x, 4) for x in group_advantages(rewards, "group-std")[0, :2].tolist()]
        [2.4742, -0.3535]
        >>> [round(x, 4) for x in group_advantages(rewards, "leave-one-out")[0, :2].tolist()]
        [1.0, -0.1429]
    """
    compared = rewards.reshape(1, -1) if kind == "batch-mean" else rewards
    is_known = ~compared.isnan()
    count = is_known.sum(1, keepdim=True)
    highest = compared.nan_to_num(nan=-float("inf")).amax(1, keepdim=True)
    lowest = compared.nan_to_num(nan=float("inf")).amin(1, keepdim=True)
    teaches = is_known & (highest > lowest)  # false too where no reward is known
    mean = compared.nansum(1, keepdim=True) / count.clamp(min=1)
    centred = (compared - mean).masked_fill(~teaches, 0.0)
    if kind == "leave-one-out":
        centred = centred * count / (count - 1).clamp(min=1)
    elif kind == "group-std":
        degrees = (count - int(is_bessel)).clamp(min=1)
        centred = centred / ((centred.square().sum(1, keepdim=True) / degrees).sqrt() + std_eps)
    return centred.reshape(rewards.shape)


def spread_rewards(
    rewards: Tensor,
    mask: Tensor,
    *,
    beta: float = 0.0,
    old_logprobs: Tensor | None = None,
    reference_logprobs: Tensor | None = None,
) -> Tensor:
    """Return rewards by token, [batch, tokens]: the reply's own stands on its last token.

    With ``beta`` each token pays ``beta * (log pi_old - log pi_reference)`` besides (Ziegler et al.
    2019, arXiv 1909.08593).

    Args:
        rewards: [batch].
        mask: [batch, tokens], true for the tokens of a reply, which stand in one run.
        beta: Price of leaving the reference.
        old_logprobs: [batch, tokens], of the policy that drew the replies; needed with ``beta``.
        reference_logprobs: [batch, tokens]; needed with ``beta``.

    Raises:
        ValueError: ``beta`` is given without the two it weighs.
    """
    import torch

    mask = mask.bool()
    is_last = mask & ~torch.nn.functional.pad(mask[:, 1:], (0, 1))
    spread = torch.where(is_last, rewards[:, None], rewards.new_zeros(()))
    if not beta:
        return spread
    if old_logprobs is None or reference_logprobs is None:
        raise ValueError("beta needs old_logprobs and reference_logprobs")
    return spread - beta * (old_logprobs - reference_logprobs).masked_fill(~mask, 0.0)


def estimate_advantages(
    rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float = 1.0, gae_lambda: float = 1.0
) -> TokenAdvantages:
    """Return generalised advantage estimates (Schulman et al. 2015, arXiv 1506.02438).

    ``delta_t = r_t + gamma V_{t+1} - V_t`` and ``A_t = delta_t + gamma lambda A_{t+1}``; what
    follows the last token is worth 0. The returns are ``A_t + V_t``.

    Args:
        rewards: [batch, tokens], as ``spread_rewards`` returns them.
        values: [batch, tokens], of the critic when the replies were drawn; no gradient is taken.
        mask: [batch, tokens], true for the tokens of a reply, which stand in one run.
        gamma: Discount of what comes later, in [0, 1].
        gae_lambda: In [0, 1]: 0 trusts the critic, 1 the rewards.

    Example:
        >>> import torch
        >>> rewards, values = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.25]])
        >>> mask = torch.ones(1, 2, dtype=torch.bool)
        >>> estimate_advantages(rewards, values, mask, gae_lambda=0.5).advantages.tolist()
        [[0.125, 0.75]]
    """
    import torch

    mask = mask.bool()
    rewards = rewards.masked_fill(~mask, 0.0)
    values = values.detach().masked_fill(~mask, 0.0)
    next_value = next_advantage = torch.zeros_like(values[:, 0])
    columns = []
    for t in reversed(range(values.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = (delta + gamma * gae_lambda * next_advantage) * mask[:, t]
        next_value = values[:, t]
        columns.append(next_advantage)
    advantages = torch.stack(columns[::-1], dim=1)
    return TokenAdvantages(advantages, advantages + values)


def whiten(advantages: Tensor, mask: Tensor) -> Tensor:
    """Return the advantages with mean 0 and variance 1 over all tokens of the batch.

    Where all are equal they become exactly 0; padding is 0.

    Args:
        advantages: [batch, tokens].
        mask: [batch, tokens], true for the tokens of a reply.

    Example:
        >>> import torch
        >>> mask = torch.tensor([[True, True, False]])
        >>> [round(x, 4) for x in whiten(torch.tensor([[1.0, 3.0, 9.0]]), mask)[0].tolist()]
        [-1.0, 1.0, 0.0]
    """
    mask = mask.bool()
    known = advantages[mask]
    if known.numel() == 0 or known.max() == known.min():
        return advantages.new_zeros(advantages.shape)
    variance = known.var(correction=0)
    return ((advantages - known.mean()) * (variance + _WHITEN_EPS).rsqrt()).masked_fill(~mask, 0.0)
