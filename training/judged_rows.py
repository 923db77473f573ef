"""Which rows are judged, and in which parts: found, made from a pair's responses, made by rule."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.labels import Label
from evaluation.slices import RowKey
from training.config import RunConfig
from training.errors import DataError
from training.records import Record
from training.treatment import ORIGINAL_TREATMENTS

if TYPE_CHECKING:
    from training.models import Codec

logger = logging.getLogger(__name__)

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


@dataclass(frozen=True, slots=True)
class Fitting:
    """Rows by whether their prompts are within the budget.

    Attributes:
        kept: Those within it.
        long: Those over it.
    """

    kept: list[Record]
    long: list[Record]


def leave_out_long(records: Sequence[Record], codec: Codec, max_prompt_tokens: int) -> Fitting:
    """Part rows by the budget of a prompt; what is left out is counted and named in the log.

    Raises:
        DataError: No row is left.
    """
    fitting = Fitting([], [])
    for record in records:
        is_long = len(codec.prompt(record.example)) > max_prompt_tokens
        (fitting.long if is_long else fitting.kept).append(record)
    if fitting.long:
        named = [f"{record.set_name}/{record.id}" for record in fitting.long]
        logger.warning(
            "%d of %d rows are not judged: prompts over %d tokens (model.max_prompt_tokens): %s%s",
            len(named),
            len(records),
            max_prompt_tokens,
            ", ".join(named[:8]),
            " ..." if len(named) > 8 else "",
        )
    if records and not fitting.kept:
        raise DataError(
            f"every prompt is over {max_prompt_tokens} tokens: raise model.max_prompt_tokens"
        )
    return fitting


def part_of(record: Record) -> str:
    """Return whether a row is as it was found, made from a pair's responses, or made by rule."""
    if record.treatment in ORIGINAL_TREATMENTS:
        return RAW
    return PERTURBED if record.treatment == PERTURBED else TREATED


def key_of(record: Record) -> RowKey:
    """Return what names a row among those of all sets."""
    return record.set_name, record.id


def find_parts(records: Sequence[Record]) -> dict[str, set[RowKey]]:
    """Return part -> its rows."""
    parts: dict[str, set[RowKey]] = {}
    for record in records:
        parts.setdefault(part_of(record), set()).add(key_of(record))
    return parts


def find_length_matched(records: Sequence[Record]) -> set[RowKey]:
    """Return the rows whose part of the pair holds both classes within one word of length.

    Each such row has a partner of the other class; what stands in no such couple is left out.
    """
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.set_name, record.pair_id, part_of(record)), []).append(record)
    matched: set[RowKey] = set()
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
                matched |= {key_of(row), key_of(partner)}
    return matched
