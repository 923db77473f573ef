"""Prompts for a load: public data where it is at hand, else made ones."""

from __future__ import annotations

import json
import random
from pathlib import Path

from contract.example import Example


def read_examples(data: Path, num: int, seed: int) -> tuple[list[Example], str]:
    """Return distinct examples and where they come from.

    Args:
        data: JSONL with ``knowledge``, ``question`` and ``response``; made prompts take its place
            where it does not exist.
        num: How many.
        seed: Of the choice.

    Raises:
        ValueError: The file holds fewer.
    """
    if not data.exists():
        return [_made(i) for i in range(num)], "made prompts"
    rows = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    if len(rows) < num:
        raise ValueError(f"{data} holds {len(rows)} rows, {num} are needed")
    chosen = random.Random(seed).sample(rows, num)  # noqa: S311
    examples = [
        Example((r["knowledge"],) if r["knowledge"] else None, r["question"], r["response"])
        for r in chosen
    ]
    return examples, f"{data.name}, {num} rows, seed {seed}"


def _made(number: int) -> Example:
    """Return one of any number of examples of about the length of HaluEval QA's."""
    length, year, right = 20 + number % 80, 1900 + number % 120, number % 2 == 0
    knowledge = (
        f"The town's pool number {number} is {length} metres long and was opened in {year} by the "
        "mayor of the day. It has six lanes, a diving board and a stand for two hundred people, "
        "and it was closed for repairs in two winters."
    )
    said = length if right else length + 5
    return Example((knowledge,), f"How long is pool {number}?", f"It is {said} metres long.")
