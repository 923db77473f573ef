"""``metrics.jsonl`` survives kills, full disks and resumed runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from support.small_disk import mounted

from training.errors import TrainingError
from training.metrics_file import MetricsFile, read_metrics


def rows_of(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def steps_of(path: Path) -> list[float]:
    return [row["step"] for row in rows_of(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grpo" / "metrics.jsonl"


def log_steps(metrics: MetricsFile, num_steps: int) -> None:
    for step in range(1, num_steps + 1):
        metrics.log(step, {"reward": 0.125})


def write_steps(path: Path, *steps: int) -> None:
    with MetricsFile(path) as metrics:
        for step in steps:
            metrics.log(step, {"reward": step / 10})


def test_a_row_is_a_line_with_the_step_and_the_time(path: Path) -> None:
    with MetricsFile(path) as metrics:
        metrics.log(1, {"reward": 0.5})
        metrics.log(3, {"loss": -2.0, "reward": 0.75})
    first, second = rows_of(path)
    assert first.pop("time_s") <= second.pop("time_s") < 60
    assert first == {"step": 1, "reward": 0.5}
    assert second == {"step": 3, "loss": -2.0, "reward": 0.75}


def test_a_row_is_on_the_disk_at_once(path: Path) -> None:
    with MetricsFile(path) as metrics:
        metrics.log(1, {"reward": 0.5})
        assert steps_of(path) == [1]


def test_what_is_logged_again_for_a_step_joins_its_row(path: Path) -> None:
    with MetricsFile(path) as metrics:
        metrics.log(1, {"reward": 0.5, "loss": 1.0})
        metrics.log(2, {"reward": 0.5123456789, "loss": 2.0})
        metrics.log(2, {"validation_f1": 0.9, "reward": 0.6})
        metrics.log(3, {"reward": 0.7})
    rows = rows_of(path)
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert {key: rows[1][key] for key in ("reward", "loss", "validation_f1")} == {
        "reward": 0.6,
        "loss": 2.0,
        "validation_f1": 0.9,
    }


def test_a_shorter_row_leaves_no_rest_of_the_longer_one(path: Path) -> None:
    with MetricsFile(path) as metrics:
        metrics.log(1, {"reward": 0.123456789012345})
        metrics.log(1, {"reward": 0.5})
        metrics.log(2, {})
    assert steps_of(path) == [1, 2]
    assert rows_of(path)[0]["reward"] == 0.5


def test_a_step_that_goes_back_is_refused(path: Path) -> None:
    with MetricsFile(path) as metrics:
        metrics.log(5, {})
        with pytest.raises(ValueError, match="step 4 after step 5"):
            metrics.log(4, {})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_what_is_not_finite_is_null(path: Path, value: float | None) -> None:
    with MetricsFile(path) as metrics:
        metrics.log(1, {"loss": value})
    assert rows_of(path)[0]["loss"] is None
    assert read_metrics(path)[0]["loss"] is None


@pytest.mark.parametrize(
    ("after_step", "kept"),
    [(0, []), (1, [1]), (2, [1]), (3, [1, 3]), (5, [1, 3, 5]), (9, [1, 3, 5])],
)
def test_a_resumed_run_keeps_the_rows_up_to_its_checkpoint(
    path: Path, after_step: int, kept: list[int]
) -> None:
    write_steps(path, 1, 3, 5)
    with MetricsFile(path, after_step) as metrics:
        assert steps_of(path) == kept
        metrics.log(10, {})
    assert steps_of(path) == [*kept, 10]


def test_a_resumed_run_may_add_to_the_row_of_its_checkpoint(path: Path) -> None:
    write_steps(path, 1, 2)
    with MetricsFile(path, 2) as metrics:
        metrics.log(2, {"validation_f1": 0.5})
    assert steps_of(path) == [1, 2]
    assert rows_of(path)[1]["reward"] == 0.2
    assert rows_of(path)[1]["validation_f1"] == 0.5


def test_the_time_of_a_resumed_run_counts_on(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"step": 4, "time_s": 5000.0}\n{"step": 5, "time_s": 9000.0}\n')
    with MetricsFile(path, 4) as metrics:
        metrics.log(5, {})
    assert 5000 <= rows_of(path)[1]["time_s"] < 5060


@pytest.mark.parametrize("rest", [b'{"step": 3, "time_s"', b'{"step": 3}', b"{", b" "])
def test_half_a_row_is_passed_over_by_readers_and_cut_off_by_writers(
    path: Path, rest: bytes
) -> None:
    write_steps(path, 1, 2)
    path.write_bytes(path.read_bytes() + rest)
    assert [row["step"] for row in read_metrics(path)] == [1, 2]
    with MetricsFile(path, 9) as metrics:
        metrics.log(3, {})
    assert steps_of(path) == [1, 2, 3]


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[1]",
        b"x",
        b"\xff",
        b'{"step": "1"}',
        b'{"step": 1.5}',
        b'{"step": true}',
        b'{"step": 2, "reward": "high"}',
        b'{"step": 2, "reward": NaN}',
        b'{"step": 2, "reward": [1]}',
        b'{"step": 2, "is_on": true}',
        b"[" * 100_000,
    ],
)
def test_another_file_is_neither_read_nor_touched(path: Path, line: bytes) -> None:
    path.parent.mkdir()
    content = b'{"step": 1}\n' + line + b'\n{"step": 3}\n'
    path.write_bytes(content)
    with pytest.raises(TrainingError, match="line 2 is no row of metrics: move the file away"):
        read_metrics(path)
    with pytest.raises(TrainingError, match="line 2 is no row of metrics: move the file away"):
        MetricsFile(path, 9)
    assert path.read_bytes() == content


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(TrainingError, match=r"No such file or directory.*run the stage"):
        read_metrics(path)


def test_a_folder_in_the_way_is_named(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(TrainingError, match="cannot be written"):
        MetricsFile(path)


def test_a_full_disk_leaves_whole_rows(tmp_path: Path) -> None:
    """A disk that fills up takes part of a row, and refuses the rest at the next write only."""
    with mounted(tmp_path / "disk", "size=12k") as disk:
        filler, path = disk / "filler", disk / "metrics.jsonl"
        filler.write_bytes(bytes(4096))
        with MetricsFile(path) as metrics:
            with pytest.raises(TrainingError, match=r"No space left.*go on with --resume"):
                log_steps(metrics, 1000)
            num_steps = len(steps_of(path))
            assert num_steps > 20
            assert steps_of(path) == [*range(1, num_steps + 1)]
            with pytest.raises(TrainingError, match=r"No space left"):
                metrics.log(num_steps, dict.fromkeys(map(str, range(1000)), 0.5))
            assert steps_of(path) == [*range(1, num_steps + 1)]
            assert rows_of(path)[-1].keys() == {"step", "time_s", "reward"}
            filler.unlink()
            metrics.log(num_steps + 1, {"reward": 0.25})
        assert steps_of(path) == [*range(1, num_steps + 2)]
        assert path.stat().st_size > 4096
