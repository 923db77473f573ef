"""A monitor between the steps of a loop: its rows, its times, and when it says to stop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.labels import Label
from training.config import StopConfig
from training.errors import CheckpointError, StoppedRunError, TrainingError
from training.group_statistics import Rollout
from training.metrics_file import read_metrics
from training.monitor import Monitor, Phase

WRONG, RIGHT = Label.HALLUCINATION, Label.CORRECT
PATIENCE_STEPS = 3


@pytest.fixture
def monitor(tmp_path: Path) -> Monitor:
    return make_monitor(tmp_path)


def make_monitor(folder: Path) -> Monitor:
    return Monitor(folder, StopConfig(patience_steps=PATIENCE_STEPS))


def good_group(name: str = "a") -> list[Rollout]:
    """Two replies to a hallucination and two to a correct example; one of each is right."""
    return [
        Rollout(f"{name}-{gold}", float(verdict is gold), verdict, gold, 10, False)
        for gold in Label
        for verdict in Label
    ]


def flat_group(name: str = "a") -> list[Rollout]:
    """As above, but the hallucination is missed each time, and the other one right each time."""
    return [
        Rollout(f"{name}-{gold}", float(gold is RIGHT), verdict, gold, 10, False)
        for gold, verdict in ((WRONG, RIGHT), (WRONG, RIGHT), (RIGHT, RIGHT), (RIGHT, RIGHT))
    ] + [
        # The same the other way round: both classes are named equally often.
        Rollout(f"{name}-{gold}-2", float(gold is WRONG), WRONG, gold, 10, False)
        for gold in (WRONG, WRONG, RIGHT, RIGHT)
    ]


def run_step(monitor: Monitor, rollouts: list[Rollout]) -> None:
    monitor.begin_step()
    monitor.observe(rollouts)
    monitor.end_step()


def test_a_row_joins_the_given_values_and_the_rollouts(monitor: Monitor, tmp_path: Path) -> None:
    with monitor:
        monitor.begin()
        run_step(monitor, good_group())
        returned = monitor.log(1, {"loss": 0.25, "reward": 99.0})
    (row,) = read_metrics(tmp_path / "metrics.jsonl")
    assert (row["step"], row["loss"]) == (1, 0.25)
    assert row["reward"] == 0.5  # what was counted stands above what another library says
    assert row["train_balanced_accuracy"] == 0.5
    assert row["num_rollouts"] == 4
    assert returned.items() <= row.items()


def test_a_row_over_several_steps_counts_all_their_rollouts(
    monitor: Monitor, tmp_path: Path
) -> None:
    with monitor:
        monitor.begin()
        run_step(monitor, good_group())
        run_step(monitor, good_group() + flat_group("b"))
        monitor.log(2, {})
        run_step(monitor, flat_group())
        monitor.log(3, {})
    first, second = read_metrics(tmp_path / "metrics.jsonl")
    assert first["num_rollouts"] == 4 + 12
    assert first["zero_variance_share"] == 4 / 8
    assert second["num_rollouts"] == 8
    assert second["zero_variance_share"] == 1.0


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed_monitor(tmp_path: Path, clock: Clock) -> Monitor:
    return Monitor(tmp_path, StopConfig(), clock)


def test_the_time_of_a_step_is_split(timed_monitor: Monitor, clock: Clock) -> None:
    with timed_monitor as monitor:
        monitor.begin()
        monitor.begin_step()
        clock.now_s += 1.0
        with monitor.timed(Phase.ROLLOUT):
            clock.now_s += 8.0
        for _ in range(2):
            with monitor.timed(Phase.SCORE):
                clock.now_s += 0.5
        clock.now_s += 4.0
        monitor.end_step()
        clock.now_s += 100.0  # an evaluation, which is of no step
        row = monitor.log(1, {})
    assert row == {"rollout_s": 8.0, "score_s": 1.0, "update_s": 5.0, "step_s": 14.0}


def test_times_are_the_mean_of_the_steps_since_the_last_row(
    timed_monitor: Monitor, clock: Clock
) -> None:
    with timed_monitor as monitor:
        monitor.begin()
        for seconds in (1.0, 5.0):
            monitor.begin_step()
            with monitor.timed(Phase.ROLLOUT):
                clock.now_s += seconds
            monitor.end_step()
        assert monitor.log(2, {})["rollout_s"] == 3.0
        monitor.begin_step()
        monitor.end_step()
        assert monitor.log(3, {})["rollout_s"] == 0.0


def interrupted(monitor: Monitor, clock: Clock) -> None:
    with monitor.timed(Phase.ROLLOUT):
        clock.now_s += 2.0
        raise KeyError


def test_a_time_that_an_exception_ends_still_counts(timed_monitor: Monitor, clock: Clock) -> None:
    with timed_monitor as monitor:
        monitor.begin()
        monitor.begin_step()
        with pytest.raises(KeyError):
            interrupted(monitor, clock)
        monitor.end_step()
        assert monitor.log(1, {})["rollout_s"] == 2.0


def test_replies_of_an_evaluation_between_steps_are_not_counted(
    monitor: Monitor, tmp_path: Path
) -> None:
    with monitor:
        monitor.begin()
        monitor.observe(flat_group())
        run_step(monitor, good_group())
        monitor.observe(flat_group())
        monitor.log(1, {})
        monitor.log_validation(1, {"f1": 0.75})
    (row,) = read_metrics(tmp_path / "metrics.jsonl")
    assert row["num_rollouts"] == 4
    assert row["validation_f1"] == 0.75


def test_a_stage_without_rollouts_has_times_and_its_own_values(
    monitor: Monitor, tmp_path: Path
) -> None:
    with monitor:
        monitor.begin()
        for step in range(1, 30):
            run_step(monitor, [])
            monitor.log(step, {"loss": 1.0})
            monitor.raise_if_stopped()
    row = read_metrics(tmp_path / "metrics.jsonl")[-1]
    assert row.keys() == {"step", "time_s", "loss", "rollout_s", "score_s", "update_s", "step_s"}


def test_a_starved_run_is_stopped_after_its_last_row_is_written(
    monitor: Monitor, tmp_path: Path
) -> None:
    with monitor:
        monitor.begin()
        for step in range(1, PATIENCE_STEPS + 1):
            monitor.raise_if_stopped()
            run_step(monitor, flat_group())
            assert (monitor.stopped is not None) == (step == PATIENCE_STEPS)
            monitor.log(step, {})
        with pytest.raises(StoppedRunError, match="100% of the groups earned equal rewards"):
            monitor.raise_if_stopped()
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == PATIENCE_STEPS


def test_a_resumed_run_counts_on_and_drops_later_rows(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint-2"
    checkpoint.mkdir()
    with make_monitor(tmp_path) as monitor:
        monitor.begin()
        for step in (1, 2, 3):
            run_step(monitor, flat_group() if step < 3 else good_group())
            monitor.log(step, {})
            if step == 2:
                monitor.save(checkpoint)
    with make_monitor(tmp_path) as monitor:
        monitor.begin(2, checkpoint)
        assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2]
        run_step(monitor, flat_group())
        assert monitor.stopped is not None
        assert "for 3 steps in a row" in monitor.stopped.reason


def test_a_checkpoint_of_another_writer_counts_from_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with make_monitor(tmp_path) as monitor:
        monitor.begin(2, tmp_path)
        run_step(monitor, flat_group())
        assert monitor.stopped is None
    assert "the stop rules count from 0" in caplog.text


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", '{"starved": 1}'])
def test_a_spoilt_state_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "monitor.json").write_text(content, encoding="utf-8")
    with make_monitor(tmp_path) as monitor, pytest.raises(CheckpointError):
        monitor.begin(2, tmp_path)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_only_the_main_process_writes_but_all_of_them_stop(tmp_path: Path) -> None:
    everyone: list[Rollout] = []

    def gather(own: list[Rollout]) -> list[Rollout]:
        everyone.extend(own)
        return list(everyone)

    monitors = [make_monitor(tmp_path / str(rank)) for rank in (1, 0)]
    for rank, monitor in zip((1, 0), monitors, strict=True):
        monitor.begin(is_main_process=rank == 0, gather=gather)
    for step in range(1, PATIENCE_STEPS + 1):
        everyone.clear()
        # The other process has an idle step; here all rollouts come from the first one.
        for monitor, rollouts in zip(monitors, (flat_group(), []), strict=True):
            run_step(monitor, rollouts)
            monitor.log(step, {})
            monitor.save(tmp_path)
    assert [monitor.stopped is not None for monitor in monitors] == [True, True]
    for monitor in monitors:
        monitor.close()
    assert not (tmp_path / "1").exists()
    assert read_metrics(tmp_path / "0" / "metrics.jsonl")[-1]["num_rollouts"] == 8
    assert json.loads((tmp_path / "monitor.json").read_text())["starved"] == PATIENCE_STEPS


def test_a_group_may_be_spread_over_processes(tmp_path: Path) -> None:
    """Rewards are compared after gathering: each half alone would look flat."""
    halves = [
        [Rollout("a", 1.0, WRONG, WRONG, 5, False), Rollout("a", 0.0, RIGHT, WRONG, 5, False)][i]
        for i in (0, 1)
    ]
    with make_monitor(tmp_path) as monitor:
        monitor.begin(gather=lambda own: [*own, halves[1]])
        run_step(monitor, [halves[0]])
        assert monitor.log(1, {})["zero_variance_share"] == 0.0


def test_a_second_begin_in_one_process_closes_the_first_file(tmp_path: Path) -> None:
    with make_monitor(tmp_path) as monitor:
        monitor.begin()
        monitor.log(1, {})
        monitor.begin(1)
        monitor.log(2, {})
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        make_monitor(tmp_path / "file") as monitor,
        pytest.raises(TrainingError, match=r"cannot be written.*another --runs-dir"),
    ):
        monitor.begin()
