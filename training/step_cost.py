"""What a step of reinforcement costs: TRL's plain trainer and this project's, side by side.

    python -m training.step_cost --model tiny --steps 3
    python -m training.step_cost --model embedded --records runs/embedded/data/train.jsonl \
        --adapter runs/embedded/warmstart/adapter

Both get the same prompts, the same size of group, the same longest reply and the same adapter, and
take turns in one process. Rewards are made up, so that exactly as many groups are flat as asked
for; to the plain trainer that makes no difference. The plain one is ``GRPOTrainer`` as it comes,
but for gradient checkpointing, which is off in both.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.config import RunConfig
from training.errors import TrainingError

if TYPE_CHECKING:
    from training.models import Codec
    from training.monitor import Monitor
    from training.records import Record

logger = logging.getLogger(__name__)

PARTS = ("rollout_s", "score_s", "update_s", "step_s")
SMOKE = Path(__file__).parent / "configs" / "smoke.toml"


@dataclass(frozen=True, slots=True)
class Arm:
    """A trainer that is timed.

    Attributes:
        name: In the table.
        trainer: One that a monitor watches.
        monitor: It.
        metrics: The file that the monitor writes.
    """

    name: str
    trainer: Any
    monitor: Monitor
    metrics: Path


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step of an arm took.

    Attributes:
        name: Of the arm.
        dtype: Of the base weights.
        seconds: Part of a step -> median.
        num_tokens: Of the replies of a step, the median.
    """

    name: str
    dtype: str
    seconds: dict[str, float]
    num_tokens: float


def make_rewards(num_groups: int, num_generations: int, flat_share: float) -> list[float]:
    """Return made rewards of a step; the first groups are flat.

    Example:
        >>> make_rewards(num_groups=2, num_generations=3, flat_share=0.5)
        [1.0, 1.0, 1.0, 0.0, 1.0, 0.0]
    """
    num_flat = round(flat_share * num_groups)
    return [
        1.0 if group < num_flat else float(reply % 2)
        for group in range(num_groups)
        for reply in range(num_generations)
    ]


def to_markdown(costs: Sequence[Cost]) -> str:
    """Return the table; the ratio is to the first arm of the same number format.

    Example:
        >>> print(to_markdown([
        ...     Cost("TRL", "float32", dict(zip(PARTS, [1.0, 2.0, 1.0, 4.0])), 320),
        ...     Cost("here", "float32", dict(zip(PARTS, [1.0, 0.5, 0.5, 2.0])), 320),
        ... ]))
        | base | trainer | rollout (s) | score (s) | update (s) | step (s) | ratio | reply tokens |
        | --- | --- | --: | --: | --: | --: | --: | --: |
        | float32 | TRL | 1.00 | 2.00 | 1.00 | 4.00 | 1.00 | 320 |
        | float32 | here | 1.00 | 0.50 | 0.50 | 2.00 | 0.50 | 320 |
    """
    headings = ["rollout (s)", "score (s)", "update (s)", "step (s)", "ratio", "reply tokens"]
    lines = [
        f"| base | trainer | {' | '.join(headings)} |",
        f"| --- | --- |{' --: |' * len(headings)}",
    ]
    first: dict[str, float] = {}
    for cost in costs:
        step_s = cost.seconds["step_s"]
        ratio = step_s / first.setdefault(cost.dtype, step_s)
        numbers = " | ".join(f"{cost.seconds[part]:.2f}" for part in PARTS)
        lines.append(
            f"| {cost.dtype} | {cost.name} | {numbers} | {ratio:.2f} | {cost.num_tokens:.0f} |"
        )
    return "\n".join(lines)


def measure(
    config: RunConfig,
    records: Sequence[Record],
    num_steps: int,
    flat_shares: Sequence[float],
    adapter: Path | None,
    folder: Path,
) -> list[Cost]:
    """Time the plain trainer, and this project's for each share of flat groups.

    The first step of each arm is not counted.

    Args:
        config: Holds the model and the size of a step.
        records: Prompts, at least those of one step.
        num_steps: Steps of each arm, at least 1.
        flat_shares: Groups of equal rewards, in [0, 1].
        adapter: A trained one; else a fresh one, whose replies seldom end.
        folder: For what trainers write.

    Raises:
        ModelError: The model or the adapter cannot be had.
    """
    import torch

    from training.metrics_file import read_metrics
    from training.models import Codec, base_folder, load_tokenizer

    codec = Codec(load_tokenizer(base_folder(config.model)))
    arms = [_make_plain_arm(config, records, codec, adapter, folder / "plain")]
    for share in flat_shares:
        stage = folder / f"flat-{share}"
        arms.append(_make_own_arm(config, records, codec, adapter, stage, share))
    rows: dict[str, list[dict[str, float | None]]] = {arm.name: [] for arm in arms}
    for step in range(num_steps + 1):
        for arm in arms:
            torch.manual_seed(step)
            arm.trainer.train()
            rows[arm.name].append(read_metrics(arm.metrics)[-1])
    for arm in arms:
        arm.monitor.close()
    return [
        Cost(
            arm.name,
            config.model.dtype,
            {part: _median(rows[arm.name][1:], part) for part in PARTS},
            _median(rows[arm.name][1:], "completion_tokens_mean") * _num_replies(config),
        )
        for arm in arms
    ]


def _num_replies(config: RunConfig) -> int:
    return config.rl.prompts_per_step * config.rl.num_generations


def _median(rows: Sequence[dict[str, float | None]], name: str) -> float:
    return statistics.median(row[name] or 0.0 for row in rows)


