"""A model of two layers that has learned a few replies by heart, to be sampled and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.tiny_model import END, write_tiny_model

Prompt = tuple[int, ...]


def write_taught_model(folder: Path, replies: Mapping[Prompt, str], num_steps: int = 80) -> Path:
    """Write a tiny model that gives these replies to these prompts; return the folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    write_tiny_model(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(END)
    sequences = [
        (prompt, tokenizer.encode(f"{reply}{END}", add_special_tokens=False))
        for prompt, reply in replies.items()
    ]
    tokens, labels = _pad(sequences, tokenizer.pad_token_id)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(num_steps):
        # Down to nothing at the end, so that what was learned stays.
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - step / num_steps)
        model(input_ids=tokens, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    return folder


def _pad(sequences: Sequence[tuple[Prompt, list[int]]], pad: int) -> tuple[Any, Any]:
    import torch

    longest = max(len(prompt) + len(reply) for prompt, reply in sequences)
    tokens = torch.full((len(sequences), longest), pad)
    labels = torch.full((len(sequences), longest), -100)
    for row, (prompt, reply) in enumerate(sequences):
        # Behind the end, where causal attention needs no mask.
        tokens[row, : len(prompt) + len(reply)] = torch.tensor([*prompt, *reply])
        labels[row, len(prompt) : len(prompt) + len(reply)] = torch.tensor(reply)
    return tokens, labels
