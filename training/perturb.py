"""Claims made by rule: a sentence of the knowledge in other words, and the same made false.

Both claims of a couple come from one sentence and carry the same edits that keep it true; the
false one has one more edit, small and where possible in the knowledge's own words. A claim with
"not" is about as often true as false. So neither length nor the words in common with the knowledge
tell one from the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from contract.labels import Label
from training.false_edits import DENIABLE_EDITS, FALSE_EDITS, PLAIN_VERB, Material, negate
from training.records import Record
from training.spans import Kind, find_spans, split_sentences, words
from training.true_edits import NEW_WORD_EDITS, PREFIXES, TRUE_EDITS, attribute, lower_first

_MIN_WORDS = 6
_MAX_WORDS = 30
# A claim is about a window of a long text: it fits a prompt, and says as much.
_WINDOW_WORDS = (40, 80, 120, 160, 220)
_TRIES = 4
_PRONOUN = re.compile(
    r"^(?:He|She|It|They|His|Her|Its|Their|This|That|These|Those|We|You|I|The latter|But|And|Or|"
    r"So)\b"
)
_EMPTY_BRACKETS = re.compile(r" ?\([\s;,:\]]*\)")
_NEGATION = re.compile(r"(?i)\bnot\b|\bnever\b|n't\b")
_NESTED = re.compile(r"(?i)\b(?:not|never|which|who|whose|that|but|where|when)\b|n't\b|;")
_NOT_PLAIN = re.compile(r"\b(?:and|or|as)\b|[,:]")
_MAX_DENIED_WORDS = 20
# Share of the couples whose true claim denies a false one, of those that one clause allows.
_DENIED_SHARE = 0.4
_JOINED_SHARE = 0.1
_PRONOUN_SHARE = 0.25
_ATTRIBUTED_SHARE = 0.3
_EVENED_SHARE = 0.85
# Kept of the couples whose true claim stands word for word in the text, of those whose false claim
# has more words that the text lacks, and of those whose false or true claim alone has a "not".
# Without this, looking up words would tell many apart.
_VERBATIM_SHARE = 0.25
_TOLD_SHARE = 0.15
_NEGATED_SHARE = 0.35
_ONLY_DENIED_SHARE = 0.55
# Short knowledge gets company up to about this many words.
_SHORT_WORDS = 60
_BESIDE_SHARE = 0.7
_MAX_BESIDE_WORDS = 80
_MAX_SPAN_TEXTS = 3000
_MAX_SPAN_CHARS = 400


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What other pairs offer.

    Attributes:
        spans: Kind -> spans of their knowledge, for details that a text does not hold.
        texts: Short knowledge texts, to stand beside one that is short.
    """

    spans: Mapping[Kind, Sequence[str]]
    texts: Sequence[str]


