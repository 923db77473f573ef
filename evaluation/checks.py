"""The checks of the drift gate: each a pure function from paired cases to one ``Check``.

A check with a p-value is judged as if it were alone; ``evaluation/gate.py`` then corrects for their
number. Statistics are in ``evaluation/paired.py`` and ``evaluation/shift.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from contract.labels import Label
from evaluation.baseline import Case, Speed
from evaluation.bootstrap import Estimate
from evaluation.limits import Limits
from evaluation.paired import Discordance, PairedCase, excess_test, upper_bound
from evaluation.shift import chance_index, kolmogorov_smirnov, stability_index


class Status(StrEnum):
    """What a check says."""

    PASSED = "passed"
    FAILED = "failed"
    UNSURE = "unsure"
    """The cases are too few to tell."""
    REPORTED = "reported"
    """Not judged: there is nothing to judge, or it may differ."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: Unique among the checks of a gate.
        status: What it says.
        value: What was measured; None where it could not be.
        limit: Of the value; None where the p-value alone decides, and where nothing is judged.
        p_value: Chance of such a value, or a worse one, without any drift; None where the limit
            alone decides.
        text: What was measured, in words, with the numbers behind the value.
        adjusted_p_value: By Holm, over the gate's family; None outside it.
    """

    name: str
    status: Status
    value: float | None
    limit: float | None
    p_value: float | None
    text: str
    adjusted_p_value: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the members, JSON-ready."""
        return {**asdict(self), "status": str(self.status)}


def _failed(is_failed: bool) -> Status:
    return Status.FAILED if is_failed else Status.PASSED


def check_correctness(cases: Sequence[PairedCase], limits: Limits) -> Check:
    """Check that no more verdicts became wrong than right: exact one-sided McNemar test."""
    return _check_share("correctness", "right verdicts", cases, limits)


def check_recall(cases: Sequence[PairedCase], label: Label, limits: Limits) -> Check:
    """Check the same on the cases of one class."""
    own = [case for case in cases if case.row.label is label]
    return _check_share(f"recall of {label}", f"right verdicts on {label}", own, limits)


def _check_share(name: str, what: str, cases: Sequence[PairedCase], limits: Limits) -> Check:
    if not cases:
        return Check(name, Status.REPORTED, None, None, None, "there is no such case")
    before, after = [c.was_right for c in cases], [c.is_right for c in cases]
    moved = Discordance.of(before, after)
    p_value = moved.p_lost
    text = (
        f"{what}: {sum(before)} of {len(cases)} before, {sum(after)} after; "
        f"{moved.lost} lost, {moved.gained} gained (McNemar, one-sided)"
    )
    change = (sum(after) - sum(before)) / len(cases)
    return Check(name, _failed(p_value <= limits.alpha), change, None, p_value, text)


def check_unreadable(cases: Sequence[PairedCase], limits: Limits) -> Check:
    """Check that no more replies became unreadable than readable: the same test."""
    before = [case.before.first.verdict is None for case in cases]
    after = [case.after.first.verdict is None for case in cases]
    moved = Discordance.of(before, after)
    text = f"unreadable replies: {sum(before)} of {len(cases)} before, {sum(after)} after (McNemar)"
    p_value = moved.p_gained
    return Check(
        "unreadable rate",
        _failed(p_value <= limits.alpha),
        sum(after) / len(cases),
        None,
        p_value,
        text,
    )


def check_margin(name: str, change: Estimate | None, limits: Limits) -> Check:
    """Check that a figure did not drop by the margin: a non-inferiority test by an interval.

    Passed where the whole interval is above -margin, failed where it is below, else unsure.
    """
    if change is None:
        return Check(name, Status.REPORTED, None, None, None, "it is not defined on these cases")
    low, high = change.interval.low, change.interval.high
    status = Status.UNSURE
    if low >= -limits.margin:
        status = Status.PASSED
    elif high < -limits.margin:
        status = Status.FAILED
    text = (
        f"change {change.value:+.3f}, interval {low:+.3f} to {high:+.3f} (each end at "
        f"{1 - limits.alpha:.0%}, pairs drawn within their kind); tolerated: a drop of "
        f"{limits.margin:.3f}"
    )
    return Check(name, status, change.value, -limits.margin, None, text)


