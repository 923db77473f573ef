"""What a policy answers: the odds at the label, and its greedy replies.

Plain transformers, for training and its checks; serving has its own engine, and
``tests/integration/test_train_serve.py`` compares the two. ``training/rollouts.py`` samples.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.errors import UnreadableReplyError
from contract.labels import Label
from contract.reply import Verdict, parse, split_justification
from training.models import Codec, find_end_ids, label_log_odds
from training.tries import Target, fold, pad_left, target_logits

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from training.records import Record


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy said of one record, read as the service reads it.

    Attributes:
        reply: The whole text; None on the short path.
        justification: What stands before the verdict; None on the short path, and where there is
            nothing.
        label: The class that the verdict line names; the likelier one on the short path and after
            an unreadable reply, where a tie is a hallucination.
        is_readable: Whether the reply ended by itself, in a verdict. Of the short path always.
        log_odds: log P(hallucination) - log P(correct) at the label, natural logarithm.
    """

    reply: str | None
    justification: str | None
    label: Label
    is_readable: bool
    log_odds: float


def label_odds(
    model: PreTrainedModel,
    codec: Codec,
    records: Sequence[Record],
    justifications: Sequence[str | None],
    batch_size: int = 32,
) -> list[float]:
    """Return the log-odds of hallucination at the label, [records], without generating.

    Args:
        model: The policy.
        codec: Of the model.
        records: What is judged.
        justifications: What the reply says first; None for the short path.
        batch_size: Records at once.
    """
    import torch

    sequences = [
        [*codec.prompt(record.example), *codec.cue(text)]
        for record, text in zip(records, justifications, strict=True)
    ]
    order = sorted(range(len(records)), key=lambda i: len(sequences[i]))
    result = [0.0] * len(records)
    with torch.inference_mode(), autocast(model):
        for start in range(0, len(order), batch_size):
            part = order[start : start + batch_size]
            # One token more, whose prediction is what we want; which one does not matter.
            groups = [[[*sequences[i], 0]] for i in part]
            targets = [Target(n, 0, len(groups[n][0]) - 1) for n in range(len(part))]
            logits = target_logits(model, fold(groups), targets)
            odds = label_log_odds(logits, codec).tolist()
            for i, value in zip(part, odds, strict=True):
                result[i] = value
    return result


def judge(
    model: PreTrainedModel,
    codec: Codec,
    records: Sequence[Record],
    max_new_tokens: int,
    batch_size: int = 32,
) -> list[Judgement]:
    """Return greedy replies and the odds at their labels, in the order of the records.

    An unreadable reply is read again after what it holds of a justification, as in serving.

    Args:
        model: The policy.
        codec: Of the model.
        records: What is judged.
        max_new_tokens: Longest reply; one that has not ended by then is unreadable.
        batch_size: Records at once.
    """
    prompts = [codec.prompt(record.example) for record in records]
    order = sorted(range(len(records)), key=lambda i: len(prompts[i]))
    judged: dict[int, Judgement] = {}
    again: dict[int, str] = {}
    for start in range(0, len(order), batch_size):
        part = order[start : start + batch_size]
        replies = generate(model, codec, [prompts[i] for i in part], max_new_tokens)
        for i, reply in zip(part, replies, strict=True):
            text = codec.decode(reply.tokens)
            verdict = None if reply.is_truncated else _read(text)
            if verdict is None or reply.label_log_odds is None:
                again[i] = text
                continue
            judged[i] = Judgement(
                text, verdict.justification, verdict.label, True, reply.label_log_odds
            )
    cues = {i: split_justification(text) or None for i, text in again.items()}
    odds = label_odds(model, codec, [records[i] for i in again], list(cues.values()), batch_size)
    for i, value in zip(again, odds, strict=True):
        judged[i] = Judgement(again[i], cues[i], _likelier(value), False, value)
    return [judged[i] for i in range(len(records))]


def _read(reply: str) -> Verdict | None:
    try:
        return parse(reply)
    except UnreadableReplyError:
        return None


def _likelier(log_odds: float) -> Label:
    return Label.HALLUCINATION if log_odds >= 0 else Label.CORRECT


def judge_shortly(
    model: PreTrainedModel, codec: Codec, records: Sequence[Record], batch_size: int = 32
) -> list[Judgement]:
    """Return the verdicts of the short path: one token, no justification."""
    odds = label_odds(model, codec, records, [None] * len(records), batch_size)
    return [Judgement(None, None, _likelier(value), True, value) for value in odds]


@dataclass(frozen=True, slots=True)
class Reply:
    """A greedy reply.

    Attributes:
        tokens: Its token ids, without the end of the turn.
        label_log_odds: log P(hallucination) - log P(correct) where its last label token stands;
            None where there is none.
        is_truncated: It was cut off at the longest allowed length.
    """

    tokens: list[int]
    label_log_odds: float | None
    is_truncated: bool


def generate(
    model: PreTrainedModel, codec: Codec, prompts: Sequence[Sequence[int]], max_new_tokens: int
) -> list[Reply]:
    """Return the greedy reply to each prompt.

    Args:
        model: The policy.
        codec: Of the model.
        prompts: Token ids.
        max_new_tokens: Longest reply.
    """
    import torch
    from transformers import LogitsProcessorList

    pad, ends = int(codec.tokenizer.pad_token_id or 0), find_end_ids(model, codec)
    tokens, mask = (each.to(model.device) for each in pad_left(prompts, pad))
    odds: list[torch.Tensor] = []

    # All logits of all steps would be gigabytes.
    def read_odds(_: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        odds.append(label_log_odds(logits.float(), codec))
        return logits

    with torch.inference_mode(), autocast(model):
        output = model.generate(
            input_ids=tokens,
            attention_mask=mask,
            max_new_tokens=max_new_tokens,
            do_sample=False,
            eos_token_id=sorted(ends),
            pad_token_id=pad,
            repetition_penalty=1.0,
            logits_processor=LogitsProcessorList([read_odds]),
        )
    rows, values = output[:, tokens.shape[1] :].tolist(), torch.stack(odds, 1).tolist()
    return [_to_reply(codec, ends, *each) for each in zip(rows, values, strict=True)]


def _to_reply(codec: Codec, ends: Collection[int], row: list[int], odds: list[float]) -> Reply:
    labels = set(codec.label_token_ids.values())
    length = next((i for i, token in enumerate(row) if token in ends), None)
    own = row[:length]
    place = max((i for i, token in enumerate(own) if token in labels), default=None)
    return Reply(own, None if place is None else odds[place], is_truncated=length is None)


def autocast(model: PreTrainedModel) -> torch.autocast:
    """Return the context that a policy computes in: the adapter of a half base is float32."""
    import torch

    is_half = model.dtype == torch.bfloat16
    return torch.autocast(model.device.type, torch.bfloat16, enabled=is_half)
