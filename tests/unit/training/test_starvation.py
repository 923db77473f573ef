"""Which step ends a run, and what the message says."""

from __future__ import annotations

import pytest

from contract.labels import Label
from training.config import StopConfig
from training.errors import CheckpointError, StoppedRunError
from training.group_statistics import Rollout, StepStatistics, summarise
from training.starvation import StopRules

WRONG, RIGHT = Label.HALLUCINATION, Label.CORRECT
CONFIG = StopConfig(patience_steps=3)


def step(*groups: str, gold: str = "hc" * 8) -> StepStatistics:
    """Return a step from its verdicts: h, c, or u for an unreadable one; capitals are cut off.

    Args:
        groups: The verdicts of each group.
        gold: The gold class of each group.
    """
    verdicts = {"h": WRONG, "c": RIGHT, "u": None}
    replies = []
    for number, (group, gold_letter) in enumerate(zip(groups, gold, strict=False)):
        for letter in group:
            verdict = verdicts[letter.lower()]
            reward = -0.5 if verdict is None else float(letter.lower() == gold_letter)
            gold_label = verdicts[gold_letter]
            assert gold_label is not None
            replies.append(Rollout(number, reward, verdict, gold_label, 9, letter.isupper()))
    return summarise(replies)


HEALTHY = step("hhhc", "cchc")
# Half the prompts right, half wrong, both classes named: 100 % flat, mean reward 0.5.
STARVED = step("hhhh", "cccc", "cccc", "hhhh")
DONE = step("hhhh", "cccc")  # just as flat, but because all is right
ALL_FLAGGED = step("hhhh", "hhhc", "hhhh", "hhhh")  # 94 %, the groups are not all flat
ALL_PASSED = step("cccc", "cccc", "cccc", "cchc")
CUT_OFF = step("hhhC", "ccCh")  # 2 of 8, under the limit
MOSTLY_CUT_OFF = step("UUUh", "UUUc")
UNREADABLE = step("uhhc", "ucch")  # 2 of 8


def feed(rules: StopRules, *steps: StepStatistics) -> StoppedRunError | None:
    for number, each in enumerate(steps, 1):
        try:
            rules.update(each)
        except StoppedRunError as error:
            assert number == len(steps), f"stopped at {number}"
            return error
    return None


@pytest.mark.parametrize(
    ("bad", "reason", "knob"),
    [
        pytest.param(
            STARVED,
            "100% of the groups earned equal rewards, which teach nothing (limit 80%), at a mean "
            "reward of 0.50 (below 0.7), for 3 steps in a row",
            "(rl.pass_rate_low, rl.pass_rate_high)",
            id="starved",
        ),
        pytest.param(
            ALL_FLAGGED,
            "94% of the readable verdicts were hallucination (limit 90%), while 50% of the "
            "examples are hallucination, for 3 steps in a row",
            "raise rewards.correct_class_scale",
            id="all-flagged",
        ),
        pytest.param(
            ALL_PASSED,
            "94% of the readable verdicts were correct (limit 90%), while 50% of the examples "
            "are hallucination, for 3 steps in a row",
            "lower rewards.correct_class_scale",
            id="all-passed",
        ),
        pytest.param(
            MOSTLY_CUT_OFF,
            "75% of the replies were cut off before they ended (limit 30%), for 3 steps in a row",
            "rl.max_completion_tokens",
            id="cut-off",
        ),
        pytest.param(
            UNREADABLE,
            "25% of the replies had no readable verdict (limit 20%), for 3 steps in a row",
            "longer warm start",
            id="unreadable",
        ),
    ],
)
def test_a_run_ends_after_as_many_bad_steps_as_the_patience(
    bad: StepStatistics, reason: str, knob: str
) -> None:
    rules = StopRules(CONFIG)
    assert feed(rules, bad, bad) is None
    stopped = feed(rules, bad)
    assert stopped is not None
    assert stopped.reason == reason
    assert knob in stopped.knob
    assert str(stopped) == f"{reason}. What to change: {stopped.knob}"


@pytest.mark.parametrize("bad", [STARVED, ALL_FLAGGED, ALL_PASSED, MOSTLY_CUT_OFF, UNREADABLE])
def test_a_good_step_between_starts_the_count_anew(bad: StepStatistics) -> None:
    assert feed(StopRules(CONFIG), bad, bad, HEALTHY, bad, bad, HEALTHY) is None


@pytest.mark.parametrize("good", [HEALTHY, DONE, CUT_OFF], ids=["healthy", "done", "some-cut-off"])
def test_a_run_that_is_well_goes_on(good: StepStatistics) -> None:
    assert feed(StopRules(CONFIG), *[good] * 50) is None


def test_one_class_after_the_other_is_no_collapse_to_one() -> None:
    steps = [ALL_FLAGGED, ALL_PASSED] * 5
    assert feed(StopRules(CONFIG), *steps) is None


def test_a_step_whose_examples_are_nearly_all_of_one_class_says_nothing_of_a_collapse() -> None:
    lopsided = step("hhhh", "hhhc", "hhhh", "hhhc", "hhhh", gold="hhhhc")
    assert feed(StopRules(CONFIG), *[lopsided] * 20) is None
    # It neither counts nor breaks the row of steps around it.
    stopped = feed(StopRules(CONFIG), ALL_FLAGGED, lopsided, ALL_FLAGGED, lopsided, ALL_FLAGGED)
    assert stopped is not None
    assert "for 3 steps in a row" in stopped.reason


def test_a_step_without_rollouts_changes_nothing() -> None:
    stopped = feed(StopRules(CONFIG), STARVED, STARVED, StepStatistics(), STARVED)
    assert stopped is not None


def test_the_cause_is_named_before_what_follows_from_it() -> None:
    """Replies that are all cut off are unreadable and earn the same: the length is to blame."""
    stopped = feed(StopRules(CONFIG), *[step("UUUU", "UUUU")] * 3)
    assert stopped is not None
    assert "cut off" in stopped.reason
    stopped = feed(StopRules(CONFIG), *[step("uuuu", "uuuu")] * 3)
    assert stopped is not None
    assert "no readable verdict" in stopped.reason


def test_a_policy_of_one_class_is_not_called_starved() -> None:
    stopped = feed(StopRules(CONFIG), *[step("hhhh", "hhhh")] * 3)
    assert stopped is not None
    assert "100% of the readable verdicts were hallucination" in stopped.reason


def test_a_limit_that_is_only_reached_is_not_passed() -> None:
    config = StopConfig(unreadable_share=0.25, patience_steps=1)
    assert feed(StopRules(config), UNREADABLE) is None
    config = StopConfig(unreadable_share=0.24, patience_steps=1)
    stopped = feed(StopRules(config), UNREADABLE)
    assert stopped is not None
    assert stopped.reason.endswith("(limit 24%), in this step")


def test_the_count_goes_on_from_a_checkpoint() -> None:
    before = StopRules(CONFIG)
    assert feed(before, STARVED, STARVED) is None
    after = StopRules(CONFIG)
    after.restore(before.state())
    assert feed(after, STARVED) is not None


@pytest.mark.parametrize(
    "state",
    [{}, {"starved": 1}, {**StopRules(CONFIG).state(), "starved": -1}, {"starved": "1"}],
)
def test_a_state_of_something_else_is_refused(state: dict[str, int]) -> None:
    with pytest.raises(CheckpointError, match="start the stage anew"):
        StopRules(CONFIG).restore(state)
