"""Which rows are judged, and in which parts: found, made from a pair's responses, made by rule."""

from __future__ import annotations

import random
from collections.abc import Sequence

from contract.labels import Label
from training.config import RunConfig
from training.errors import DataError
from training.records import Record
from training.treatment import ORIGINAL_TREATMENTS

RAW, TREATED, PERTURBED = "raw", "treated", "perturbed"


def choose_rows(config: RunConfig, records: Sequence[Record]) -> list[Record]:
    """Return up to ``rows_per_set`` rows of each part of each set, whole pairs, by the seed."""
    wanted = config.evaluation.sets
    parts: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in records:
        if not wanted or record.set_name in wanted:
            key = (record.set_name, part_of(record))
            parts.setdefault(key, {}).setdefault(record.pair_id, []).append(record)
    if not parts:
        raise DataError("there is no row to judge: look at evaluation.sets")
    chosen: list[Record] = []
    for key in sorted(parts):
        pairs = [parts[key][pair_id] for pair_id in sorted(parts[key])]
        random.Random(config.seed).shuffle(pairs)  # noqa: S311 - no secret hangs on it
        rows: list[Record] = []
        for pair in pairs:
            if rows and len(rows) + len(pair) > config.evaluation.rows_per_set:
                break
            rows += pair
        chosen += rows
    return chosen


def part_of(record: Record) -> str:
    """Return whether a row is as it was found, made from a pair's responses, or made by rule."""
    if record.treatment in ORIGINAL_TREATMENTS:
        return RAW
    return PERTURBED if record.treatment == PERTURBED else TREATED


def find_parts(records: Sequence[Record]) -> dict[str, set[str]]:
    """Return part -> ids of its rows."""
    parts: dict[str, set[str]] = {}
    for record in records:
        parts.setdefault(part_of(record), set()).add(record.id)
    return parts


def find_length_matched(records: Sequence[Record]) -> set[str]:
    """Return the ids of rows whose part of the pair holds both classes within one word of length.

    Each such row has a partner of the other class; what stands in no such couple is left out.
    """
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.set_name, record.pair_id, part_of(record)), []).append(record)
    matched: set[str] = set()
    for rows in groups.values():
        free = [row for row in rows if row.label is Label.CORRECT]
        for row in rows:
            if row.label is Label.CORRECT:
                continue
            length = len(row.response.split())
            partner = next(
                (other for other in free if abs(len(other.response.split()) - length) <= 1), None
            )
            if partner is not None:
                free.remove(partner)
                matched |= {row.id, partner.id}
    return matched
