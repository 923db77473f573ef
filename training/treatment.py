"""The treatment: rows made so that no style tells the class. Each switch is in docs/data.md.

Whatever is made is made for both classes from the same forms at the same rate. Everything is drawn
from a generator seeded by the run's seed and the pair, so a pair's rows do not depend on other
pairs, except for wrong answers that only another question could give.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from random import Random
from typing import TYPE_CHECKING

from contract.labels import Label
from training.perturb import find_surroundings, make_claims
from training.records import Record
from training.spans import NAME_KINDS, Kind, bare, find_spans, kind_of, split_sentences, words
from training.statements import choose_form, fill, say_yes_no
from training.wrong_answers import AnswerBank, WrongAnswer, choose_wrong

if TYPE_CHECKING:
    from training.data_config import TreatmentConfig

MADE = "made"
"""Rows of a set of kind ``made``: balanced where they come from, and left as they are."""

ORIGINAL_TREATMENTS = frozenset({"raw", "punctuated", "length-matched", "kept", MADE})
"""Rows whose response stands in the source, but for its full stop and blanks."""

# A right answer of more words is a sentence already.
_MAX_ANSWER_WORDS = 6
_QUESTION_TASK = "qa"
# Share of the questions about which a claim is made that the text does not say it.
_ABSTENTION_SHARE = 0.15
# Of the wrong answers taken from another question, how many bring its text along, if it is short.
_SOURCE_SHARE = 0.8
_MAX_SOURCE_WORDS = 90
_DENIAL = re.compile(r"(?i)\b(?:not|no|never|nor|neither|none|only|both|unknown|n't|\w+n't)\b")
_TOKENISED = re.compile(r" ([.,;:!?])(?=\s|$)| ('(?:s|re|ve|ll|d|m|t)\b)| (n't\b)")
_OTHER_ENDS = ("!", "?", "...", "\u2026", ":", "Inc.", "Jr.", "Sr.", "Ltd.", "Co.", "U.S.")
_SAYS_NOTHING = (
    "The text does not say",
    "The knowledge does not say this",
    "This is not stated in the text",
    "The passage does not mention it",
    "The answer is not given in the text",
    "The text gives no answer to this question",
    "There is no information about this in the passage",
    "It cannot be told from the text",
)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The rows of one question or text, and the generator that its rows are made with."""

    rows: tuple[Record, ...]
    rng: Random

    def of(self, label: Label) -> list[Record]:
        return [row for row in self.rows if row.label is label]


def treat(
    records: Sequence[Record], config: TreatmentConfig, seed: int, *, is_training: bool = True
) -> list[Record]:
    """Return the rows, treated, pairs together in the order given.

    Args:
        records: Normalised rows of one part of the split.
        config: Which treatments.
        seed: Of every choice.
        is_training: Originals have their full stop evened out and are thinned to ``raw_share`` only
            here; in the other parts they stay as they are, so that their score is that of the
            source, and are joined by the made rows.
    """
    if not config.is_on:
        return list(records)
    pairs = group_pairs(records)
    # A made set beside others must change none of their rows.
    found = [row for row in records if row.treatment != MADE]
    bank = AnswerBank(row for row in found if row.label is Label.CORRECT and is_short_answer(row))
    surroundings = find_surroundings(found)
    treated: list[Record] = []
    for (set_name, pair_id), rows in pairs.items():
        if all(row.treatment == MADE for row in rows):
            treated += rows
            continue
        rng = Random(f"{seed}/{set_name}/{pair_id}")  # noqa: S311 - no secret hangs on it
        pair = _Pair(tuple(rows), rng)
        made = _treat_answers(pair, config, bank)
        if config.perturbed_claims:
            made += make_claims(pair.rows, config.perturbed_claims, surroundings, pair.rng)
        if config.punctuation:
            made = _even_stops(made, pair.rng)
        originals = _mark_matched(pair.rows, config.length_matched)
        if is_training:
            originals = _thin(originals, config.raw_share, pair.rng)
            if config.punctuation:
                originals = [_punctuate(row, pair.rng) for row in originals]
        treated += _without_repeats([*originals, *made], is_training)
    return treated


