"""The five objectives in plain torch: what each algorithm minimises, with its formula and source.

They are the reference that the trainers are tested against, and what the project's own PPO runs.
Every function returns a scalar loss: the objective of the paper with its sign turned.

Throughout, ``rho_t = pi(y_t) / pi_old(y_t)`` is the probability ratio of a token, ``A`` the
advantage (``training/advantages.py``), ``|y|`` the number of tokens of a reply, ``B`` the number of
replies (groups times replies of a group; their order does not matter), and ``C`` clips to
``[1 - low, 1 + high]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# A ratio of e^20, about 5e8, says only "much too large": beyond it the gradient would overflow, and
# is cut. Small ratios need no bound, they underflow to 0.
_MAX_LOG_RATIO = 20.0


@dataclass(frozen=True, slots=True)
class Replies:
    """A batch of replies as a loss sees them, all [B, tokens]; padding may hold anything.

    Attributes:
        logprobs: Natural log-probability of each token under the policy, with its gradient.
        mask: True for the tokens of a reply.
        old_logprobs: Under the policy that drew the replies. None where that is the policy itself:
            every ratio is then 1, and clipping does nothing.
        reference_logprobs: Under the policy to stay near; needed where ``beta`` is above 0.
    """

    logprobs: Tensor
    mask: Tensor
    old_logprobs: Tensor | None = None
    reference_logprobs: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Clip:
    """How far a ratio may go before its gradient is cut: ``[1 - low, 1 + high]``."""

    low: float = 0.2
    high: float = 0.2


PPO_CLIP = Clip()
GSPO_CLIP = Clip(3e-4, 4e-4)  # of whole sequences, whose ratios hardly move


@dataclass(frozen=True, slots=True)
class Divergence:
    """The penalty for leaving the reference policy: ``beta`` times the k3 estimate of the KL.

    ``k3 = e^d - d - 1`` with ``d = log pi_reference - log pi`` (Schulman 2020,
    joschu.net/blog/kl-approx.html): unbiased, and never negative.

    Attributes:
        beta: Its weight; 0.04 in the GRPO paper.
        is_ratio_weighted: Multiply by the ratio, which makes the gradient that of the reverse KL
            (DeepSeek-V3.2, arXiv 2512.02556); TRL 1.16 does so unless told otherwise.
    """

    beta: float = 0.0
    is_ratio_weighted: bool = False


NO_DIVERGENCE = Divergence()


def reinforce(replies: Replies, advantages: Tensor) -> Tensor:
    """Return the loss of REINFORCE: ``-1/B sum_i A_i sum_t log pi(y_it)``.

    Williams 1992, Machine Learning 8:229. The baseline is in the advantages: that of the batch, of
    the group, or of the others in the group (RLOO; Ahmadian et al. 2024, arXiv 2402.14740).

    Args:
        replies: Drawn by this very policy: ``old_logprobs`` is not read.
        advantages: [B].

    Example:
        >>> import torch
        >>> logprobs = torch.tensor([[-1.0, -2.0], [-3.0, -9.0]])
        >>> replies = Replies(logprobs, torch.tensor([[1, 1], [1, 0]]))
        >>> reinforce(replies, torch.tensor([1.0, -0.5])).item()  # -(1 (-3) - 0.5 (-3)) / 2
        0.75
    """
    mask = replies.mask.bool()
    return -(advantages * _clean(replies.logprobs, mask).sum(1)).mean()


def ppo(replies: Replies, advantages: Tensor, *, clip: Clip = PPO_CLIP) -> Tensor:
    """Return the policy loss of PPO: ``-mean over all tokens of min(rho_t A_t, C(rho_t) A_t)``.

    Schulman et al. 2017, arXiv 1707.06347. Its penalty for leaving the reference is in the rewards
    (``advantages.spread_rewards``).

    Args:
        replies: ``old_logprobs`` of the policy that drew them.
        advantages: [B, tokens], from ``advantages.estimate_advantages``, whitened.
        clip: Of the ratio of a token.

    Example:
        >>> import torch
        >>> replies = Replies(torch.tensor([[1.5, 0.5]]).log(), torch.ones(1, 2), torch.zeros(1, 2))
        >>> round(ppo(replies, torch.tensor([[1.0, 1.0]])).item(), 4)  # -(1.2 + 0.5) / 2
        -0.85
    """
    mask = replies.mask.bool()
    losses = _clipped(_log_ratio(replies, mask), _clean(advantages, mask), clip)
    return (losses * mask).sum() / mask.sum().clamp(min=1)


def ppo_value(
    values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, *, value_clip: float = 0.2
) -> Tensor:
    """Return the loss of PPO's critic, a mean over all tokens.

    ``0.5 max((V - R)^2, (V_clipped - R)^2)``, where ``V_clipped`` moves at most ``value_clip`` from
    the value at the time the replies were drawn (openai/baselines, ppo2).

    Args:
        values: [B, tokens], with their gradient.
        old_values: [B, tokens], when the replies were drawn.
        returns: [B, tokens], from ``advantages.estimate_advantages``.
        mask: [B, tokens], true for the tokens of a reply.
        value_clip: Above 0.

    Example:
        >>> import torch
        >>> one = torch.ones(1, 1)
        >>> round(ppo_value(one, 0 * one, one, one).item(), 4)  # 0.5 (0.2 - 1)^2
        0.32
    """
    import torch

    mask = mask.bool()
    values, old_values, returns = (_clean(x, mask) for x in (values, old_values, returns))
    near = old_values + (values - old_values).clamp(-value_clip, value_clip)
    losses = torch.maximum((values - returns).square(), (near - returns).square())
    return 0.5 * losses.sum() / mask.sum().clamp(min=1)  # padding is 0 in all three


def grpo(
    replies: Replies,
    advantages: Tensor,
    *,
    clip: Clip = PPO_CLIP,
    divergence: Divergence = NO_DIVERGENCE,
) -> Tensor:
    """Return the loss of GRPO: ``-1/B sum_i 1/|y_i| sum_t [min(rho A_i, C(rho) A_i) - beta k3]``.

    Shao et al. 2024, arXiv 2402.03300. A reply without tokens counts in ``B``, and adds 0.

    Args:
        replies: ``old_logprobs`` of the policy that drew them.
        advantages: [B], of the kind ``group-std``.
        clip: Of the ratio of a token.
        divergence: Needs ``reference_logprobs`` where ``beta`` is above 0.

    Raises:
        ValueError: There is a ``beta`` and no reference.
    """
    mask = replies.mask.bool()
    losses = _token_losses(replies, mask, advantages, clip, divergence)
    return (losses.sum(1) / mask.sum(1).clamp(min=1)).mean()


def dr_grpo(
    replies: Replies,
    advantages: Tensor,
    *,
    max_tokens: int,
    clip: Clip = PPO_CLIP,
    divergence: Divergence = NO_DIVERGENCE,
) -> Tensor:
    """Return the loss of Dr. GRPO: ``-1/(B L) sum_i sum_t [min(rho A_i, C(rho) A_i) - beta k3]``.

    Liu et al. 2025, arXiv 2503.20783: with the constant ``L`` in place of ``|y|``, long wrong
    replies are not punished less than short ones.

    Args:
        replies: ``old_logprobs`` of the policy that drew them.
        advantages: [B], of the kind ``group-mean``.
        max_tokens: ``L``, the longest allowed reply.
        clip: Of the ratio of a token.
        divergence: Needs ``reference_logprobs`` where ``beta`` is above 0.

    Raises:
        ValueError: There is a ``beta`` and no reference.
    """
    mask = replies.mask.bool()
    losses = _token_losses(replies, mask, advantages, clip, divergence)
    return losses.sum() / (len(mask) * max_tokens)


def gspo(
    replies: Replies,
    advantages: Tensor,
    *,
    clip: Clip = GSPO_CLIP,
    divergence: Divergence = NO_DIVERGENCE,
) -> Tensor:
    """Return the loss of GSPO: ``-1/B sum_i min(s_i A_i, C(s_i) A_i)``, one ratio for a sequence.

    ``s_i = exp(1/|y_i| sum_t log rho_it)`` (Zheng et al. 2025, arXiv 2507.18071): the geometric
    mean, taken in log space, where the product of a long reply's ratios would overflow. A penalty
    is the mean of k3 over the tokens. A reply without tokens counts in ``B``, and adds 0.

    Args:
        replies: ``old_logprobs`` of the policy that drew them.
        advantages: [B], of the kind ``group-std``.
        clip: Of the ratio of a sequence.
        divergence: Needs ``reference_logprobs`` where ``beta`` is above 0.

    Raises:
        ValueError: There is a ``beta`` and no reference.

    Example:
        >>> import torch
        >>> replies = Replies(torch.tensor([[0.1, -0.3]]), torch.ones(1, 2), torch.zeros(1, 2))
        >>> round(gspo(replies, torch.tensor([1.0])).item(), 4)  # e^-0.1
        -0.9048
    """
    mask = replies.mask.bool()
    num_tokens = mask.sum(1, keepdim=True)
    log_ratio = _log_ratio(replies, mask).sum(1, keepdim=True) / num_tokens.clamp(min=1)
    losses = _clipped(log_ratio, advantages[:, None], clip) * (num_tokens > 0)
    if divergence.beta:
        penalty = _penalty(replies, mask, log_ratio, divergence)
        losses = losses + penalty.sum(1, keepdim=True) / num_tokens.clamp(min=1)
    return losses.mean()


def _token_losses(
    replies: Replies, mask: Tensor, advantages: Tensor, clip: Clip, divergence: Divergence
) -> Tensor:
    log_ratio = _log_ratio(replies, mask)
    losses = _clipped(log_ratio, advantages[:, None], clip) * mask
    return losses + _penalty(replies, mask, log_ratio, divergence) if divergence.beta else losses


def _log_ratio(replies: Replies, mask: Tensor) -> Tensor:
    """Return log rho, 0 at padding."""
    old = replies.logprobs if replies.old_logprobs is None else replies.old_logprobs
    return _clean(replies.logprobs, mask) - _clean(old, mask).detach()


def _clipped(log_ratio: Tensor, advantages: Tensor, clip: Clip) -> Tensor:
    import torch

    ratio = log_ratio.clamp(max=_MAX_LOG_RATIO).exp()
    near = ratio.clamp(1 - clip.low, 1 + clip.high)
    return -torch.minimum(ratio * advantages, near * advantages)


def _penalty(replies: Replies, mask: Tensor, log_ratio: Tensor, divergence: Divergence) -> Tensor:
    """Return ``beta k3``, [B, tokens] and 0 at padding."""
    if replies.reference_logprobs is None:
        raise ValueError("beta is above 0: reference_logprobs are needed")
    reference = _clean(replies.reference_logprobs, mask).detach()
    distance = (reference - _clean(replies.logprobs, mask)).clamp(max=_MAX_LOG_RATIO)
    estimate = distance.exp() - distance - 1
    if divergence.is_ratio_weighted:
        estimate = estimate * log_ratio.clamp(max=_MAX_LOG_RATIO).exp()
    return divergence.beta * estimate


def _clean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the values with 0 at padding, so that what stands there (even NaN) reaches nothing."""
    return values.masked_fill(~mask, 0.0)
