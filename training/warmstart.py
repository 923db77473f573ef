"""The warm start: supervised training in the full format of a reply, before any reward.

Reinforcement needs a policy that is sometimes right in a form that can be read. The justification
that is taught shows evidence and no verdict (``training/evidence.py``); the class is decided at the
label, in both ways that the service asks for it.

The other kinds teach what a policy says itself: its own right replies
(``training/distillation.py``), or the gold class after its own justifications
(``training/relabelling.py``).
"""

from __future__ import annotations

import json
import logging
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from training.config import RunConfig
from training.distillation import distil
from training.errors import ConfigError, ModelError
from training.evidence import gold_answers, justify_record
from training.inputs import WARMSTART, stage_inputs
from training.judged_rows import leave_out_long
from training.lower_rank import lower_rank
from training.models import Codec, base_folder, load_policy, load_tokenizer
from training.monitor import Monitor
from training.records import Record, read_records
from training.relabelling import relabel
from training.runs import DONE
from training.supervision import Group, Justification, group_records, plan_batches
from training.trainer_watch import reporting_integrations, watch
from training.treatment import limit_pairs
from training.validation import pick_rows, validate_while_training

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import TrainingArguments

    from training.runs import RunFolder

logger = logging.getLogger(__name__)


def plan_training(groups: Sequence[Group], config: RunConfig) -> list[list[int]]:
    """Return the groups of each step over all epochs, as the seed has it.

    A set's ``repeat`` is how often its groups stand in an epoch; of a broken number, the rest is
    drawn anew in each.
    """
    rng = random.Random(config.seed)  # noqa: S311 - no secret hangs on it
    repeats = {each.name: each.repeat for each in config.data.sets}
    sizes = [group.num_tokens for group in groups]
    steps: list[list[int]] = []
    for epoch in range(math.ceil(config.warmstart.epochs)):
        share = min(1.0, config.warmstart.epochs - epoch)
        chosen = []
        for index, group in enumerate(groups):
            times = repeats[group.set_name] * share
            chosen += [index] * (int(times) + (rng.random() < times % 1))
        labels = [groups[i].labels for i in chosen]
        batches = plan_batches(
            [sizes[i] for i in chosen], config.warmstart.batch_tokens, rng, labels
        )
        steps += [[chosen[i] for i in batch] for batch in batches]
    return steps[: config.warmstart.max_steps]


def warmstart(config: RunConfig, run: RunFolder, resume: bool = False) -> None:
    """Train the adapter on the run's training data and leave it in ``warmstart/adapter``.

    Args:
        config: Of the run.
        run: Its folder, with prepared data.
        resume: Go on from the last whole checkpoint.

    Raises:
        DataError: The data is not prepared, or holds nothing to teach.
        CheckpointError: There is a checkpoint and ``resume`` was not asked for, or it cannot be
            gone on from.
        ConfigError: The adapter to go on from has another rank.
        ModelError: The base model, or the adapter to go on from, cannot be had.
    """
    folder = base_folder(config.model)
    codec = Codec(load_tokenizer(folder))
    records = read_records(run.data("train"))
    adapter = config.warmstart.adapter
    model = load_policy(config.model, folder, adapter=adapter, seed=config.seed)
    if adapter is not None:
        model = fit_adapter(config, model)
    groups = _make_groups(config, run, codec, model, records)
    steps = plan_training(groups, config)
    logger.info(
        "warm start: %d records in %d groups, %d steps, %d tokens in the first epoch",
        len(records),
        len(groups),
        len(steps),
        sum(group.num_tokens for group in groups),
    )
    _train(config, run, codec, model, groups, steps, resume)


def fit_adapter(config: RunConfig, model: PeftModel) -> PeftModel:
    """Return the policy with the adapter to go on from, brought to a lower rank if asked for.

    Raises:
        ConfigError: Its rank or scale is another, and cannot be brought to what is asked for.
        ModelError: It was trained under another contract.
    """
    own = model.peft_config["default"]
    rank, alpha = config.model.rank, config.model.alpha
    _check_contract(config)
    if (own.r, own.lora_alpha) == (rank, alpha):
        return model
    if rank < own.r and alpha == rank:
        logger.info("warmstart.adapter is brought from rank %d to %d", own.r, rank)
        return lower_rank(model, rank)
    raise ConfigError(
        f"warmstart.adapter has rank {own.r} and alpha {own.lora_alpha}: set model.rank and "
        "model.alpha to these, or both to one lower number, to which it is brought then"
    )


def _check_contract(config: RunConfig) -> None:
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


def _make_groups(
    config: RunConfig, run: RunFolder, codec: Codec, model: PeftModel, records: Sequence[Record]
) -> list[Group]:
    # Of all rows: the right answer of a pair may not be among those that are taught.
    answers = gold_answers(records)
    limits = {each.name: each.rows_per_pair for each in config.data.sets}
    records = limit_pairs(records, limits, config.seed)
    said: Mapping[Record, tuple[Justification, ...]] | None = None
    if config.warmstart.kind == "self-distilled":
        said = distil(config, run, codec, model, records)
    elif config.warmstart.kind == "relabelled":
        said = relabel(config, run, codec, model, records, answers)

    def justifications(record: Record) -> tuple[Justification, ...]:
        if said is not None:
            return said[record]
        return (Justification(justify_record(record, answers)),)

    if said is not None:
        records = list(said)
    return group_records(
        records, codec, config.model, config.warmstart, config.seed, justifications
    )


def _train(
    config: RunConfig,
    run: RunFolder,
    codec: Codec,
    model: PeftModel,
    groups: Sequence[Group],
    steps: Sequence[Sequence[int]],
    resume: bool,
) -> None:
    from training.supervised_trainer import PlannedBatches, SupervisedTrainer

    stage = run.stage(WARMSTART)
    checkpoint = stage.begin(config, resume)
    with Monitor(stage.path, config.rl.stops) as monitor:
        trainer = SupervisedTrainer(
            codec,
            model=model,
            args=_arguments(config, stage.path, len(steps)),
            train_dataset=PlannedBatches(groups, steps),
        )
        watch(trainer, monitor)
        rows = pick_rows(read_records(run.data("validation")), config.rl.eval_rows, config.seed)
        rows = leave_out_long(rows, codec, config.model.max_prompt_tokens).kept
        validate_while_training(
            trainer,
            monitor,
            codec,
            rows,
            config.rl.eval_steps,
            config.rl.max_completion_tokens,
        )
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    stage.finish(config, model)


def _arguments(config: RunConfig, folder: Path, num_steps: int) -> TrainingArguments:
    import torch
    from transformers import TrainingArguments

    settings = config.warmstart
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=1,
        max_steps=num_steps,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=math.ceil(settings.warmup_share * num_steps),
        weight_decay=0.0,
        max_grad_norm=settings.max_grad_norm,
        logging_steps=10,
        save_steps=settings.save_steps,
        save_total_limit=2,
        seed=config.seed,
        use_cpu=not torch.cuda.is_available(),
        bf16=config.model.dtype == "bfloat16",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        report_to=reporting_integrations(config.report_to),
    )