def group_pairs(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """Return (set, pair) -> its rows, in the order of first appearance."""
    pairs: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        pairs.setdefault((record.set_name, record.pair_id), []).append(record)
    return pairs


def limit_pairs(
    records: Sequence[Record], limits: Mapping[str, int | None], seed: int
) -> list[Record]:
    """Return at most a set's limit of each of its pairs' rows, drawn from its classes in turn.

    Args:
        records: Rows, in the order that is kept.
        limits: Set -> most rows of a pair; None for all.
        seed: Of the draw, as for the treatment.
    """
    kept: list[Record] = []
    for (set_name, pair_id), rows in group_pairs(records).items():
        limit = limits[set_name]
        if limit is None or len(rows) <= limit:
            kept += rows
            continue
        rng = Random(f"{seed}/{set_name}/{pair_id}/limit")  # noqa: S311 - no secret hangs on it
        drawn = rng.sample(rows, len(rows))
        pair = _Pair(tuple(drawn), rng)
        in_turn = [
            row
            for couple in zip_longest(*(pair.of(label) for label in Label))
            for row in couple
            if row is not None
        ]
        chosen = {row.id for row in in_turn[:limit]}
        kept += [row for row in rows if row.id in chosen]
    return kept


def is_short_answer(row: Record) -> bool:
    """Whether a row is a question with a span for an answer."""
    is_question = row.task == _QUESTION_TASK and row.question is not None
    return is_question and len(row.response.split()) <= _MAX_ANSWER_WORDS


def even_stop(response: str, has_stop: bool) -> str:
    """Return the response with or without a final full stop.

    Question and exclamation marks, ellipses and abbreviations stay.

    Example:
        >>> even_stop("It was Oslo.", has_stop=False), even_stop("Oslo", has_stop=True)
        ('It was Oslo', 'Oslo.')
    """
    core = response.rstrip()
    if core.endswith(_OTHER_ENDS):
        return core
    core = core.removesuffix(".").rstrip()
    return f"{core}." if has_stop and core else core or response


def _even_stops(made: list[Record], rng: Random) -> list[Record]:
    """Even out the full stop of rows that come in couples, one of each class.

    One coin a couple, not one a row: then the full stop says exactly nothing.
    """
    coins = [rng.random() < 0.5 for _ in range(0, len(made), 2)]
    return [
        replace(row, response=even_stop(row.response, coins[place // 2]))
        for place, row in enumerate(made)
    ]


def _punctuate(row: Record, rng: Random) -> Record:
    response = row.response
    if _TOKENISED.search(response) and rng.random() < 0.5:
        response = _TOKENISED.sub(lambda match: match.group().lstrip(), response)
    response = even_stop(response, rng.random() < 0.5)
    if response == row.response:
        return row
    treatment = "punctuated" if row.treatment == "raw" else row.treatment
    return replace(row, response=response, treatment=treatment)


def _thin(rows: list[Record], share: float, rng: Random) -> list[Record]:
    return [
        row
        for row in rows
        # Drawn for every row, so that another share keeps a subset or a superset.
        if rng.random() < share or row.treatment != "raw"
    ]


def _mark_matched(rows: tuple[Record, ...], is_on: bool) -> list[Record]:
    """Mark the originals: questions and answers raw, or matched in length; the rest kept."""
    if any(row.task != _QUESTION_TASK for row in rows):
        return [replace(row, treatment="kept") for row in rows]
    marked = set()
    if is_on:
        for one in rows:
            for other in rows:
                gap = abs(len(one.response.split()) - len(other.response.split()))
                if one.label is not other.label and gap <= 1:
                    marked |= {one.id, other.id}
    return [replace(row, treatment="length-matched") if row.id in marked else row for row in rows]


def _treat_answers(pair: _Pair, config: TreatmentConfig, bank: AnswerBank) -> list[Record]:
    """Make the short and long, right and wrong answers to one question."""
    rights = [row for row in pair.of(Label.CORRECT) if is_short_answer(row)]
    if not rights:
        return []
    right = rights[0]
    answer = right.response.rstrip(".").strip()
    knowledge = "\n".join(right.knowledge or ())
    chosen = choose_wrong(answer, right.question, knowledge, bank, pair.rng)
    if chosen is None:
        return []
    wrong = chosen.text
    asked = _add_source(right, chosen, pair.rng)
    made = []
    if config.short_wrong:
        made += [
            _make(asked, "short-right", answer, Label.CORRECT),
            _make(asked, "short-wrong", wrong, Label.HALLUCINATION),
        ]
    if config.long_right:
        made += _lengthen(pair, asked, answer, wrong, config)
        made += _exchange(pair, asked, answer, wrong)
    if right.knowledge is not None and pair.rng.random() < _ABSTENTION_SHARE:
        made += _abstain(right, answer, pair.rng)
    return made


def _add_source(right: Record, wrong: WrongAnswer, rng: Random) -> Record:
    """Add the text that a wrong answer comes from, so that it stands in the knowledge too."""
    source = wrong.source
    if right.knowledge is None or source is None or source in right.knowledge:
        return right
    if len(source.split()) > _MAX_SOURCE_WORDS or rng.random() > _SOURCE_SHARE:
        return right
    texts = [*right.knowledge, source]
    rng.shuffle(texts)
    return replace(right, knowledge=tuple(texts))


def _lengthen(
    pair: _Pair, right: Record, answer: str, wrong: str, config: TreatmentConfig
) -> list[Record]:
    """Put the right and the wrong answer into one form."""
    rng, kind, has_text = pair.rng, kind_of(answer), right.knowledge is not None
    if kind is Kind.YES_NO:
        is_yes = bare(answer) == "yes"
        sentence = say_yes_no(right.question, is_yes, rng, has_text=has_text)
        counterpart = say_yes_no(right.question, not is_yes, rng, has_text=has_text)
    else:
        num_words = None
        wrongs = pair.of(Label.HALLUCINATION)
        # Half of the forms are as long as the wrong response that the data set came with.
        if config.length_matched and wrongs and rng.random() < 0.5:
            num_words = len(rng.choice(wrongs).response.split()) - len(answer.split())
        form = choose_form(right.question, kind, rng, num_words=num_words, has_text=has_text)
        sentence, counterpart = fill(form, answer), fill(form, wrong)
    return [
        _make(right, "long-right", sentence, Label.CORRECT),
        _make(right, "long-wrong", counterpart, Label.HALLUCINATION),
    ]


def _exchange(pair: _Pair, right: Record, answer: str, wrong: str) -> list[Record]:
    """Put the right answer into the wrong response's own sentence, and another wrong one too."""
    for row in pair.of(Label.HALLUCINATION):
        span = _wrong_span(row.response, right, answer)
        if span is not None:
            before, after = row.response[: span[0]], row.response[span[1] :]
            return [
                _make(right, "long-right", f"{before}{answer}{after}", Label.CORRECT, "x"),
                _make(right, "long-wrong", f"{before}{wrong}{after}", Label.HALLUCINATION, "x"),
            ]
    return []


def _wrong_span(sentence: str, right: Record, answer: str) -> tuple[int, int] | None:
    """Return where the one wrong answer stands in a sentence that is else the question's words."""
    if _DENIAL.search(sentence) or bare(answer) in sentence.casefold():
        return None
    kind = kind_of(answer)
    if kind in (Kind.YES_NO, Kind.PHRASE):
        return None
    asked = set(words(right.question or ""))
    known = asked | set(words(" ".join(right.knowledge or ())))
    spans = [
        span for span in find_spans(sentence) if not set(words(span.text)) <= asked and span.start
    ]
    if len(spans) != 1:
        return None
    rest = words(sentence[: spans[0].start] + " " + sentence[spans[0].end :])
    if {word for word in words(answer) if len(word) > 3} & set(rest):
        return None
    num_new = sum(len(word) > 4 and word not in known for word in rest)
    is_same = spans[0].kind is kind or {spans[0].kind, kind} <= NAME_KINDS
    return (spans[0].start, spans[0].end) if is_same and num_new <= 1 else None


def _abstain(right: Record, answer: str, rng: Random) -> list[Record]:
    """Claim that the text does not say it: of the whole text, and of it without the answer."""
    core = bare(answer)
    texts = [split_sentences(text) for text in right.knowledge or ()]
    kept = tuple(
        " ".join(left)
        for sentences in texts
        if (left := [each for each in sentences if core not in each.casefold()])
    )
    num_cut = sum(map(len, texts)) - sum(len(split_sentences(text)) for text in kept)
    if kind_of(answer) is Kind.YES_NO or not kept or not num_cut:
        return []
    claim = rng.choice(_SAYS_NOTHING)
    cut = replace(right, knowledge=kept)
    return [
        _make(right, "abstention", claim, Label.HALLUCINATION),
        _make(cut, "abstention", claim, Label.CORRECT, "cut"),
        _make(right, "abstention", answer, Label.CORRECT, "answer"),
        _make(cut, "abstention", answer, Label.HALLUCINATION, "cut-answer"),
    ]


def _make(base: Record, treatment: str, response: str, label: Label, suffix: str = "") -> Record:
    identity = "/".join(part for part in (base.id, treatment, suffix) if part)
    return replace(base, id=identity, response=response, label=label, treatment=treatment)


def _without_repeats(rows: list[Record], is_training: bool) -> list[Record]:
    """Drop a made row that repeats an original, and any that would give one input two classes."""
    labels: dict[tuple[tuple[str, ...] | None, str | None, str], set[Label]] = {}
    for row in rows:
        labels.setdefault(_input(row), set()).add(row.label)
    seen = set()
    kept = []
    # Made rows first: their rates are balanced, so in training the original is what gives way.
    for row in sorted(rows, key=lambda each: each.treatment in ORIGINAL_TREATMENTS):
        is_original = row.treatment in ORIGINAL_TREATMENTS
        if len(labels[_input(row)]) > 1 and not is_original:
            continue
        if _input(row) in seen and (is_training or not is_original):
            continue
        seen.add(_input(row))
        kept.append(row)
    return kept


def _input(row: Record) -> tuple[tuple[str, ...] | None, str | None, str]:
    return row.knowledge, row.question, row.response.rstrip(". ").casefold()
