"""What a policy answers: the odds at the label, and its greedy or sampled replies.

Plain transformers, for training and its checks; serving has its own engine, and
``tests/integration/test_train_serve.py`` compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contract.errors import UnreadableReplyError
from contract.labels import Label
from contract.reply import parse, split_justification
from training.models import Codec, label_log_odds
from training.tries import Target, backbone, fold, target_logits

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from training.records import Record


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy said of one record, read as the service reads it.

    Attributes:
        reply: The whole text; None on the short path.
        justification: What stands before the verdict; None on the short path, and where a reply
            begins with its verdict.
        label: The likelier class at the label; a tie is a hallucination.
        is_readable: Whether the reply ended by itself, in a verdict. Of the short path always.
        log_odds: log P(hallucination) - log P(correct) at the label, natural logarithm.
    """

    reply: str | None
    justification: str | None
    label: Label
    is_readable: bool
    log_odds: float

    @classmethod
    def of(
        cls, reply: str | None, justification: str | None, is_readable: bool, log_odds: float
    ) -> Judgement:
        """Return the judgement that follows from the odds."""
        label = Label.HALLUCINATION if log_odds >= 0 else Label.CORRECT
        return cls(reply, justification, label, is_readable, log_odds)


@dataclass(frozen=True, slots=True)
class _Read:
    """A reply as it was read: what stands before the verdict, and whether there is one."""

    justification: str | None
    is_readable: bool


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
    with torch.inference_mode(), _autocast(model):
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
    replies = [""] * len(records)
    read = [_Read(None, False)] * len(records)
    for start in range(0, len(order), batch_size):
        part = order[start : start + batch_size]
        generated = generate(model, codec, [prompts[i] for i in part], max_new_tokens)
        for i, tokens in zip(part, generated, strict=True):
            replies[i] = codec.decode(tokens)
            read[i] = _read(replies[i], is_whole=len(tokens) < max_new_tokens)
    odds = label_odds(model, codec, records, [each.justification for each in read], batch_size)
    return [
        Judgement.of(reply, each.justification, each.is_readable, value)
        for reply, each, value in zip(replies, read, odds, strict=True)
    ]


def _read(reply: str, is_whole: bool) -> _Read:
    """Read a reply as the service does, which takes none that was cut off."""
    if is_whole:
        try:
            return _Read(parse(reply).justification, True)
        except UnreadableReplyError:
            pass
    return _Read(split_justification(reply) or None, False)


def judge_shortly(
    model: PreTrainedModel, codec: Codec, records: Sequence[Record], batch_size: int = 32
) -> list[Judgement]:
    """Return the verdicts of the short path: one token, no justification."""
    odds = label_odds(model, codec, records, [None] * len(records), batch_size)
    return [Judgement.of(None, None, True, value) for value in odds]


def generate(
    model: PreTrainedModel,
    codec: Codec,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    temperature: float | None = None,
    num_replies: int = 1,
) -> list[list[int]]:
    """Return replies' token ids, without the end of the turn.

    A reply of ``max_new_tokens`` tokens has not ended.

    Args:
        model: The policy.
        codec: Of the model.
        prompts: Token ids.
        max_new_tokens: Longest reply.
        temperature: To sample at; None for greedy replies.
        num_replies: To each prompt, one after the other; the prompt is computed once for all.
    """
    import torch

    end = codec.tokenizer.eos_token_id
    longest = max(map(len, prompts))
    tokens = torch.full((len(prompts), longest), int(codec.tokenizer.pad_token_id or 0))
    mask = torch.zeros_like(tokens)
    for i, prompt in enumerate(prompts):
        tokens[i, longest - len(prompt) :] = torch.tensor(prompt)
        mask[i, longest - len(prompt) :] = 1
    tokens, mask = tokens.to(model.device), mask.to(model.device)
    how: dict[str, Any] = {"do_sample": temperature is not None}
    if temperature is not None:
        how |= {"temperature": temperature, "top_p": 1.0, "top_k": 0}
    with torch.inference_mode(), _autocast(model):
        if num_replies > 1:
            how["past_key_values"] = _compute_once(model, tokens, mask, num_replies)
            tokens = tokens.repeat_interleave(num_replies, 0)
            mask = mask.repeat_interleave(num_replies, 0)
        output = model.generate(
            input_ids=tokens,
            attention_mask=mask,
            max_new_tokens=max_new_tokens,
            eos_token_id=end,
            pad_token_id=codec.tokenizer.pad_token_id,
            repetition_penalty=1.0,
            **how,
        )
    replies = []
    for row in output[:, longest:].tolist():
        replies.append(row[: row.index(end)] if end in row else row)
    return replies


def _compute_once(
    model: PreTrainedModel, tokens: torch.Tensor, mask: torch.Tensor, num_replies: int
) -> object:
    """Return keys and values of all but the last token of each prompt, ``num_replies`` times."""
    from transformers import DynamicCache

    cache = DynamicCache()
    backbone(model)(
        input_ids=tokens[:, :-1],
        attention_mask=mask[:, :-1],
        position_ids=(mask[:, :-1].cumsum(1) - 1).clamp(min=0),
        past_key_values=cache,
        use_cache=True,
    )
    cache.batch_repeat_interleave(num_replies)
    return cache


def _autocast(model: PreTrainedModel) -> torch.autocast:
    import torch

    is_half = model.dtype == torch.bfloat16
    return torch.autocast(model.device.type, torch.bfloat16, enabled=is_half)
