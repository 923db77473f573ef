"""The counts of a step, against values worked out by hand."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.labels import Label
from training import group_statistics
from training.group_statistics import Rollout, StepStatistics, add_up, summarise

WRONG, RIGHT = Label.HALLUCINATION, Label.CORRECT


def test_the_worked_examples_hold() -> None:
    assert doctest.testmod(group_statistics).failed == 0


def rollout(
    group: object,
    reward: float,
    verdict: Label | None = WRONG,
    gold: Label = WRONG,
    num_tokens: int = 10,
    is_truncated: bool = False,
) -> Rollout:
    return Rollout(group, reward, verdict, gold, num_tokens, is_truncated)


# Two prompts, four replies each. The first: all right. The second: right, wrong, wrong, unreadable.
STEP = (
    rollout("a", 1.0, WRONG, WRONG, 10),
    rollout("b", 1.0, RIGHT, RIGHT, 20),
    rollout("a", 1.0, WRONG, WRONG, 12),
    rollout("b", 0.0, WRONG, RIGHT, 30),
    rollout("a", 1.0, WRONG, WRONG, 14),
    rollout("b", 0.0, WRONG, RIGHT, 40),
    rollout("a", 1.0, WRONG, WRONG, 14),
    rollout("b", -0.5, None, RIGHT, 96, True),
)


def test_a_step_is_counted() -> None:
    step = summarise(STEP)
    assert step.group_sizes == (4, 4)
    assert step.num_flat_groups == 1
    assert step.num_rollouts == 8
    assert (step.confusion.tp, step.confusion.fn) == (4, 0)
    assert (step.confusion.tn, step.confusion.fp) == (1, 3)  # the unreadable one is wrong too
    assert step.num_truncated == 1


def test_the_row_of_a_step() -> None:
    row = summarise(STEP).metrics()
    # Rewards: 5 x 1, 2 x 0, 1 x -0.5: mean 4.5 / 8, mean square 5.25 / 8.
    assert row.pop("reward") == 0.5625
    assert row.pop("reward_std") == pytest.approx(0.5830, abs=1e-4)  # sqrt(0.65625 - 0.31640625)
    # Five of eight are right: 0.625^4 + 0.375^4 = 0.15259 + 0.01978.
    assert row.pop("expected_zero_variance_share") == pytest.approx(0.17236, abs=1e-5)
    assert row.pop("train_f1") == pytest.approx(8 / 11)  # 2 tp / (2 tp + fp + fn)
    assert row.pop("train_precision") == pytest.approx(4 / 7)
    assert row.pop("predicted_hallucination_share") == pytest.approx(6 / 7)  # of the readable
    assert row == {
        "zero_variance_share": 0.5,
        "gold_hallucination_share": 0.5,
        "unreadable_rate": 0.125,
        "completion_tokens_mean": 29.5,  # 236 / 8
        "completion_tokens_max": 96,
        "truncated_share": 0.125,
        "num_rollouts": 8,
        "train_recall": 1.0,
        "train_recall_correct": 0.25,
        "train_balanced_accuracy": 0.625,
        "train_tp": 4,
        "train_fp": 3,
        "train_tn": 1,
        "train_fn": 0,
    }


@pytest.mark.parametrize(
    ("p_numerator", "size", "expected"),
    [(5, 10, 2 / 1024), (9, 10, 0.9**10 + 0.1**10), (10, 10, 1.0), (0, 10, 1.0)],
)
def test_the_expected_share_follows_from_the_success_rate(
    p_numerator: int, size: int, expected: float
) -> None:
    replies = [rollout("x", 0.0, WRONG if i < p_numerator else RIGHT) for i in range(size)]
    assert summarise(replies).expected_zero_variance_share == pytest.approx(expected)


def test_groups_may_differ_in_size() -> None:
    replies = [rollout("a", 1.0), rollout("b", 0.0, RIGHT), rollout("b", 1.0)]
    step = summarise(replies)
    # p = 2/3: a group of one is always flat, one of two with probability 4/9 + 1/9.
    assert step.expected_zero_variance_share == pytest.approx((1 + 5 / 9) / 2)
    assert step.zero_variance_share == 0.5


def test_rewards_that_differ_by_rounding_are_not_equal() -> None:
    assert summarise([rollout("a", 0.1 + 0.2), rollout("a", 0.3)]).zero_variance_share == 0.0


def test_equal_rewards_are_equal_whatever_their_standard_deviation_is_computed_to() -> None:
    """The float deviation of equal rewards is not always 0, which let flat groups look alive."""
    assert summarise([rollout("a", 0.1) for _ in range(10)]).zero_variance_share == 1.0


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match=r"the reward of a reply of group 7 is"):
        summarise([rollout(7, reward)])


def test_a_step_without_rollouts_has_no_row_and_no_division_by_zero() -> None:
    step = summarise([])
    assert step == StepStatistics()
    assert step.metrics() == {}
    assert (step.reward, step.reward_std, step.zero_variance_share) == (0.0, 0.0, 0.0)
    assert (step.expected_zero_variance_share, step.recall_correct) == (0.0, 0.0)


def test_a_window_has_the_f1_of_its_counts() -> None:
    one = summarise([rollout("a", 1.0, WRONG, WRONG)])  # F1 1
    two = summarise([rollout("a", 0.0, RIGHT, WRONG) for _ in range(3)])  # F1 0
    assert add_up([one, two]).confusion.f1 == 0.4  # 2 x 1 / (2 x 1 + 0 + 3), not 0.5


def test_the_same_group_in_two_steps_is_two_groups() -> None:
    flat = summarise([rollout("a", 1.0), rollout("a", 1.0)])
    other = summarise([rollout("a", 0.0), rollout("a", 0.0)])
    window = add_up([flat, other])
    assert window.group_sizes == (2, 2)
    assert window.zero_variance_share == 1.0


ROLLOUTS = st.lists(
    st.builds(
        rollout,
        st.integers(0, 3),
        st.sampled_from([1.0, 0.0, -0.5]),
        st.sampled_from([None, WRONG, RIGHT]),
        st.sampled_from([WRONG, RIGHT]),
        st.integers(0, 96),
        st.booleans(),
    )
)


@given(ROLLOUTS, st.randoms())
def test_the_order_of_replies_does_not_matter(replies: list[Rollout], random: object) -> None:
    shuffled = list(replies)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert summarise(shuffled).metrics() == pytest.approx(summarise(replies).metrics())


TRAIN_SHARES = {f"train_{name}" for name in ("f1", "precision", "recall", "balanced_accuracy")}


@given(ROLLOUTS)
def test_every_share_is_a_share(replies: list[Rollout]) -> None:
    row = summarise(replies).metrics()
    for name, value in row.items():
        if name.endswith(("_share", "_rate")) or name in TRAIN_SHARES:
            assert 0 <= value <= 1, name


@given(ROLLOUTS, ROLLOUTS)
def test_a_window_is_what_its_rollouts_would_be_in_one_step(
    one: list[Rollout], two: list[Rollout]
) -> None:
    apart = [
        *(rollout((1, r.group), r.reward, r.verdict, r.gold, r.num_tokens) for r in one),
        *(rollout((2, r.group), r.reward, r.verdict, r.gold, r.num_tokens) for r in two),
    ]
    window = add_up([summarise(apart[: len(one)]), summarise(apart[len(one) :])])
    assert window.metrics() == pytest.approx(summarise(apart).metrics())
