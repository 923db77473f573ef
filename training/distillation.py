"""Self-distillation: a policy's own right replies, as what it is taught next.

Rejection sampling (STaR, Zelikman et al. 2022, arXiv 2203.14465; RFT, Yuan et al. 2023, arXiv
2308.01825): several replies to each training example are drawn from the policy, and those that
reach the gold class and quote nothing that is not there are kept. It can only teach a form that the
policy writes already. A small model writes none unasked (of the embedded one's replies none ends in
a verdict), so it draws from the adapter of a finished templated warm start, and goes on from it.

What was drawn lies in ``warmstart/replies``, so that an interrupted stage draws only the rest. Each
part of it has random numbers of its own: the rest is what it would have been.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contract.errors import UnreadableReplyError
from contract.labels import Label
from contract.prompt import OUTPUT_BUDGET_TOKENS
from contract.reply import Verdict, parse
from evaluation.justifications import check_quotes
from training.errors import CheckpointError, ConfigError, DataError, ModelError
from training.inputs import WARMSTART, changed_inputs, stage_inputs
from training.judging import generate
from training.merging import hash_adapter
from training.runs import DONE, write_json
from training.validation import pick_rows

if TYPE_CHECKING:
    from peft import PeftModel

    from training.config import RunConfig
    from training.models import Codec
    from training.records import Record
    from training.runs import RunFolder

logger = logging.getLogger(__name__)

TEMPERATURE = 1.0
MAX_KEPT = 2
"""Replies that are kept for an example: easy ones would otherwise outnumber the others."""

PART_RECORDS = 32
"""Examples whose replies are drawn and written together."""

_MADE_FROM = "made_from.json"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A reply as it was drawn.

    Attributes:
        text: Without special tokens.
        is_truncated: It was cut off at the contract's budget.
    """

    text: str
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class Distilled:
    """What is taught.

    Attributes:
        records: With at least one kept reply; of each set as many of one class as of the other.
        justifications: Record -> its kept replies without their verdicts, at most ``MAX_KEPT``.
    """

    records: tuple[Record, ...]
    justifications: Mapping[Record, tuple[str, ...]]


