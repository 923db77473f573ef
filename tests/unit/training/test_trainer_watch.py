"""A monitor tied to a real transformers trainer of a model with one weight."""

from __future__ import annotations

import doctest
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from contract.labels import Label
from training import trainer_watch
from training.config import StopConfig
from training.errors import ConfigError, StoppedRunError
from training.group_statistics import Rollout
from training.metrics_file import read_metrics
from training.monitor import Monitor, Phase
from training.trainer_watch import Logs, reporting_integrations, split_logs, watch

WRONG, RIGHT = Label.HALLUCINATION, Label.CORRECT


def test_the_worked_examples_hold() -> None:
    assert doctest.testmod(trainer_watch).failed == 0


# One hallucination found and one missed, one correct response passed and one flagged.
MIXED = [Rollout(gold, float(verdict is gold), verdict, gold, 10, False)
         for gold in Label for verdict in Label]  # fmt: skip
CUT_OFF = [Rollout(gold, -0.5, None, gold, 96, True) for gold in Label for _ in range(2)]


class OneWeight(torch.nn.Module):  # type: ignore[misc]  # its types are not followed
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": ((self.weight - x) ** 2).mean()}


class SamplingTrainer(Trainer):  # type: ignore[misc]
    """Draws and scores made replies in each step, as a trainer of TRL does."""

    def __init__(self, monitor: Monitor, replies: Callable[[int], list[Rollout]], **rest: Any):
        super().__init__(**rest)
        self.monitor, self.replies = monitor, replies

    def training_step(self, *arguments: Any, **rest: Any) -> torch.Tensor:
        with self.monitor.timed(Phase.ROLLOUT):
            replies = self.replies(self.state.global_step + 1)
        with self.monitor.timed(Phase.SCORE):
            self.monitor.observe(replies)
        return super().training_step(*arguments, **rest)

    def evaluate(self, *arguments: Any, **rest: Any) -> dict[str, float]:
        self.monitor.observe(CUT_OFF)  # an evaluation scores replies too
        metrics = {"eval_f1": 0.75}
        self.log(metrics)
        return metrics


class LastInLine(TrainerCallback):  # type: ignore[misc]
    """Sees the logs as a reporting integration does."""

    def __init__(self) -> None:
        self.logs: list[dict[str, float]] = []
        self.is_ended = False

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        self.logs.append(dict(logs))

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.is_ended = True


def make_trainer(
    folder: Path, monitor: Monitor, replies: Callable[[int], list[Rollout]], **options: Any
) -> SamplingTrainer:
    arguments = {
        "output_dir": str(folder),
        "use_cpu": True,
        "max_steps": 6,
        "logging_steps": 1,
        "save_steps": 2,
        "per_device_train_batch_size": 1,
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        **options,
    }
    return SamplingTrainer(
        monitor,
        replies,
        model=OneWeight(),
        args=TrainingArguments(**arguments),
        train_dataset=[{"x": torch.ones(1)}] * 64,
        eval_dataset=[{"x": torch.ones(1)}],
    )


def train(
    folder: Path, replies: Callable[[int], list[Rollout]], resume: str | None = None, **options: Any
) -> LastInLine:
    listener = LastInLine()
    with Monitor(folder, StopConfig(patience_steps=3)) as monitor:
        trainer = make_trainer(folder, monitor, replies, **options)
        trainer.callback_handler.callbacks.append(listener)  # stands where integrations stand
        watch(trainer, monitor)
        trainer.train(resume_from_checkpoint=resume)
    return listener


def test_each_step_has_one_row_with_rollouts_times_and_logs(tmp_path: Path) -> None:
    train(tmp_path, lambda _: MIXED, eval_strategy="steps", eval_steps=3)
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for row in rows:
        assert row["num_rollouts"] == 4
        assert (row["reward"], row["unreadable_rate"]) == (0.5, 0.0)
        numbers = {name: value for name, value in row.items() if value is not None}
        assert 0 < numbers["learning_rate"] <= 5e-5
        assert numbers["loss"] > 0
        parts = numbers["rollout_s"] + numbers["score_s"] + numbers["update_s"]
        assert parts == pytest.approx(numbers["step_s"])
        assert "train_runtime" not in row
    assert [row.get("validation_f1") for row in rows] == [None, None, 0.75, None, None, 0.75]


