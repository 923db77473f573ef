"""Scoring many token sequences at the price of their distinct parts: shared prefixes run once.

Training asks about the same knowledge many times: every prompt begins with the same instructions,
the responses of a pair share their knowledge, the completions of a group share their prompt. Here
the sequences of a group are folded into a trie of tokens, which is one row of the model's batch;
an attention mask lets each token see its own ancestors only. What all rows begin with runs once
more cheaply still: as one row, whose keys and values all others attend to. Gradients flow through
all of it, so losses and gradients are those of the plain computation (``tests/unit/training/
test_tries.py`` compares them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class Row:
    """The trie of one group, flattened.

    Attributes:
        tokens: Its distinct tokens, parents before children.
        depths: How many tokens stand before each in its sequence.
        parents: Place of the token before each in this row; -1 for a first token.
        paths: For each sequence, the places of its tokens.
    """

    tokens: list[int]
    depths: list[int]
    parents: list[int]
    paths: list[list[int]]


@dataclass(frozen=True, slots=True)
class Folded:
    """Groups of sequences, folded: ``prefix`` is what every sequence begins with.

    Attributes:
        prefix: Token ids, possibly none.
        rows: One for each group, over what follows the prefix.
    """

    prefix: list[int]
    rows: list[Row]

    @property
    def num_tokens(self) -> int:
        """Tokens that the model computes, padding aside."""
        return len(self.prefix) + sum(len(row.tokens) for row in self.rows)


def fold(groups: Sequence[Sequence[Sequence[int]]]) -> Folded:
    """Fold groups of token sequences; each sequence keeps at least one token after the prefix.

    Args:
        groups: Groups of sequences of token ids, none of them empty.

    Raises:
        ValueError: There is no sequence, or one is empty.
    """
    everything = [tokens for group in groups for tokens in group]
    if not everything or not all(everything) or not all(groups):
        raise ValueError("there is an empty sequence or group")
    first, last = min(everything, key=list), max(everything, key=list)
    shared = min(map(len, everything)) - 1
    length = next((i for i in range(shared) if first[i] != last[i]), shared)
    return Folded(list(first[:length]), [_fold_row(group, length) for group in groups])


def _fold_row(group: Sequence[Sequence[int]], start: int) -> Row:
    row = Row([], [], [], [])
    places: dict[tuple[int, int], int] = {}
    for tokens in group:
        at, path = -1, []
        for depth, token in enumerate(tokens[start:]):
            key = (at, token)
            if key not in places:
                places[key] = len(row.tokens)
                row.tokens.append(token)
                row.depths.append(depth)
                row.parents.append(at)
            at = places[key]
            path.append(at)
        row.paths.append(path)
    return row


def visibility(row: Row) -> torch.Tensor:
    """Return what each token of a row may attend to: bool [len, len], itself and its ancestors."""
    import torch

    size = len(row.tokens)
    seen = torch.zeros(size, size, dtype=torch.bool)
    for place, parent in enumerate(row.parents):
        if parent >= 0:
            seen[place] = seen[parent]
        seen[place, place] = True
    return seen


@dataclass(frozen=True, slots=True)
class States:
    """Last hidden states, before the head.

    Attributes:
        prefix: [prefix, hidden], possibly none.
        rows: [rows, longest row, hidden]; what lies behind a row's end is padding.
    """

    prefix: torch.Tensor
    rows: torch.Tensor


def hidden_states(model: PreTrainedModel, folded: Folded) -> States:
    """Run the model's layers over the prefix and all rows.

    Args:
        model: A causal language model's backbone (without its head), with sdpa attention.
        folded: From ``fold``.

    Raises:
        ValueError: Its attention is another, which would read the mask in another way.
    """
    import torch
    from transformers import DynamicCache

    if model.config._attn_implementation != "sdpa":
        raise ValueError(
            "shared prefixes need sdpa: load the model with attn_implementation='sdpa'"
        )
    device = model.device
    rows, start = folded.rows, len(folded.prefix)
    size = max(len(row.tokens) for row in rows)
    tokens = torch.zeros(len(rows), size, dtype=torch.long)
    positions = torch.zeros(len(rows), size, dtype=torch.long)
    mask = torch.zeros(len(rows), 1, size, start + size, dtype=torch.bool)
    mask[..., :start] = True
    for i, row in enumerate(rows):
        length = len(row.tokens)
        tokens[i, :length] = torch.tensor(row.tokens)
        positions[i, :length] = torch.tensor(row.depths) + start
        mask[i, 0, :length, start : start + length] = visibility(row)
        # Padding sees itself, so that no softmax runs over nothing.
        for place in range(length, size):
            mask[i, 0, place, start + place] = True
    cache = DynamicCache()
    if start:
        first = model(input_ids=torch.tensor([folded.prefix], device=device), use_cache=True)
        for index, layer in enumerate(first.past_key_values.layers):
            shape = (len(rows), -1, -1, -1)
            cache.update(layer.keys.expand(shape), layer.values.expand(shape), index)
    output = model(
        input_ids=tokens.to(device),
        attention_mask=mask.to(device),
        position_ids=positions.to(device),
        past_key_values=cache,
        use_cache=True,
    )
    states: torch.Tensor = output.last_hidden_state
    prefix = first.last_hidden_state[0] if start else states[0, :0]
    return States(prefix, states)


@dataclass(frozen=True, slots=True)
class Target:
    """A token to be scored.

    Attributes:
        group: Which group.
        sequence: Which sequence of the group.
        place: Which token of the sequence; it is predicted from those before it.
    """

    group: int
    sequence: int
    place: int


@dataclass(frozen=True, slots=True)
class Predictions:
    """What the model says before each target; equal places stand here once.

    Attributes:
        states: Last hidden states, before the head: [places, hidden].
        logits: float32 [places, vocabulary].
        order: Place of each target, [targets].
    """

    states: torch.Tensor
    logits: torch.Tensor
    order: torch.Tensor


def predict(model: PreTrainedModel, folded: Folded, targets: Sequence[Target]) -> Predictions:
    """Return the states and logits from which the targets are predicted.

    Args:
        model: A causal language model, with or without an adapter.
        folded: From ``fold``.
        targets: None of them the first token of a sequence.

    Raises:
        ValueError: A target has nothing before it.
    """
    import torch

    start = len(folded.prefix)
    size = max(len(row.tokens) for row in folded.rows)
    wanted: dict[int, int] = {}
    order = []
    for target in targets:
        before = target.place - 1
        if before < 0:
            raise ValueError("the first token of a sequence has nothing before it")
        # Where all sequences begin alike, targets stand in the prefix too.
        if before >= start:
            path = folded.rows[target.group].paths[target.sequence]
            before = start + target.group * size + path[before - start]
        order.append(wanted.setdefault(before, len(wanted)))
    found = hidden_states(backbone(model), folded)
    states = torch.cat([found.prefix, found.rows.flatten(0, 1)])[list(wanted)]
    logits = model.get_output_embeddings()(states).float()
    return Predictions(states, logits, torch.tensor(order, device=logits.device))


def target_logits(
    model: PreTrainedModel, folded: Folded, targets: Sequence[Target]
) -> torch.Tensor:
    """Return the logits from which the targets are predicted: float32 [targets, vocabulary].

    Args and faults are those of ``predict``.
    """
    found = predict(model, folded, targets)
    return found.logits[found.order]


def backbone(model: PreTrainedModel) -> PreTrainedModel:
    """Return the layers below the head, whatever wraps them (an adapter's layers stay inside)."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    layers: PreTrainedModel = inner.model
    return layers


def pad_left(prompts: Sequence[Sequence[int]], pad: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids, padded in front, and their mask, both [prompts, longest].

    Args:
        prompts: Token ids, none of them empty.
        pad: What stands where the mask is 0.
    """
    import torch

    longest = max(map(len, prompts))
    tokens = torch.full((len(prompts), longest), pad)
    mask = torch.zeros_like(tokens)
    for i, prompt in enumerate(prompts):
        tokens[i, longest - len(prompt) :] = torch.tensor(prompt)
        mask[i, longest - len(prompt) :] = 1
    return tokens, mask