def distil(
    config: RunConfig, run: RunFolder, codec: Codec, model: PeftModel, records: Sequence[Record]
) -> Distilled:
    """Draw replies to the training examples and keep the right ones.

    Args:
        config: Of the run.
        run: Its folder.
        codec: Of the model.
        model: The policy.
        records: Of the training part.

    Raises:
        DataError: Too few replies are right for anything to be taught.
        CheckpointError: The replies in the run folder were drawn from other inputs, or cannot be
            read.
    """
    settings = config.warmstart
    if settings.num_records is not None:
        records = pick_rows(records, settings.num_records, config.seed)
    limit = config.model.max_prompt_tokens
    asked = [record for record in records if len(codec.prompt(record.example)) <= limit]
    drawn = draw_replies(config, run, codec, model, asked)
    kept = {
        record: justifications
        for record, replies in zip(asked, drawn, strict=True)
        if (justifications := keep_right(record, replies))
    }
    chosen = balance(list(kept), config.seed)
    told = [_read(reply) is not None for replies in drawn for reply in replies]
    logger.info(
        "self-distillation: of %d replies to %d records (%d left out: prompts over %d tokens) "
        "%.0f %% end in a verdict; %d records have a right one, %d are taught, both classes alike",
        len(told),
        len(asked),
        len(records) - len(asked),
        limit,
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
    return Distilled(tuple(chosen), {record: kept[record] for record in chosen})


def draw_replies(
    config: RunConfig, run: RunFolder, codec: Codec, model: PeftModel, records: Sequence[Record]
) -> list[list[Drawn]]:
    """Return ``num_samples`` replies to each record, from the run folder as far as it has them.

    Raises:
        CheckpointError: Those in the run folder were drawn from other inputs, or cannot be read.
    """
    import torch

    folder = run.stage(WARMSTART).path / "replies"
    _check_origin(folder, config, run)
    drawn: list[list[Drawn]] = []
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
) -> list[list[Drawn]]:
    num = config.warmstart.num_samples
    size = max(1, config.evaluation.batch_size // num)
    prompts = [codec.prompt(record.example) for record in records]
    order = sorted(range(len(records)), key=lambda i: len(prompts[i]))
    drawn: list[list[Drawn]] = [[] for _ in records]
    for start in range(0, len(order), size):
        part = order[start : start + size]
        asked = [prompts[i] for i in part]
        replies = generate(model, codec, asked, OUTPUT_BUDGET_TOKENS, TEMPERATURE, num)
        for place, i in enumerate(part):
            drawn[i] = [
                Drawn(codec.decode(reply.tokens), reply.is_truncated)
                for reply in replies[place * num : (place + 1) * num]
            ]
    return drawn


def keep_right(record: Record, replies: Sequence[Drawn]) -> tuple[str, ...]:
    """Return the justifications of the first right replies that differ, at most ``MAX_KEPT``.

    Right is a reply that ends by itself in the gold class, and whose quotes all stand in the
    knowledge, the question or the response.
    """
    texts = [*(record.knowledge or ()), record.question or "", record.response]
    kept: dict[str, str] = {}
    for reply in replies:
        verdict = _read(reply)
        if verdict is None or verdict.label is not record.label:
            continue
        quotes = check_quotes(verdict.justification, texts)
        if quotes.num_quotes == quotes.num_verbatim:
            kept.setdefault(" ".join(verdict.justification.split()), verdict.justification)
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


def check_adapter(config: RunConfig, model: PeftModel) -> None:
    """Refuse an adapter to go on from that is not what the configuration says.

    Raises:
        ConfigError: Its rank or scale is another.
        ModelError: It was trained under another contract.
    """
    own = model.peft_config["default"]
    if (own.r, own.lora_alpha) != (config.model.rank, config.model.alpha):
        raise ConfigError(
            f"warmstart.adapter has rank {own.r} and alpha {own.lora_alpha}: set model.rank and "
            "model.alpha to these"
        )
    adapter = config.warmstart.adapter or Path()
    try:
        mark = json.loads((adapter.parent / DONE).read_text(encoding="utf-8"))
        contract = mark["inputs"]["contract"]
    except (OSError, ValueError, KeyError, TypeError):
        logger.warning("%s: nothing says under which contract it was trained", adapter)
        return
    ours = stage_inputs(config, WARMSTART, Path())["contract"]
    if contract != ours:
        raise ModelError(
            f"{adapter} was trained under another contract ({contract}, this code has {ours}): "
            "train the warm start again"
        )


def _read(reply: Drawn) -> Verdict | None:
    """Read a reply as the service does, which takes none that was cut off."""
    try:
        return None if reply.is_truncated else parse(reply.text)
    except UnreadableReplyError:
        return None


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


def _write(path: Path, records: Sequence[Record], drawn: Sequence[Sequence[Drawn]]) -> None:
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        for record, replies in zip(records, drawn, strict=True):
            row = {"record": _name(record), "replies": [asdict(reply) for reply in replies]}
            # Escaped, since half a character that was cut off is no valid text.
            file.write(json.dumps(row) + "\n")
    os.replace(partial, path)


def _read_part(path: Path, records: Sequence[Record]) -> list[list[Drawn]]:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        names = [row["record"] for row in rows]
        drawn = [[Drawn(**reply) for reply in row["replies"]] for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}): delete it, and its replies are drawn again"
        ) from error
    if names != [_name(record) for record in records]:
        raise CheckpointError(f"{path} holds other records: delete {path.parent} to draw anew")
    return drawn


def _name(record: Record) -> str:
    return f"{record.set_name}/{record.id}"
