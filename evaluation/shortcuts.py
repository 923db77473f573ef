"""What rules that read nothing reach: a detector is worth something only where it beats them.

Each rule turns a row into one number and compares it with one threshold. Threshold and direction
are fitted for balanced accuracy on one list of rows and scored on another, so that a rule is held
to the same split as the detector. A rule that finds nothing falls back to one class: balanced
accuracy 0.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from contract.labels import Label
from evaluation.metrics import Confusion, count_verdicts

# Kana and Han: scripts without blanks between words, where a character counts as a word.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}](?:[^\s{_CJK}]*[^\W{_CJK}])?")
_FULL_STOPS = (".", "\u3002", "\uff0e")
_TERMINAL_SIGNS = " \t\r\n.,;:!?\u3002\uff0e\uff0c\uff01\uff1f\u2026"


class LabelledText(Protocol):
    """Any row with a response, what it should rest on, and its gold class."""

    @property
    def response(self) -> str:
        """The text to judge."""

    @property
    def knowledge(self) -> tuple[str, ...] | None:
        """The texts that it should rest on; None where there are none."""

    @property
    def label(self) -> Label:
        """The gold class."""


class Direction(StrEnum):
    """On which side of the threshold a row is called a hallucination."""

    ABOVE = ">"
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class ShortcutScore:
    """What one rule reaches.

    Attributes:
        name: A key of ``FEATURES``, or ``always``.
        threshold: In the unit of the feature; None for the rule that looks at nothing.
        direction: Where the hallucinations are; None likewise.
        balanced_accuracy: In [0, 1], on the scored rows.
        f1: In [0, 1], on the scored rows, of the class hallucination.
        num_rows: How many rows were scored.
    """

    name: str
    threshold: float | None
    direction: Direction | None
    balanced_accuracy: float
    f1: float
    num_rows: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A fitted threshold.

    Attributes:
        threshold: In the unit of the feature.
        direction: Where the hallucinations are.
    """

    threshold: float
    direction: Direction

    def decide(self, value: float) -> Label:
        """Return the class that the rule gives to a row with this value."""
        is_flagged = (value > self.threshold) == (self.direction is Direction.ABOVE)
        return Label.HALLUCINATION if is_flagged else Label.CORRECT


def words(text: str) -> list[str]:
    """Return the words, case-folded and without the signs around them.

    Example:
        >>> words("It's 1.5 km, said J. R. R. Tolkien .")
        ["it's", '1.5', 'km', 'said', 'j', 'r', 'r', 'tolkien']
        >>> len(words("\u957f\u57ce\u5f88\u957f\u3002"))
        4
    """
    return _WORD.findall(text.casefold())


def count_words(row: LabelledText) -> float:
    """Return how many words the response has."""
    return float(len(words(row.response)))


def ends_with_full_stop(row: LabelledText) -> float:
    """Return 1 where the response ends with a full stop, else 0."""
    return float(row.response.rstrip().endswith(_FULL_STOPS))


def stands_verbatim(row: LabelledText) -> float:
    """Return 1 where the response stands word for word in a text of the knowledge, else 0.

    Case, blanks and the signs at the end of the response do not count. Without knowledge it is 0.
    """
    response = _plain(row.response).rstrip(_TERMINAL_SIGNS)
    return float(bool(response) and any(response in _plain(text) for text in row.knowledge or ()))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def overlap_share(row: LabelledText) -> float:
    """Return the share of the response's words that occur in the knowledge, in [0, 1].

    Without knowledge, or without a word in the response, it is 0.
    """
    found = words(row.response)
    known = {word for text in row.knowledge or () for word in words(text)}
    return sum(word in known for word in found) / max(len(found), 1)


FEATURES: Mapping[str, Callable[[LabelledText], float]] = {
    "length": count_words,
    "full stop": ends_with_full_stop,
    "substring": stands_verbatim,
    "overlap": overlap_share,
}
"""Name of each rule -> the number that it looks at."""

ALWAYS = "always"
"""The rule that calls every row a hallucination."""


def fit_rule(values: Sequence[float], labels: Sequence[Label]) -> Rule:
    """Return the threshold and direction with the best balanced accuracy.

    F1 breaks ties, so that a value that tells nothing gives the rule that flags every row; then the
    lowest threshold.

    Raises:
        ValueError: There is no row, or not one label a value.

    Example:
        >>> correct, hallucination = Label.CORRECT, Label.HALLUCINATION
        >>> fit_rule([1, 2, 2, 5, 9], [correct, correct, correct, hallucination, hallucination])
        Rule(threshold=2.0, direction=<Direction.ABOVE: '>'>)
    """
    if not values or len(values) != len(labels):
        raise ValueError("a rule is fitted on one label a value, and on at least one")
    positives = np.array([label is Label.HALLUCINATION for label in labels])
    thresholds, places = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True)
    tp_below = _cumulate(places, positives, len(thresholds))
    fp_below = _cumulate(places, ~positives, len(thresholds))
    best: tuple[float, float, float] | None = None
    rule = Rule(float(thresholds[-1]), Direction.AT_MOST)
    num_positive, num_negative = int(tp_below[-1]), int(fp_below[-1])
    for threshold, below, fp in zip(thresholds, tp_below, fp_below, strict=True):
        for direction in Direction:
            is_above = direction is Direction.ABOVE
            tp = num_positive - int(below) if is_above else int(below)
            wrong = num_negative - int(fp) if is_above else int(fp)
            counts = Confusion(tp, wrong, num_negative - wrong, num_positive - tp)
            quality = (counts.balanced_accuracy, counts.f1, -float(threshold))
            if best is None or quality > best:
                best, rule = quality, Rule(float(threshold), direction)
    return rule


def _cumulate(places: NDArray[np.intp], mask: NDArray[np.bool_], size: int) -> NDArray[np.intp]:
    return np.cumsum(np.bincount(places[mask], minlength=size))


def score_rule(rule: Rule, values: Sequence[float], labels: Sequence[Label]) -> Confusion:
    """Return the outcome counts of a rule."""
    return count_verdicts(labels, [rule.decide(value) for value in values])


def shortcut_table(
    fit_rows: Sequence[LabelledText], score_rows: Sequence[LabelledText]
) -> list[ShortcutScore]:
    """Fit every rule on one list of rows and score it on another.

    Args:
        fit_rows: Where thresholds come from, such as the training split. The scored rows themselves
            may be given; that favours the rules.
        score_rows: Where the rules are scored, such as the test split.

    Returns:
        ``always`` first, then the rules in the order of ``FEATURES``.

    Raises:
        ValueError: One of the lists is empty.
    """
    if not score_rows:
        raise ValueError("there is no row to score the shortcuts on")
    fit_labels = [row.label for row in fit_rows]
    labels = [row.label for row in score_rows]
    always = count_verdicts(labels, [Label.HALLUCINATION] * len(labels))
    scores = [_score(ALWAYS, None, always)]
    for name, feature in FEATURES.items():
        rule = fit_rule([feature(row) for row in fit_rows], fit_labels)
        counts = score_rule(rule, [feature(row) for row in score_rows], labels)
        scores.append(_score(name, rule, counts))
    return scores


def _score(name: str, rule: Rule | None, counts: Confusion) -> ShortcutScore:
    return ShortcutScore(
        name=name,
        threshold=rule.threshold if rule else None,
        direction=rule.direction if rule else None,
        balanced_accuracy=counts.balanced_accuracy,
        f1=counts.f1,
        num_rows=counts.num_rows,
    )
