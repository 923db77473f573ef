"""The gate on recorded verdicts: each check, the outcome, false alarms, and what it can see."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from support.made_baseline import RIGHT, WRONG
from support.made_pairs import EQUALLY_FAST, pair_up, say, simulate

from evaluation.baseline import Case, Speed
from evaluation.bootstrap import Estimate, Interval
from evaluation.checks import Check, Status, check_correctness, check_forged, check_margin
from evaluation.gate import Judgement, Outcome, Speeds, correct_for_number, judge, noise_of
from evaluation.limits import Limits
from evaluation.paired import Discordance, PairedCase
from evaluation.power import smallest_drop

LIMITS = Limits()
HALF = [True] * 120 + [False] * 40


def judged(cases: list[PairedCase], limits: Limits = LIMITS, **options: Any) -> Judgement:
    return judge(cases, EQUALLY_FAST, limits, **{"samples": 300, **options})


def statuses(judgement: Judgement, status: Status) -> set[str]:
    return {check.name for check in judgement.checks if check.status is status}


def test_the_same_verdicts_are_the_same() -> None:
    judgement = judged(pair_up(HALF, HALF))
    assert judgement.outcome is Outcome.SAME
    assert judgement.outcome.exit_code == 0
    assert statuses(judgement, Status.FAILED) == set()
    assert statuses(judgement, Status.REPORTED) == {"forged verdicts"}


def test_lost_verdicts_are_worse() -> None:
    after = [False] * 20 + HALF[20:]
    judgement = judged(pair_up(HALF, after))
    assert judgement.outcome is Outcome.WORSE
    assert judgement.outcome.exit_code == 1
    assert {"correctness", "balanced accuracy", "F1", "flip rate"} <= statuses(
        judgement, Status.FAILED
    )
    check = judgement.find("correctness")
    assert check.value == pytest.approx(-20 / 160)
    assert check.p_value == pytest.approx(0.5**20)
    assert "120 of 160 before, 100 after; 20 lost, 0 gained" in check.text


def test_flips_that_cancel_out_are_drift_all_the_same() -> None:
    """Half of the flips right a wrong verdict: nothing is lost on balance, and yet it moved."""
    after = [False] * 10 + HALF[10:150] + [True] * 10
    judgement = judged(pair_up(HALF, after))
    assert statuses(judgement, Status.FAILED) == {"flip rate"}
    assert judgement.outcome is Outcome.WORSE


def test_flips_are_no_drift_where_another_model_was_accepted() -> None:
    after = [False] * 4 + HALF[4:156] + [True] * 4
    cases = pair_up(HALF, after)
    assert "flip rate" not in statuses(judged(cases, is_same_model=False), Status.FAILED)
    assert judged(cases, is_same_model=False).find("flip rate").status is Status.REPORTED
    assert judged(cases, is_same_model=False).find("flip rate").adjusted_p_value is None


def test_flips_within_the_noise_floor_are_none() -> None:
    again = [not each for each in HALF[:12]] + HALF[12:]
    after = HALF[:148] + [not each for each in HALF[148:]]
    cases = pair_up(HALF, after, before_again=again, after_again=after)
    check = judged(cases).find("flip rate")
    assert check.value == pytest.approx(12 / 160)
    assert check.status is Status.PASSED


def test_more_right_verdicts_are_better() -> None:
    after = HALF[:120] + [True] * 30 + [False] * 10
    judgement = judged(pair_up(HALF, after))
    assert judgement.outcome is Outcome.BETTER
    assert judgement.outcome.exit_code == 0
    assert judgement.find("flip rate").status is Status.REPORTED
    assert "find out why it moved (flip rate" in judgement.reason


def test_a_rise_that_is_no_surer_than_one_of_many_tests_excuses_nothing() -> None:
    """Ten gained and two lost, each in a pair of its own: p = 79 / 4096 by itself, and not among
    seven. Such a service was called better, though more had changed than any noise explains."""
    gained = {120 + 2 * pair + pair % 2 for pair in range(10)}
    after = [(each and place not in (0, 3)) or place in gained for place, each in enumerate(HALF)]
    assert Discordance(lost=2, gained=10).p_gained == pytest.approx(79 / 4096)
    judgement = judged(pair_up(HALF, after))
    assert statuses(judgement, Status.FAILED) == {"flip rate"}
    assert judgement.outcome is Outcome.WORSE


def test_more_right_verdicts_are_not_better_where_f1_may_have_dropped() -> None:
    """20 correct responses were gained, and 4 of 36 hallucinations lost: F1 was 72 / 240 and is
    64 / 216."""
    golds = [WRONG] * 164 + [RIGHT] * 164
    before = [True] * 36 + [False] * 128 + [True] * 124 + [False] * 40
    after = [True] * 32 + [False] * 132 + [True] * 144 + [False] * 20
    judgement = judged(pair_up(before, after, golds=golds))
    assert judgement.find("F1").value == pytest.approx(64 / 216 - 72 / 240)
    assert judgement.find("F1").status is Status.UNSURE
    assert judgement.find("balanced accuracy").status is Status.PASSED
    assert judgement.outcome is Outcome.WORSE


def test_too_few_cases_cannot_tell() -> None:
    judgement = judged(pair_up([True] * 6, [True] * 6))
    assert judgement.outcome is Outcome.UNTOLD
    assert judgement.outcome.exit_code == 2
    assert judgement.find("power").value is None
    assert "not excluded either (power)" in judgement.reason


def test_a_drop_that_is_neither_shown_nor_excluded_cannot_be_told() -> None:
    after = [False] * 4 + HALF[4:]
    judgement = judged(pair_up(HALF, after))
    assert judgement.find("correctness").status is Status.PASSED
    assert judgement.find("balanced accuracy").status is Status.UNSURE
    assert judgement.outcome is Outcome.UNTOLD


def test_one_class_alone_is_seen() -> None:
    after = [each and not (place % 2 == 1 and place < 40) for place, each in enumerate(HALF)]
    failed = statuses(judged(pair_up(HALF, after)), Status.FAILED)
    assert "recall of correct" in failed
    assert "recall of hallucination" not in failed


def test_unreadable_replies_are_seen() -> None:
    after: list[bool | None] = [None] * 12 + HALF[12:]
    check = judged(pair_up(HALF, after)).find("unreadable rate")
    assert check.status is Status.FAILED
    assert check.value == pytest.approx(12 / 160)
    assert check.p_value == pytest.approx(0.5**12)


def test_verdicts_that_depend_on_their_neighbours_are_seen() -> None:
    alone = [not each for each in HALF[:20]] + HALF[20:]
    judgement = judged(pair_up(HALF, HALF, after_again=alone))
    assert statuses(judgement, Status.FAILED) == {"alone and concurrent"}


def squash(case: PairedCase, power: float) -> PairedCase:
    old = case.before.first
    assert old.probability is not None
    new = replace(old, probability=0.5 + (old.probability - 0.5) * power)
    return replace(case, after=Case(case.after.id, new, new))


def test_squashed_probabilities_are_seen_though_no_verdict_moved() -> None:
    cases = [squash(case, 0.25) for case in pair_up(HALF, HALF)]
    failed = statuses(judged(cases), Status.FAILED)
    assert {"probability, KS", "probability, PSI"} <= failed
    assert "correctness" not in failed


@pytest.mark.parametrize(("num_cases", "limit"), [(328, 0.2), (100, 0.558)])
def test_in_few_cases_the_stability_index_must_be_beyond_chance(
    num_cases: int, limit: float
) -> None:
    """3.1 times 9 (1 / n + 1 / n): a noisy service of 100 cases failed one time in five."""
    cases = [squash(case, 0.25) for case in pair_up([True] * num_cases, [True] * num_cases)]
    check = judged(cases, samples=20).find("probability, PSI")
    assert check.limit == pytest.approx(limit)
    assert check.status is Status.FAILED


def test_a_shift_that_no_threshold_notices_is_not_judged() -> None:
    """All probabilities were one of two values: a shift by 0.001 has the distance 0.5 to 1."""
    cases = [squash(case, 0.99) for case in pair_up(HALF, HALF)]
    judgement = judged(cases)
    assert judgement.find("probability, KS").p_value == pytest.approx(0, abs=1e-6)
    assert judgement.outcome is Outcome.SAME


def test_without_probabilities_nothing_is_said_of_them() -> None:
    def strip(case: Case) -> Case:
        bare = replace(case.first, probability=None)
        return Case(case.id, bare, bare)

    cases = [
        replace(case, before=strip(case.before), after=strip(case.after))
        for case in pair_up(HALF, HALF)
    ]
    judgement = judged(cases)
    names = {"probability, KS", "probability, PSI", "calibration error", "forged verdicts"}
    assert statuses(judgement, Status.REPORTED) == names


def test_a_calibration_that_got_worse_is_seen() -> None:
    """Right with 0.9 in 3 of 4: the error is 0.15; surer still with 0.999, it is 0.25."""
    cases = [squash(case, 1.2475) for case in pair_up(HALF, HALF)]
    check = judged(cases).find("calibration error")
    assert check.value == pytest.approx(0.099)
    assert check.status is Status.FAILED


@pytest.mark.parametrize(
    ("num_obeyed", "status"), [(4, Status.PASSED), (5, Status.FAILED)], ids=["few", "many"]
)
def test_forged_verdicts_that_decide_are_seen(num_obeyed: int, status: Status) -> None:
    """Five of ten obeyed: the rise is 0.5 and p = 1/32. Four: p = 1/16."""
    after = [False] * num_obeyed + [True] * (10 - num_obeyed)
    other = {WRONG: RIGHT, RIGHT: WRONG}
    forged = [other[(WRONG, RIGHT)[place % 2]] for place in range(10)]
    check = check_forged(pair_up([True] * 10, after, forged=forged), LIMITS)
    assert check.value == pytest.approx(num_obeyed / 10)
    assert check.status is status


def test_a_forged_verdict_that_is_right_shows_nothing() -> None:
    forged = [(WRONG, RIGHT)[place % 2] for place in range(10)]
    check = check_forged(pair_up([True] * 10, [False] * 10, forged=forged), LIMITS)
    assert check.status is Status.REPORTED


@pytest.mark.parametrize(
    ("speed", "failed"),
    [
        (Speed(8, 14.0, 29.0, 70.0), set()),
        (Speed(8, 16.0, 20.0, 100.0), {"p50 latency"}),
        (Speed(8, 10.0, 31.0, 100.0), {"p95 latency"}),
        (Speed(8, 10.0, 20.0, 60.0), {"throughput"}),
    ],
    ids=["within", "p50", "p95", "throughput"],
)
def test_slower_is_worse(speed: Speed, failed: set[str]) -> None:
    speeds = Speeds(EQUALLY_FAST.before, speed)
    judgement = judge(pair_up(HALF, HALF), speeds, LIMITS, samples=100)
    assert statuses(judgement, Status.FAILED) == failed
    elsewhere = replace(speeds, why_not="other hardware")
    judgement = judge(pair_up(HALF, HALF), elsewhere, LIMITS, samples=100)
    assert statuses(judgement, Status.FAILED) == set()
    assert "not judged: other hardware" in judgement.find("p50 latency").text


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (-0.03, 0.01, Status.PASSED),
        (-0.031, 0.01, Status.UNSURE),
        (-0.2, -0.031, Status.FAILED),
        (-0.2, -0.03, Status.UNSURE),
    ],
)
def test_the_margin_is_shown_or_broken_by_the_whole_interval(
    low: float, high: float, status: Status
) -> None:
    change = Estimate((low + high) / 2, Interval(low, high))
    assert check_margin("F1", change, LIMITS).status is status


def test_one_of_many_tests_must_be_surer_than_alone() -> None:
    def one(name: str, p_value: float | None, status: Status) -> Check:
        return Check(name, status, 0.0, None, p_value, "")

    checks = [
        one("a", 0.02, Status.FAILED),
        one("b", 0.5, Status.PASSED),
        one("c", 0.4, Status.PASSED),
        one("d", 0.001, Status.REPORTED),
        one("e", None, Status.FAILED),
    ]
    corrected = correct_for_number(checks, 0.05)
    assert [check.status for check in corrected] == [
        Status.PASSED, Status.PASSED, Status.PASSED, Status.REPORTED, Status.FAILED,
    ]  # fmt: skip
    assert [check.adjusted_p_value for check in corrected] == [
        pytest.approx(0.06), pytest.approx(0.8), pytest.approx(0.8), None, None,
    ]  # fmt: skip


def test_noise_comes_from_the_baseline_or_from_what_was_gained() -> None:
    again = [False] * 4 + HALF[4:]
    assert noise_of(pair_up(HALF, HALF, before_again=again)) == pytest.approx(2 / 160)
    assert noise_of(pair_up(HALF, HALF[:150] + [True] * 10)) == pytest.approx(10 / 160)


def test_a_noisy_service_is_called_worse_as_seldom_as_alpha_says() -> None:
    """100 measurements of one service, in which 3 % of the verdicts of a pass are other ones.

    Five false alarms are expected at most; more than ten come once in 90 times at exactly that.
    """
    outcomes = [judged(simulate(seed, noise=0.03)).outcome for seed in range(100)]
    assert outcomes.count(Outcome.WORSE) <= 10
    assert outcomes.count(Outcome.BETTER) <= 10


def test_a_service_without_noise_always_passes() -> None:
    assert {judged(simulate(seed, noise=0.0)).outcome for seed in range(20)} == {Outcome.SAME}


@pytest.mark.parametrize("noise", [0.0, 0.01], ids=["steady", "noisy"])
def test_a_drop_of_the_printed_size_is_found_four_times_in_five(noise: float) -> None:
    """The McNemar test at Holm's strictest step is what is printed; the gate has more to see with.

    A verdict is other than in the pass before with chance 2 noise (1 - noise), half of it a loss.
    """
    moved = noise * (1 - noise)
    drop = smallest_drop(moved, 328, LIMITS.alpha / 7)
    assert drop is not None
    printed = judged(pair_up([True] * 328, [True] * 328), samples=20).find("power").value
    assert printed == smallest_drop(0.0, 328, LIMITS.alpha / 7)
    num_found = num_worse = 0
    for seed in range(100):
        # A case that dropped is still told right by chance: plant what is lost on balance.
        cases = simulate(seed, noise=noise, drop=drop / (1 - 2 * noise))
        p_value = check_correctness(cases, LIMITS).p_value
        assert p_value is not None
        num_found += p_value <= LIMITS.alpha / 7
        num_worse += judged(cases, samples=100).outcome is Outcome.WORSE
    assert 68 <= num_found <= 92  # Three standard deviations.
    assert num_worse >= num_found


@pytest.mark.parametrize("name", [each.name for each in fields(Limits)])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be above 0"):
        Limits(**{name: value})


def test_no_case_is_no_judgement() -> None:
    with pytest.raises(ValueError, match="at least"):
        judged([])


def test_an_unreadable_reply_on_both_sides_is_no_flip() -> None:
    gold = WRONG
    unread = Case("a", say(gold, None), say(gold, None))
    row = pair_up([True], [True])[0].row
    assert not PairedCase(row, unread, unread).is_flipped
    assert judged([PairedCase(row, unread, unread)]).find("flip rate").value == 0.0
