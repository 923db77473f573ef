"""What the rollouts of a step show: rewards by group, verdicts against gold, lengths.

Pure Python. A step is kept as its counts, and steps are added up as counts: the F1 of a window is
that of all its rollouts, never the mean of its steps' F1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass, field

from contract.labels import Label
from evaluation.metrics import Confusion, count_verdicts


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled reply, and what it earned.

    Attributes:
        group: What the replies to one prompt share, such as the record's id.
        reward: Finite.
        verdict: The class that was read; None where the reply is unreadable.
        gold: The class of the example.
        num_tokens: Length of the reply.
        is_truncated: It was cut off at the longest allowed length.
    """

    group: Hashable
    reward: float
    verdict: Label | None
    gold: Label
    num_tokens: int
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class StepStatistics:
    """The counts of one step, or of several added up; the rest is derived from them.

    Every share is 0 where there are no rollouts.

    Attributes:
        group_sizes: Number of replies in each group.
        num_flat_groups: Groups whose rewards are all equal: they teach nothing.
        confusion: Verdicts against gold.
        reward_sum: Of all replies.
        reward_square_sum: Of the squared rewards.
        num_tokens: Length of all replies together.
        completion_tokens_max: Length of the longest reply, in tokens.
        num_truncated: Replies that were cut off.
    """

    group_sizes: tuple[int, ...] = ()
    num_flat_groups: int = 0
    confusion: Confusion = field(default_factory=lambda: Confusion(0, 0, 0, 0))
    reward_sum: float = 0.0
    reward_square_sum: float = 0.0
    num_tokens: int = 0
    completion_tokens_max: int = 0
    num_truncated: int = 0

    @property
    def num_rollouts(self) -> int:
        """All replies."""
        return self.confusion.num_rows

    @property
    def reward(self) -> float:
        """Mean reward."""
        return self._mean(self.reward_sum)

    @property
    def reward_std(self) -> float:
        """Standard deviation of the rewards of all replies together, not within groups."""
        return math.sqrt(max(0.0, self._mean(self.reward_square_sum) - self.reward**2))

    @property
    def zero_variance_share(self) -> float:
        """Share of the groups whose rewards are all equal."""
        return self.num_flat_groups / len(self.group_sizes) if self.group_sizes else 0.0

    @property
    def expected_zero_variance_share(self) -> float:
        """``zero_variance_share`` to expect if all prompts were equally hard.

        A group of G replies, each right with probability p, is all right or all wrong with
        probability p^G + (1 - p)^G; p is the share of right verdicts here. Prompts differ, so the
        observed share lies above it. Far above, the policy is sure of each prompt, right or wrong.
        """
        p = self.confusion.accuracy
        shares = [p**size + (1 - p) ** size for size in self.group_sizes]
        return sum(shares) / len(shares) if shares else 0.0

    @property
    def gold_hallucination_share(self) -> float:
        """Share of the replies whose example is a hallucination."""
        return self._mean(self.confusion.tp + self.confusion.fn)

    @property
    def recall_correct(self) -> float:
        """Recall of the other class: share of the correct examples that were called so."""
        num_correct = self.confusion.tn + self.confusion.fp
        return self.confusion.tn / num_correct if num_correct else 0.0

    @property
    def completion_tokens_mean(self) -> float:
        """Mean length of a reply."""
        return self._mean(self.num_tokens)

    @property
    def truncated_share(self) -> float:
        """Share of the replies that were cut off."""
        return self._mean(self.num_truncated)

    def _mean(self, total: float) -> float:
        return total / self.num_rollouts if self.num_rollouts else 0.0

    def metrics(self) -> dict[str, float]:
        """Return what goes into the row of a step; nothing where there are no rollouts."""
        if not self.num_rollouts:
            return {}
        return {
            "reward": self.reward,
            "reward_std": self.reward_std,
            "zero_variance_share": self.zero_variance_share,
            "expected_zero_variance_share": self.expected_zero_variance_share,
            "predicted_hallucination_share": self.confusion.predicted_hallucination_share,
            "gold_hallucination_share": self.gold_hallucination_share,
            "unreadable_rate": self.confusion.unreadable_rate,
            "completion_tokens_mean": self.completion_tokens_mean,
            "completion_tokens_max": self.completion_tokens_max,
            "truncated_share": self.truncated_share,
            "num_rollouts": self.num_rollouts,
            "train_f1": self.confusion.f1,
            "train_precision": self.confusion.precision,
            "train_recall": self.confusion.recall,
            f"train_recall_{Label.CORRECT}": self.recall_correct,
            "train_balanced_accuracy": self.confusion.balanced_accuracy,
            # For whoever pools rows: a mean of their F1 would be none.
            "train_tp": self.confusion.tp,
            "train_fp": self.confusion.fp,
            "train_tn": self.confusion.tn,
            "train_fn": self.confusion.fn,
        }


