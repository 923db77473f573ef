"""Three parts that share no pair and no knowledge.

A pair's place is a hash, so rows added later move none that are there: only a row that ties two
pairs together (one pair with the knowledge of another) can bring one of them into another part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from training.errors import DataError
from training.records import Record


@dataclass(frozen=True, slots=True)
class Fractions:
    """Shares of the pairs, each in (0, 1); the rest is for training.

    Attributes:
        validation: Watched during training.
        test: Touched by no training.
    """

    validation: float
    test: float


@dataclass(frozen=True, slots=True)
class Split:
    """The three parts, each in the order of the rows given."""

    train: tuple[Record, ...]
    validation: tuple[Record, ...]
    test: tuple[Record, ...]


def split_by_pair(records: Sequence[Record], fractions: Fractions, seed: int) -> Split:
    """Split rows so that pairs and knowledge texts stay whole.

    Pairs of different sets that share a pair id, such as one question in two languages, or a
    knowledge text stay together too.
    """
    keys = _keys(records)
    parts: dict[str, list[Record]] = {"train": [], "validation": [], "test": []}
    for record in records:
        parts[_part(keys[_pair(record)], fractions, seed)].append(record)
    split = Split(*(tuple(parts[name]) for name in ("train", "validation", "test")))
    check_disjoint(split)
    return split


def check_disjoint(split: Split) -> None:
    """Accept parts that share neither a pair nor a knowledge text.

    Raises:
        DataError: Two parts share one; both parts and the pair are named.
    """
    owners: dict[str, tuple[str, str]] = {}
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    for part, rows in parts.items():
        for row in rows:
            for mark in (_pair(row), *map(_digest, row.knowledge or ())):
                owner, pair_id = owners.setdefault(mark, (part, row.pair_id))
                if owner != part:
                    raise DataError(
                        f"pair {row.pair_id!r} of {row.set_name} is in {part}, and {pair_id!r} "
                        f"with the same pair or knowledge in {owner}: a score would be of what was "
                        "learned by heart. Delete the prepared data and prepare them again"
                    )


def _part(key: str, fractions: Fractions, seed: int) -> str:
    digest = hashlib.sha256(f"{seed}/{key}".encode()).digest()
    # 53 bits: what a float holds.
    place = (int.from_bytes(digest[:8], "big") >> 11) / 2**53
    if place < fractions.test:
        return "test"
    return "validation" if place < fractions.test + fractions.validation else "train"


def _keys(records: Iterable[Record]) -> dict[str, str]:
    """Return pair -> the key of all pairs that it is tied to, by union and find."""
    parents: dict[str, str] = {}

    def find(mark: str) -> str:
        root = mark
        while parents.setdefault(root, root) != root:
            root = parents[root]
        while parents[mark] != root:
            parents[mark], mark = root, parents[mark]
        return root

    for record in records:
        pair = find(_pair(record))
        for text in record.knowledge or ():
            # The smaller root stays: the key is the least mark of all, whatever the order.
            one, other = sorted((find(_pair(record)), find(_digest(text))))
            parents[other] = one
        find(pair)
    return {mark: find(mark) for mark in list(parents)}


def _pair(record: Record) -> str:
    # After "0" to "f": knowledge, where there is any, decides a pair's place, so that a new pair
    # about a known text joins it without moving it.
    return f"pair {record.pair_id}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
