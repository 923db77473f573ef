"""What a policy says itself: several replies to each training example, drawn once and kept.

They lie in ``warmstart/replies``, so that an interrupted stage draws only the rest. Each part of it
has random numbers of its own: the rest is what it would have been. What is taught of them is no
matter of this module, but of ``training/distillation.py`` and ``training/relabelling.py``.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contract.errors import UnreadableReplyError
from contract.prompt import OUTPUT_BUDGET_TOKENS
from contract.reply import Verdict, parse
from training.errors import CheckpointError
from training.inputs import WARMSTART, changed_inputs, stage_inputs
from training.judging import autocast
from training.merging import hash_adapter
from training.models import find_end_ids
from training.rollouts import draw
from training.runs import write_json, write_text
from training.treatment import group_pairs

if TYPE_CHECKING:
    from peft import PeftModel

    from training.config import RunConfig
    from training.models import Codec
    from training.records import Record
    from training.runs import RunFolder

logger = logging.getLogger(__name__)

MAX_KEPT = 2
"""Own justifications that are taught of an example: easy ones would else outnumber the others."""

MAX_PAIR_RECORDS = 8
"""Records of a pair that replies are drawn for."""

PART_RECORDS = 32
"""Examples whose replies are drawn and written together."""

_MADE_FROM = "made_from.json"


@dataclass(frozen=True, slots=True)
class OwnReply:
    """A reply as it was drawn.

    Attributes:
        text: Without special tokens.
        is_truncated: It was cut off at the contract's budget.
    """

    text: str
    is_truncated: bool

    def read(self) -> Verdict | None:
        """Read it as the service does, which takes none that was cut off; None: unreadable."""
        try:
            return None if self.is_truncated else parse(self.text)
        except UnreadableReplyError:
            return None


def unify(justification: str) -> str:
    """Return a justification in the form in which two that differ in blanks alone are one."""
    return " ".join(justification.split())


def pick_asked(config: RunConfig, codec: Codec, records: Sequence[Record]) -> list[Record]:
    """Return the records that replies are drawn for.

    They are about ``num_records`` of pairs in random order, at most ``MAX_PAIR_RECORDS`` of each,
    without prompts over ``model.max_prompt_tokens``.
    """
    if config.warmstart.num_records is not None:
        records = _pick(records, config.warmstart.num_records, config.seed)
    limit = config.model.max_prompt_tokens
    asked = [record for record in records if len(codec.prompt(record.example)) <= limit]
    if len(asked) < len(records):
        logger.warning(
            "%d of %d records are left out: prompts over %d tokens (model.max_prompt_tokens)",
            len(records) - len(asked),
            len(records),
            limit,
        )
    return asked


def _pick(records: Sequence[Record], num_records: int, seed: int) -> list[Record]:
    rng = random.Random(seed)  # noqa: S311 - no secret hangs on it
    pairs = [rows for _, rows in sorted(group_pairs(records).items())]
    picked: list[Record] = []
    for rows in rng.sample(pairs, len(pairs)):
        if len(picked) >= num_records:
            break
        picked += rng.sample(rows, min(MAX_PAIR_RECORDS, len(rows)))
    return picked


def draw_replies(
    config: RunConfig, run: RunFolder, codec: Codec, model: PeftModel, records: Sequence[Record]
) -> list[list[OwnReply]]:
    """Return ``num_samples`` replies to each record, from the run folder as far as it has them.

    Raises:
        CheckpointError: Those in the run folder were drawn from other inputs, or cannot be read.
    """
    import torch

    folder = run.stage(WARMSTART).path / "replies"
    _check_origin(folder, config, run)
    drawn: list[list[OwnReply]] = []
    was_training = model.training
    model.eval()
    for number, start in enumerate(range(0, len(records), PART_RECORDS)):
        part = records[start : start + PART_RECORDS]
        path = folder / f"{number:05d}.jsonl"
        if not path.is_file():
            torch.manual_seed(config.seed * 1_000_003 + number)
            _write(path, part, _draw(config, codec, model, part))
            logger.info("drew replies to %d of %d records", start + len(part), len(records))
        drawn += _read_part(path, part)
    model.train(was_training)
    return drawn


def _draw(
    config: RunConfig, codec: Codec, model: PeftModel, records: Sequence[Record]
) -> list[list[OwnReply]]:
    num, ends = config.warmstart.num_samples, find_end_ids(model, codec)
    size = max(1, config.evaluation.batch_size // num)
    prompts = [codec.prompt(record.example) for record in records]
    # Of like length, so that little is padded.
    order = sorted(range(len(records)), key=lambda i: len(prompts[i]))
    drawn: list[list[OwnReply]] = [[] for _ in records]
    for start in range(0, len(order), size):
        part = order[start : start + size]
        with autocast(model):
            replies = draw(model, [prompts[i] for i in part], num, OUTPUT_BUDGET_TOKENS, ends)
        for place, i in enumerate(part):
            drawn[i] = [
                OwnReply(codec.decode(reply.tokens), reply.tokens[-1] not in ends)
                for reply in replies[place * num : (place + 1) * num]
            ]
    return drawn


def _check_origin(folder: Path, config: RunConfig, run: RunFolder) -> None:
    """Make sure that all parts in the folder are draws from one policy for one set of examples."""
    path = folder / _MADE_FROM
    adapter = config.warmstart.adapter
    inputs = stage_inputs(config, WARMSTART, run.path)
    inputs["adapter's weights"] = None if adapter is None else hash_adapter(adapter)
    if not path.is_file():
        write_json(path, inputs)
        return
    try:
        changes = changed_inputs(json.loads(path.read_text(encoding="utf-8")), inputs)
    except (OSError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): delete {folder}") from error
    if changes:
        raise CheckpointError(
            f"{folder} was drawn from other inputs:\n  "
            + "\n  ".join(changes[:8])
            + "\nDelete it to draw anew, choose another name with --set name=..., or take the "
            "change back"
        )


def _write(path: Path, records: Sequence[Record], drawn: Sequence[Sequence[OwnReply]]) -> None:
    rows = (
        {"record": _name(record), "replies": [asdict(reply) for reply in replies]}
        for record, replies in zip(records, drawn, strict=True)
    )
    # Escaped, since half a character that was cut off is no valid text.
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _read_part(path: Path, records: Sequence[Record]) -> list[list[OwnReply]]:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        names = [row["record"] for row in rows]
        drawn = [[OwnReply(**reply) for reply in row["replies"]] for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}): delete it, and its replies are drawn again"
        ) from error
    if names != [_name(record) for record in records]:
        raise CheckpointError(f"{path} holds other records: delete {path.parent} to draw anew")
    return drawn


def _name(record: Record) -> str:
    return f"{record.set_name}/{record.id}"
