"""When to end a run that no longer learns: it starves, names one class only, or is cut off.

Four limits, each of which must be passed for ``patience_steps`` steps in a row. They are checked
in the order of cause: replies that are all cut off are unreadable too, earn one and the same
reward, and so starve; the message names what to turn first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.labels import Label
from training.errors import CheckpointError, StoppedRunError

if TYPE_CHECKING:
    from training.config import StopConfig
    from training.group_statistics import StepStatistics

MIN_GOLD_SHARE = 0.25
"""Below this share of either gold class, a step says nothing about a collapse to one class."""

_CUT_OFF, _UNREADABLE, _STARVED = "cut_off", "unreadable", "starved"
_ONE_CLASS = {label: f"only_{label}" for label in Label}
_RULES = (_CUT_OFF, _UNREADABLE, *_ONE_CLASS.values(), _STARVED)

# The scale pays examples of class ``correct`` less. Without it that class, the easier one, is what
# policies drift to (RL4HS, Su et al. 2025, arXiv 2510.02173).
_CLASS_KNOBS = {
    Label.CORRECT: "lower rewards.correct_class_scale",
    Label.HALLUCINATION: "raise rewards.correct_class_scale where it is below 1",
}


@dataclass(frozen=True, slots=True)
class _Limit:
    """One rule on one step.

    Attributes:
        is_passed: None where the step says nothing about it.
        seen: What was seen, with numbers.
        knob: The setting to change.
    """

    is_passed: bool | None
    seen: str
    knob: str


class StopRules:
    """Counts, for each limit, the steps in a row that passed it."""

    def __init__(self, config: StopConfig) -> None:
        """Start with no step counted."""
        self._config = config
        self._num_steps = dict.fromkeys(_RULES, 0)

    def update(self, step: StepStatistics) -> None:
        """Take the rollouts of a step.

        A step without rollouts, or in which one gold class is rare (for the rule on one class),
        neither counts nor breaks a row of steps.

        Raises:
            StoppedRunError: A limit was passed for ``patience_steps`` steps in a row.
        """
        if not step.num_rollouts:
            return
        limits = self._limits(step)
        for rule, limit in limits.items():
            if limit.is_passed is not None:
                self._num_steps[rule] = self._num_steps[rule] + 1 if limit.is_passed else 0
        for rule, limit in limits.items():
            num_steps = self._num_steps[rule]
            if num_steps >= self._config.patience_steps:
                steps = "in this step" if num_steps == 1 else f"for {num_steps} steps in a row"
                raise StoppedRunError(f"{limit.seen}, {steps}", limit.knob)

    def _limits(self, step: StepStatistics) -> dict[str, _Limit]:
        config = self._config
        return {
            _CUT_OFF: _Limit(
                step.truncated_share > config.clipped_share,
                f"{step.truncated_share:.0%} of the replies were cut off before they ended "
                f"(limit {config.clipped_share:.0%})",
                "raise rl.max_completion_tokens, or train a longer warm start "
                "(warmstart.epochs) so that replies end by themselves",
            ),
            _UNREADABLE: _Limit(
                step.confusion.unreadable_rate > config.unreadable_share,
                f"{step.confusion.unreadable_rate:.0%} of the replies had no readable verdict "
                f"(limit {config.unreadable_share:.0%})",
                "train a longer warm start (warmstart.epochs, warmstart.label_weight), or lower "
                "rl.learning_rate or rl.temperature where the share rose during this stage",
            ),
            **{_ONE_CLASS[label]: self._one_class(step, label) for label in Label},
            _STARVED: _Limit(
                step.zero_variance_share > config.starved_share
                and step.reward < config.starved_reward,
                f"{step.zero_variance_share:.0%} of the groups earned equal rewards, which teach "
                f"nothing (limit {config.starved_share:.0%}), at a mean reward of "
                f"{step.reward:.2f} (below {config.starved_reward:g})",
                "draw more replies a prompt (rl.num_generations), raise rl.temperature, train a "
                "shorter warm start (warmstart.epochs), or leave out prompts that are always or "
                "never answered right (rl.pass_rate_low, rl.pass_rate_high)",
            ),
        }

    def _one_class(self, step: StepStatistics, label: Label) -> _Limit:
        flagged = step.confusion.predicted_hallucination_share
        share = flagged if label is Label.HALLUCINATION else 1 - flagged
        gold = step.gold_hallucination_share
        num_readable = step.num_rollouts - step.confusion.unreadable
        is_telling = num_readable > 0 and MIN_GOLD_SHARE <= gold <= 1 - MIN_GOLD_SHARE
        return _Limit(
            share > self._config.one_class_share if is_telling else None,
            f"{share:.0%} of the readable verdicts were {label} (limit "
            f"{self._config.one_class_share:.0%}), while {gold:.0%} of the examples are "
            f"{Label.HALLUCINATION}",
            f"{_CLASS_KNOBS[label]}, lower rl.learning_rate, or raise rl.beta",
        )

    def state(self) -> dict[str, int]:
        """Return what a checkpoint must hold."""
        return dict(self._num_steps)

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on from a state.

        Raises:
            CheckpointError: It is not one of these rules.
        """
        is_state = state.keys() == self._num_steps.keys() and all(
            type(value) is int and value >= 0 for value in state.values()
        )
        if not is_state:
            raise CheckpointError(
                f"the checkpoint counts {sorted(state)}, not {sorted(_RULES)}: it is from another "
                "version of this code; start the stage anew"
            )
        self._num_steps.update(state)
