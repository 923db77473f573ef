"""Paired cases, made up: what two services said of the same cases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from support.made_baseline import RIGHT, WRONG, MadeCase

from contract.labels import Label
from evaluation.baseline import Case, Speed
from evaluation.gate import Speeds
from evaluation.noise import Outcome
from evaluation.paired import PairedCase

EQUALLY_FAST = Speeds(Speed(8, 10.0, 20.0, 100.0), Speed(8, 10.0, 20.0, 100.0))


def say(gold: Label, is_right: bool | None, probability: float | None = None) -> Outcome:
    """Return a right or wrong verdict, or an unreadable one (None)."""
    if is_right is None:
        return Outcome(None, None, None)
    verdict = gold if is_right else (RIGHT if gold is WRONG else WRONG)
    if probability is None:
        probability = 0.9 if verdict is WRONG else 0.1
    return Outcome(verdict, probability, None)


def pair_up(
    before: Sequence[bool | None],
    after: Sequence[bool | None],
    *,
    before_again: Sequence[bool | None] | None = None,
    after_again: Sequence[bool | None] | None = None,
    golds: Sequence[Label] | None = None,
    forged: Sequence[Label | None] | None = None,
    num_kinds: int = 4,
) -> list[PairedCase]:
    """Return cases by whether each verdict is right; classes alternate, two cases are a pair."""
    cases = []
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        gold = (WRONG, RIGHT)[place % 2] if golds is None else golds[place]
        again = old if before_again is None else before_again[place]
        alone = new if after_again is None else after_again[place]
        id, pair = f"c{place}", place // 2
        row = MadeCase(id, gold, kind=f"kind {pair % num_kinds}", pair_id=f"p{pair}")
        cases.append(
            PairedCase(
                row,
                Case(id, say(gold, old), say(gold, again)),
                Case(id, say(gold, new), say(gold, alone)),
                None if forged is None else forged[place],
            )
        )
    return cases


def simulate(
    seed: int, *, num_cases: int = 328, accuracy: float = 0.8, noise: float, drop: float = 0.0
) -> list[PairedCase]:
    """Return what a noisy service would say before and after a drop.

    Each pass says the wrong thing of a case with chance ``noise``, whatever it would say without;
    after the drop, ``drop`` of all cases, among the right ones, is wrong in every pass.
    """
    generator = np.random.default_rng(seed)
    steady = generator.random(num_cases) < accuracy
    chance = drop / accuracy
    dropped = steady & ~(generator.random(num_cases) < chance)

    def ask(truth: np.ndarray) -> list[bool]:
        return [bool(each) for each in truth ^ (generator.random(num_cases) < noise)]

    return pair_up(
        ask(steady),
        ask(dropped),
        before_again=ask(steady),
        after_again=ask(dropped),
        num_kinds=24,
    )
