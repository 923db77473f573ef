"""Whether exported weights still say what the trained ones said: fixed prompts, asked twice.

The prompts are in no training set. Each is answered greedily, and the odds at the label are read
without a justification, as the service does both. It measures what merging, casting and saving
changed, not how good the verdicts are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.errors import UnreadableReplyError
from contract.labels import Label
from contract.prompt import OUTPUT_BUDGET_TOKENS
from contract.reply import parse
from training.errors import ExportError
from training.judging import generate, label_odds
from training.records import Record

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from training.models import Codec

FULL_PRECISION = "float32"
MIN_LABEL_AGREEMENT = 0.95
"""Share of equal classes below which weights of less precision are not exported."""

# In full precision merging only changes the order of sums: 1e-5 at most with the models here.
_MAX_ROUNDING = 1e-2
_BATCH_SIZE = 24

# Knowledge, question, a response that it supports, one that it does not.
_FACTS: tuple[tuple[tuple[str, ...] | None, str | None, str, str], ...] = (
    (
        ("The ferry Alma sails from Port Arden at 07:15 on weekdays. It carries 40 cars.",),
        "When does the Alma leave on weekdays?",
        "At 07:15.",
        "At 08:45.",
    ),
    (
        ("Mira Olsen founded the bakery in 1987. Her son Jon took it over in 2010.",),
        "Who took over the bakery in 2010?",
        "Jon, the founder's son, took it over.",
        "Mira Olsen took it over.",
    ),
    (
        ("The old mill has three floors.", "The new mill, built in 1961, has five floors."),
        "How many floors does the new mill have?",
        "Five",
        "Three",
    ),
    (
        ("The trial had 212 patients. Side effects were mild and ended within a week.",),
        None,
        "All side effects in the trial of 212 patients were mild.",
        "The trial of 212 patients was stopped because of severe side effects.",
    ),
    (
        ("In the third quarter revenue rose by 4 percent to 61 million, while costs fell.",),
        None,
        "Revenue grew to 61 million in the third quarter.",
        "Revenue fell to 61 million in the third quarter.",
    ),
    (
        ("The river Tal rises in the Grey Hills and flows north into Lake Senn.",),
        "Into which lake does the Tal flow?",
        "Lake Senn",
        "Lake Arrow",
    ),
    (
        ("Both teams scored once before half-time. Dalby won on penalties.",),
        "Did Dalby win?",
        "Yes, on penalties.",
        "No, the match was abandoned at half-time.",
    ),
    (
        ("Le mus\u00e9e ouvre \u00e0 10 heures. L'entr\u00e9e est gratuite le dimanche.",),
        "Quand l'entr\u00e9e est-elle gratuite ?",
        "Le dimanche.",
        "Le lundi.",
    ),
    (
        ("The contract ends on 31 March unless either side renews it in writing.",),
        None,
        "Without a written renewal the contract ends on 31 March.",
        "The contract renews itself on 31 March.",
    ),
    (
        ("Nadia Brandt writes crime novels. Her sister Vera illustrates children's books.",),
        "What does Vera Brandt do?",
        "She illustrates children's books.",
        "She writes crime novels.",
    ),
    (None, "How many days has a week?", "A week has seven days.", "A week has nine days."),
    (None, None, "Water freezes at 0 degrees Celsius.", "Water freezes at 50 degrees Celsius."),
)


def _make_probes() -> tuple[Record, ...]:
    return tuple(
        Record(
            id=f"{number}-{label}",
            pair_id=str(number),
            set_name="probes",
            task="general",
            knowledge=knowledge,
            question=question,
            response=response,
            label=label,
        )
        for number, (knowledge, question, right, wrong) in enumerate(_FACTS)
        for label, response in ((Label.CORRECT, right), (Label.HALLUCINATION, wrong))
    )


PROBES = _make_probes()
"""24 prompts: with one text, with two, without knowledge, without question, in two languages."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model says to one probe.

    Attributes:
        prompt_tokens: What it was asked, as token ids.
        reply: Greedy, up to the contract's budget.
        log_odds: log P(hallucination) - log P(correct) at the label, without a justification.
    """

    prompt_tokens: tuple[int, ...]
    reply: str
    log_odds: float

    @property
    def label(self) -> Label:
        """The likelier class; a tie is a hallucination."""
        return Label.HALLUCINATION if self.log_odds >= 0 else Label.CORRECT

    @property
    def replied_label(self) -> Label | None:
        """The class that the reply names; None where it is unreadable."""
        try:
            return parse(self.reply).label
        except UnreadableReplyError:
            return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far the exported weights agree with the trained ones.

    Attributes:
        dtype: Number format of the exported weights.
        num_prompts: How many probes were asked.
        equal_reply_share: Share of equal greedy replies, in [0, 1].
        label_agreement: Share of probes whose class is equal without a justification and, where
            both replies are readable, with one; in [0, 1].
        max_log_odds_change: Largest absolute change of the log-odds at the label, natural
            logarithm.
    """

    dtype: str
    num_prompts: int
    equal_reply_share: float
    label_agreement: float
    max_log_odds_change: float


