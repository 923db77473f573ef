"""The gate on the recorded verdicts of the embedded model: false alarms, and what it is there for.

That real services are told apart is in ``tests/integration/test_drift_sabotage.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.made_pairs import EQUALLY_FAST

from contract.labels import Label
from evaluation.baseline import Baseline, Case
from evaluation.checks import Status
from evaluation.drift import Side, pair_cases
from evaluation.gate import Judgement, judge
from evaluation.gate import Outcome as Told
from evaluation.golden_set import load_golden_set
from evaluation.limits import Limits
from evaluation.noise import Outcome

ROOT = Path(__file__).parents[3]
GOLDEN = load_golden_set()
BASELINE = Baseline.read(ROOT / "service" / "adapter" / "baseline.json")
NUM = len(GOLDEN.cases)

Pass = list[Outcome]


def recorded(is_second: bool = False) -> Pass:
    """Return one pass of the baseline, in the golden set's order."""
    cases = {case.id: case.second if is_second else case.first for case in BASELINE.cases}
    return [cases[row.id] for row in GOLDEN.cases]


def ask_again(generator: np.random.Generator, noise: float) -> Pass:
    """Return the recorded pass as a noisy engine would give it.

    Args:
        generator: Of the noise.
        noise: Standard deviation that it adds to the log-odds.
    """
    said = []
    for outcome in recorded():
        assert outcome.probability is not None
        odds = np.log(outcome.probability / (1 - outcome.probability))
        probability = float(1 / (1 + np.exp(-odds - generator.normal(0, noise))))
        is_above = probability >= BASELINE.service.threshold
        verdict = Label.HALLUCINATION if is_above else Label.CORRECT
        said.append(Outcome(verdict, round(probability, 6), outcome.justification_sha256))
    return said


def judge_passes(before: Pass, again: Pass, after: Pass, alone: Pass) -> Judgement:
    """Judge four passes, of which two are the baseline's."""
    sides = []
    for first, second in ((before, again), (after, alone)):
        cases = {
            row.id: Case(row.id, old, new)
            for row, old, new in zip(GOLDEN.cases, first, second, strict=True)
        }
        side = Side.of_baseline(BASELINE)
        sides.append(replace(side, cases=cases))
    cases = pair_cases(GOLDEN.cases, *sides)
    return judge(cases, EQUALLY_FAST, Limits(), samples=500)


def failed(judgement: Judgement) -> set[str]:
    return {check.name for check in judgement.checks if check.status is Status.FAILED}


def test_the_record_is_of_the_golden_set_and_of_both_verdicts() -> None:
    assert BASELINE.golden_sha256 == GOLDEN.sha256
    assert NUM == 328
    assert set(Counter(outcome.verdict for outcome in recorded())) == set(Label)


def test_the_two_recorded_passes_are_the_same_in_either_order() -> None:
    one, other = recorded(), recorded(is_second=True)
    assert judge_passes(one, other, other, one).outcome is Told.SAME
    assert judge_passes(other, one, one, other).outcome is Told.SAME


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.3], ids=["0.3-percent", "2-percent", "9-percent"])
def test_of_20_repetitions_no_more_are_false_alarms_than_alpha_says(noise: float) -> None:
    """Each repetition has four passes with noise of their own. One alarm is expected at most; four
    or more of 20 come once in 60 times at a chance of 5 %."""
    told, num_flips = Counter[Told](), 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        passes = [ask_again(generator, noise) for _ in range(4)]
        num_flips += sum(
            a.verdict is not b.verdict for a, b in zip(passes[0], passes[2], strict=True)
        )
        told[judge_passes(*passes).outcome] += 1
    assert num_flips > 0
    assert told[Told.WORSE] <= 3
    assert told[Told.BETTER] <= 3


def swap(outcome: Outcome) -> Outcome:
    assert outcome.probability is not None
    other = Label.CORRECT if outcome.verdict is Label.HALLUCINATION else Label.HALLUCINATION
    return replace(outcome, verdict=other, probability=round(1 - outcome.probability, 6))


def test_labels_swapped_on_8_percent_are_worse_wherever_they_are() -> None:
    """The model guesses on this set, so that what is swapped is gained as often as lost. A random
    rise passed for a better service in 14 of 200 places; at alpha over seven it is 1."""
    one, told = recorded(), Counter[Told]()
    for seed in range(20):
        swapped = set(
            np.random.default_rng(seed).choice(NUM, size=round(0.08 * NUM), replace=False)
        )
        after = [swap(each) if place in swapped else each for place, each in enumerate(one)]
        judgement = judge_passes(one, one, after, after)
        told[judgement.outcome] += 1
        assert {check.value for check in judgement.checks if check.name == "flip rate"} == {
            26 / 328
        }
    assert told[Told.WORSE] >= 19
    assert told[Told.WORSE] + told[Told.BETTER] == 20


ALTERED: dict[str, tuple[Callable[[Outcome], Outcome], set[str]]] = {
    "always-correct": (
        lambda outcome: replace(outcome, verdict=Label.CORRECT, probability=0.01),
        {"recall of hallucination", "flip rate", "probability, KS", "probability, PSI"},
    ),
    "squashed": (
        lambda outcome: replace(
            outcome, probability=0.5 + 0.1 * ((outcome.probability or 0) - 0.5)
        ),
        {"probability, KS", "probability, PSI"},
    ),
    "unreadable": (lambda outcome: Outcome(None, None, None), {"unreadable rate", "correctness"}),
}


@pytest.mark.parametrize(("alter", "checks"), ALTERED.values(), ids=ALTERED)
def test_a_service_that_alters_every_verdict_is_worse(
    alter: Callable[[Outcome], Outcome], checks: set[str]
) -> None:
    one = recorded()
    after = [alter(each) for each in one]
    judgement = judge_passes(one, one, after, after)
    assert judgement.outcome is Told.WORSE
    assert checks <= failed(judgement)


def test_verdicts_that_are_others_among_others_are_worse() -> None:
    one = recorded()
    together = [swap(each) if place % 12 == 0 else each for place, each in enumerate(one)]
    judgement = judge_passes(one, one, together, one)
    assert judgement.outcome is Told.WORSE
    assert "alone and concurrent" in failed(judgement)
