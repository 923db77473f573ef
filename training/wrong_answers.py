"""A short wrong answer of the same kind as the right one, found in the same knowledge if possible.

A wrong answer that stands in the knowledge, has the form and about the length of the right one and
is not named by the question can be told from the right one only by reading.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from training.false_edits import Material, change_date, other_number
from training.records import Record
from training.spans import (
    NAME_KINDS,
    Kind,
    Span,
    bare,
    find_spans,
    is_related,
    kind_of,
    words,
)

_ALTERNATIVES = re.compile(
    r"((?:\b[Tt]he )?[A-Z\"][^,?]*?),? or ((?:the )?[A-Z\"][^,?]*?)\s*\??\s*$"
)
_MAX_PHRASE_WORDS = 4
_MAX_ALTERNATIVE_WORDS = 4
_ARTICLE = re.compile(r"[Tt]he ")
# What may stand between two names of one list or of one place: both would answer the question.
_JOINED = re.compile(r"[\s,;/&()\"]*(?:and|or|in|of|near|from|to|at|aka|born)?[\s,;/&()\"]*")

# An answer has to be of the kind that the question asks for; a name may stand for another.
_SECOND_CHOICES: dict[Kind, frozenset[Kind]] = {
    **{kind: NAME_KINDS - {kind} for kind in NAME_KINDS},
    Kind.YEAR: frozenset({Kind.DATE}),
    Kind.DATE: frozenset({Kind.YEAR}),
    Kind.NUMBER: frozenset({Kind.ORDINAL}),
    Kind.NATIONALITY: frozenset({Kind.PLACE}),
    Kind.PLACE: frozenset({Kind.NAME, Kind.ORGANISATION, Kind.NATIONALITY}),
}


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A wrong answer.

    Attributes:
        text: It.
        source: A knowledge text that holds it, where it comes from another question's.
    """

    text: str
    source: str | None = None


class AnswerBank:
    """The right answers to all questions, to take wrong ones from."""

    def __init__(self, rows: Iterable[Record]) -> None:
        """Sort the responses of correct rows by kind."""
        self._by_kind: dict[Kind, list[WrongAnswer]] = defaultdict(list)
        self._phrases: set[str] = set()
        answers = {row.response: (row.knowledge or (None,))[0] for row in rows}
        for answer, knowledge in sorted(answers.items()):
            text = answer.rstrip(".,; ")
            kind = kind_of(text)
            self._by_kind[kind].append(WrongAnswer(text, knowledge))
            if kind is Kind.PHRASE and len(words(text)) <= _MAX_PHRASE_WORDS:
                self._phrases.add(bare(text))

    def draw(self, kind: Kind, answer: str, rng: Random) -> WrongAnswer | None:
        """Return an answer of the kind, unlike the right one and about as long, or None."""
        pool = self._by_kind.get(kind, [])
        length = len(answer.split())
        for tolerance in (0, 1, 3):
            for _ in range(20 if pool else 0):
                candidate = rng.choice(pool)
                is_close = abs(len(candidate.text.split()) - length) <= tolerance
                if is_close and not is_related(candidate.text, answer):
                    return candidate
        return None

    def find_phrases(self, text: str) -> list[Span]:
        """Return the uncapitalised answers to other questions that stand in a text."""
        matches = list(re.finditer(r"[\w'\u2019-]+", text))
        found = []
        for size in range(1, _MAX_PHRASE_WORDS + 1):
            for first in range(len(matches) - size + 1):
                start, end = matches[first].start(), matches[first + size - 1].end()
                if text[start:end].casefold() in self._phrases:
                    found.append(Span(start, end, text[start:end], Kind.PHRASE))
        return found


