"""What is drawn of which metrics, down to the colours in the picture."""

from __future__ import annotations

import doctest
import io
import math
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from training import curves
from training.curves import Curve, Drawing, draw_figures, find_curve, pool_verdicts, running_mean
from training.figure_plans import PLANS, Line
from training.metrics_file import Row

REWARD = Line("reward", "reward", "#0072B2")


def test_the_worked_examples_hold() -> None:
    assert doctest.testmod(curves).failed == 0


def rows_of(**values: list[Any]) -> list[Row]:
    """Return one row for each step from 1, with the values that are not ``...``."""
    length = max(map(len, values.values()))
    rows: list[Row] = [{"step": step} for step in range(1, length + 1)]
    for name, column in values.items():
        for row, value in zip(rows, column, strict=False):
            if value is not ...:
                row[name] = value
    return rows


def draw_one(rows: list[Row], name: str) -> Drawing:
    (drawing,) = [each for each in draw_figures(rows) if each.name == name]
    return drawing


def count_pixels(png: bytes, colour: str) -> int:
    """Return the pixels of nearly that colour, ``#rrggbb``."""
    pixels = imread(io.BytesIO(png), format="png")[:, :, :3] * 255
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.abs(pixels - wanted).max(axis=2) < 12).sum())


def test_a_curve_has_the_steps_that_have_the_metric() -> None:
    rows = rows_of(reward=[0.1, ..., 0.3], loss=[1.0, 2.0, 3.0])
    assert find_curve(rows, REWARD) == Curve(REWARD, (1, 3), (0.1, 0.3))
    assert find_curve(rows, Line("kl", "KL", "#000000")) is None


def test_a_value_that_was_not_finite_is_a_gap() -> None:
    curve = find_curve(rows_of(reward=[0.1, None, 0.3]), REWARD)
    assert curve is not None
    assert curve.steps == (1, 2, 3)
    assert math.isnan(curve.values[1])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.5], "reward 0.5 at step 1"),
        ([0.5, 0.25], "reward 0.5 at step 1, 0.25 at step 2"),
        (
            [0.5, 0.125, 0.9, 0.75],
            "reward 0.5 at step 1, 0.75 at step 4 (lowest 0.125 at 2, highest 0.9 at 3)",
        ),
        ([None, 0.5], "reward 0.5 at step 2, not finite in 1 rows"),
        ([None], "reward never a finite number"),
    ],
)
def test_a_curve_is_put_into_words(values: list[float | None], words: str) -> None:
    curve = find_curve(rows_of(reward=values), REWARD)
    assert curve is not None
    assert curve.describe() == words


def test_only_what_was_logged_is_drawn() -> None:
    names = [each.name for each in draw_figures(rows_of(loss=[1.0, 0.5], kl=[0.0, 0.1]))]
    assert names == ["policy", "optimisation"]
    assert draw_figures(rows_of(unknown=[1.0])) == []


def test_all_figures_are_drawn_in_the_order_of_the_plans() -> None:
    metrics = {line.metric for plan in PLANS for panel in plan.panels for line in panel.lines}
    rows = rows_of(**{name: [0.25, 0.5, 0.75] for name in sorted(metrics)})
    drawings = draw_figures(rows)
    assert [each.name for each in drawings] == [plan.name for plan in PLANS]
    assert all(each.png.startswith(b"\x89PNG") for each in drawings)


def test_the_observed_share_stands_beside_the_expected_one() -> None:
    observed, expected = "#D55E00", "#777777"
    both = rows_of(
        zero_variance_share=[0.1, 0.5, 0.9], expected_zero_variance_share=[0.1, 0.2, 0.1]
    )
    drawing = draw_one(both, "reward")
    assert count_pixels(drawing.png, observed) > 300
    assert "observed 0.1 at step 1, 0.9 at step 3" in drawing.description
    assert "expected 0.1 at step 1, 0.1 at step 3" in drawing.description
    alone = draw_one(rows_of(zero_variance_share=[0.1, 0.5, 0.9]), "reward")
    assert count_pixels(drawing.png, expected) > count_pixels(alone.png, expected) + 200


def find_rows(png: bytes, colour: str, tolerance: int = 12) -> np.ndarray:
    """Return how far from the top each pixel of nearly that colour is, left of the legend."""
    pixels = imread(io.BytesIO(png), format="png")[:, :700, :3] * 255
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return np.nonzero(np.abs(pixels - wanted).max(axis=2) < tolerance)[0]


def test_a_higher_share_is_drawn_higher() -> None:
    low, high = (
        find_rows(draw_one(rows_of(zero_variance_share=[share] * 5), "reward").png, "#D55E00")
        for share in (0.2, 0.8)
    )
    assert high.mean() < low.mean() - 50


