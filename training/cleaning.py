"""From rows as they come to rows that can be learned from, with a count of what was left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from contract.errors import TextError
from contract.example import normalise
from training.records import Record
from training.treatment import group_pairs

# HaluEval's wrong answers end at times in a line end that was written out.
_WRITTEN_LINE_END = re.compile(r"(?:\s*(?:/n|\\n))+\s*$")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Rows, and how many were dropped.

    Attributes:
        records: What is left, in the order given.
        dropped: Reason -> number of rows.
    """

    records: tuple[Record, ...]
    dropped: dict[str, int]


def clean(records: Iterable[Record]) -> Cleaned:
    """Normalise every text as the contract does; drop what it refuses, repeats and conflicts."""
    dropped: Counter[str] = Counter()
    kept = []
    for record in records:
        response = _WRITTEN_LINE_END.sub("", record.response)
        try:
            example = normalise(replace(record, response=response).example)
        except TextError as error:
            # The field without its place in a list, so that reasons can be counted.
            dropped[f"{error.field.partition('[')[0]} refused by the contract"] += 1
            continue
        kept.append(
            replace(
                record,
                knowledge=example.knowledge,
                question=example.question,
                response=example.response,
            )
        )
    unique = drop_conflicts(kept)
    for reason, count in unique.dropped.items():
        dropped[reason] += count
    return Cleaned(unique.records, dict(sorted(dropped.items())))


def drop_conflicts(records: Sequence[Record]) -> Cleaned:
    """Drop the second of two equal rows, and both of two that differ in the label alone."""
    labels: dict[object, set[str]] = {}
    for record in records:
        labels.setdefault(record.example, set()).add(record.label)
    dropped: Counter[str] = Counter()
    seen = set()
    kept = []
    for record in records:
        if len(labels[record.example]) > 1:
            dropped["same input with both labels"] += 1
        elif record.example in seen:
            dropped["repeated row"] += 1
        else:
            seen.add(record.example)
            kept.append(record)
    return Cleaned(tuple(kept), dict(dropped))


def keep_whole_pairs(records: Sequence[Record]) -> Cleaned:
    """Keep only pairs that hold both labels."""
    whole = {
        pair for pair, rows in group_pairs(records).items() if len({r.label for r in rows}) > 1
    }
    kept = tuple(r for r in records if (r.set_name, r.pair_id) in whole)
    num_dropped = len(records) - len(kept)
    return Cleaned(kept, {"pair without both labels": num_dropped} if num_dropped else {})
