"""Ties a ``Monitor`` to a transformers trainer, and names where else its metrics go."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.errors import ConfigError
from training.group_statistics import Rollout
from training.monitor import Monitor

if TYPE_CHECKING:
    from transformers import Trainer, TrainerCallback

# What TRL calls it -> what it is called here. Our own counts, where there are any, come on top.
_RENAMED = {
    "completions/mean_length": "completion_tokens_mean",
    "completions/max_length": "completion_tokens_max",
    "completions/clipped_ratio": "truncated_share",
}
# The first is a share of the batch, not of the groups, under some options of TRL. The second is
# ``step_s``. The others come once, at the end, and stand in no row's step.
_LEFT_OUT = {
    "frac_reward_zero_std",
    "step_time",
    "total_flos",
    "train_loss",
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
}


@dataclass(frozen=True, slots=True)
class Logs:
    """What a trainer logged, under the names of ``metrics.jsonl``.

    Attributes:
        training: Of the steps since the last log.
        validation: Of an evaluation, without ``eval_`` in front.
    """

    training: dict[str, float | None]
    validation: dict[str, float | None]


def split_logs(logs: Mapping[str, object]) -> Logs:
    """Return a trainer's logs under our names, without what is no number.

    Example:
        >>> split_logs({"loss": 0.5, "completions/mean_length": 20.0, "step_time": 3.0})
        Logs(training={'loss': 0.5, 'completion_tokens_mean': 20.0}, validation={})
        >>> split_logs({"eval_f1": 0.9, "epoch": 0.25})
        Logs(training={}, validation={'f1': 0.9})
    """
    training: dict[str, float | None] = {}
    validation: dict[str, float | None] = {}
    for name, value in logs.items():
        own_name = name.removeprefix("eval_")
        if own_name in _LEFT_OUT or isinstance(value, bool):
            continue
        if value is None or isinstance(value, int | float):
            kind = training if own_name == name else validation
            kind[_RENAMED.get(own_name, own_name)] = value
    # The epoch alone comes with an evaluation, and with the summary at the end.
    return Logs({} if training.keys() <= {"epoch"} else training, validation)


def watch(trainer: Trainer, monitor: Monitor) -> None:
    """Tie a monitor to a trainer: to its steps, its logs, its checkpoints and its end.

    Our statistics are added to the trainer's own logs before W&B or Trackio see them. A run that
    was stopped ends like a finished one, then ``train`` raises ``StoppedRunError``. What draws and
    scores the replies calls ``Monitor.timed`` and ``Monitor.observe`` itself.
    """
    # In front of the reporting integrations, which pass on what they find in the logs.
    trainer.callback_handler.callbacks.insert(0, _make_recorder(monitor))
    trainer.add_callback(_make_stopper(monitor))


def _make_recorder(monitor: Monitor) -> TrainerCallback:
    from transformers import TrainerCallback

    class Recorder(TrainerCallback):  # type: ignore[misc]  # its types are not followed
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:
            step = state.global_step
            checkpoint = Path(args.output_dir) / f"checkpoint-{step}" if step else None
            gather = _gather_from_all if args.world_size > 1 else list
            monitor.begin(step, checkpoint, state.is_world_process_zero, gather)

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:
            monitor.begin_step()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: object) -> None:
            monitor.end_step()
            if monitor.stopped is not None:
                control.should_log = control.should_training_stop = True

        def on_log(
            self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: object
        ) -> None:
            values = split_logs(logs)
            if values.training:
                logs.update(monitor.log(state.global_step, values.training))
            if values.validation:
                monitor.log_validation(state.global_step, values.validation)

        def on_save(self, args: Any, state: Any, control: Any, **_: object) -> None:
            monitor.save(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    return Recorder()


def _make_stopper(monitor: Monitor) -> TrainerCallback:
    from transformers import TrainerCallback

    class Stopper(TrainerCallback):  # type: ignore[misc]  # its types are not followed
        # The last callback, so that the others have ended their reports.
        def on_train_end(self, args: Any, state: Any, control: Any, **_: object) -> None:
            monitor.raise_if_stopped()

    return Stopper()


def _gather_from_all(rollouts: list[Rollout]) -> list[Rollout]:
    from accelerate.utils import gather_object

    gathered: list[Rollout] = gather_object(rollouts)
    return gathered


def reporting_integrations(report_to: Iterable[str]) -> list[str]:
    """Return what a trainer's own ``report_to`` must say; our file is no integration.

    Raises:
        ConfigError: A package is not installed.
    """
    names = [name for name in report_to if name != "jsonl"]
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"report_to names {' and '.join(missing)}, which is not installed: run `python -m pip "
            f"install {' '.join(missing)}`, or take it out; the metrics are in the run folder "
            "anyway"
        )
    return names