def test_the_times_of_a_step_are_stacked_and_phases_that_never_ran_are_left_out() -> None:
    blue, orange, green = "#0072B2", "#E69F00", "#009E73"
    rows = rows_of(rollout_s=[1.0] * 4, score_s=[0.0] * 4, update_s=[3.0] * 4)
    drawing = draw_one(rows, "time")
    num_blue, num_green = count_pixels(drawing.png, blue), count_pixels(drawing.png, green)
    assert num_green == pytest.approx(3 * num_blue, rel=0.05)
    assert count_pixels(drawing.png, orange) == 0
    assert "score" not in drawing.description


def test_rows_without_a_phase_leave_room_for_the_others() -> None:
    rows = rows_of(rollout_s=[1.0, ..., 1.0, None], update_s=[1.0, 1.0, ..., 1.0])
    drawing = draw_one(rows, "time")
    assert "rollout 1 at step 1, 1 at step 3, not finite in 1 rows" in drawing.description


def test_panels_are_named_in_the_words_for_a_figure() -> None:
    rows = rows_of(unreadable_rate=[0.5], validation_unreadable_rate=[0.25])
    assert draw_one(rows, "verdicts").description == (
        "Replies without a readable verdict: training 0.5 at step 1; validation 0.25 at step 1."
    )


@pytest.mark.parametrize(
    ("num_rows", "value"), [(1, 0.0), (2, 1e9), (40, None), (41, -1.0), (500, 0.0), (1, None)]
)
def test_any_number_of_rows_and_any_size_of_value_can_be_drawn(
    num_rows: int, value: float | None
) -> None:
    assert draw_figures(rows_of(loss=[value] * num_rows))[0].png


def test_a_long_run_has_a_running_mean_over_faint_rows() -> None:
    spike = [0.0] * 100 + [1.0] + [0.0] * 99
    drawing = draw_one(rows_of(reward=spike), "reward")
    bold, faint = find_rows(drawing.png, "#0072B2"), find_rows(drawing.png, "#B2D4E8", 30)
    assert faint.min() < bold.min() - 100  # the mean of 11 rows reaches 0.09 only
    assert "highest 1 at 101" in drawing.description


def test_a_learning_rate_is_drawn_as_it_is() -> None:
    spike = [0.0] * 100 + [1.0] + [0.0] * 99
    drawing = draw_one(rows_of(learning_rate=spike), "optimisation")
    line = find_rows(drawing.png, "#777777")
    assert line.max() - line.min() > 100


@pytest.mark.parametrize(
    ("values", "window", "means"),
    [
        ([], 3, []),
        ([2.0], 5, [2.0]),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 1, [1.0, 2.0, 3.0, 4.0, 5.0]),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 5, [2.0, 2.5, 3.0, 3.5, 4.0]),
    ],
)
def test_the_running_mean(values: list[float], window: int, means: list[float]) -> None:
    assert running_mean(values, window) == means


def test_the_running_mean_of_nothing_finite_is_a_gap() -> None:
    assert all(math.isnan(value) for value in running_mean([math.nan] * 3, 3))


def count_row(step: int, tp: int, fn: int, **rest: Any) -> Row:
    counts = {"train_tp": tp, "train_fp": 0, "train_tn": 0, "train_fn": fn}
    return {"step": step, "train_f1": 9.0, "train_recall": 9.0, **counts, **rest}


def test_verdicts_of_a_long_run_are_pooled_by_their_counts() -> None:
    rows = [count_row(1, tp=1, fn=0), count_row(2, tp=0, fn=3, reward=0.5)]
    first, second = pool_verdicts(rows, num_windows=1)
    assert "train_f1" not in first
    assert second["train_f1"] == 0.4  # 2 x 1 / (2 x 1 + 3); the mean of 1 and 0 would be 0.5
    assert second["train_recall"] == 0.25
    assert second["reward"] == 0.5
    assert rows[0]["train_f1"] == 9.0  # what was given is as it was


def test_verdicts_of_a_short_run_stay_as_they_are_and_rows_without_counts_too() -> None:
    bare: Row = {"step": 2, "train_f1": 0.5}
    rows = [count_row(1, 1, 0), bare, count_row(3, 0, 3)]
    assert [row["train_f1"] for row in pool_verdicts(rows)] == [1.0, 0.5, 0.0]


def test_windows_are_equally_long_but_for_the_last() -> None:
    rows = [count_row(step, 1, 0) for step in range(1, 101)]
    pooled = [row["step"] for row in pool_verdicts(rows) if "train_f1" in row]
    assert pooled == [*range(3, 100, 3), 100]  # 100 rows, at most 40 windows: 3 rows each
