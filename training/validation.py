"""Greedy verdicts on the validation part while a stage trains."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from contract.labels import Label
from evaluation.metrics import count_verdicts
from training.judging import Judgement, judge, judge_shortly
from training.models import Codec
from training.records import Record

if TYPE_CHECKING:
    from transformers import Trainer

    from training.monitor import Monitor


def pick_rows(records: Sequence[Record], num_rows: int, seed: int) -> list[Record]:
    """Return whole pairs, each set as often as any other as long as it lasts, about ``num_rows``.

    A pair with more than eight rows gives eight of them. Leave out prompts over the budget first
    (``judged_rows.leave_out_long``).
    """
    rng = random.Random(seed)  # noqa: S311 - no secret hangs on it
    pairs: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        pairs.setdefault(record.set_name, {}).setdefault(record.pair_id, []).append(record)
    queues = []
    for name in sorted(pairs):
        queue = [pairs[name][key] for key in sorted(pairs[name])]
        rng.shuffle(queue)
        queues.append(queue)
    picked: list[Record] = []
    taken = [0] * len(queues)
    while len(picked) < num_rows and any(queues):
        # The set with the fewest rows so far.
        index = min((i for i in range(len(queues)) if queues[i]), key=lambda i: taken[i])
        pair = queues[index].pop()
        rng.shuffle(pair)
        picked += pair[:8]
        taken[index] += len(pair[:8])
    return picked


def measure(records: Sequence[Record], judgements: Sequence[Judgement]) -> dict[str, float]:
    """Return what ``metrics.jsonl`` holds of a validation.

    Args:
        records: What was judged.
        judgements: One for each.
    """
    counts = count_verdicts([record.label for record in records], labels_of(judgements))
    return {
        "f1": counts.f1,
        "precision": counts.precision,
        "recall": counts.recall,
        "balanced_accuracy": counts.balanced_accuracy,
        "predicted_hallucination_share": counts.predicted_hallucination_share,
        "unreadable_rate": counts.unreadable_rate,
    }


def validate_while_training(
    trainer: Trainer,
    monitor: Monitor,
    codec: Codec,
    records: Sequence[Record],
    every_steps: int,
    max_new_tokens: int | None,
) -> None:
    """Judge the records every few steps and at the end, into the monitor's metrics.

    Args:
        trainer: Whose model is judged.
        monitor: Of the stage.
        codec: Of the model.
        records: From ``pick_rows``.
        every_steps: Between two validations.
        max_new_tokens: Longest reply; None to ask for the label alone, in a tenth of the time.
    """
    from transformers import TrainerCallback

    class Validator(TrainerCallback):  # type: ignore[misc]  # its types are not followed
        def on_step_end(self, args: Any, state: Any, control: Any, **_: object) -> None:
            if state.global_step % every_steps == 0 or state.global_step == state.max_steps:
                model = trainer.accelerator.unwrap_model(trainer.model)
                model.eval()
                if max_new_tokens is None:
                    judgements = judge_shortly(model, codec, records)
                else:
                    judgements = judge(model, codec, records, max_new_tokens)
                model.train()
                monitor.log_validation(state.global_step, measure(records, judgements))

    trainer.add_callback(Validator())


def labels_of(judgements: Sequence[Judgement]) -> list[Label | None]:
    """Return the classes that were read; None for what could not be."""
    return [judgement.label if judgement.is_readable else None for judgement in judgements]
