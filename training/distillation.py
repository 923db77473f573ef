"""Self-distillation: a policy's own right replies, as what it is taught next.

Rejection sampling (STaR, Zelikman et al. 2022, arXiv 2203.14465; RFT, Yuan et al. 2023, arXiv
2308.01825): several replies to each training example are drawn from the policy, and those that
reach the gold class and quote nothing that is not there are kept. It can only teach a form that the
policy writes already. A small model writes none unasked (of the embedded one's replies none ends in
a verdict), so it draws from the adapter of a finished templated warm start, and goes on from it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from contract.labels import Label
from evaluation.justifications import check_quotes
from training.errors import DataError
from training.own_replies import MAX_KEPT, OwnReply, draw_replies, pick_asked, unify
from training.supervision import Justification, share_equally

if TYPE_CHECKING:
    from peft import PeftModel

    from training.config import RunConfig
    from training.models import Codec
    from training.records import Record
    from training.runs import RunFolder

logger = logging.getLogger(__name__)


def distil(
    config: RunConfig, run: RunFolder, codec: Codec, model: PeftModel, records: Sequence[Record]
) -> dict[Record, tuple[Justification, ...]]:
    """Draw replies to the training examples and keep the right ones.

    Args:
        config: Of the run.
        run: Its folder.
        codec: Of the model.
        model: The policy.
        records: Of the training part.

    Returns:
        Record -> its kept justifications, at most ``MAX_KEPT``; of each set as many records of one
        class as of the other.

    Raises:
        DataError: Too few replies are right for anything to be taught.
        CheckpointError: The replies in the run folder were drawn from other inputs, or cannot be
            read.
    """
    asked = pick_asked(config, codec, records)
    drawn = draw_replies(config, run, codec, model, asked)
    kept = {
        record: justifications
        for record, replies in zip(asked, drawn, strict=True)
        if (justifications := keep_right(record, replies))
    }
    chosen = balance(list(kept), config.seed)
    told = [reply.read() is not None for replies in drawn for reply in replies]
    logger.info(
        "self-distillation: of %d replies to %d records %.0f %% end in a verdict; %d records have "
        "a right one, %d are taught, both classes alike",
        len(told),
        len(asked),
        100 * sum(told) / max(1, len(told)),
        len(kept),
        len(chosen),
    )
    if not chosen:
        raise DataError(
            f"of {len(told)} replies {sum(told)} end in a verdict, and no set has right ones of "
            "both classes: set warmstart.adapter to the adapter of a finished templated warm "
            "start, or raise warmstart.num_samples"
        )
    return {record: share_equally(kept[record]) for record in chosen}


def keep_right(record: Record, replies: Sequence[OwnReply]) -> tuple[str, ...]:
    """Return the justifications of the first right replies that differ, at most ``MAX_KEPT``.

    Right is a reply that ends by itself in the gold class, and whose quotes all stand in the
    knowledge, the question or the response.
    """
    texts = [*(record.knowledge or ()), record.question or "", record.response]
    kept: dict[str, str] = {}
    for reply in replies:
        verdict = reply.read()
        if verdict is None or verdict.label is not record.label:
            continue
        quotes = check_quotes(verdict.justification, texts)
        if quotes.num_quotes == quotes.num_verbatim:
            kept.setdefault(unify(verdict.justification), verdict.justification)
    return tuple(kept.values())[:MAX_KEPT]


def balance(records: Sequence[Record], seed: int) -> list[Record]:
    """Return as many records of one class as of the other, in each set, in the same order.

    A policy that leans to one class is right more often there, and would lean further.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret hangs on it
    sides: dict[str, dict[Label, list[Record]]] = {}
    for record in records:
        sides.setdefault(record.set_name, {label: [] for label in Label})[record.label].append(
            record
        )
    chosen: set[Record] = set()
    for name in sorted(sides):
        num = min(map(len, sides[name].values()))
        for side in sides[name].values():
            chosen.update(rng.sample(side, num))
    return [record for record in records if record in chosen]