def choose_wrong(
    answer: str, question: str | None, knowledge: str, bank: AnswerBank, rng: Random
) -> WrongAnswer | None:
    """Return a short wrong answer, or None where none is found.

    In this order: the other of two things that the question compares; a span of the knowledge of
    the same kind that the question does not name; one of a kindred kind; a near number or date; the
    right answer to another question.

    Args:
        answer: The right answer.
        question: What was asked.
        knowledge: Where the right answer stands.
        bank: Right answers to other questions.
        rng: Draws.
    """
    kind = kind_of(answer)
    if kind is Kind.YES_NO:
        opposite = "no" if bare(answer) == "yes" else "yes"
        return WrongAnswer(opposite if answer[:1].islower() else opposite.capitalize())
    other = _other_alternative(answer, question or "")
    if other is not None:
        return WrongAnswer(other)
    spans: Sequence[Span] = find_spans(knowledge)
    if kind is Kind.PHRASE:
        spans = bank.find_phrases(knowledge)
    for kinds in (frozenset({kind}), _SECOND_CHOICES.get(kind, frozenset())):
        candidates = _candidates(spans, kinds, answer, question or "", knowledge)
        if candidates:
            return WrongAnswer(_draw_close(candidates, answer, rng))
    near = _near(answer, kind, rng)
    return bank.draw(kind, answer, rng) if near is None else WrongAnswer(near)


def _near(answer: str, kind: Kind, rng: Random) -> str | None:
    """Return another number or date close to one; None for other kinds."""
    if kind is Kind.DATE:
        return change_date(answer, Material(answer, (), {}), rng)
    if kind in (Kind.YEAR, Kind.NUMBER, Kind.ORDINAL):
        return other_number(answer, kind, rng)
    return None


def _other_alternative(answer: str, question: str) -> str | None:
    match = _ALTERNATIVES.search(question)
    if match is None:
        return None
    # An alternative may have a part of the question beside it: then its name is taken alone.
    first, second = match.group(1).strip(" ,"), match.group(2).strip(" ,")
    for one, other in ((first, second), (second, first)):
        if is_related(answer, one) and not is_related(answer, other):
            if len(other.split()) > _MAX_ALTERNATIVE_WORDS:
                names = [span.text for span in find_spans(other) if span.kind in NAME_KINDS]
                return (names[-1] if other is first else names[0]) if names else None
            # Both have the article, or neither: it must not tell them apart.
            return other if _ARTICLE.match(answer) else _ARTICLE.sub("", other)
    return None


def _candidates(
    spans: Sequence[Span], kinds: frozenset[Kind], answer: str, question: str, knowledge: str
) -> list[str]:
    places = [m.span() for m in re.finditer(re.escape(bare(answer)), knowledge.casefold())]
    asked = f" {' '.join(words(question))} "
    found = {}
    for span in spans:
        core = bare(span.text)
        is_named = f" {' '.join(words(core))} " in asked
        if (
            span.kind not in kinds
            or is_named
            or is_related(core, answer)
            or any(_is_joined(span, place, knowledge) for place in places)
            or _is_sentence_head(span, knowledge)
        ):
            continue
        found[core] = span.text
    return sorted(found.values())


def _is_joined(span: Span, place: tuple[int, int], knowledge: str) -> bool:
    start, end = place
    if span.start < end and start < span.end:
        return True
    gap = knowledge[end : span.start] if start < span.start else knowledge[span.end : start]
    return len(gap) < 20 and _JOINED.fullmatch(gap) is not None


def _is_sentence_head(span: Span, knowledge: str) -> bool:
    """Whether it is one word that may be large only because it begins a sentence."""
    before = knowledge[: span.start].rstrip()
    is_head = span.kind is Kind.NAME and " " not in span.text and before[-1:] in ("", ".", "!", "?")
    return is_head and len(re.findall(rf"\b{re.escape(span.text)}\b", knowledge)) == 1


def _draw_close(candidates: list[str], answer: str, rng: Random) -> str:
    """Draw one that is within one word of the answer's length where there is one."""
    length = len(answer.split())
    close = [each for each in candidates if abs(len(each.split()) - length) <= 1]
    return rng.choice(close or candidates)