def check_flips(cases: Sequence[PairedCase], limits: Limits, *, is_judged: bool) -> Check:
    """Check that no more verdicts changed than the baseline's own two passes explain."""
    num = sum(case.is_flipped for case in cases)
    floor = _num_flips([case.before for case in cases])
    limit = _tolerated(floor, len(cases), limits.max_flip_rate)
    p_value = excess_test(num, len(cases), limit)
    text = (
        f"{num} of {len(cases)} verdicts changed; between the baseline's own passes {floor} "
        f"(upper bound or tolerance: {limit:.1%})"
    )
    status = _failed(p_value <= limits.alpha) if is_judged else Status.REPORTED
    return Check("flip rate", status, num / len(cases), limit, p_value, text)


def check_agreement(cases: Sequence[PairedCase], limits: Limits) -> Check:
    """Check that a verdict does not depend on what else is asked at the time."""
    num = _num_flips([case.after for case in cases])
    floor = _num_flips([case.before for case in cases])
    limit = _tolerated(floor, len(cases), limits.max_disagreement)
    p_value = excess_test(num, len(cases), limit)
    text = (
        f"{num} of {len(cases)} verdicts differ between a request alone and one among others; "
        f"between the baseline's own passes {floor} (upper bound or tolerance: {limit:.1%})"
    )
    return Check(
        "alone and concurrent",
        _failed(p_value <= limits.alpha),
        num / len(cases),
        limit,
        p_value,
        text,
    )


def _num_flips(cases: Sequence[Case]) -> int:
    return sum(case.first.verdict is not case.second.verdict for case in cases)


def _tolerated(floor: int, total: int, least: float) -> float:
    """Return the share that noise may explain; the floor itself is known from ``total`` cases."""
    return max(upper_bound(floor, total, 0.05), least)


def check_distribution(
    cases: Sequence[PairedCase], limits: Limits, *, is_judged: bool
) -> list[Check]:
    """Check that the probabilities are distributed as before: Kolmogorov-Smirnov, and PSI.

    A noisy service that has not changed is above the limit of PSI in few cases (of 100: one time in
    five), so that it is what chance hardly ever exceeds where that is more.
    """
    names = ("probability, KS", "probability, PSI")
    sides = [(case.before.first.probability, case.after.first.probability) for case in cases]
    before = [old for old, _ in sides if old is not None]
    after = [new for _, new in sides if new is not None]
    changes = [abs(new - old) for old, new in sides if old is not None and new is not None]
    if not changes:
        text = "there are no probabilities to compare"
        return [Check(name, Status.REPORTED, None, None, None, text) for name in names]
    mean = float(np.mean(changes))
    moved, index = kolmogorov_smirnov(before, after), stability_index(before, after)
    max_psi = max(limits.max_psi, chance_index(len(before), len(after)))
    is_noticeable = mean > limits.min_probability_change
    statuses = [
        _failed(is_noticeable and is_over) if is_judged else Status.REPORTED
        for is_over in (moved.p_value <= limits.alpha, index > max_psi)
    ]
    rest = f"mean change of a case {mean:.4f} (judged above {limits.min_probability_change:g})"
    ks, psi = statuses
    return [
        Check(
            names[0], ks, moved.distance, None, moved.p_value,
            f"largest distance of the cumulative shares {moved.distance:.3f}; {rest}",
        ),
        Check(
            names[1], psi, index, max_psi, None,
            f"population stability index {index:.3f}; {rest}",
        ),
    ]  # fmt: skip


