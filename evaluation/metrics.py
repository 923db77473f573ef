"""Precision, recall, F1 and their kin: what verdicts are worth beside the gold classes.

``hallucination`` is the positive class. An unreadable reply is wrong for whichever class its
example has: a hallucination that was not read is a false negative, and a correct response that was
not read is an error of the correct class (it counts with the false positives, so that silence on
one class cannot raise F1).

A share of nothing is 0: precision where nothing was flagged, recall where there is no
hallucination. Balanced accuracy is the mean recall of the classes that occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from contract.labels import Label
from evaluation.prediction import Prediction

Floats = NDArray[np.float64]
"""Numbers; where a docstring says ``[samples]``, one for each resample."""


class Counts(Protocol):
    """Outcome counts: plain numbers, or arrays ``[samples]`` with one number for each resample."""

    @property
    def tp(self) -> int | Floats:
        """Hallucinations called so."""

    @property
    def fp(self) -> int | Floats:
        """Correct responses called hallucinations, or not read."""

    @property
    def tn(self) -> int | Floats:
        """Correct responses called so."""

    @property
    def fn(self) -> int | Floats:
        """Hallucinations called correct, or not read."""

    @property
    def unreadable(self) -> int | Floats:
        """Replies that were not read; all of them are in ``fp`` or ``fn`` too."""

    @property
    def unreadable_correct(self) -> int | Floats:
        """Those of them whose gold class is correct."""


def _share(part: int | Floats, whole: int | Floats) -> Floats:
    return np.asarray(part / np.maximum(whole, 1.0), dtype=np.float64)


def precision(counts: Counts) -> Floats:
    """Return TP / (TP + FP); 0 where nothing was flagged."""
    return _share(counts.tp, counts.tp + counts.fp)


def recall(counts: Counts) -> Floats:
    """Return TP / (TP + FN); 0 where there is no hallucination."""
    return _share(counts.tp, counts.tp + counts.fn)


def correct_recall(counts: Counts) -> Floats:
    """Return TN / (TN + FP), the recall of the correct class; 0 where there is no such response."""
    return _share(counts.tn, counts.tn + counts.fp)


def f1(counts: Counts) -> Floats:
    """Return 2 TP / (2 TP + FP + FN), the harmonic mean of precision and recall."""
    return _share(2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn)


def balanced_accuracy(counts: Counts) -> Floats:
    """Return the mean recall of the classes that occur; 0.5 is what a constant answer gets."""
    positives, negatives = counts.tp + counts.fn, counts.tn + counts.fp
    recalls = _share(counts.tp, positives) + _share(counts.tn, negatives)
    return _share(recalls, np.minimum(positives, 1.0) + np.minimum(negatives, 1.0))


def accuracy(counts: Counts) -> Floats:
    """Return the share of right verdicts."""
    return _share(counts.tp + counts.tn, _total(counts))


def predicted_hallucination_share(counts: Counts) -> Floats:
    """Return the share of hallucinations among the verdicts that were read."""
    flagged = counts.tp + counts.fp - counts.unreadable_correct
    return _share(flagged, _total(counts) - counts.unreadable)


def unreadable_rate(counts: Counts) -> Floats:
    """Return the share of replies that were not read."""
    return _share(counts.unreadable, _total(counts))


def _total(counts: Counts) -> int | Floats:
    return counts.tp + counts.fp + counts.tn + counts.fn


@dataclass(frozen=True, slots=True)
class Confusion:
    """Outcome counts of one list of predictions, and the metrics over them.

    Attributes:
        tp: Hallucinations called so.
        fp: Correct responses called hallucinations, or not read.
        tn: Correct responses called so.
        fn: Hallucinations called correct, or not read.
        unreadable: Replies that were not read; all of them are in ``fp`` or ``fn`` too.
        unreadable_correct: Those of them whose gold class is correct, which are in ``fp``.

    Example:
        >>> counts = Confusion(tp=6, fp=2, tn=8, fn=4, unreadable=1)
        >>> counts.precision, counts.recall, round(counts.f1, 4)
        (0.75, 0.6, 0.6667)
        >>> counts.correct_recall, counts.balanced_accuracy, counts.accuracy, counts.unreadable_rate
        (0.8, 0.7, 0.7, 0.05)
    """

    tp: int
    fp: int
    tn: int
    fn: int
    unreadable: int = 0
    unreadable_correct: int = 0

    def __post_init__(self) -> None:
        """Refuse counts that contradict each other."""
        unreadable_hallucinations = self.unreadable - self.unreadable_correct
        if min(self.tp, self.fp, self.tn, self.fn, self.unreadable_correct) < 0:
            raise ValueError("counts must not be negative")
        if self.unreadable_correct > self.fp or not 0 <= unreadable_hallucinations <= self.fn:
            raise ValueError("an unreadable reply counts in fp or fn, by its gold class")

    @property
    def num_rows(self) -> int:
        """All predictions."""
        return self.tp + self.fp + self.tn + self.fn

    @property
    def precision(self) -> float:
        """In [0, 1]; see ``precision``."""
        return float(precision(self))

    @property
    def recall(self) -> float:
        """In [0, 1]; see ``recall``."""
        return float(recall(self))

    @property
    def correct_recall(self) -> float:
        """In [0, 1]; see ``correct_recall``."""
        return float(correct_recall(self))

    @property
    def f1(self) -> float:
        """In [0, 1]; see ``f1``."""
        return float(f1(self))

    @property
    def balanced_accuracy(self) -> float:
        """In [0, 1]; see ``balanced_accuracy``."""
        return float(balanced_accuracy(self))

    @property
    def accuracy(self) -> float:
        """In [0, 1]; see ``accuracy``."""
        return float(accuracy(self))

    @property
    def predicted_hallucination_share(self) -> float:
        """In [0, 1]; see ``predicted_hallucination_share``."""
        return float(predicted_hallucination_share(self))

    @property
    def unreadable_rate(self) -> float:
        """In [0, 1]; see ``unreadable_rate``."""
        return float(unreadable_rate(self))


def count_verdicts(golds: Iterable[Label], verdicts: Iterable[Label | None]) -> Confusion:
    """Return the outcome counts of verdicts beside their gold classes.

    Raises:
        ValueError: There are more of one than of the other.

    Example:
        >>> wrong, right = Label.HALLUCINATION, Label.CORRECT
        >>> count_verdicts([wrong, wrong, right, right], [wrong, None, right, None])
        Confusion(tp=1, fp=1, tn=1, fn=1, unreadable=2, unreadable_correct=1)
    """
    tp = fp = tn = fn = unreadable = unreadable_correct = 0
    for gold, verdict in zip(golds, verdicts, strict=True):
        is_positive, is_right = gold is Label.HALLUCINATION, verdict is gold
        tp += is_positive and is_right
        fn += is_positive and not is_right
        tn += not is_positive and is_right
        fp += not is_positive and not is_right
        unreadable += verdict is None
        unreadable_correct += verdict is None and not is_positive
    return Confusion(tp, fp, tn, fn, unreadable, unreadable_correct)


def confuse(predictions: Sequence[Prediction]) -> Confusion:
    """Return the outcome counts of predictions."""
    return count_verdicts((p.gold for p in predictions), (p.verdict for p in predictions))
