"""Short spans of a text by kind: what a right answer looks like, and what could stand in its place.

By rule and word list alone. A kind is a guess, good enough to choose a wrong response that does not
give itself away by its form; nothing depends on its being right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from training.word_lists import (
    MONTHS,
    NATIONALITIES,
    NUMBER_WORDS,
    ORDINAL_WORDS,
    ORGANISATION_WORDS,
    PLACES,
    SENTENCE_STARTERS,
)


class Kind(StrEnum):
    """What a short span is."""

    YES_NO = "yes-no"
    YEAR = "year"
    DATE = "date"
    NUMBER = "number"
    ORDINAL = "ordinal"
    NATIONALITY = "nationality"
    PLACE = "place"
    ORGANISATION = "organisation"
    TITLE = "title"
    NAME = "name"
    PHRASE = "phrase"


NAME_KINDS = frozenset({Kind.NAME, Kind.PLACE, Kind.ORGANISATION, Kind.TITLE})
"""Kinds written with a capital that may stand for each other where nothing better is found."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text.

    Attributes:
        start: Code point at which it begins.
        end: Code point after its last.
        text: What stands there.
        kind: What it is.
    """

    start: int
    end: int
    text: str
    kind: Kind


_MONTH = "|".join(MONTHS)
_WORD = r"[A-Z\u00c0-\u00de][\w\u2019'&-]*"
# Two dotted initials, or one before a surname, belong to the name.
_INITIAL = r"(?:[A-Z]\.)+"
_LINK = r"(?:of|de|da|di|du|la|le|von|van|der|den|del|and the|of the|for the|the)"
# A word that is written large only because a sentence begins with it begins no name.
_STARTER = "|".join(sorted(SENTENCE_STARTERS))
_NAME = (
    rf"(?!(?:{_STARTER})(?![\w'\u2019-]))(?:{_INITIAL}|{_WORD})"
    rf"(?: (?:{_LINK} )?(?:{_INITIAL}|{_WORD}))*(?: \d{{1,4}}(?![\w,.]))?"
)
_PATTERNS = (
    (Kind.DATE, rf"\b(?:{_MONTH}) \d{{1,2}},? \d{{4}}\b|\b\d{{1,2}} (?:{_MONTH}),? \d{{4}}\b"),
    (Kind.DATE, rf"\b(?:{_MONTH}) (?:\d{{1,2}}|\d{{4}})\b|\b\d{{1,2}} (?:{_MONTH})\b"),
    (Kind.TITLE, r"(?<!\w)[\"\u201c](?:[A-Z0-9][^\"\u201c\u201d]{1,60})[\"\u201d](?!\w)"),
    (Kind.YEAR, r"(?<![\w.,$\u00a3\u20ac-])(?:1[0-9]|20)\d\d(?![\w%]|[.,]\d|-\w)"),
    (Kind.NAME, rf"\b{_NAME}"),
    (
        Kind.NUMBER,
        r"(?<![\w.,\u2013-])[$\u00a3\u20ac]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?%?(?!\w|[.,]\d)",
    ),
)
_FINDER = re.compile(
    "|".join(f"(?P<p{number}>{pattern})" for number, (_, pattern) in enumerate(_PATTERNS))
)
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(NUMBER_WORDS)})\b", re.IGNORECASE)
_ORDINAL_WORD = re.compile(rf"\b(?:{'|'.join(ORDINAL_WORDS)}|\d+(?:st|nd|rd|th))\b", re.IGNORECASE)
_WORDS = re.compile(r"\w+")
_ARTICLE = re.compile(r"(?i)^(?:the|a|an) ")
_TRIMMED = ".,;:!? "
_QUOTES = "\"'\u201c\u201d"


def bare(text: str) -> str:
    """Return the text without case, article, quotes and closing punctuation, to compare with.

    Example:
        >>> bare('The "Green Hornet".')
        'green hornet'
    """
    core = text.strip(_TRIMMED).strip(_QUOTES).casefold()
    return _ARTICLE.sub("", core).strip(_QUOTES)


def words(text: str) -> list[str]:
    """Return the words of a text, without case and punctuation."""
    return _WORDS.findall(text.casefold())


def kind_of(text: str) -> Kind:
    """Return the kind of a short answer as a whole.

    Example:
        >>> [str(kind_of(text)) for text in ("yes", "1973", "14,674", "Nate Dogg", "rock band")]
        ['yes-no', 'year', 'number', 'name', 'phrase']
    """
    text = text.strip().rstrip(".,;:!?")
    core = bare(text)
    if core in ("yes", "no"):
        return Kind.YES_NO
    if core in NUMBER_WORDS:
        return Kind.NUMBER
    if _ORDINAL_WORD.fullmatch(core):
        return Kind.ORDINAL
    for match in _FINDER.finditer(text):
        if match.group() == text:
            return _refine(text, _kind(match))
        break
    if re.match(rf"(?:[Tt]he )?[\"\u201c]?(?:{_INITIAL}|{_WORD})", text):
        return _refine(_ARTICLE.sub("", text), Kind.NAME)
    return Kind.NUMBER if re.search(r"\d", text) else Kind.PHRASE


def _kind(match: re.Match[str]) -> Kind:
    for number, (kind, _) in enumerate(_PATTERNS):
        if match.group(f"p{number}") is not None:
            return kind
    raise ValueError("an empty match")


def _refine(text: str, kind: Kind) -> Kind:
    if kind is not Kind.NAME:
        return kind
    if text in NATIONALITIES:
        return Kind.NATIONALITY
    last = text.rpartition(" ")[2]
    if last in ORGANISATION_WORDS or (text.isupper() and len(text) > 1 and " " not in text):
        return Kind.ORGANISATION
    if text in PLACES or last in ("County", "City", "Island", "Islands", "River", "Lake"):
        return Kind.PLACE
    return Kind.NAME


@lru_cache(maxsize=4096)
def find_spans(text: str) -> tuple[Span, ...]:
    """Return the spans of a text in order, none within another.

    Example:
        >>> [span.text for span in find_spans("In 1984 Ann Lee moved to Oslo with two friends.")]
        ['1984', 'Ann Lee', 'Oslo', 'two']
    """
    found = []
    for match in _FINDER.finditer(text):
        start, end = match.span()
        kind = _kind(match)
        if kind is Kind.NAME:
            end = start + len(text[start:end].rstrip("'\u2019-&"))
            end -= 2 if text[start:end].endswith(("'s", "\u2019s")) else 0
        if end - start > 1 or kind is Kind.NUMBER:
            found.append(Span(start, end, text[start:end], _refine(text[start:end], kind)))
    for pattern, kind in ((_NUMBER_WORD, Kind.NUMBER), (_ORDINAL_WORD, Kind.ORDINAL)):
        found += [Span(*match.span(), match.group(), kind) for match in pattern.finditer(text)]
    return _without_overlaps(found)


def _without_overlaps(spans: Iterable[Span]) -> tuple[Span, ...]:
    kept: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return tuple(kept)


def is_related(one: str, other: str) -> bool:
    """Whether two spans could name the same thing: equal, contained, a shared word, or initials.

    Example:
        >>> is_related("James L. Jones", "Jim Jones"), is_related("BC", "Boston College")
        (True, True)
        >>> is_related("Boston College", "California")
        False
    """
    a, b = bare(one), bare(other)
    if not a or not b or a in b or b in a:
        return True
    first, second = words(a), words(b)
    if any(len(word) > 3 for word in {*first} & {*second}):
        return True
    if NUMBER_WORDS.get(a, a) == NUMBER_WORDS.get(b, b):
        return True
    initials = ("".join(word[0] for word in first), "".join(word[0] for word in second))
    return a.replace(".", "") == initials[1] or b.replace(".", "") == initials[0]


_CUT = re.compile(
    r"(?<=[.!?])(?<!\b[A-Zv]\.)(?<!\b(?:Mr|Ms|Dr|St|Jr|Sr|No|vs|Lt|Op|Ft|Mt)\.)(?<!\b(?:Mrs|Inc|Gen|Col|Sgt|Rev|Vol)\.)"
    r"(?:[\"\u201d')]*)(?:\s+(?=[\"\u201c'(]?[A-Z0-9\u00c0-\u00de])|(?<=[a-z0-9)\"]\.)(?=[A-Z]))"
    r"|\s*\n\s*"
)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text; a full stop without a blank after it ends one too.

    Example:
        >>> split_sentences("Dr. Hay left in 1990.The town of J. Doe grew. It is old.")
        ['Dr. Hay left in 1990.', 'The town of J. Doe grew.', 'It is old.']
    """
    return [sentence for part in _CUT.split(text) if (sentence := part.strip())]
