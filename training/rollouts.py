"""Drawing several replies to each prompt, at the price of one prompt.

A row of the batch is a prompt with all its replies: they share the prompt's keys and values, each
step adds one token of every reply, and an attention mask lets a reply see the prompt and itself.
Replies that have ended take no part any more. The distribution is that of the plain computation
(``tests/unit/training/test_rollouts.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from training.tries import backbone, pad_left

if TYPE_CHECKING:
    import torch
    from transformers import DynamicCache, PreTrainedModel


@dataclass(frozen=True, slots=True)
class Drawn:
    """A reply.

    Attributes:
        tokens: Its token ids, with the one that ends it unless it was cut off.
        logprobs: Of each, under the distribution that it was drawn from.
    """

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A token of each row.

    Attributes:
        tokens: Their ids, [rows].
        logprobs: What they had, [rows].
    """

    tokens: torch.Tensor
    logprobs: torch.Tensor


def draw(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    num_replies: int,
    max_tokens: int,
    end_ids: Collection[int],
    temperature: float = 1.0,
) -> list[Drawn]:
    """Sample replies; the random numbers are torch's own.

    Args:
        model: A causal language model, with or without an adapter; in evaluation mode.
        prompts: Token ids, none of them empty.
        num_replies: To each prompt.
        max_tokens: Longest reply, at least 1.
        end_ids: Tokens that end a reply.
        temperature: Above 0.

    Returns:
        The replies to a prompt one after the other, [prompts x num_replies].
    """
    import torch
    from transformers import DynamicCache

    head, cache = model.get_output_embeddings(), DynamicCache()
    tokens, mask = (each.to(model.device) for each in pad_left(prompts))
    lengths = mask.sum(1, keepdim=True)
    replies = [[Drawn() for _ in range(num_replies)] for _ in prompts]
    # Which reply each slot of a row belongs to; None where a row has fewer left than another.
    owners: list[list[Drawn | None]] = [list(row) for row in replies]
    with torch.no_grad():
        states = _run(model, cache, tokens, mask, (mask.cumsum(1) - 1).clamp(min=0))[:, -1:]
        states = states.expand(-1, num_replies, -1)
        seen = mask.bool()[:, None].expand(-1, num_replies, -1)
        for step in range(max_tokens):
            # Flat: three dimensions would have the head's weights copied for each row.
            logits = head(states.flatten(0, 1)).float() / temperature
            chosen = choose(logits.log_softmax(-1))
            drawn = chosen.tokens.view(seen.shape[:2])
            _record(owners, drawn.tolist(), chosen.logprobs.view(seen.shape[:2]).tolist())
            slots = _keep_open(owners, end_ids)
            if step == max_tokens - 1 or not any(slots):
                break
            going_on = torch.tensor(slots, device=drawn.device)
            drawn = drawn.gather(1, going_on)
            seen = seen.gather(1, going_on[..., None].expand(-1, -1, seen.shape[2]))
            own = torch.eye(drawn.shape[1], dtype=torch.bool, device=drawn.device)
            seen = torch.cat([seen, own.expand(len(prompts), -1, -1)], 2)
            places = (lengths + step).expand(-1, drawn.shape[1])
            states = _run(model, cache, drawn, seen[:, None], places)
    return [reply for row in replies for reply in row]


def _run(
    model: PreTrainedModel,
    cache: DynamicCache,
    tokens: torch.Tensor,
    mask: torch.Tensor,
    positions: torch.Tensor,
) -> torch.Tensor:
    """Return the last hidden states, and put the tokens' keys and values into the cache."""
    output = backbone(model)(
        input_ids=tokens,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
    )
    states: torch.Tensor = output.last_hidden_state
    return states


def choose(logprobs: torch.Tensor) -> Chosen:
    """Draw a token from each row of log-probabilities, [rows, vocabulary].

    One random number a row, looked up in the sums of the probabilities: ``torch.multinomial`` draws
    one for every token of the vocabulary, which on a CPU takes as long as some layers of a model.
    """
    import torch

    sums = logprobs.exp().cumsum(1, dtype=torch.float64)
    # Below the last sum, which rounding leaves near 1; a token of no probability is never met.
    places = torch.rand_like(sums[:, :1]) * sums[:, -1:]
    drawn = torch.searchsorted(sums, places, right=True).clamp(max=sums.shape[1] - 1)
    return Chosen(drawn[:, 0], logprobs.gather(1, drawn)[:, 0])


def _record(
    owners: Sequence[Sequence[Drawn | None]],
    tokens: Sequence[Sequence[int]],
    logprobs: Sequence[Sequence[float]],
) -> None:
    for row, row_tokens, row_logprobs in zip(owners, tokens, logprobs, strict=True):
        for owner, token, logprob in zip(row, row_tokens, row_logprobs, strict=True):
            if owner is not None:
                owner.tokens.append(token)
                owner.logprobs.append(logprob)


def _keep_open(owners: list[list[Drawn | None]], end_ids: Collection[int]) -> list[list[int]]:
    """Take replies that have ended out of their slots, and close ranks.

    Returns:
        For each row, which slots go on; a row with fewer than another goes on with its first one
        in place of those that it lacks, which belong to nobody then.
    """
    slots = [
        [i for i, each in enumerate(row) if each is not None and each.tokens[-1] not in end_ids]
        for row in owners
    ]
    width = max(map(len, slots))
    for number, open_slots in enumerate(slots):
        num_lacking = width - len(open_slots)
        owners[number] = [*(owners[number][i] for i in open_slots), *[None] * num_lacking]
        open_slots += [0] * num_lacking
    return slots
