"""Whether a justification can be relied on: its quotes are real, and it argues for its verdict.

Both checks read the text alone, with no model: quotes are searched in the inputs, the wording is
looked up in a lexicon (``evaluation.wording``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from contract.errors import TextError
from contract.example import normalise_text
from evaluation.prediction import Prediction
from evaluation.wording import QUOTES, wording

__all__ = ["JustificationShares", "QuoteCheck", "check_justifications", "check_quotes", "wording"]

# What a writer puts around the words of others: an ellipsis for what was left out, and before the
# closing mark the comma or full stop of the own sentence.
_CUT = re.compile(r"\A(?:\.{3}|\u2026)\s*|\s*(?:\.{3}|\u2026|[.,])\Z")


@dataclass(frozen=True, slots=True)
class QuoteCheck:
    """What a justification quotes.

    Attributes:
        num_quotes: Texts between quotation marks, empty ones too.
        num_verbatim: Those of them that stand in the inputs.
    """

    num_quotes: int
    num_verbatim: int


@dataclass(frozen=True, slots=True)
class JustificationShares:
    """What the justifications of readable replies are like. Shares are in [0, 1]; 0 of nothing.

    Attributes:
        num_justifications: How many there are.
        quoted: Share with at least one quote.
        verbatim: Of those with a quote, the share in which every quote stands in the inputs.
        agreeing: Share whose wording argues for its own verdict.
        neutral: Share whose wording argues for neither class.
        contradicting: Share whose wording argues against its own verdict.
    """

    num_justifications: int
    quoted: float
    verbatim: float
    agreeing: float
    neutral: float
    contradicting: float


def check_quotes(justification: str, texts: Sequence[str]) -> QuoteCheck:
    """Count the quotes, and those that stand verbatim in one of the texts.

    Both sides are normalised as the model sees them, and every run of blanks and line ends is one
    blank; case counts. A quote must begin and end where a word does: "25" does not stand in "1925".
    An ellipsis at either end, and one comma or full stop before the closing mark, need not be in
    the text.

    Args:
        justification: The text before the verdict.
        texts: The inputs: knowledge, question, response.

    Example:
        >>> check_quotes('The knowledge says "25 metres," not "50 metres".', ["It is 25 metres."])
        QuoteCheck(num_quotes=2, num_verbatim=1)
    """
    quotes = list(_find_quotes(justification))
    if not quotes:
        return QuoteCheck(0, 0)
    sources = [_flatten(text) for text in texts]
    stands = {
        quote: any(_is_within(form, source) for form in _forms(quote) for source in sources)
        for quote in set(quotes)
    }
    return QuoteCheck(len(quotes), sum(stands[quote] for quote in quotes))


def _find_quotes(text: str) -> Iterator[str]:
    for match in QUOTES.finditer(text):
        yield match.group(match.lastindex or 0)


def _flatten(text: str) -> str:
    """Return the normalised text on one line; nothing where the contract refuses it."""
    try:
        return " ".join(normalise_text(text, "text").split())
    except TextError:
        return ""


def _forms(quote: str) -> Iterable[str]:
    """Return the quote as it is, and without the signs that may be the writer's."""
    whole = _flatten(quote)
    return dict.fromkeys((whole, _CUT.sub("", whole)))


def _is_within(quote: str, text: str) -> bool:
    if not any(map(str.isalnum, quote)):
        return False
    start = text.find(quote)
    while start >= 0:
        end = start + len(quote)
        if not (_is_joined(text, start) or _is_joined(text, end)):
            return True
        start = text.find(quote, start + 1)
    return False


def _is_joined(text: str, place: int) -> bool:
    """Whether one word goes on across the place."""
    return 0 < place < len(text) and _is_letter(text[place - 1]) and _is_letter(text[place])


def _is_letter(character: str) -> bool:
    # From Thai on (U+0E00) most scripts put no blank between words; Latin and Greek come back at
    # U+1E00.
    return character.isalnum() and (character < "\u0e00" or "\u1e00" <= character < "\u2000")


def check_justifications(predictions: Iterable[Prediction]) -> JustificationShares:
    """Return the shares over the predictions that have a verdict and a justification."""
    judged = [p for p in predictions if p.verdict is not None and p.justification]
    quotes = [check_quotes(p.justification or "", p.texts) for p in judged]
    quoting = [check for check in quotes if check.num_quotes]
    argued = [(wording(p.justification or ""), p.verdict) for p in judged]
    return JustificationShares(
        num_justifications=len(judged),
        quoted=_share(len(quoting), len(judged)),
        verbatim=_share(sum(c.num_verbatim == c.num_quotes for c in quoting), len(quoting)),
        agreeing=_share(sum(label is verdict for label, verdict in argued), len(judged)),
        neutral=_share(sum(label is None for label, _ in argued), len(judged)),
        contradicting=_share(
            sum(label not in (None, verdict) for label, verdict in argued), len(judged)
        ),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
