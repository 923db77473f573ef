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
from training.spans import split_sentences

_MIN_SENTENCE_WORDS = 8
_MAX_SENTENCE_PAIRS = 10


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


def leave_out_shared(split: Split) -> Split:
    """Leave out the training rows whose knowledge shares a sentence with a held-out text.

    Two passages on one subject often begin alike; claims about that sentence would be in both
    parts. The held-out parts stay as they are. Short sentences, and those of many pairs, such as
    "Media playback is not supported on this device", say nothing and do not count.
    """
    held_out = _sentences((*split.validation, *split.test))
    owners = _sentences(split.train)
    shared: set[tuple[str, str]] = set()
    for sentence in owners.keys() & held_out.keys():
        if len(owners[sentence] | held_out[sentence]) <= _MAX_SENTENCE_PAIRS:
            shared |= owners[sentence]
    train = tuple(row for row in split.train if (row.set_name, row.pair_id) not in shared)
    return Split(train, split.validation, split.test)


def _sentences(records: Iterable[Record]) -> dict[str, set[tuple[str, str]]]:
    """Return sentence -> the pairs whose knowledge holds it."""
    owners: dict[str, set[tuple[str, str]]] = {}
    for record in records:
        for text in record.knowledge or ():
            for sentence in split_sentences(text):
                if len(sentence.split()) >= _MIN_SENTENCE_WORDS:
                    owners.setdefault(sentence, set()).add((record.set_name, record.pair_id))
    return owners


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
