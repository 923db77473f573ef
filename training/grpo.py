"""Reinforcement on the verdict: the policy writes a reply, its last line is compared with the gold.

One stage for all algorithms; ``rl.algorithm`` says which (``training/presets.py``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from contract.prompt import render
from training.config import RunConfig
from training.curriculum import order_prompts, pass_rate
from training.errors import ConfigError, DataError
from training.inputs import WARMSTART
from training.judged_rows import leave_out_long
from training.judging import label_odds
from training.models import Codec, base_folder, load_policy, load_tokenizer
from training.monitor import Monitor
from training.presets import find_notes, longest_prompt_tokens, trainer_options
from training.records import Record, read_records, write_records
from training.trainer_watch import reporting_integrations, watch
from training.validation import pick_rows, validate_while_training

if TYPE_CHECKING:
    from pathlib import Path

    from trl import GRPOConfig

    from training.runs import RunFolder
    from training.verdict_trainer import VerdictTrainer

logger = logging.getLogger(__name__)

PROMPTS_NAME = "prompts.jsonl"
"""In the stage's folder: the prompts of all steps, in order."""


def train(config: RunConfig, run: RunFolder, resume: bool = False) -> None:
    """Train the warm start's adapter on and leave it in ``<algorithm>/adapter``.

    Args:
        config: Of the run.
        run: Its folder, with prepared data and, unless there is none, a warm start.
        resume: Go on from the last whole checkpoint.

    Raises:
        CheckpointError: There is a checkpoint and ``resume`` was not asked for, or it cannot be
            gone on from.
        StoppedRunError: The run learned nothing any more.
        TrainingError: Data or model cannot be had.
    """
    rl = config.rl
    if rl.algorithm == "none":
        logger.info("rl.algorithm is none: nothing to do")
        return
    for note in find_notes(rl):
        logger.warning("%s", note)
    folder = base_folder(config.model)
    codec = Codec(load_tokenizer(folder))
    start = None if config.warmstart.kind == "none" else run.stage(WARMSTART).adapter
    model = load_policy(config.model, folder, adapter=start, seed=config.seed)
    stage = run.stage(rl.algorithm)
    checkpoint = stage.begin(config, resume)
    chosen = stage.path / PROMPTS_NAME
    if checkpoint is None or not chosen.exists():
        # Kept, since odds that were computed again might be others in their last digit.
        write_records(chosen, _choose_prompts(config, run, codec, model))
    prompts = read_records(chosen)
    rows = pick_rows(read_records(run.data("validation")), rl.eval_rows, config.seed)
    rows = leave_out_long(rows, codec, config.model.max_prompt_tokens).kept
    with Monitor(stage.path, rl.stops) as monitor:
        try:
            trainer = make_trainer(config, stage.path, codec, model, prompts, monitor)
            watch(trainer, monitor)
            validate_while_training(
                trainer, monitor, codec, rows, rl.eval_steps, rl.max_completion_tokens
            )
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        finally:
            if monitor.stopped is not None:
                stage.mark_stopped(monitor.stopped)
    from training.verdict_trainer import REFERENCE

    if REFERENCE in model.peft_config:
        model.delete_adapter(REFERENCE)
    stage.finish(config, model)


def _choose_prompts(config: RunConfig, run: RunFolder, codec: Codec, model: Any) -> list[Record]:
    """Return the prompts of all steps, in order.

    Raises:
        ConfigError: A step has no room for both classes.
        DataError: No prompt is short enough, or a class is missing.
    """
    rl = config.rl
    if rl.prompts_per_step < 2:
        raise ConfigError("rl.prompts_per_step must be 2 or more: a step holds both classes")
    num_rollouts = -(-rl.max_steps // rl.num_iterations) * rl.prompts_per_step
    seed = find_seed(config)
    repeats = {each.name: each.repeat for each in config.data.sets}
    limit = longest_prompt_tokens(config)
    records = read_records(run.data("train"))
    candidates = [r for r in records if len(codec.prompt(r.example)) <= limit]
    if not candidates:
        raise DataError(f"no prompt has {limit} tokens or fewer: raise rl.max_prompt_tokens")
    if (rl.pass_rate_low, rl.pass_rate_high) == (0.0, 1.0):
        return order_prompts(candidates, num_rollouts, repeats, seed)
    # Three times as many as needed are looked at, in the order in which they would come.
    pool = list(dict.fromkeys(order_prompts(candidates, 3 * num_rollouts, repeats, seed)))
    odds = label_odds(model, codec, pool, [None] * len(pool))
    kept = [
        record
        for record, value in zip(pool, odds, strict=True)
        if rl.pass_rate_low <= pass_rate(value, record.label) <= rl.pass_rate_high
    ]
    logger.info("%d of %d prompts have a pass rate in the range asked for", len(kept), len(pool))
    return order_prompts(kept, num_rollouts, repeats, seed)


def find_seed(config: RunConfig) -> int:
    """Return the seed of the reinforcement learning; that of the data is ``config.seed``."""
    return config.seed if config.rl.seed is None else config.rl.seed


def to_row(record: Record) -> dict[str, Any]:
    """Return what the trainer sees of a record: the prompt, and what its reward needs."""
    texts = [*(record.knowledge or ()), record.question or "", record.response]
    return {
        "prompt": list(render(record.example)),
        "record": f"{record.set_name}/{record.id}",
        "gold": str(record.label),
        "texts": [text for text in texts if text],
    }


def make_trainer(
    config: RunConfig,
    folder: Path,
    codec: Codec,
    model: Any,
    prompts: list[Record],
    monitor: Monitor,
) -> VerdictTrainer:
    """Return the trainer of ``rl.algorithm``.

    Args:
        config: Of the run.
        folder: Where checkpoints go.
        codec: Of the model.
        model: The policy, with an adapter.
        prompts: Of all steps, in order.
        monitor: Of the stage.

    Raises:
        ConfigError: The options do not go together, or a package to report to is missing.
    """
    from datasets import Dataset

    from training.verdict_trainer import VerdictTrainer

    rest: dict[str, Any] = {
        "model": model,
        "args": _arguments(config, folder),
        "train_dataset": Dataset.from_list([to_row(record) for record in prompts]),
        "processing_class": codec.tokenizer,
    }
    if config.rl.algorithm == "ppo":
        from training.ppo_trainer import PpoTrainer

        return PpoTrainer(codec, monitor, config.rewards, ppo=config.rl, **rest)
    return VerdictTrainer(codec, monitor, config.rewards, **rest)


def _arguments(config: RunConfig, folder: Path) -> GRPOConfig:
    import torch
    from trl import GRPOConfig

    rl = config.rl
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=rl.max_steps,
        per_device_train_batch_size=rl.prompts_per_forward * rl.num_generations,
        gradient_accumulation_steps=rl.prompts_per_step // rl.prompts_per_forward,
        learning_rate=rl.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=rl.warmup_steps,
        weight_decay=0.0,
        max_grad_norm=rl.max_grad_norm,
        logging_steps=1,
        save_steps=rl.save_steps,
        save_total_limit=2,
        seed=find_seed(config),
        use_cpu=not torch.cuda.is_available(),
        bf16=config.model.dtype == "bfloat16",
        gradient_checkpointing=False,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        report_to=reporting_integrations(config.report_to),
        **trainer_options(rl, longest_prompt_tokens(config)),
    )
