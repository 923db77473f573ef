"""The trainer of a run on a random model of two layers, ready to be asked or to train."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.tiny_model import write_tiny_model

from contract.labels import Label
from training.config import RunConfig
from training.records import Record

PLACES = ("the hall", "the old mill by the river", "a square behind the northern station")


def make_records(num_pairs: int) -> list[Record]:
    """Return pairs of a right and a wrong response, whose prompts differ in length."""
    records = []
    for i in range(num_pairs):
        place = PLACES[i % len(PLACES)]
        for label, year in ((Label.CORRECT, 1900 + i), (Label.HALLUCINATION, 1800 + i)):
            records.append(
                Record(
                    id=f"{i}-{label}",
                    pair_id=str(i),
                    set_name="made",
                    task="qa",
                    knowledge=(f"The fair of {1900 + i} was held in {place}.",),
                    question=f"When was the fair in {place}?",
                    response=f"In {year}.",
                    label=label,
                )
            )
    return records


def make_config(base: Path, **sections: Any) -> RunConfig:
    """Return a run of two prompts a step and four short replies to each.

    Args:
        base: Folder of the model.
        sections: What differs, by section.
    """
    rl = {
        "max_steps": 2,
        "num_generations": 4,
        "prompts_per_step": 2,
        "prompts_per_forward": 2,
        "max_completion_tokens": 8,
        "warmup_steps": 0,
        "learning_rate": 1e-3,
    }
    raw = {
        "name": "tiny",
        "model": {"name": str(base), "rank": 4, "alpha": 8, **sections.pop("model", {})},
        "data": {"sets": [{"name": "made", "kind": "folder", "file": "made.jsonl"}]},
        "rl": rl | sections.pop("rl", {}),
        **sections,
    }
    return RunConfig.model_validate(raw)


def make_policy(config: RunConfig, base: Path) -> Any:
    """Return the model with an adapter that changes what it says."""
    import torch

    from training.models import load_policy

    policy = load_policy(config.model, base, seed=3)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    # The base's own list ends a reply at other tokens too, which a check of the end must not.
    policy.generation_config.eos_token_id = policy.config.eos_token_id
    return policy


@contextmanager
def quiet_imports() -> Iterator[None]:
    """Let TRL be imported where warnings are errors."""
    with warnings.catch_warnings():
        # torch 2.13 warns of what an optional import of TRL 1.16 still uses.
        warnings.filterwarnings("ignore", "`torch.jit.script_method` is deprecated")
        yield


def build_trainer(
    folder: Path,
    paid: Sequence[float] | None = None,
    num_pairs: int = 4,
    **sections: Any,
) -> Any:
    """Return a trainer with its monitor watching.

    Args:
        folder: For the model and the stage.
        paid: What the replies of a draw earn in their order, in place of what verdicts do.
        num_pairs: Pairs of prompts, in order.
        sections: Of the configuration.
    """
    from training.models import Codec, load_tokenizer
    from training.monitor import Monitor
    from training.trainer_watch import watch

    base = folder / "base"
    if not base.exists():
        write_tiny_model(base)
    config = make_config(base, **sections)
    with quiet_imports():
        from training.grpo import make_trainer

        stage = folder / "stage"
        monitor = Monitor(stage, config.rl.stops)
        trainer = make_trainer(
            config,
            stage,
            Codec(load_tokenizer(base)),
            make_policy(config, base),
            make_records(num_pairs),
            monitor,
        )
    if paid is not None:
        trainer.reward_funcs = [lambda prompts, **_: list(paid[: len(prompts)])]
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    watch(trainer, monitor)
    trainer.model.train()
    return trainer
