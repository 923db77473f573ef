"""Which prompts reinforcement learns from, in which order: both classes in every step.

A group teaches only where its replies differ in reward. So prompts can be chosen by how often the
warm start gets them right, and each step holds as many responses of one class as of the other,
from the same pairs where they have both.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Iterable, Mapping, Sequence

from contract.labels import Label
from training.errors import DataError
from training.records import Record

logger = logging.getLogger(__name__)


def pass_rate(log_odds: float, gold: Label) -> float:
    """Return how often the verdict at these odds is right, in [0, 1].

    Example:
        >>> round(pass_rate(math.log(3), Label.HALLUCINATION), 2)
        0.75
        >>> round(pass_rate(math.log(3), Label.CORRECT), 2)
        0.25
    """
    sign = 1.0 if gold is Label.HALLUCINATION else -1.0
    return 1.0 / (1.0 + math.exp(-sign * max(-60.0, min(60.0, log_odds))))


def order_prompts(
    records: Sequence[Record], num_prompts: int, repeats: Mapping[str, float], seed: int
) -> list[Record]:
    """Return the prompts of all steps; each two in a row are one of each class.

    Args:
        records: To choose from.
        num_prompts: How many are needed; an odd number is rounded up.
        repeats: Set -> how often its pairs stand in a pass over all of them.
        seed: Of the order.

    Raises:
        DataError: A class is missing altogether.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret hangs on it
    sides: dict[Label, dict[tuple[str, str], list[Record]]] = {label: {} for label in Label}
    for record in records:
        key = (record.set_name, record.pair_id)
        sides[record.label].setdefault(key, []).append(record)
    if not all(sides.values()):
        raise DataError(
            "reinforcement needs examples of both classes: widen rl.pass_rate_low and "
            "rl.pass_rate_high, or add a data set"
        )
    others = {label: _by_set(side) for label, side in sides.items()}
    pairs = sorted(sides[Label.HALLUCINATION].keys() | sides[Label.CORRECT].keys())
    chosen: list[Record] = []
    while len(chosen) < num_prompts:
        keys = [key for key in pairs for _ in range(_times(repeats[key[0]], rng))]
        rng.shuffle(keys)
        for key in keys[: (num_prompts - len(chosen) + 1) // 2]:
            for label, side in sides.items():
                # A class that the pair lacks comes from its set, or from any.
                instead = key if key in side else rng.choice(others[label].get(key[0], list(side)))
                chosen.append(rng.choice(side[instead]))
    return chosen


def _times(repeat: float, rng: random.Random) -> int:
    return int(repeat) + (rng.random() < repeat % 1)


def _by_set(pairs: Iterable[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    sets: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        sets.setdefault(pair[0], []).append(pair)
    return sets
