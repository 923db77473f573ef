"""Edits of a true claim that make it false or unsupported, each as small as it can be.

An edit takes a claim without its full stop, the knowledge, and spans of other texts by kind; it
returns the claim edited, or None where it does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from training.spans import NAME_KINDS, Kind, Span, bare, find_spans, is_related
from training.word_lists import (
    ANTONYMS,
    MODALITIES,
    MONTHS,
    NUMBER_WORDS,
    ORDINAL_WORDS,
    QUANTIFIERS,
    ROLES,
    UNITS,
    WEEKDAYS,
)


@dataclass(frozen=True, slots=True)
class Material:
    """What a false edit may draw on.

    Attributes:
        knowledge: The text that the claim must not agree with.
        spans: Its spans.
        others: Kind -> spans of other texts.
    """

    knowledge: str
    spans: Sequence[Span]
    others: Mapping[Kind, Sequence[str]]


FalseEdit = Callable[[str, Material, Random], str | None]

_NEGATED = re.compile(
    r"\b(is|are|was|were|has been|have been|had been|can|could|will|would|should|did|does|do) not\b"
    r"|\b(is|are|was|were|could|would|should|did|does|do)n't\b|\bnever (?=\w+ed\b)"
)
PLAIN_VERB = re.compile(
    r"\b(is|are|was|were|has been|have been|had been|could|will|would|should)\b(?! not)"
)
_PAST = re.compile(
    r"(?<=\w )(?!need|embed|unit|bed\b|indeed)([a-z]{2,}ed)\b(?! (?:by|in|on|at|as|to be)\b)"
)
_SYMMETRIC = re.compile(
    r"\b(?:and|or|with|married|met|between|both|versus|vs|against|alongside|near|next to|shares?|"
    r"also|known|called|aka)\b"
)
_VERB = re.compile(r"\b(?:\w+ed|is|was|are|were|by|has|had|won|beat|left|wrote|made|from|for|to)\b")
_STEPS = (1, 1, 2, 3, 4, 5, 7, 10, 12, 20)


def _put(claim: str, span: Span, text: str) -> str:
    return f"{claim[: span.start]}{text}{claim[span.end :]}"


def _swap_pairs(claim: str, pairs: Sequence[tuple[str, str]], rng: Random) -> str | None:
    """Replace one word or phrase by its counterpart, either way, its capital kept."""
    places = []
    for first, second in pairs:
        for old, new in ((first, second), (second, first)):
            for match in re.finditer(rf"(?<![\w-]){re.escape(old)}(?![\w-])", claim, re.IGNORECASE):
                # A word written large inside the sentence belongs to a name.
                if match.group().islower() or match.start() == 0:
                    places.append((match.start(), match.end(), new))
    if not places:
        return None
    start, end, new = rng.choice(places)
    new = new[:1].upper() + new[1:] if start == 0 else new
    return _fix_article(f"{claim[:start]}{new}{claim[end:]}", start)


def _swap_listed(claim: str, pairs: Sequence[tuple[str, str]], rng: Random) -> str | None:
    """As above, but one way only."""
    fitting = [
        (match, new)
        for old, new in pairs
        for match in re.finditer(rf"(?<![\w-]){re.escape(old)}(?![\w-])", claim)
    ]
    if not fitting:
        return None
    match, new = rng.choice(fitting)
    return f"{claim[: match.start()]}{new}{claim[match.end() :]}"


def _fix_article(claim: str, start: int) -> str:
    """Make "a" or "an" agree with the word that was put after it."""
    before, after = claim[:start], claim[start:]
    article = re.search(r"\b([Aa])n? $", before)
    if article is None:
        return claim
    fitting = article.group(1) + ("n " if after[:1].lower() in "aeiou" else " ")
    return before[: article.start()] + fitting + after


def _is_absent(text: str, knowledge: str) -> bool:
    return bare(text) not in knowledge.casefold()


def _names(claim: str, material: Material) -> list[Span]:
    """Return the names of a claim that are written large in the knowledge too.

    The first word of a claim is written large whatever it is.
    """
    kinds = {*NAME_KINDS, Kind.NATIONALITY}
    known = {span.text for span in material.spans}
    return [
        span
        for span in find_spans(claim)
        if span.kind in kinds and len(span.text) > 2 and (span.start or span.text in known)
    ]


def swap_entity(claim: str, material: Material, rng: Random) -> str | None:
    """Put another name, place or nationality of the same knowledge in the place of one."""
    places = _names(claim, material)
    rng.shuffle(places)
    for place in places:
        candidates = [
            span.text
            for span in material.spans
            if span.kind is place.kind
            and bare(span.text) not in claim.casefold()
            and not is_related(span.text, place.text)
        ]
        if candidates:
            return _fix_article(_put(claim, place, rng.choice(candidates)), place.start)
    return None


def import_entity(claim: str, material: Material, rng: Random) -> str | None:
    """Put a name, place or nationality of another text in the place of one."""
    places = _names(claim, material)
    if not places:
        return None
    place = rng.choice(places)
    pool = material.others.get(place.kind, ())
    for _ in range(10 if pool else 0):
        other = rng.choice(pool)
        if _is_absent(other, material.knowledge) and not is_related(other, place.text):
            return _fix_article(_put(claim, place, other), place.start)
    return None


def exchange_entities(claim: str, material: Material, rng: Random) -> str | None:
    """Let two names around a verb change places."""
    names = [span for span in _names(claim, material) if span.kind in NAME_KINDS]
    pairs = [
        (one, other)
        for one in names
        for other in names
        if one.end < other.start
        and not is_related(one.text, other.text)
        and _VERB.search(claim[one.end : other.start])
        and not _SYMMETRIC.search(claim[one.end : other.start])
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    between = claim[one.end : other.start]
    return f"{claim[: one.start]}{other.text}{between}{one.text}{claim[other.end :]}"


def change_number(claim: str, material: Material, rng: Random) -> str | None:
    """Change a number, a year or an ordinal."""
    kinds = (Kind.NUMBER, Kind.YEAR, Kind.ORDINAL)
    places = [
        span for span in find_spans(claim) if span.kind in kinds and span.text.lower() != "one"
    ]
    if not places:
        return None
    place = rng.choice(places)
    same = [
        span.text
        for span in material.spans
        if span.kind is place.kind
        and span.text[:1].isdigit() == place.text[:1].isdigit()
        and bare(span.text) not in claim.casefold()
        and span.text.lower() != "one"
    ]
    # Numbers of the same text first: nothing about them is strange but the place.
    if same and rng.random() < 0.6:
        return _put(claim, place, rng.choice(same))
    new = other_number(place.text, place.kind, rng)
    return None if new is None else _put(claim, place, new)


def other_number(text: str, kind: Kind, rng: Random) -> str | None:
    """Return another number, year or ordinal, near the one given and written alike."""
    if kind is Kind.YEAR:
        return str(int(text) + rng.choice((-1, 1)) * rng.choice(_STEPS))
    low = text.lower()
    for listed in (list(NUMBER_WORDS), ORDINAL_WORDS):
        if low in listed:
            return rng.choice([word for word in listed[:12] if word != low])
    match = re.search(r"\d[\d,]*", text)
    if match is None:
        return None
    digits = match.group()
    value = int(digits.replace(",", ""))
    new = max(0, value + rng.choice((-1, 1)) * max(1, round(value * rng.choice((0.1, 0.3, 0.5)))))
    if new == value:
        return None
    if kind is Kind.ORDINAL:
        return _ordinal(max(1, new) if max(1, new) != value else value + 1)
    return text.replace(digits, f"{new:,}" if "," in digits else str(new))


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def change_date(claim: str, material: Material, rng: Random) -> str | None:
    """Change a month, a weekday, or the day or year of a date."""
    for listed in rng.sample((MONTHS, WEEKDAYS), 2):
        found = [name for name in listed if re.search(rf"\b{name}\b(?! (?:I|Day)\b)", claim)]
        if "May" in found and not re.search(r"\d May\b|\bMay \d", claim):
            found.remove("May")
        if found and rng.random() < 0.6:
            old = rng.choice(found)
            new = rng.choice([name for name in listed if name != old])
            return re.sub(rf"\b{old}\b", new, claim, count=1)
    dates = [span for span in find_spans(claim) if span.kind is Kind.DATE]
    if not dates:
        return None
    date = rng.choice(dates)
    part = rng.choice(list(re.finditer(r"\d+", date.text)))
    value = int(part.group())
    changed = value + rng.choice((-1, 1)) * rng.choice(_STEPS) if value > 31 else 1 + value % 28
    return _put(claim, date, f"{date.text[: part.start()]}{changed}{date.text[part.end() :]}")


def negate(claim: str, material: Material, rng: Random) -> str | None:
    """Negate the first verb that can be, or take a negation out."""
    negated = _NEGATED.search(claim)
    if negated:
        verb = negated.group(1) or negated.group(2) or ""
        if verb in ("do", "does", "did"):
            return None
        text = f"{claim[: negated.start()]}{verb}{claim[negated.end() :]}"
        return re.sub(r" {2,}", " ", text)
    plain = PLAIN_VERB.search(claim)
    if plain:
        verb = plain.group()
        first, _, rest = verb.partition(" ")
        if rng.random() < 0.3 and not rest and first in ("is", "are", "was", "were"):
            return f"{claim[: plain.start()]}{first}n't{claim[plain.end() :]}"
        rest = f" {rest}" if rest else ""
        return f"{claim[: plain.start()]}{first} not{rest}{claim[plain.end() :]}"
    past = _PAST.search(claim)
    if past and rng.random() < 0.4:
        return f"{claim[: past.start()]}never {claim[past.start() :]}"
    return None


def oppose(claim: str, material: Material, rng: Random) -> str | None:
    """Replace a word by its antonym."""
    return _swap_pairs(claim, ANTONYMS, rng)


def change_role(claim: str, material: Material, rng: Random) -> str | None:
    """Replace a noun by one of another role."""
    return _swap_pairs(claim, ROLES, rng)


def change_unit(claim: str, material: Material, rng: Random) -> str | None:
    """Replace a unit by another."""
    return _swap_pairs(claim, UNITS, rng)


def change_quantifier(claim: str, material: Material, rng: Random) -> str | None:
    """Say all, none or few where the text says otherwise."""
    return _swap_listed(claim, QUANTIFIERS, rng)


def change_modality(claim: str, material: Material, rng: Random) -> str | None:
    """Make the possible certain, or the planned done."""
    return _swap_listed(claim, MODALITIES, rng)


def add_detail(claim: str, material: Material, rng: Random) -> str | None:
    """Add a place, a year, a person or a reason that the knowledge does not hold."""
    forms = (
        (Kind.PLACE, "{} in {}"),
        (Kind.YEAR, "{} in {}"),
        (Kind.NAME, "{} with {}"),
    )
    kind, form = rng.choice(forms)
    pool = material.others.get(kind, ())
    for _ in range(10 if pool else 0):
        detail = rng.choice(pool)
        if _is_absent(detail, material.knowledge):
            return form.format(claim, detail)
    return None


FALSE_EDITS: tuple[tuple[FalseEdit, int], ...] = (
    (swap_entity, 8),
    (exchange_entities, 5),
    (change_number, 5),
    (change_date, 4),
    (oppose, 5),
    (negate, 2),
    (import_entity, 2),
    (change_role, 3),
    (change_unit, 3),
    (change_quantifier, 3),
    (change_modality, 3),
    (add_detail, 2),
)
"""Edit and weight: those that use the knowledge's own words come most, since they leave no trace in
the share of words that the claim has in common with it."""

DENIABLE_EDITS: tuple[FalseEdit, ...] = (
    swap_entity,
    change_number,
    change_date,
    change_role,
    change_unit,
    oppose,
)
"""What these change after a verb is true again when the verb is negated."""
