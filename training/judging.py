"""What a policy answers: the odds at the label, and its greedy or sampled replies.

Plain transformers, for training and its checks; serving has its own engine, and
``tests/integration/test_train_serve.py`` compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.errors import UnreadableReplyError
from contract.labels import Label
from contract.reply import parse, split_justification
from training.models import Codec, label_log_odds
from training.tries import Target, fold, target_logits

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from training.records import Record


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy said of one record, read as the service reads it.

    Attributes:
        reply: The whole text; None on the short path.
        justification: What stands before the verdict; None on the short path.
        label: The class that the verdict line names, or after an unreadable reply the likelier
            one; None where nothing was asked for.
        is_readable: Whether the reply held a verdict.
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
    """
    prompts = [codec.prompt(record.example) for record in records]
    order = sorted(range(len(records)), key=lambda i: len(prompts[i]))
    judged: dict[int, Judgement] = {}
    again: dict[int, Reply] = {}
    for start in range(0, len(order), batch_size):
        part = order[start : start + batch_size]
        replies = generate(model, codec, [prompts[i] for i in part], max_new_tokens)
        for i, reply in zip(part, replies, strict=True):
            text = codec.decode(reply.tokens)
            try:
                verdict = parse(text)
            except UnreadableReplyError:
                again[i] = reply
                continue
            if reply.label_log_odds is None:
                again[i] = reply
                continue
            odds = reply.label_log_odds
            judged[i] = Judgement(text, verdict.justification, verdict.label, True, odds)
    if again:
        texts = {i: codec.decode(reply.tokens) for i, reply in again.items()}
        cues = {i: split_justification(text) for i, text in texts.items()}
        values = label_odds(
            model, codec, [records[i] for i in again], [cues[i] or None for i in again], batch_size
        )
        for i, odds in zip(again, values, strict=True):
            judged[i] = Judgement(texts[i], cues[i], _likelier(odds), False, odds)
    return [judged[i] for i in range(len(records))]


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
    """A reply as it was drawn.

    Attributes:
        tokens: Its token ids, without the end of the turn.
        label_log_odds: log P(hallucination) - log P(correct) where its last label token was drawn;
            None where there is none.
    """

    tokens: list[int]
    label_log_odds: float | None


def generate(
    model: PreTrainedModel,
    codec: Codec,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    temperature: float | None = None,
) -> list[Reply]:
    """Return a reply to each prompt.

    Args:
        model: The policy.
        codec: Of the model.
        prompts: Token ids; a prompt may stand more than once.
        max_new_tokens: Longest reply.
        temperature: To sample at; None for greedy replies.
    """
    import torch

    end = codec.tokenizer.eos_token_id
    longest = max(map(len, prompts))
    tokens = torch.full((len(prompts), longest), int(codec.tokenizer.pad_token_id or 0))
    mask = torch.zeros_like(tokens)
    for i, prompt in enumerate(prompts):
        tokens[i, longest - len(prompt) :] = torch.tensor(prompt)
        mask[i, longest - len(prompt) :] = 1
    how: dict[str, object] = {"do_sample": False}
    if temperature is not None:
        how = {"do_sample": True, "temperature": temperature, "top_p": 1.0, "top_k": 0}
    with torch.inference_mode(), _autocast(model):
        output = model.generate(
            input_ids=tokens.to(model.device),
            attention_mask=mask.to(model.device),
            max_new_tokens=max_new_tokens,
            eos_token_id=end,
            pad_token_id=codec.tokenizer.pad_token_id,
            repetition_penalty=1.0,
            output_logits=True,
            return_dict_in_generate=True,
            **how,
        )
    odds = torch.stack([label_log_odds(logits.float(), codec) for logits in output.logits], 1)
    labels = set(codec.label_token_ids.values())
    replies = []
    for row, values in zip(output.sequences[:, longest:].tolist(), odds.tolist(), strict=True):
        own = row[: row.index(end)] if end in row else row
        places = [place for place, token in enumerate(own) if token in labels]
        replies.append(Reply(own, values[places[-1]] if places else None))
    return replies


def _autocast(model: PreTrainedModel) -> torch.autocast:
    import torch

    is_half = model.dtype == torch.bfloat16
    return torch.autocast(model.device.type, torch.bfloat16, enabled=is_half)
