"""What a reply is paid: the class on its last line against the gold class. Pure Python.

Right is paid more than wrong, and wrong more than a reply that cannot be read, for each gold class.
A justification is paid for only where the class is right, and only for what it quotes.

Whoever calls takes the special tokens of the tokenizer off first, as the engine does when serving:
a chat token on the last line makes it unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.errors import UnreadableReplyError
from contract.labels import Label
from contract.reply import Verdict, parse
from evaluation.justifications import check_quotes

if TYPE_CHECKING:
    from training.config import RewardConfig

MIN_QUOTE_LETTERS = 6
"""Letters and digits of a quote that is worth paying for; "the" or "a" stands in every text."""

MAX_QUOTED_SHARE = 0.75
"""Most that all quotes together may be of the inputs: to quote is to choose."""

# A straight mark after a digit is inches.
_PASSAGE = re.compile(
    r"(?:(?<!\d)\"|[\u201c\u201e\u00ab\u300c])([^\"\u201c-\u201e\u00ab\u00bb\u300c\u300d]+)"
    r"[\"\u201c\u201d\u00bb\u300d]"
)


@dataclass(frozen=True, slots=True)
class Scored:
    """What a reply earned, and what was read in it.

    Attributes:
        reward: None where there is no gold class: the row is to be left out.
        label: The class that was read; None where the reply is unreadable.
        num_quotes: Quotes in the justification; 0 where the reply is unreadable.
        num_verbatim: Those that stand in the inputs.
    """

    reward: float | None
    label: Label | None
    num_quotes: int
    num_verbatim: int

    @property
    def is_readable(self) -> bool:
        """Whether the reply ends in a verdict."""
        return self.label is not None


def score(
    completion: str,
    gold: Label | None,
    texts: Sequence[str],
    config: RewardConfig,
    is_truncated: bool = False,
) -> Scored:
    r"""Return what a reply earns, in time linear in its length.

    ==========  ==================================================================================
    right       ``config.correct``, and ``config.quote_bonus`` if it quotes, every quote stands
                verbatim in the inputs, one of them has ``MIN_QUOTE_LETTERS``, and they are not
                most of the inputs (``MAX_QUOTED_SHARE``)
    wrong       ``config.wrong``, whatever it quotes
    unreadable  ``config.unreadable``, which the configuration holds below ``wrong``
    ==========  ==================================================================================

    Where the gold class is ``correct`` the distance to ``config.wrong`` is scaled by
    ``class_scale``: the order stays, and an unreadable reply is below every wrong one of either
    class.

    Args:
        completion: The whole reply, without special tokens.
        gold: The class of the example; None where it is not known.
        texts: The inputs that may be quoted: knowledge, question, response.
        config: What is paid.
        is_truncated: The reply was cut at the longest allowed length. It is unreadable then,
            whatever stands in it, as it is when serving.

    Example:
        >>> from training.config import RewardConfig
        >>> texts = ["The pool is 25 metres long.", "It is 50 metres long."]
        >>> reply = 'The knowledge says "25 metres long".\nClass: hallucination'
        >>> score(reply, Label.HALLUCINATION, texts, RewardConfig(quote_bonus=0.25)).reward
        1.25
        >>> score(reply, Label.CORRECT, texts, RewardConfig(quote_bonus=0.25)).reward
        0.0
        >>> score("hallucination", Label.HALLUCINATION, texts, RewardConfig()).reward
        -0.5
    """
    verdict = None if is_truncated else _read(completion)
    if verdict is None:
        return Scored(_scale(config.unreadable, gold, config), None, 0, 0)
    quotes = check_quotes(verdict.justification, texts)
    reward = config.correct if verdict.label is gold else config.wrong
    if (
        config.quote_bonus
        and verdict.label is gold
        and quotes.num_quotes == quotes.num_verbatim
        and _is_worth_paying(verdict.justification, texts)
    ):
        reward += config.quote_bonus
    return Scored(
        _scale(reward, gold, config), verdict.label, quotes.num_quotes, quotes.num_verbatim
    )


def class_scale(gold: Label, config: RewardConfig) -> float:
    """Return how much an example of this class teaches, in (0, 1]; 1 for hallucinations.

    Class-aware policy optimisation of RL4HS (Su et al. 2025, arXiv 2510.02173): nothing to find is
    the easier answer, and a policy drifts towards it unless it is paid less.

    ``score`` applies it to the reward, which is the same as to the advantage wherever that is a
    difference of rewards in one group. Advantages divided by the deviation of their group
    (``group-std``) lose it again: multiply those by this instead.
    """
    return config.correct_class_scale if gold is Label.CORRECT else 1.0


def _read(completion: str) -> Verdict | None:
    try:
        return parse(completion)
    except UnreadableReplyError:
        return None


def _scale(reward: float, gold: Label | None, config: RewardConfig) -> float | None:
    if gold is None:
        return None
    return config.wrong + class_scale(gold, config) * (reward - config.wrong)


def _is_worth_paying(justification: str, texts: Sequence[str]) -> bool:
    passages = _PASSAGE.findall(justification)
    if sum(map(len, passages)) > MAX_QUOTED_SHARE * sum(map(len, texts)):
        return False
    # The pattern is simpler than that of ``check_quotes``: what it finds is checked once more.
    telling = [p for p in passages if sum(map(str.isalnum, p)) >= MIN_QUOTE_LETTERS]
    return check_quotes(" ".join(f'"{p}"' for p in telling), texts).num_verbatim > 0