def find_surroundings(records: Sequence[Record]) -> Surroundings:
    """Collect spans and short texts of all knowledge."""
    texts = sorted({text for record in records for text in record.knowledge or ()})
    spans: dict[Kind, set[str]] = {}
    for text in texts[:: max(1, len(texts) // _MAX_SPAN_TEXTS)]:
        for span in find_spans(text[:_MAX_SPAN_CHARS]):
            is_year = span.kind is Kind.YEAR and not "1850" < span.text < "2025"
            if 3 < len(span.text) < 40 and not is_year:
                spans.setdefault(span.kind, set()).add(span.text)
    short = [text for text in texts if len(text.split()) <= _MAX_BESIDE_WORDS]
    return Surroundings({kind: sorted(found) for kind, found in spans.items()}, short)


def make_claims(
    rows: Sequence[Record], num_claims: int, surroundings: Surroundings, rng: Random
) -> list[Record]:
    """Return rule-made claims about the knowledge of one pair, as many true as false.

    Args:
        rows: The pair's rows.
        num_claims: How many at most; of an odd number the last is either, by a coin.
        surroundings: What other pairs offer.
        rng: Draws.
    """
    texts = sorted({row.knowledge: row for row in rows if row.knowledge is not None}.items())
    if not texts:
        return []
    made: list[Record] = []
    used: set[str] = set()
    for _ in range(num_claims * _TRIES):
        if len(made) >= num_claims:
            break
        knowledge, base = rng.choice(texts)
        couple = _make_couple(base, "\n".join(knowledge), surroundings, used, rng)
        if couple is None:
            continue
        made += [
            replace(row, id=f"{base.pair_id}/perturbed/{len(made) + place}")
            for place, row in enumerate(couple)
        ]
    if len(made) > num_claims:
        made.pop(len(made) - 1 - rng.randrange(2))
    return made


def _make_couple(
    base: Record, knowledge: str, surroundings: Surroundings, used: set[str], rng: Random
) -> list[Record] | None:
    sentences = split_sentences(knowledge)
    # Sentences that stand for themselves; one that begins with a pronoun only now and then.
    usable = [
        place
        for place, sentence in enumerate(sentences)
        if _MIN_WORDS <= len(sentence.split()) <= _MAX_WORDS
        and sentence not in used
        and "\ufffd" not in sentence
        and (not _PRONOUN.match(sentence) or rng.random() < _PRONOUN_SHARE)
    ]
    if not usable:
        return None
    place = rng.choice(usable)
    source = _EMPTY_BRACKETS.sub("", sentences[place].rstrip(" ."))
    num_kept = 1
    if rng.random() < _JOINED_SHARE and place + 1 in usable:
        source = f"{source}, and {lower_first(sentences[place + 1].rstrip(' .'))}"
        num_kept = 2
    texts = _set_beside(_window(sentences, place, rng, num_kept), surroundings.texts, rng)
    window = "\n".join(texts)
    claims = _state(source, Material(window, find_spans(window), surroundings.spans), rng)
    if claims is None:
        return None
    used.add(sentences[place])
    row = replace(base, knowledge=texts, question=None, treatment="perturbed")
    couple = [
        replace(row, response=claims.true, label=Label.CORRECT),
        replace(row, response=claims.false, label=Label.HALLUCINATION),
    ]
    rng.shuffle(couple)
    return couple


@dataclass(frozen=True, slots=True)
class _Claims:
    true: str
    false: str


def _state(source: str, material: Material, rng: Random) -> _Claims | None:
    """Make a couple of claims; None where no rule fits or the couple would tell itself apart."""
    true = edit_truly(source, material.knowledge, rng)
    false = edit_falsely(true, material, rng)
    if false is None:
        return None
    if rng.random() < _DENIED_SHARE:
        true = _deny(true, material, rng) or true
    true = _even_new_words(true, false, material.knowledge, rng)
    if rng.random() < _ATTRIBUTED_SHARE:
        prefix = rng.choice(PREFIXES)
        true, false = attribute(true, prefix), attribute(false, prefix)
    if true.casefold() in material.knowledge.casefold() and rng.random() > _VERBATIM_SHARE:
        return None
    known = set(words(material.knowledge))
    is_told = _num_new(false, known) > _num_new(true, known)
    if is_told and rng.random() > _TOLD_SHARE:
        return None
    if _NEGATION.search(false) and not _NEGATION.search(true):
        share = _NEGATED_SHARE
    elif _NEGATION.search(true) and not _NEGATION.search(false):
        share = _ONLY_DENIED_SHARE
    else:
        share = 1.0
    return None if rng.random() > share else _Claims(true, false)


def _set_beside(window: str, texts: Sequence[str], rng: Random) -> tuple[str, ...]:
    """Put other texts beside a short one: more to look through, and more to confuse it with."""
    beside = [window]
    while texts and len(" ".join(beside).split()) < _SHORT_WORDS and rng.random() < _BESIDE_SHARE:
        other = rng.choice(texts)
        if other not in beside and window not in other:
            beside.append(other)
    rng.shuffle(beside)
    return tuple(beside) if rng.random() < 0.5 else ("\n".join(beside),)


def _window(sentences: list[str], place: int, rng: Random, num_kept: int = 1) -> str:
    """Return sentences around one, as many as fit a drawn number of words."""
    budget = rng.choice(_WINDOW_WORDS)
    first, last = place, place + num_kept
    num_words = sum(len(each.split()) for each in sentences[first:last])
    while True:
        sides = [("before", first - 1)] if first else []
        sides += [("after", last)] if last < len(sentences) else []
        if not sides:
            break
        side, index = rng.choice(sides)
        num_words += len(sentences[index].split())
        if num_words > budget:
            break
        first, last = (index, last) if side == "before" else (first, index + 1)
    return " ".join(sentences[first:last])


def edit_truly(sentence: str, knowledge: str, rng: Random) -> str:
    """Return the sentence with up to three edits that keep it true, rarely none."""
    claim = sentence
    num_edits = rng.choices((0, 1, 2, 3), (1, 5, 5, 3))[0]
    edits = _weighted(TRUE_EDITS, rng)
    done = 0
    for edit in edits:
        if done >= num_edits:
            break
        edited = edit(claim, rng)
        if edited is not None and edited != claim:
            claim, done = edited, done + 1
    # A claim that still stands word for word in the text would be told by that alone.
    if claim.casefold() in knowledge.casefold() and rng.random() < 0.8:
        claim = _bring_new_word(claim, rng)
    return claim


def edit_falsely(claim: str, material: Material, rng: Random) -> str | None:
    """Return the claim made false by one edit, or None where no rule fits."""
    for edit in _weighted(FALSE_EDITS, rng):
        for _ in range(2):
            edited = edit(claim, material, rng)
            if edited and _is_new(edited, claim, material.knowledge):
                return edited
    return None


def _is_new(edited: str, claim: str, knowledge: str) -> bool:
    said = edited.casefold()
    return said != claim.casefold() and said not in knowledge.casefold()


def _deny(claim: str, material: Material, rng: Random) -> str | None:
    """Return a true claim that denies a false one; only of claims of one plain clause."""
    verbs = [*PLAIN_VERB.finditer(claim)]
    if len(verbs) != 1 or _NESTED.search(claim) or len(claim.split()) > _MAX_DENIED_WORDS:
        return None
    if _NOT_PLAIN.search(claim[verbs[0].end() :]):
        return None
    for edit in rng.sample(DENIABLE_EDITS, len(DENIABLE_EDITS)):
        false = edit(claim, material, rng)
        # Of another subject the text may say nothing, and the denial would not be supported.
        if false is not None and false != claim and false.startswith(claim[: verbs[0].end()]):
            return negate(false, material, rng)
    return None


def _even_new_words(true: str, false: str, knowledge: str, rng: Random) -> str:
    """Bring a new word into the true claim where the false one has more of them."""
    known = set(words(knowledge))
    if _num_new(false, known) > _num_new(true, known) and rng.random() < _EVENED_SHARE:
        return _bring_new_word(true, rng)
    return true


def _num_new(claim: str, known: set[str]) -> int:
    # Negations are balanced by themselves: a true claim may deny, a false one may negate.
    claim = _NEGATION.sub("", claim)
    return sum(word not in known for word in words(claim))


def _bring_new_word(claim: str, rng: Random) -> str:
    for edit in rng.sample(NEW_WORD_EDITS, len(NEW_WORD_EDITS)):
        edited = edit(claim, rng)
        if edited is not None and edited != claim:
            return edited
    return claim


def _weighted(
    edits: Sequence[tuple[Callable[..., str | None], int]], rng: Random
) -> list[Callable[..., str | None]]:
    """Return all edits in an order drawn by weight (Efraimidis and Spirakis 2006)."""
    keyed = [(rng.random() ** (1 / weight), place) for place, (_, weight) in enumerate(edits)]
    return [edits[place][0] for _, place in sorted(keyed, reverse=True)]
