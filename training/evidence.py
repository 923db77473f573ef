"""What a justification says: what the knowledge holds, never whether the response is right.

A question with a short answer is answered from the knowledge; any other response is set beside the
closest passage of the knowledge, verbatim. The class is decided after that, at the label, by
comparing: a small model that wrote verdict words first would have decided before its probability is
read, and every probability would be 0 or 1. A model of this size also learns to compare two short
texts within sixty steps, where it stayed at chance for eighty when it was asked for the bare class
of the same examples (``training/LOG.md``).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from contract.example import Example, normalise, normalise_text
from contract.labels import Label
from contract.reply import label_cue
from training.records import Record
from training.spans import bare

MAX_QUOTE_WORDS = 24
MAX_ANSWER_WORDS = 10

NO_KNOWLEDGE = "No knowledge was given: judged by what is known to be true."
NO_ANSWER = "The knowledge does not give the answer."
NO_PASSAGE = "The knowledge says nothing."

PairKey = tuple[str, str]
"""Set name and pair id."""

_WORDS = ("yes", "no")
_ABSTENTION = "abstention"
_FOUND = {"raw", "punctuated", "kept", "length-matched", "short-right"}
# Letters and digits with what joins them inside a word; a CJK character is a word of its own.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+(?:[.,'\u2019-](?=[^\W_])[^\W_{_CJK}]+)*")
_SENTENCE_END = re.compile(
    r"(?<=[.!?\u3002\uff01\uff1f;])\s+|(?<=[\u3002\uff01\uff1f])|\n+|(?<=[a-z)]\.)(?=[A-Z])"
)
# A quotation mark ends a passage too, so that the quote around it stays one.
_MARK = re.compile(r"[\"\u201c\u201d|]+")
_RARE = 32
"""Passages with a word, up to which it is a rare one."""
_STOP_WORDS = frozenset(
    """
    a about after all also an and any are as at be been before being but by can could did do
    does for from had has have he her hers him his how i if in into is it its may more most not
    of on one or other our she should so some such than that the their them then there these
    they this those to was we were what when where which while who whom whose why will with
    would you your yes no
    """.split()  # noqa: SIM905 - a list of 90 strings reads worse
)


def justify(example: Example, answer: str | None = None, is_answered: bool = True) -> str:
    """Return the justification that a warm start teaches for an example; it shows no label.

    Args:
        example: What is judged.
        answer: The right answer to its question, where a short one is known.
        is_answered: Whether the knowledge gives it.

    Raises:
        TextError: A text of the example is blank or invalid.

    Example:
        >>> pool = Example(("It is open. The pool is 25 m long.",), "How long?", "It is 50 m.")
        >>> justify(pool)
        'The knowledge says "The pool is 25 m long".'
        >>> justify(pool, answer="25 m")
        'By the knowledge, the answer is "25 m".'
    """
    example = normalise(example)
    if example.knowledge is None:
        return NO_KNOWLEDGE
    if answer is not None:
        if not is_answered:
            return NO_ANSWER
        answer = normalise_text(answer, "answer")
        word = answer.rstrip(".").casefold()
        return f"By the knowledge, the answer is {word if word in _WORDS else _quote(answer)}."
    passage = closest_passage(example)
    return NO_PASSAGE if passage is None else f"The knowledge says {_quote(passage)}."


def _quote(text: str) -> str:
    # On one line: what begins another could be taken for a verdict.
    return f'"{_MARK.sub("", text.replace(chr(10), " ")).rstrip(". ")}"'


def gold_answers(records: Sequence[Record]) -> dict[PairKey, str]:
    """Return the short right answer of each pair that has a question and one.

    It is what a warm start teaches as the justification of all responses of the pair.
    """
    answers: dict[PairKey, str] = {}
    for record in records:
        if (
            record.label is Label.CORRECT
            and record.treatment in _FOUND
            and record.task == "qa"
            and record.question is not None
            and record.knowledge is not None
            and len(record.response.split()) <= MAX_ANSWER_WORDS
            and not _MARK.search(record.response)
        ):
            answers.setdefault((record.set_name, record.pair_id), record.response)
    return answers


def justify_record(record: Record, answers: Mapping[PairKey, str]) -> str:
    """Return what a warm start teaches for a record; ``answers`` is from ``gold_answers``."""
    if record.justification is not None:
        return record.justification
    answer = None
    if record.question is not None:
        answer = answers.get((record.set_name, record.pair_id))
    # Of the rows about an abstention, half have had the answer cut out of their knowledge.
    knowledge = " ".join(record.knowledge or ()).casefold()
    is_cut = record.treatment == _ABSTENTION and bare(answer or "") not in knowledge
    return justify(record.example, answer, not is_cut)


def write_reply(justification: str | None, label: Label) -> str:
    """Return a whole reply; without a justification, only the verdict line (the short path)."""
    return f"{label_cue(justification)} {label}"


def closest_passage(example: Example) -> str | None:
    """Return the passage of the knowledge that the response is best compared with.

    Each sentence of the response is set beside the passage that shares most of its words, weighted
    by their inverse document frequency among the passages, and a little of the question's. The
    sentence that finds least support decides which passage is quoted.

    Args:
        example: Normalised.

    Returns:
        Verbatim, at most ``MAX_QUOTE_WORDS`` words; None where the knowledge holds no word.
    """
    passages = [
        piece.strip()
        for text in example.knowledge or ()
        for sentence in _SENTENCE_END.split(text)
        for piece in _MARK.split(sentence)
        if any(map(str.isalnum, piece))
    ]
    if not passages:
        return None
    index = _PassageIndex(passages)
    asked = index.weights(example.question or "", 0.5)
    best, best_share, best_wanted = 0, math.inf, asked
    # A sentence that comes again finds the same.
    for sentence in dict.fromkeys(_SENTENCE_END.split(example.response)):
        own = index.weights(sentence, 1.0)
        wanted = {**asked, **own}
        found = index.find(wanted)
        share = _weigh(own, index.stems[found]) / (sum(own.values()) or 1.0)
        if own and share < best_share:
            best, best_share, best_wanted = found, share, wanted
    return _cut(passages[best], best_wanted)


class _PassageIndex:
    """The words of passages, so that a sentence is compared only with those that share one."""

    def __init__(self, passages: Sequence[str]) -> None:
        self.stems = [{_stem(word) for word in _WORD.findall(passage)} for passage in passages]
        self._places: dict[str, list[int]] = {}
        # Of passages with the same words, the first is the one that is found.
        first = {frozenset(own): i for i, own in reversed(list(enumerate(self.stems)))}
        for place in sorted(first.values()):
            for stem in self.stems[place]:
                self._places.setdefault(stem, []).append(place)
        self._frequency = Counter(stem for own in self.stems for stem in own)

    def weights(self, text: str, factor: float) -> dict[str, float]:
        """Return stem -> weight of a text's words, those that say nothing left out."""
        num = len(self.stems)
        return {
            _stem(word): factor * math.log(1 + num / (0.5 + self._frequency[_stem(word)]))
            for word in _WORD.findall(text)
            if word.casefold() not in _STOP_WORDS
        }

    def find(self, wanted: Mapping[str, float]) -> int:
        """Return the passage that holds most of what is wanted; the first of equals."""
        places = {stem: self._places.get(stem, []) for stem in wanted}
        rare = {stem for stem in wanted if len(places[stem]) <= _RARE}
        # The words of all passages would cost a look at each of them for each sentence. Where rare
        # ones find a passage that outweighs all others together, that need not be.
        near = sorted({place for stem in rare for place in places[stem]})
        best = self._best(
            wanted, {s: places[s] if s in rare else self._among(near, s) for s in wanted}
        )
        rest = sum(weight for stem, weight in wanted.items() if stem not in rare)
        if near and _weigh(wanted, self.stems[best]) > rest:
            return best
        return self._best(wanted, places)

    def _among(self, places: Sequence[int], stem: str) -> list[int]:
        return [place for place in places if stem in self.stems[place]]

    @staticmethod
    def _best(wanted: Mapping[str, float], places: Mapping[str, Sequence[int]]) -> int:
        found: dict[int, float] = {}
        for stem, weight in wanted.items():
            for place in places[stem]:
                found[place] = found.get(place, 0.0) + weight
        return max(sorted(found), key=lambda place: found[place], default=0)


def _weigh(wanted: Mapping[str, float], own: set[str]) -> float:
    return sum(weight for stem, weight in wanted.items() if stem in own)


def _cut(passage: str, wanted: Mapping[str, float]) -> str:
    """Return the passage, or the part of it that holds most of what is wanted."""
    words = list(_WORD.finditer(passage))
    if len(words) <= MAX_QUOTE_WORDS:
        return passage
    stems = [_stem(word.group()) for word in words]
    order = {stem: place for place, stem in enumerate(wanted)}

    def weigh(start: int) -> float:
        # In the order of what is wanted, so that equal parts have equal sums.
        held = {*stems[start : start + MAX_QUOTE_WORDS]} & order.keys()
        return sum(wanted[stem] for stem in sorted(held, key=lambda stem: order[stem]))

    start = max(range(len(words) - MAX_QUOTE_WORDS + 1), key=weigh)
    return passage[words[start].start() : words[start + MAX_QUOTE_WORDS - 1].end()]


def _stem(word: str) -> str:
    """Return a word without case and, where it is long, without its ending."""
    word = word.casefold()
    return word if word[0].isdigit() or len(word) < 6 else word[:5]
