"""Relabelling: the gold class after what the policy says itself, right or not.

In a templated warm start the justification before the label is always right, so that the policy
learns to be sure of whatever it has just written; when serving, its own is often wrong. DAgger
(Ross et al. 2011, arXiv 1011.0686) trains on the states that the policy itself reaches:
justifications are drawn from it, and after each the gold class is taught. The labels of a record
weigh as much as the policy writes what stands before them: the loss is the label's proper scoring
rule under the policy's own distribution of justifications. Only the gold one is taught as such.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from training.evidence import PairKey, justify_record
from training.own_replies import MAX_KEPT, OwnReply, draw_replies, pick_asked, unify
from training.supervision import Justification

if TYPE_CHECKING:
    from peft import PeftModel

    from training.config import RunConfig
    from training.models import Codec
    from training.records import Record
    from training.runs import RunFolder

logger = logging.getLogger(__name__)

LEAST_GOLD_SHARE = 0.25
"""What the gold justification counts as where the policy drew it less often: the label after the
right one must not be forgotten."""


def relabel(
    config: RunConfig,
    run: RunFolder,
    codec: Codec,
    model: PeftModel,
    records: Sequence[Record],
    answers: Mapping[PairKey, str],
) -> dict[Record, tuple[Justification, ...]]:
    """Draw replies to the training examples, to be taught with the gold class.

    Args:
        config: Of the run.
        run: Its folder.
        codec: Of the model.
        model: The policy.
        records: Of the training part.
        answers: From ``gold_answers``.

    Returns:
        Record -> what its replies say first, from ``weigh_justifications``.

    Raises:
        CheckpointError: The replies in the run folder were drawn from other inputs, or cannot be
            read.
    """
    asked = pick_asked(config, codec, records)
    drawn = draw_replies(config, run, codec, model, asked)
    golds = [justify_record(record, answers) for record in asked]
    readable = [
        (gold, verdict.justification)
        for gold, replies in zip(golds, drawn, strict=True)
        for reply in replies
        if (verdict := reply.read()) is not None
    ]
    num_gold = sum(unify(gold) == unify(said) for gold, said in readable)
    logger.info(
        "relabelling: of %d replies to %d records %.0f %% end in a verdict; %.0f %% of these have "
        "the gold justification",
        sum(map(len, drawn)),
        len(asked),
        100 * len(readable) / max(1, sum(map(len, drawn))),
        100 * num_gold / max(1, len(readable)),
    )
    return {
        record: weigh_justifications(gold, replies)
        for record, gold, replies in zip(asked, golds, drawn, strict=True)
    }


def weigh_justifications(gold: str, replies: Sequence[OwnReply]) -> tuple[Justification, ...]:
    r"""Return the gold justification and the most frequent own ones, whatever class they reached.

    Args:
        gold: By template; its own tokens are taught.
        replies: As they were drawn; those that cannot be read do not count.

    Returns:
        The gold one first, then at most ``MAX_KEPT`` others, whose labels alone are taught. Each
        label has the share with which its justification was drawn, the gold one's
        ``LEAST_GOLD_SHARE`` at least, scaled to the sum of 1.

    Example:
        >>> said = ["It is red.", "It is red.", "It is wet."]
        >>> replies = [OwnReply(f"{text}\nClass: correct", False) for text in said]
        >>> for each in weigh_justifications("It is wet.", replies):
        ...     print(each.text, round(each.label_share, 2), each.is_taught)
        It is wet. 0.33 True
        It is red. 0.67 False
    """
    said = [v.justification for reply in replies if (v := reply.read()) is not None]
    texts = {unify(text): text for text in reversed(said)}
    counts = Counter(map(unify, said))
    num_gold = counts.pop(unify(gold), 0)
    # Of equals, those that were drawn first.
    kept = counts.most_common(MAX_KEPT)
    gold_weight = max(num_gold, LEAST_GOLD_SHARE * max(1, len(said)))
    whole = gold_weight + sum(count for _, count in kept)
    return (
        Justification(gold, gold_weight / whole),
        *(Justification(texts[key], count / whole, is_taught=False) for key, count in kept),
    )