def check_ece(change: Estimate | None, limits: Limits) -> Check:
    """Check that the calibration error did not rise by more than the limit, and surely rose."""
    name = "calibration error"
    if change is None:
        text = "there are no probabilities to compare"
        return Check(name, Status.REPORTED, None, None, None, text)
    is_over = change.value > limits.max_ece_rise and change.interval.low > 0
    text = (
        f"change of the ECE {change.value:+.3f}, interval {change.interval.low:+.3f} to "
        f"{change.interval.high:+.3f}"
    )
    return Check(name, _failed(is_over), change.value, limits.max_ece_rise, None, text)


def check_forged(cases: Sequence[PairedCase], limits: Limits) -> Check:
    """Check that no more forged verdicts decide than before.

    There are few such cases, so it stands outside the family: it fails where the rise is over its
    limit and significant by itself.
    """
    name = "forged verdicts"
    attacks = [case for case in cases if case.forged not in (None, case.row.label)]
    if not attacks:
        text = "no case asks for a verdict that is wrong"
        return Check(name, Status.REPORTED, None, None, None, text)
    before = [case.before.first.verdict is case.forged for case in attacks]
    after = [case.after.first.verdict is case.forged for case in attacks]
    moved, share = Discordance.of(before, after), sum(after) / len(attacks)
    rise = share - sum(before) / len(attacks)
    limit = sum(before) / len(attacks) + limits.max_forged_rise
    is_over = rise > limits.max_forged_rise and moved.p_gained <= limits.alpha
    text = (
        f"the verdict that the text asks for was given in {sum(before)} of {len(attacks)} cases "
        f"before, {sum(after)} after (McNemar by itself: p = {moved.p_gained:.3g})"
    )
    return Check(name, _failed(is_over), share, limit, None, text)


def check_speed(before: Speed, after: Speed, limits: Limits, *, why_not: str | None) -> list[Check]:
    """Check latency and throughput as ratios to the baseline's.

    Args:
        before: Of the baseline.
        after: Of the service.
        limits: Of the ratios.
        why_not: Why the two cannot be compared; None where they can.
    """
    rows = (
        ("p50 latency", before.p50_ms, after.p50_ms, limits.max_p50_ratio, "ms"),
        ("p95 latency", before.p95_ms, after.p95_ms, limits.max_p95_ratio, "ms"),
        ("throughput", before.cases_per_s, after.cases_per_s, limits.min_throughput_ratio, "/s"),
    )
    checks = []
    for name, old, new, limit, unit in rows:
        text = f"{old:g} {unit} before, {new:g} {unit} after, {after.concurrency} at once"
        ratio = new / old if old > 0 else None
        if ratio is None or why_not is not None:
            text += f"; not judged: {why_not or 'the baseline has none'}"
            checks.append(Check(name, Status.REPORTED, ratio, None, None, text))
        else:
            is_over = ratio < limit if name == "throughput" else ratio > limit
            checks.append(Check(name, _failed(is_over), ratio, limit, None, text))
    return checks


def check_power(drop: float | None, noise: float, num_tests: int, limits: Limits) -> Check:
    """Check that a drop which matters could have been seen at all.

    Args:
        drop: The smallest drop of accuracy that is found in 80 % of measurements.
        noise: Chance of a loss, and of a gain, without any drop.
        num_tests: In the family.
        limits: What is tolerated.
    """
    how = (
        f"exact McNemar test at {limits.alpha:g} / {num_tests}, Holm's strictest step; {noise:.1%} "
        "of the cases lost and as many gained by noise alone"
    )
    is_enough = drop is not None and drop <= limits.max_detectable_drop
    text = f"no drop of accuracy could have been seen ({how})"
    if drop is not None:
        text = f"a drop of accuracy of {drop:.3f} would have been seen four times in five ({how})"
    return Check(
        "power",
        Status.PASSED if is_enough else Status.UNSURE,
        drop,
        limits.max_detectable_drop,
        None,
        text,
    )
