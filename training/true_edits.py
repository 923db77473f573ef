"""Edits of a sentence that keep it true: for claims that the knowledge supports in other words.

An edit takes a sentence without its full stop and returns it edited, or None where it does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from training.spans import find_spans
from training.word_lists import CONTRACTIONS, MONTHS, NUMBER_WORDS, SENTENCE_STARTERS, SYNONYMS

Edit = Callable[[str, Random], str | None]

_MIN_WORDS = 4
_PARENTHESIS = re.compile(r" ?\([^()]*\)")
_APPOSITION = re.compile(r", (?:a|an|the|its|his|her|their) [^,;]{3,70},(?! and)")
_OPENING_ADVERBIAL = re.compile(
    r"^((?:In|During|On|After|Before|At|Since|From|By|Until|Throughout|Between|Under|Within) "
    r"[^,;]{2,50}|However|Today|Later|Currently|Originally|Additionally|Meanwhile|Overall), (?=\w)"
)
_CLOSING_ADVERBIAL = re.compile(
    r" ((?:in|during|on|since|until|by) (?:(?:early|late|mid|the|around) ?)*"
    rf"(?:(?:\d{{1,2}} )?(?:{'|'.join(MONTHS)})(?: \d{{1,2}},?)?(?: \d{{4}})?|\d{{4}}))$"
)
_SAFE_CUT = re.compile(
    r",? (?:which|who|where|whose|when|while|although|though|as well as|including|such as|"
    r"along with|and (?:was|is|are|were|has|have|had|also|later|then)|featuring|starring|"
    r"making|leading|causing|killing|leaving|because|after|before|despite|in order to) .+$"
)
_FILLERS = re.compile(
    r"(?i)(?<=\w) (?:also|very|widely|generally|currently|largely|mainly|primarily|especially|"
    r"notably|officially|famously|recently|reportedly|already|just|actually|really|still|even)"
    r"(?= \w)"
)
_QUOTES = re.compile(r"[\"\u201c\u201d]")
_BORN = re.compile(
    rf"^([A-Z][^(),]{{2,50}}) \([^()]*\bborn (?:in )?((?:{'|'.join(MONTHS)}) \d{{1,2}}, \d{{4}}|"
    rf"\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{4}}|\d{{4}})\b"
)
_IS_A = re.compile(r"^([A-Z][^(),]{2,50}?)(?: ?\([^()]*\))? (is|was) (an?) ([^,.;()]{8,80})")
_LOOSE_END = re.compile(r"(?:,? (?:and|or|but|as|with|by|in|of|the|a|an))+$")
# What is left of "a fort made of earth" when it is cut at "of".
_LOOSE_VERB = re.compile(
    r"(?: (?:made|based|located|born|written|directed|produced|built|held|set|known|composed|"
    r"founded|published|released|played|used|owned|operated|formed|created|found|competing|"
    r"working|playing|living|serving|consisting|currently|best|situated|named|recorded|"
    r"developed|designed|made up))+$"
)
PREFIXES = (
    "The text says that {}",
    "According to the text, {}",
    "As the text says, {}",
    "It is said that {}",
    "The passage states that {}",
    "It is reported that {}",
    "It is a fact that {}",
    "We learn that {}",
    "The author writes that {}",
    "From the text it is clear that {}",
    "As a matter of fact, {}",
    "Indeed, {}",
)
"""What can stand before a claim without changing it."""
_LOWERED = SENTENCE_STARTERS - {"I", "I'm", "I've", "Police", "Subject", "Dear"}


def lower_first(sentence: str) -> str:
    """Return the sentence as it stands after other words: its first word small unless a name."""
    first = re.match(r"[\w']+", sentence)
    if first is None or first.group() not in _LOWERED:
        return sentence
    return sentence[:1].lower() + sentence[1:]


def upper_first(sentence: str) -> str:
    """Return the sentence beginning with a capital."""
    return sentence[:1].upper() + sentence[1:]


def _checked(before: str, after: str) -> str | None:
    after = re.sub(r"\s+([,.;:])", r"\1", re.sub(r" {2,}", " ", after)).strip(" ,;:")
    after = _LOOSE_END.sub("", after)
    if after == before or len(after.split()) < _MIN_WORDS:
        return None
    return upper_first(after)


def drop_parenthesis(sentence: str, rng: Random) -> str | None:
    """Leave out what stands in brackets."""
    return _checked(sentence, _PARENTHESIS.sub("", sentence))


def drop_apposition(sentence: str, rng: Random) -> str | None:
    """Leave out ", a small town," and the like."""
    return _checked(sentence, _APPOSITION.sub("", sentence, count=1))


def drop_opening(sentence: str, rng: Random) -> str | None:
    """Leave out an adverbial at the beginning."""
    return _checked(sentence, _OPENING_ADVERBIAL.sub("", sentence))


def move_opening(sentence: str, rng: Random) -> str | None:
    """Move an adverbial from the beginning to the end."""
    match = _OPENING_ADVERBIAL.match(sentence)
    if match is None or "," in sentence[match.end() :]:
        return None
    return _checked(sentence, f"{sentence[match.end() :]} {lower_first(match.group(1))}")


def move_closing(sentence: str, rng: Random) -> str | None:
    """Move a date from the end to the beginning."""
    match = _CLOSING_ADVERBIAL.search(sentence)
    if match is None:
        return None
    moved = f"{upper_first(match.group(1))}, {lower_first(sentence[: match.start()])}"
    return _checked(sentence, moved)


def cut_tail(sentence: str, rng: Random) -> str | None:
    """Leave out a clause at the end that only adds."""
    places = list(re.finditer(_SAFE_CUT.pattern[:-3], sentence))
    if not places:
        return None
    return _checked(sentence, sentence[: rng.choice(places).start()])


def drop_fillers(sentence: str, rng: Random) -> str | None:
    """Leave out "also" and the like."""
    return _checked(sentence, _FILLERS.sub("", sentence, count=2))


def drop_quotes(sentence: str, rng: Random) -> str | None:
    """Leave out quotation marks."""
    return _checked(sentence, _QUOTES.sub("", sentence))


def contract(sentence: str, rng: Random) -> str | None:
    """Contract "is not" and the like, or write it out."""
    for long, short in CONTRACTIONS:
        for old, new in ((long, short), (short, long)):
            if re.search(rf"\b{old}\b", sentence):
                return _checked(sentence, re.sub(rf"\b{old}\b", new, sentence, count=1))
    return None


def respell_number(sentence: str, rng: Random) -> str | None:
    """Write a small number in words, or a number word in digits."""
    to_word = {digits: word for word, digits in NUMBER_WORDS.items()}
    for span in find_spans(sentence):
        new = NUMBER_WORDS.get(span.text) or to_word.get(span.text)
        is_joined = re.match(r"[-\u2013.:/%]| %", sentence[span.end :]) or re.search(
            r"[-\u2013:/.,$]$", sentence[: span.start]
        )
        if new and span.text != "one" and not is_joined:
            return _checked(sentence, f"{sentence[: span.start]}{new}{sentence[span.end :]}")
    return None


def replace_words(sentence: str, rng: Random) -> str | None:
    """Say one thing in other words."""
    fitting = [(old, new) for old, new in SYNONYMS if re.search(rf"\b{old}\b", sentence)]
    if not fitting:
        return None
    for old, new in rng.sample(fitting, min(len(fitting), rng.choice((1, 1, 2)))):
        sentence = re.sub(rf"\b{old}\b", new, sentence, count=1)
    return sentence


def attribute(sentence: str, prefix: str) -> str:
    """Say that the text says it.

    Args:
        sentence: What is said.
        prefix: One of ``PREFIXES``.
    """
    return prefix.format(lower_first(sentence))


def extract_fact(sentence: str, rng: Random) -> str | None:
    """Take one fact out of a sentence: a birth, or what something is."""
    facts = []
    born = _BORN.match(sentence)
    if born:
        name, date = born.groups()
        year = date[-4:]
        preposition = "in" if date == year else "on"
        facts += [
            f"{name} was born {preposition} {date}",
            f"{name} was born in {year}",
            f"{name}'s year of birth is {year}",
        ]
    is_a = _IS_A.match(sentence)
    if is_a:
        name, verb, article, what = is_a.groups()
        what = re.split(r" (?:who|which|that|and|from|in|by|of|for|at|with|on) ", what)[0]
        what = _LOOSE_VERB.sub("", what)
        facts += [f"{name} {verb} {article} {what}"] * 3
        facts += [f"{upper_first(article)} {what} is what {name} {verb}"]
    return rng.choice(facts) if facts else None


# Weighted: what changes the form most comes most.
TRUE_EDITS: tuple[tuple[Edit, int], ...] = (
    (drop_parenthesis, 4),
    (drop_apposition, 3),
    (drop_opening, 2),
    (move_opening, 3),
    (move_closing, 3),
    (cut_tail, 4),
    (drop_fillers, 1),
    (drop_quotes, 1),
    (contract, 1),
    (respell_number, 3),
    (replace_words, 5),
    (extract_fact, 3),
)
"""Edit and weight."""

NEW_WORD_EDITS: tuple[Edit, ...] = (replace_words, respell_number)
"""Edits that bring words in that the knowledge need not hold."""
