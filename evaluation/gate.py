"""The verdict on a service beside its baseline: same, worse, better, or could not tell.

Pure: ``evaluation/drift.py`` measures, and ``evaluation/drift_report.py`` reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from contract.labels import Label
from evaluation.baseline import Speed
from evaluation.bootstrap import Estimate
from evaluation.calibration import sampled_ece
from evaluation.checks import (
    Check,
    Status,
    check_agreement,
    check_correctness,
    check_distribution,
    check_ece,
    check_flips,
    check_forged,
    check_margin,
    check_power,
    check_recall,
    check_speed,
    check_unreadable,
)
from evaluation.limits import Limits
from evaluation.metrics import balanced_accuracy, f1
from evaluation.paired import Discordance, PairedCase, adjust, change_intervals
from evaluation.power import smallest_drop

SAMPLES = 2000
"""Resamples behind an interval."""

BALANCED_ACCURACY, F1 = "balanced accuracy", "F1"
_ECE = "ECE"

SAMENESS = ("flip rate", "probability, KS", "probability, PSI")
"""Checks that something moved, for better or worse."""


class Outcome(StrEnum):
    """What the gate says."""

    SAME = "same"
    """Not worse by the margin, and nothing moved."""
    WORSE = "worse"
    """A check failed."""
    BETTER = "better"
    """More right verdicts, significantly, and nothing else failed."""
    UNTOLD = "could not tell"
    """Neither a drop nor its absence is shown."""

    @property
    def exit_code(self) -> int:
        """0 pass, 1 drift, 2 could not measure; what cannot tell did not measure."""
        return {Outcome.WORSE: 1, Outcome.UNTOLD: 2}.get(self, 0)


@dataclass(frozen=True, slots=True)
class Speeds:
    """How fast both are.

    Attributes:
        before: The baseline.
        after: The service.
        why_not: Why the two cannot be compared; None where they can.
    """

    before: Speed
    after: Speed
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gate says, and why.

    Attributes:
        outcome: Of all checks.
        checks: In the order of the report.
        reason: The outcome in a sentence.
    """

    outcome: Outcome
    checks: tuple[Check, ...]
    reason: str

    def find(self, name: str) -> Check:
        """Return the check of that name; there is one."""
        return next(check for check in self.checks if check.name == name)


def judge(
    cases: Sequence[PairedCase],
    speeds: Speeds,
    limits: Limits,
    *,
    is_same_model: bool = True,
    samples: int = SAMPLES,
    seed: int = 1,
) -> Judgement:
    """Judge a service by what it and its baseline said of the same cases.

    Args:
        cases: At least one.
        speeds: Of both.
        limits: What is tolerated.
        is_same_model: False where weights, contract or cases differ: verdicts may then move, and
            only what they are worth is judged.
        samples: Resamples behind the intervals.
        seed: Of the resamples.

    Raises:
        ValueError: There is no case.
    """
    metrics = {BALANCED_ACCURACY: balanced_accuracy, F1: f1, _ECE: sampled_ece}
    changes = change_intervals(cases, metrics, alpha=limits.alpha, samples=samples, seed=seed)
    checks = [
        check_correctness(cases, limits),
        check_margin(BALANCED_ACCURACY, changes[BALANCED_ACCURACY], limits),
        check_margin(F1, changes[F1], limits),
        *(check_recall(cases, label, limits) for label in Label),
        check_unreadable(cases, limits),
        check_flips(cases, limits, is_judged=is_same_model),
        *check_distribution(cases, limits, is_judged=is_same_model),
        check_ece(changes[_ECE], limits),
        check_agreement(cases, limits),
        check_forged(cases, limits),
        *check_speed(speeds.before, speeds.after, limits, why_not=speeds.why_not),
    ]
    checks = correct_for_number(checks, limits.alpha)
    num_tests = max(1, sum(check.adjusted_p_value is not None for check in checks))
    noise = noise_of(cases)
    drop = smallest_drop(noise, len(cases), limits.alpha / num_tests)
    checks.append(check_power(drop, noise, num_tests, limits))
    is_better = _is_better(cases, changes[BALANCED_ACCURACY], limits.alpha / num_tests)
    return _conclude(checks, is_better)


def correct_for_number(checks: Sequence[Check], alpha: float) -> list[Check]:
    """Return the checks, of which those with a p-value that are judged are one family (Holm).

    A check that failed by itself passes where its adjusted p-value is above alpha.
    """
    family = [
        place
        for place, check in enumerate(checks)
        if check.p_value is not None and check.status is not Status.REPORTED
    ]
    adjusted = adjust([checks[place].p_value or 0.0 for place in family])
    corrected = list(checks)
    for place, p_value in zip(family, adjusted, strict=True):
        check = checks[place]
        status = check.status
        if status is Status.FAILED and p_value > alpha:
            status = Status.PASSED
        corrected[place] = replace(check, status=status, adjusted_p_value=p_value)
    return corrected


def noise_of(cases: Sequence[PairedCase]) -> float:
    """Return the chance that a case is lost without any drop, and as likely gained.

    It is half the share of cases that are right in one pass of the baseline alone, or the share
    that was gained since, whichever is more: another engine brings noise of its own.
    """
    num = 0
    for case in cases:
        passes = (case.before.first.verdict, case.before.second.verdict)
        num += (passes[0] is case.row.label) is not (passes[1] is case.row.label)
    moved = Discordance.of([c.was_right for c in cases], [c.is_right for c in cases])
    return max(num / 2, moved.gained) / len(cases)


def _is_better(cases: Sequence[PairedCase], change: Estimate | None, alpha: float) -> bool:
    """Return whether more verdicts are right, as surely as the strictest test of the family asks.

    It excuses moved verdicts. Where a model guesses, one random change in twenty of its verdicts
    looks like a rise that is significant by itself.
    """
    moved = Discordance.of([c.was_right for c in cases], [c.is_right for c in cases])
    return moved.p_gained <= alpha and change is not None and change.interval.low > 0


def _conclude(checks: Sequence[Check], is_better: bool) -> Judgement:
    failed = [check.name for check in checks if check.status is Status.FAILED]
    unsure = [check.name for check in checks if check.status is Status.UNSURE]
    if is_better and set(failed) <= set(SAMENESS) and not set(unsure) & {BALANCED_ACCURACY, F1}:
        told = [
            replace(check, status=Status.REPORTED) if check.name in failed else check
            for check in checks
        ]
        reason = "more verdicts are right than before, and the rise is significant"
        if failed:
            reason += f"; find out why it moved ({', '.join(failed)})"
        return Judgement(Outcome.BETTER, tuple(told), reason)
    if failed:
        return Judgement(Outcome.WORSE, tuple(checks), f"failed: {', '.join(failed)}")
    if unsure:
        reason = (
            f"no drift was found, but it is not excluded either ({', '.join(unsure)}): measure on "
            "more cases, or tolerate more"
        )
        return Judgement(Outcome.UNTOLD, tuple(checks), reason)
    return Judgement(Outcome.SAME, tuple(checks), "no check failed, and a drop is excluded")
