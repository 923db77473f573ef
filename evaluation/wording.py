"""Which class a justification argues for, by its words alone.

A lexicon of English phrases, without a model. A justification in another language, or one that
shows its evidence and leaves the judging to the verdict line, argues for neither class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from contract.labels import Label

# Straight, curly (with the low opening mark), double and single guillemets, corner brackets. A mark
# that opens again ends the search, so that a run of opening marks costs no more than its length.
# A single mark quotes only at the edge of a word: inside, it is an apostrophe. A straight mark
# after a digit is inches.
QUOTES = re.compile(
    r"""
      (?<!\d)"([^"]*)"
    | [\u201c\u201e]([^\u201c\u201d\u201e]*)[\u201c\u201d]
    | \u00ab([^\u00ab\u00bb]*)\u00bb
    | \u2039([^\u2039\u203a]*)\u203a
    | \u300c([^\u300c\u300d]*)\u300d
    | (?<!\w)[\u2018\u201a]((?:[^\u2018\u2019\u201a]|(?<=\w)\u2019(?=\w))*)[\u2018\u2019](?!\w)
    | (?<!\w)'((?:[^']|(?<=\w)'(?=\w))*)'(?!\w)
    """,
    re.VERBOSE,
)
"""A quote; the one group that took part is the text between the marks."""


def _lexicon(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Word lists. What the knowledge does ("says") argues for nothing by itself,
# and against the response when it is negated ("does not say").
_TELLING = _lexicon(
    "say says said saying state states stated mention mentions mentioned give gives gave given "
    "contain contains contained show shows showed shown name names named tell tells told list "
    "lists listed include includes included report reports reported describe describes described "
    "specify specifies specified provide provides provided find finds found appear appears "
    "appeared stand stands indicate indicates indicated imply implies implied suggest suggests "
    "suggested evidence basis"
)
_SUPPORTING = _lexicon(
    f"support supports supported supporting confirm confirms confirmed confirming agree agrees "
    f"agreed agreement match matches matched matching {Label.CORRECT} correctly right rightly true "
    "accurate accurately consistent faithful faithfully entail entails entailed verify verifies "
    "verified correspond corresponds corresponding follows grounded backs backed valid"
)
_OPPOSING = _lexicon(
    "contradict contradicts contradicted contradicting contradiction contradictions contradictory "
    "conflict conflicts conflicted conflicting disagree disagrees disagreed differ differs "
    "differed different inconsistent incorrect incorrectly wrong wrongly false falsely inaccurate "
    "inaccurately unsupported fabricate fabricates fabricated invent invents invented unfounded "
    f"{Label.HALLUCINATION} {Label.HALLUCINATION}s hallucinates hallucinated mistaken untrue "
    "mismatch mismatches otherwise instead rather unlike missing absent lacks unverified "
    "unverifiable unrelated nowhere adds misstates overstates exaggerates"
)
_NEGATIONS = _lexicon(
    "not no never none nothing nobody neither nor without cannot hardly fail fails failed failing"
)
_TELLING_ANYTHING = _TELLING | _SUPPORTING | _OPPOSING
_STOPS = frozenset(".;:!?\n")
_TURNS = _lexicon("but yet however although though while whereas")
_CONCLUSIONS = _lexicon("so thus therefore hence")
_NEGATION_REACH = 6
"""Words after a negation that it still turns: "no part of the response is wrong"."""

_SOURCE = r"(?:knowledge|text|passage|document|documents|source|article|it)"
_SAYS = r"(?:says?|states?|said|does|do|gives?|shows?|names?|reports?|mentions?|tells?|told)"
# Phrases whose words would be misread one by one -> one word of the lists. In order.
_PHRASES = tuple(
    (re.compile(rf"\b{pattern}\b"), word)
    for pattern, word in (
        (r"(?:no|without) knowledge", ""),
        (r"known to be (?:true|false)", ""),
        (r"(?:no|without(?: a)?) doubt", ""),
        (r"(?:in )?(?:different|other) words", ""),
        (r"not only|as follows", ""),
        (
            rf"not(?:hing)? (?:in|from|part of) (?:the )?{_SOURCE}(?= about|\s*[.,;]|\s*\Z)",
            "unsupported",
        ),
        (r"adds? nothing(?: new)?", "supports"),
        (r"made[ -]up", "fabricated"),
        (r"something else", "otherwise"),
        (r"in (?:line|keeping|accordance) with", "consistent"),
        (rf"{_SAYS} (?:so|as much|the same|exactly that)", "supports"),
        (r"the same(?: thing)? as", "supports"),
        (r"answers? the question", "supports"),
        # Where the response itself is about what is missing: "... does not say, as the response
        # says".
        (rf"(?:just |exactly )?as the response {_SAYS}", "so supports"),
        (rf"(?:just |exactly )?as (?:the |this |that )?{_SOURCE} {_SAYS}", "supports"),
        (
            rf"(?:but|while|whereas|however|yet|although),? (?:the |this |that )?"
            rf"(?:{_SOURCE}|response|answer) {_SAYS}(?! (?:not|no))",
            "contradicts",
        ),
    )
)
_TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|[.;:!?\n,]")


def wording(justification: str) -> Label | None:
    """Return the class that the words argue for; None where they argue for neither.

    What stands in quotes does not count. Any objection outweighs what is conceded beside it, since
    one unsupported part makes a hallucination; but a conclusion ("so", "therefore") outweighs what
    led to it. A negation turns what follows it within six words.

    Example:
        >>> wording('The knowledge says "25 metres", as the response does.')
        <Label.CORRECT: 'correct'>
        >>> wording("Nothing in the knowledge supports the year.")
        <Label.HALLUCINATION: 'hallucination'>
        >>> wording('Closest in the knowledge: "It is 25 metres long."') is None
        True
    """
    text = QUOTES.sub(" , ", justification).casefold().replace("\u2019", "'")
    for pattern, word in _PHRASES:
        text = pattern.sub(word, text)
    votes: list[Label] = []
    for is_conclusion, clause in _split_clauses(text):
        found = _judge_clause(clause)
        votes = found if is_conclusion and found else votes + found
    if not votes:
        return None
    return Label.HALLUCINATION if Label.HALLUCINATION in votes else Label.CORRECT


def _split_clauses(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Yield each clause: whether a conclusion begins with it, and its words and commas."""
    is_conclusion, clause = False, list[str]()
    for token in _TOKEN.findall(text):
        if token in _STOPS or token in _TURNS or token in _CONCLUSIONS:
            yield is_conclusion, clause
            is_conclusion, clause = token in _CONCLUSIONS, []
        else:
            clause.append(token)
    yield is_conclusion, clause


def _judge_clause(clause: Sequence[str]) -> list[Label]:
    """Return what each telling word argues for."""
    votes = []
    turned_until = -1
    for place, word in enumerate(clause):
        if word in _NEGATIONS or word.endswith("n't"):
            turned_until = place + _NEGATION_REACH
            is_contrast = word == "not" and (not place or clause[place - 1] in (",", "and"))
            turned = clause[place + 1 : turned_until + 1]
            if is_contrast and not any(other in _TELLING_ANYTHING for other in turned):
                votes.append(Label.HALLUCINATION)  # ... "25 metres", not 50.
            continue
        vote = _judge_word(word, place <= turned_until)
        if vote is not None:
            votes.append(vote)
            turned_until = -1
    return votes


def _judge_word(word: str, is_negated: bool) -> Label | None:
    if word in _TELLING:
        return Label.HALLUCINATION if is_negated else None
    if word in _SUPPORTING:
        return Label.HALLUCINATION if is_negated else Label.CORRECT
    if word in _OPPOSING:
        return Label.CORRECT if is_negated else Label.HALLUCINATION
    return None
