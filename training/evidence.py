"""What a justification quotes: the closest passage of the knowledge, and what the response adds.

Both are computed from the inputs alone, never from the label: a small model that learned verdict
words in its justification would have decided before its probability is read, and every probability
would be 0 or 1. So the justification shows the evidence, and the verdict line judges it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from contract.example import Example, normalise
from contract.labels import Label
from contract.reply import label_cue

MAX_QUOTE_WORDS = 18
MAX_NEW_WORDS = 4

NO_KNOWLEDGE = "No knowledge was given: judged by what is known to be true."

# Letters and digits with what joins them inside a word; a CJK character is a word of its own.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+(?:[.,'\u2019-](?=[^\W_])[^\W_{_CJK}]+)*")
# A quotation mark ends a passage too, so that the quote around it stays one.
_BREAK = re.compile(
    r"(?<=[.!?\u3002\uff01\uff1f;])\s+|(?<=[\u3002\uff01\uff1f])|\n+|[\"\u201c\u201d|]+"
)
_STOP_WORDS = frozenset(
    "a about after all also an and any are as at be been before being but by can could did do does "
    "for from had has have he her hers him his how i if in into is it its may more most not of on "
    "one or other our she should so some such than that the their them then there these they this "
    "those to was we were what when where which while who whom whose why will with would you your "
    "yes no".split()
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the inputs alone say about a response.

    Attributes:
        quote: Verbatim from the normalised knowledge, at most ``MAX_QUOTE_WORDS`` words; None
            where there is no knowledge.
        new_words: Words of the response that neither knowledge nor question hold, at most
            ``MAX_NEW_WORDS``, in the response's order; numbers and names are kept first.
    """

    quote: str | None
    new_words: tuple[str, ...]


def find_evidence(example: Example) -> Evidence:
    """Find the passage of the knowledge that lies closest, and the words that are new.

    Passages are ranked by the words that they share with the response (counted twice) and the
    question, each weighted by its inverse document frequency among the passages.

    Raises:
        TextError: A text of the example is blank or invalid.
    """
    example = normalise(example)
    known = [*(example.knowledge or ()), example.question or ""]
    stems = {_stem(word) for text in known for word in _WORD.findall(text)}
    new_words = _pick_new(_WORD.findall(example.response), stems)
    if example.knowledge is None:
        return Evidence(None, new_words)
    passages = [
        piece.strip()
        for text in example.knowledge
        for piece in _BREAK.split(text)
        if any(map(str.isalnum, piece))
    ]
    return Evidence(_closest(passages, example), new_words)


def justify(example: Example) -> str:
    """Return the justification that a warm start teaches for this example; it shows no label.

    Raises:
        TextError: A text of the example is blank or invalid.

    Example:
        >>> justify(Example(("The pool is 25 m long. It is open.",), None, "The pool is 50 m."))
        'Closest in the knowledge: "The pool is 25 m long." New in the response: "50".'
    """
    evidence = find_evidence(example)
    if evidence.quote is None:
        return NO_KNOWLEDGE
    new = ", ".join(f'"{word}"' for word in evidence.new_words) or "nothing"
    return f'Closest in the knowledge: "{evidence.quote}" New in the response: {new}.'


def write_reply(justification: str | None, label: Label) -> str:
    """Return a whole reply; without a justification, only the verdict line (the short path)."""
    return f"{label_cue(justification)} {label}"


def _stem(word: str) -> str:
    """Return a word without case and, where it is long, without its ending."""
    word = word.casefold()
    return word if word[0].isdigit() or len(word) < 6 else word[:5]


def _pick_new(words: list[str], stems: set[str]) -> tuple[str, ...]:
    fresh = [
        word
        for word in dict.fromkeys(words)
        if word.casefold() not in _STOP_WORDS and _stem(word) not in stems
    ]
    telling = [word for word in fresh if word[0].isdigit() or word[0].isupper()]
    kept = {*telling[:MAX_NEW_WORDS]}
    kept.update([word for word in fresh if word not in kept][: MAX_NEW_WORDS - len(kept)])
    return tuple(word for word in fresh if word in kept)


def _closest(passages: list[str], example: Example) -> str:
    spans = [list(_WORD.finditer(passage)) for passage in passages]
    frequency = Counter(stem for words in spans for stem in {_stem(word.group()) for word in words})
    wanted: dict[str, float] = {}
    for text, weight in ((example.question or "", 1.0), (example.response, 2.0)):
        for word in _WORD.findall(text):
            if word.casefold() not in _STOP_WORDS:
                stem = _stem(word)
                inverse = math.log(1 + len(passages) / (1 + frequency[stem]))
                wanted[stem] = max(wanted.get(stem, 0.0), weight * inverse)

    def weigh(words: list[re.Match[str]]) -> float:
        return sum(wanted.get(stem, 0.0) for stem in {_stem(word.group()) for word in words})

    best = max(range(len(passages)), key=lambda i: (weigh(spans[i]), -i))
    words, passage = spans[best], passages[best]
    if len(words) <= MAX_QUOTE_WORDS:
        return passage
    starts = range(len(words) - MAX_QUOTE_WORDS + 1)
    start = max(starts, key=lambda i: (weigh(words[i : i + MAX_QUOTE_WORDS]), -i))
    return passage[words[start].start() : words[start + MAX_QUOTE_WORDS - 1].end()]