def summarise(rollouts: Iterable[Rollout]) -> StepStatistics:
    """Return the statistics of the rollouts of one step.

    Rewards count as equal when they are the same number. A limit on their standard deviation
    would let rounding errors pass for a difference, and then be blown up by dividing by it.

    Raises:
        ValueError: A reward is not finite.

    Example:
        >>> def reply(group: int, reward: float, verdict: Label | None, gold: Label) -> Rollout:
        ...     return Rollout(group, reward, verdict, gold, 20, False)
        >>> wrong, right = Label.HALLUCINATION, Label.CORRECT
        >>> step = summarise([
        ...     reply(1, 1.0, wrong, wrong), reply(1, 0.0, right, wrong),
        ...     reply(2, 1.0, right, right), reply(2, 1.0, right, right),
        ... ])
        >>> step.reward, step.zero_variance_share, step.expected_zero_variance_share
        (0.75, 0.5, 0.625)
        >>> step.confusion.recall, step.recall_correct
        (0.5, 1.0)
    """
    rollouts = list(rollouts)
    rewards: defaultdict[Hashable, list[float]] = defaultdict(list)
    for rollout in rollouts:
        if not math.isfinite(rollout.reward):
            raise ValueError(f"the reward of a reply of group {rollout.group} is {rollout.reward}")
        rewards[rollout.group].append(rollout.reward)
    return StepStatistics(
        group_sizes=tuple(len(group) for group in rewards.values()),
        num_flat_groups=sum(len(set(group)) == 1 for group in rewards.values()),
        confusion=count_verdicts((r.gold for r in rollouts), (r.verdict for r in rollouts)),
        reward_sum=math.fsum(r.reward for r in rollouts),
        reward_square_sum=math.fsum(r.reward**2 for r in rollouts),
        num_tokens=sum(r.num_tokens for r in rollouts),
        completion_tokens_max=max((r.num_tokens for r in rollouts), default=0),
        num_truncated=sum(r.is_truncated for r in rollouts),
    )


def add_up(steps: Iterable[StepStatistics]) -> StepStatistics:
    """Return the statistics of a window of steps, by their counts.

    Example:
        >>> one = StepStatistics(confusion=Confusion(tp=1, fp=0, tn=0, fn=0))
        >>> two = StepStatistics(confusion=Confusion(tp=0, fp=0, tn=0, fn=3))
        >>> one.confusion.f1, two.confusion.f1, add_up([one, two]).confusion.f1
        (1.0, 0.0, 0.4)
    """
    steps = list(steps)
    counts = dict.fromkeys(asdict(Confusion(0, 0, 0, 0)), 0)
    for step in steps:
        for name, count in asdict(step.confusion).items():
            counts[name] += count
    return StepStatistics(
        group_sizes=tuple(size for step in steps for size in step.group_sizes),
        num_flat_groups=sum(step.num_flat_groups for step in steps),
        confusion=Confusion(**counts),
        reward_sum=math.fsum(step.reward_sum for step in steps),
        reward_square_sum=math.fsum(step.reward_square_sum for step in steps),
        num_tokens=sum(step.num_tokens for step in steps),
        completion_tokens_max=max((step.completion_tokens_max for step in steps), default=0),
        num_truncated=sum(step.num_truncated for step in steps),
    )
