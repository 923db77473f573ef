"""What two passes over the same cases differ in: the floor below which no change means anything."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from client import Classification
from contract.labels import Label
from evaluation.json_fields import Fields

_HEX = frozenset("0123456789abcdef")
_SHA256_DIGITS = 64
# The service gives six digits of a probability.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a service said of one case.

    Attributes:
        verdict: The class; None where the reply was unreadable. The others are None then, too.
        probability: P(hallucination) in [0, 1].
        justification_sha256: Of the justification in UTF-8; None where the model gave none.
    """

    verdict: Label | None
    probability: float | None
    justification_sha256: str | None

    @classmethod
    def of(cls, given: Classification | None) -> Outcome:
        """Return an answer as an outcome.

        Args:
            given: None where the reply was unreadable.
        """
        if given is None:
            return cls(None, None, None)
        text = given.justification
        # A lone surrogate, which JSON can hold, is no UTF-8.
        data = None if text is None else text.encode("utf-8", "surrogatepass")
        digest = None if data is None else hashlib.sha256(data).hexdigest()
        return cls(given.label, given.probability, digest)

    def to_json(self) -> dict[str, Any]:
        """Return the members as ``from_json`` reads them."""
        return {
            "verdict": None if self.verdict is None else str(self.verdict),
            "probability": self.probability,
            "justification_sha256": self.justification_sha256,
        }

    @classmethod
    def from_json(cls, fields: Fields) -> Outcome:
        """Read what ``to_json`` gave.

        Raises:
            ValueError: A member is missing, of the wrong kind, or contradicts another.
        """
        verdict, probability = _read_verdict(fields), fields.number_or_none("probability", 1)
        digest = _read_digest(fields)
        if (verdict is None) is not (probability is None):
            raise ValueError(
                f"{fields.place('probability')} and the verdict must both be null, or neither"
            )
        if verdict is None and digest is not None:
            raise ValueError(
                f"{fields.place('justification_sha256')} must be null where there is no verdict"
            )
        return cls(verdict, probability, digest)


def _read_verdict(fields: Fields) -> Label | None:
    word = fields.text_or_none("verdict")
    if word is None:
        return None
    try:
        return Label(word)
    except ValueError:
        known = ", ".join(Label)
        raise ValueError(f"{fields.place('verdict')} must be null or one of {known}") from None


def _read_digest(fields: Fields) -> str | None:
    digest = fields.text_or_none("justification_sha256")
    if digest is not None and not (len(digest) == _SHA256_DIGITS and _HEX.issuperset(digest)):
        raise ValueError(f"{fields.place('justification_sha256')} must have 64 hex digits")
    return digest


@dataclass(frozen=True, slots=True)
class Noise:
    """How far two passes over the same cases, at the same service, differ.

    Attributes:
        flip_rate: Share of cases whose verdicts differ; an unreadable reply is a verdict of its
            own kind.
        max_probability_change: Largest absolute change, over the cases that have a probability in
            both passes; None where there is no such case.
        mean_probability_change: Mean absolute change over the same cases.
        equal_justification_share: Share of equal justifications, over the same cases.

    Example:
        >>> wrong, right = Label.HALLUCINATION, Label.CORRECT
        >>> a, b = Outcome(wrong, 0.9, "aa"), Outcome(right, 0.4, "bb")
        >>> flipped, unread = Outcome(wrong, 0.7, "cc"), Outcome(None, None, None)
        >>> noise = Noise.of([(a, a), (b, b), (b, flipped), (b, unread)])
        >>> noise.flip_rate, noise.equal_justification_share
        (0.5, 0.666667)
        >>> noise.max_probability_change, noise.mean_probability_change
        (0.3, 0.1)
    """

    flip_rate: float
    max_probability_change: float | None
    mean_probability_change: float | None
    equal_justification_share: float | None

    @classmethod
    def of(cls, passes: Sequence[tuple[Outcome, Outcome]]) -> Noise:
        """Compare two passes; figures have six digits.

        Args:
            passes: First and second outcome of each case, at least one.
        """
        flips = sum(first.verdict is not second.verdict for first, second in passes)
        changes, num_equal = [], 0
        for first, second in passes:
            if first.probability is not None and second.probability is not None:
                changes.append(abs(first.probability - second.probability))
                num_equal += first.justification_sha256 == second.justification_sha256
        flip_rate = round(flips / len(passes), _DIGITS)
        if not changes:
            return cls(flip_rate, None, None, None)
        return cls(
            flip_rate=flip_rate,
            max_probability_change=round(max(changes), _DIGITS),
            mean_probability_change=round(sum(changes) / len(changes), _DIGITS),
            equal_justification_share=round(num_equal / len(changes), _DIGITS),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures as ``from_json`` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Fields) -> Noise:
        """Read what ``to_json`` gave.

        Raises:
            ValueError: A member is missing or of the wrong kind.
        """
        return cls(
            flip_rate=fields.number("flip_rate", 1),
            max_probability_change=fields.number_or_none("max_probability_change", 1),
            mean_probability_change=fields.number_or_none("mean_probability_change", 1),
            equal_justification_share=fields.number_or_none("equal_justification_share", 1),
        )