def test_a_row_over_several_steps_has_all_their_rollouts(tmp_path: Path) -> None:
    train(tmp_path, lambda step: MIXED * step, logging_steps=3)
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert [(row["step"], row["num_rollouts"]) for row in rows] == [(3, 24), (6, 60)]


def test_what_comes_after_in_line_sees_our_statistics(tmp_path: Path) -> None:
    listener = train(tmp_path, lambda _: MIXED)
    assert listener.logs[0]["zero_variance_share"] == 0.0
    assert listener.logs[0]["train_f1"] == 0.5


def test_a_stopped_run_ends_its_reports_and_then_raises(tmp_path: Path) -> None:
    with Monitor(tmp_path, StopConfig(patience_steps=3)) as monitor:
        trainer = make_trainer(
            tmp_path, monitor, lambda step: MIXED if step < 3 else CUT_OFF, max_steps=40
        )
        listener = LastInLine()
        trainer.callback_handler.callbacks.append(listener)
        watch(trainer, monitor)
        with pytest.raises(StoppedRunError, match=r"100% of the replies were cut off"):
            trainer.train()
    assert listener.is_ended
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert [row["truncated_share"] for row in rows] == [0, 0, 1, 1, 1]


def test_a_run_is_stopped_between_two_logged_steps_too(tmp_path: Path) -> None:
    with pytest.raises(StoppedRunError):
        train(tmp_path, lambda _: CUT_OFF, logging_steps=100, max_steps=200)
    (row,) = read_metrics(tmp_path / "metrics.jsonl")
    assert (row["step"], row["num_rollouts"]) == (3, 12)


def test_a_resumed_run_goes_on_in_rows_and_counts(tmp_path: Path) -> None:
    train(tmp_path, lambda step: CUT_OFF if step in (3, 4, 6) else MIXED)
    checkpoint = tmp_path / "checkpoint-4"
    assert json.loads((checkpoint / "monitor.json").read_text())["cut_off"] == 2
    with pytest.raises(StoppedRunError):
        train(tmp_path, lambda _: CUT_OFF, resume=str(checkpoint))
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert [(row["step"], row["truncated_share"]) for row in rows] == [
        (1, 0), (2, 0), (3, 1), (4, 1), (5, 1),
    ]  # fmt: skip


def test_a_new_run_in_the_same_folder_starts_a_new_file(tmp_path: Path) -> None:
    train(tmp_path, lambda _: MIXED)
    train(tmp_path, lambda _: MIXED, max_steps=2)
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2]


@pytest.mark.parametrize(
    ("logs", "training", "validation"),
    [
        pytest.param(
            {"loss": 1, "completions/max_length": 96.0, "clip_ratio/low_mean": 0.0, "epoch": 0.5},
            {"loss": 1, "completion_tokens_max": 96.0, "clip_ratio/low_mean": 0.0, "epoch": 0.5},
            {},
            id="training",
        ),
        pytest.param(
            {"eval_reward": 0.5, "eval_completions/clipped_ratio": 0.25, "epoch": 0.5},
            {},
            {"reward": 0.5, "truncated_share": 0.25},
            id="evaluation",
        ),
        pytest.param(
            {"train_runtime": 9.0, "train_loss": 0.1, "total_flos": 0.0, "epoch": 1.0}, {}, {},
            id="summary",
        ),
        pytest.param(
            {"frac_reward_zero_std": 0.0, "step_time": 3.0, "kl": None, "a": "b", "c": True},
            {"kl": None}, {},
            id="left-out",
        ),
        pytest.param({"loss": 1.0, "eval_f1": 0.5}, {"loss": 1.0}, {"f1": 0.5}, id="both"),
    ],
)  # fmt: skip
def test_logs_get_our_names(
    logs: dict[str, object],
    training: dict[str, float | None],
    validation: dict[str, float | None],
) -> None:
    assert split_logs(logs) == Logs(training, validation)


def test_our_file_is_no_reporting_integration() -> None:
    assert reporting_integrations(("jsonl",)) == []
    assert reporting_integrations(()) == []


def test_an_integration_that_is_installed_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trackio").mkdir()
    (tmp_path / "trackio" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert reporting_integrations(("jsonl", "trackio")) == ["trackio"]


def test_a_missing_integration_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"names wandb.*pip install wandb`, or take it out"):
        reporting_integrations(("wandb", "jsonl"))