def ask_probes(model: PreTrainedModel, codec: Codec) -> list[Answer]:
    """Return the answers to ``PROBES``, in their order."""
    prompts = [codec.prompt(record.example) for record in PROBES]
    replies: list[str] = []
    for start in range(0, len(prompts), _BATCH_SIZE):
        batch = prompts[start : start + _BATCH_SIZE]
        drawn = generate(model, codec, batch, OUTPUT_BUDGET_TOKENS)
        replies += [codec.decode(reply.tokens) for reply in drawn]
    odds = label_odds(model, codec, PROBES, [None] * len(PROBES), _BATCH_SIZE)
    return [
        Answer(tuple(tokens), reply, value)
        for tokens, reply, value in zip(prompts, replies, odds, strict=True)
    ]


def compare_answers(before: Sequence[Answer], after: Sequence[Answer], dtype: str) -> Comparison:
    """Compare the trained weights' answers with those of the exported ones.

    Raises:
        ExportError: A prompt has other tokens; or the weights are in full precision and a reply
            differs; or they are not, and fewer classes agree than ``MIN_LABEL_AGREEMENT``. The
            worst probe is named.
    """
    pairs = [_Pair(*each) for each in zip(PROBES, before, after, strict=True)]
    for pair in pairs:
        pair.check()
    comparison = Comparison(
        dtype=dtype,
        num_prompts=len(pairs),
        equal_reply_share=sum(pair.is_equal for pair in pairs) / len(pairs),
        label_agreement=sum(pair.is_agreeing for pair in pairs) / len(pairs),
        max_log_odds_change=max(pair.change for pair in pairs),
    )
    if dtype == FULL_PRECISION:
        bad = [pair for pair in pairs if not pair.is_equal or pair.change > _MAX_ROUNDING]
        if bad:
            raise _differ(
                bad,
                f"{len(pairs) - len(bad)} of {len(pairs)} answers are equal, all must be",
                "The adapter was not merged into the weights that it was trained on: check "
                "model.name and model.revision",
            )
    elif comparison.label_agreement < MIN_LABEL_AGREEMENT:
        raise _differ(
            [pair for pair in pairs if not pair.is_agreeing],
            f"{comparison.label_agreement:.1%} of {len(pairs)} classes are equal, "
            f"{MIN_LABEL_AGREEMENT:.0%} must be",
            'Export with export.dtype = "float32", or train longer so that fewer cases are close',
        )
    return comparison


@dataclass(frozen=True, slots=True)
class _Pair:
    probe: Record
    old: Answer
    new: Answer

    def check(self) -> None:
        if self.old.prompt_tokens != self.new.prompt_tokens:
            raise ExportError(
                "the exported tokenizer gives other tokens than the trained one (probe "
                f"{self.probe.id}): the base model's tokenizer files do not load as they were "
                "written; use another revision of the base model"
            )
        if not (math.isfinite(self.old.log_odds) and math.isfinite(self.new.log_odds)):
            raise ExportError(
                f"the weights give no finite numbers (probe {self.probe.id}): export the adapter "
                "of an earlier checkpoint, and train again with a lower learning rate"
            )

    @property
    def change(self) -> float:
        return abs(self.new.log_odds - self.old.log_odds)

    @property
    def is_equal(self) -> bool:
        return self.old.reply == self.new.reply

    @property
    def is_agreeing(self) -> bool:
        replied = (self.old.replied_label, self.new.replied_label)
        return self.old.label is self.new.label and (None in replied or len({*replied}) == 1)


def _differ(bad: Sequence[_Pair], found: str, remedy: str) -> ExportError:
    worst = max(bad, key=lambda pair: pair.change)
    return ExportError(
        f"the exported weights do not answer as the trained ones: {found}. The worst is probe "
        f"{worst.probe.id}: log-odds {worst.old.log_odds:+.4f} before and "
        f"{worst.new.log_odds:+.4f} after, reply {worst.old.reply[:200]!r} before and "
        f"{worst.new.reply[:200]!r} after. {remedy}"
    )
