"""The statistics of two verdicts on one case: before and after, of the same golden set.

Cases are paired, so that a hard case is hard on both sides and cancels out: a change is told from
the few cases that moved. Nothing here knows what is tolerated (``evaluation/checks.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from contract.labels import Label
from evaluation.baseline import Case
from evaluation.bootstrap import Estimate, Interval, Metric, Sample
from evaluation.metrics import Floats


class CaseRow(Protocol):
    """A labelled case, as far as statistics go."""

    @property
    def id(self) -> str:
        """Unique among the cases."""

    @property
    def pair_id(self) -> str:
        """Shared by the cases on one knowledge."""

    @property
    def kind(self) -> str:
        """What it tries."""

    @property
    def label(self) -> Label:
        """The gold class."""


@dataclass(frozen=True, slots=True)
class PairedCase:
    """What two services said of one case, each of them twice.

    Attributes:
        row: The case.
        before: At the baseline; its second pass is for the noise floor alone.
        after: At the service; its second pass asked for one case at a time.
        forged: The wrong verdict that a hostile text asks for; None where there is none.
    """

    row: CaseRow
    before: Case
    after: Case
    forged: Label | None = None

    @property
    def was_right(self) -> bool:
        """Whether the verdict of the baseline is the gold class."""
        return self.before.first.verdict is self.row.label

    @property
    def is_right(self) -> bool:
        """Whether the verdict of the service is the gold class."""
        return self.after.first.verdict is self.row.label

    @property
    def is_flipped(self) -> bool:
        """Whether the verdicts differ; an unreadable reply is a verdict of its own kind."""
        return self.before.first.verdict is not self.after.first.verdict


@dataclass(frozen=True, slots=True)
class Discordance:
    """The cases in which something holds on one side alone.

    Attributes:
        lost: Before and not after.
        gained: After and not before.
    """

    lost: int
    gained: int

    @classmethod
    def of(cls, before: Sequence[bool], after: Sequence[bool]) -> Discordance:
        """Count them.

        Raises:
            ValueError: The sides have not the same number of cases.
        """
        both = list(zip(before, after, strict=True))
        return cls(sum(a and not b for a, b in both), sum(b and not a for a, b in both))

    @property
    def p_lost(self) -> float:
        """One-sided exact McNemar test: P(as many lost, or more) where losing is as likely.

        Example:
            >>> Discordance(lost=8, gained=0).p_lost
            0.00390625
            >>> Discordance(lost=0, gained=0).p_lost
            1.0
        """
        return _sign_test(self.lost, self.gained)

    @property
    def p_gained(self) -> float:
        """The same for gains."""
        return _sign_test(self.gained, self.lost)


def _sign_test(more: int, fewer: int) -> float:
    if more + fewer == 0:
        return 1.0
    return float(stats.binomtest(more, more + fewer, 0.5, alternative="greater").pvalue)


def upper_bound(num: int, total: int, alpha: float) -> float:
    """Return the exact (Clopper-Pearson) one-sided upper bound of a share, at 1 - alpha.

    Example:
        >>> round(upper_bound(0, 328, 0.05), 4)
        0.0091
    """
    if num == total:
        return 1.0
    found = stats.binomtest(num, total).proportion_ci(confidence_level=1 - 2 * alpha)
    return float(found.high)


def excess_test(num: int, total: int, share: float) -> float:
    """Return P(as many of ``total``, or more) where each comes with chance ``share``.

    Example:
        >>> round(excess_test(2, 2, 0.1), 4)
        0.01
    """
    return float(stats.binomtest(num, total, share, alternative="greater").pvalue)


def adjust(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values (Holm 1979), in their order.

    Example:
        >>> [round(p, 3) for p in adjust([0.01, 0.04, 0.03, 0.005])]
        [0.03, 0.06, 0.06, 0.02]
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    places = sorted(range(len(p_values)), key=lambda place: p_values[place])
    for rank, place in enumerate(places):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def change_intervals(
    cases: Sequence[PairedCase],
    metrics: Mapping[str, Metric],
    *,
    alpha: float,
    samples: int,
    seed: int,
) -> dict[str, Estimate | None]:
    """Return the change of each metric, after less before; None where it is not defined.

    The interval is the one whose either end holds with 1 - alpha: from the alpha to the 1 - alpha
    percentile over resamples, in which both sides have the same cases. Pairs are drawn inside their
    kind. With the few pairs of a kind a plain bootstrap is too narrow by the factor
    sqrt((n - 1) / n); so n - 1 of the n pairs are drawn, and weighted by n / (n - 1) (Rao and Wu
    1988, JASA 83, 231-241). Kinds of a single pair are one kind together.

    Args:
        cases: At least one.
        metrics: Name -> function.
        alpha: Of either end, in (0, 0.5).
        samples: Resamples, at least 1.
        seed: Of the draws.

    Raises:
        ValueError: There is no case, or no resample is asked for.
    """
    if not cases or samples < 1:
        raise ValueError("a bootstrap needs a case and a resample, at least")
    # Draws go to the pairs in order, so the cases stand in an order of their own.
    ordered = sorted(cases, key=lambda case: (case.row.kind, case.row.pair_id, case.row.id))
    before, after = _tabulate(ordered, False), _tabulate(ordered, True)
    weights = _draw(ordered, samples, seed)
    drawn_before, drawn_after = (replace(side, weights=weights) for side in (before, after))
    return {
        name: _estimate(
            float(metric(after)[0] - metric(before)[0]),
            metric(drawn_after) - metric(drawn_before),
            alpha,
        )
        for name, metric in metrics.items()
    }


def _tabulate(cases: Sequence[PairedCase], is_after: bool) -> Sample:
    outcomes = [(case.after if is_after else case.before).first for case in cases]
    golds = [case.row.label for case in cases]
    return Sample(
        set_names=np.array([str(case.row.kind) for case in cases]),
        positives=np.array([gold is Label.HALLUCINATION for gold in golds]),
        right=np.array([o.verdict is gold for o, gold in zip(outcomes, golds, strict=True)]),
        unread=np.array([outcome.verdict is None for outcome in outcomes]),
        probabilities=np.array(
            [np.nan if o.probability is None else o.probability for o in outcomes]
        ),
        weights=np.ones((1, len(cases))),
    )


def _draw(cases: Sequence[PairedCase], samples: int, seed: int) -> Floats:
    """Return weights ``[samples, cases]``."""
    numbers: dict[tuple[str, str], int] = {}
    pair_of_case = np.array(
        [numbers.setdefault((str(case.row.kind), case.row.pair_id), len(numbers)) for case in cases]
    )
    generator = np.random.default_rng(seed)
    drawn = np.ones((samples, len(numbers)))
    for own in _strata([kind for kind, _ in numbers]):
        if len(own) > 1:
            chances = np.full(len(own), 1 / len(own))
            scale = len(own) / (len(own) - 1)
            drawn[:, own] = scale * generator.multinomial(len(own) - 1, chances, samples)
    return drawn[:, pair_of_case]


def _strata(kinds: Sequence[str]) -> list[NDArray[np.intp]]:
    """Return the places of the pairs of each kind; the kinds of one pair are one together."""
    names = np.array(kinds)
    places = [np.flatnonzero(names == name) for name in dict.fromkeys(kinds)]
    alone = [own for own in places if len(own) == 1]
    together = [np.concatenate(alone)] if alone else []
    return [own for own in places if len(own) > 1] + together


def _estimate(value: float, resampled: Floats, alpha: float) -> Estimate | None:
    resampled = resampled[~np.isnan(resampled)]
    if np.isnan(value) or not len(resampled):
        return None
    low, high = np.quantile(resampled, (alpha, 1 - alpha))
    return Estimate(value, Interval(min(float(low), value), max(float(high), value)))