def _make_own_arm(
    config: RunConfig,
    records: Sequence[Record],
    codec: Codec,
    adapter: Path | None,
    folder: Path,
    flat_share: float,
) -> Arm:
    from training.grpo import make_trainer

    monitor = _monitor(config, folder)
    model = _load(config, adapter)
    trainer = make_trainer(config, folder, codec, model, list(records), monitor)
    trainer.reward_funcs = [_payer(config, flat_share)]
    name = f"this project's, {flat_share:.0%} of the groups flat"
    return _finish(name, trainer, monitor, folder)


def _make_plain_arm(
    config: RunConfig, records: Sequence[Record], codec: Codec, adapter: Path | None, folder: Path
) -> Arm:
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from training.grpo import to_row
    from training.monitor import Phase

    rl = config.rl
    monitor = _monitor(config, folder)
    trainer = GRPOTrainer(
        model=_load(config, adapter),
        reward_funcs=_payer(config, 0.0),
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=1,
            per_device_train_batch_size=rl.prompts_per_forward * rl.num_generations,
            gradient_accumulation_steps=rl.prompts_per_step // rl.prompts_per_forward,
            num_generations=rl.num_generations,
            max_completion_length=rl.max_completion_tokens,
            learning_rate=rl.learning_rate,
            use_cpu=not torch.cuda.is_available(),
            bf16=config.model.dtype == "bfloat16",
            gradient_checkpointing=False,
            shuffle_dataset=False,
            logging_steps=1,
            save_strategy="no",
            seed=config.seed,
            report_to=[],
        ),
        train_dataset=Dataset.from_list([{"prompt": to_row(each)["prompt"]} for each in records]),
        processing_class=codec.tokenizer,
    )
    for name, phase in (
        ("_generate_single_turn", Phase.ROLLOUT),
        ("_get_per_token_logps_and_entropies", Phase.SCORE),
    ):
        setattr(trainer, name, _timed(getattr(trainer, name), monitor, phase))
    return _finish("TRL's GRPOTrainer", trainer, monitor, folder)


def _load(config: RunConfig, adapter: Path | None) -> Any:
    from training.models import base_folder, load_policy

    return load_policy(config.model, base_folder(config.model), adapter, config.seed)


def _monitor(config: RunConfig, folder: Path) -> Monitor:
    from training.monitor import Monitor

    return Monitor(folder, config.rl.stops)


def _payer(config: RunConfig, flat_share: float) -> Callable[..., list[float]]:
    rewards = make_rewards(config.rl.prompts_per_step, config.rl.num_generations, flat_share)

    def made(prompts: Sequence[object], **_: object) -> list[float]:
        return rewards

    return made


def _timed(method: Callable[..., Any], monitor: Monitor, phase: Any) -> Callable[..., Any]:
    def timed(*arguments: Any, **rest: Any) -> Any:
        with monitor.timed(phase):
            return method(*arguments, **rest)

    return timed


def _finish(name: str, trainer: Any, monitor: Monitor, folder: Path) -> Arm:
    from transformers import ProgressCallback

    from training.metrics_file import METRICS_NAME
    from training.trainer_watch import watch

    watch(trainer, monitor)
    trainer.remove_callback(ProgressCallback)
    return Arm(name, trainer, monitor, folder / METRICS_NAME)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table; return the exit code."""
    options = _make_parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    from training.records import read_records
    from training.sources import load_set

    try:
        costs: list[Cost] = []
        for dtype in options.dtypes:
            config = _make_config(options, dtype)
            records = (
                read_records(options.records)
                if options.records
                else load_set(config.data.sets[0], Path(), config.seed).records
            )
            with tempfile.TemporaryDirectory() as folder:
                costs += measure(
                    config,
                    records[: options.prompts],
                    options.steps,
                    options.flat_shares,
                    options.adapter,
                    Path(folder),
                )
    except TrainingError as error:
        logger.error("cannot go on: %s", error)
        return 1
    sys.stdout.write(
        f"{options.model}: {options.prompts} prompts of {options.replies} replies, at most "
        f"{options.reply_tokens} tokens each; medians of {options.steps} steps\n\n"
        f"{to_markdown(costs)}\n"
    )
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.step_cost", description="Time a step of reinforcement."
    )
    add = parser.add_argument
    add("--model", default="tiny", help="tiny, embedded, or a folder (default: %(default)s)")
    add("--adapter", type=Path, metavar="DIR", help="a trained adapter to start from")
    add("--records", type=Path, metavar="FILE", help="prepared data to take prompts from")
    add("--steps", type=int, default=3, help="steps of each trainer (default: %(default)s)")
    add("--prompts", type=int, default=8, help="prompts of a step (default: %(default)s)")
    add("--replies", type=int, default=8, help="replies to each (default: %(default)s)")
    add("--reply-tokens", type=int, default=64, help="longest reply (default: %(default)s)")
    add("--flat-shares", type=float, nargs="+", default=[0.0, 0.5], metavar="SHARE")
    add("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    add("--no-tcmalloc", action="store_true", help="keep the C library's allocator")
    return parser


def _make_config(options: argparse.Namespace, dtype: str) -> RunConfig:
    from training.config_file import load_config

    return load_config(
        SMOKE,
        [
            f"model.name={options.model}",
            f"model.dtype={dtype}",
            "model.rank=16",
            "model.alpha=32",
            f"rl.num_generations={options.replies}",
            f"rl.prompts_per_step={options.prompts}",
            f"rl.prompts_per_forward={options.prompts}",
            f"rl.max_completion_tokens={options.reply_tokens}",
            "rl.max_steps=1",
            "rl.save_steps=1000",
            "rl.learning_rate=1e-6",
        ],
    )


if __name__ == "__main__":
    from training.allocator import relaunch_under_tcmalloc

    if "--no-tcmalloc" not in sys.argv:
        relaunch_under_tcmalloc()
    sys.exit(main())
