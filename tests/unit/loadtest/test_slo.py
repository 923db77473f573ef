"""Goals: how they are read, refused, and held against figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.checks import Outcome
from loadtest.errors import GoalsError
from loadtest.profiles import PROFILE_NAMES
from loadtest.slo import (
    Status,
    choose_deployment,
    exit_code,
    judge_figures,
    judge_starts,
    read_goals,
    read_quantity,
)

GOOD = """
[here]
device = "cpu"
rate = "1.5 /s"
measured = true
note = "a test"
[here.goals.slo]
p50 = "800 ms"
p95 = "2 s"
error_rate = "0.5 %"
goodput = "99 %"
goodput_within = "2 s"
[here.goals.coldstart]
cold_start = "1.5 min"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "slo.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_goals_are_read_in_their_units(tmp_path: Path) -> None:
    here = read_goals(write(tmp_path, GOOD))["here"]
    assert here.rate_per_s == 1.5
    assert here.is_measured
    assert here.goals == {
        "slo": {"p50": 0.8, "p95": 2.0, "error_rate": 0.005, "goodput": 0.99},
        "coldstart": {"cold_start": 90.0},
    }
    assert here.goodput_within_s == {"slo": 2.0}


REFUSED = {
    "field": ("p50 =", "p90 =", "here.goals.slo.p90 is unknown, allowed are: p50, p95, p99"),
    "unit": ("800 ms", "800 us", "here.goals.slo.p50 must be a number with one of the units ms, s"),
    "unit-of-another": ("800 ms", "8 %", "the unit '%' is unknown"),
    "no-unit": ('"800 ms"', "800", "not 800"),
    "no-number": ("800 ms", "fast", "not 'fast'"),
    "negative": ("800 ms", "-8 ms", "not '-8 ms'"),
    "share": ("0.5 %", "500 %", "here.goals.slo.error_rate must be at most 100 %"),
    "profile": ("goals.slo", "goals.slow", "here.goals.slow is unknown, allowed are: smoke, slo"),
    "key": ("note =", "notes =", "here.notes is unknown, allowed are: rate, measured"),
    "no-note": ('note = "a test"', "", "here.note is missing"),
    "measured": ("measured = true", 'measured = "yes"', "here.measured is missing, or no boolean"),
    "device": ('device = "cpu"', "device = 1", "here.device is no string"),
    "rate": ("1.5 /s", "0 /s", "here.rate must be above 0"),
    "no-table": ("[here.goals.coldstart]", "[here]\ngoals = 1\n[x]", ""),
    "goal-elsewhere": ("cold_start =", "p50 =", "here.goals.coldstart.p50 is not measured there"),
    "start-in-slo": ("p50 =", "cold_start =", "here.goals.slo.cold_start is not measured there"),
    "goodput": ('goodput_within = "2 s"', "", "both or neither of goodput and goodput_within"),
    "toml": ("[here]", "[here", "cannot be read"),
}


@pytest.mark.parametrize(("old", "new", "says"), REFUSED.values(), ids=REFUSED)
def test_what_is_unknown_is_refused_by_its_name(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(GoalsError) as caught:
        read_goals(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GoalsError, match="cannot be read"):
        read_goals(tmp_path / "none.toml")
    with pytest.raises(GoalsError, match="names no deployment"):
        read_goals(write(tmp_path, ""))


def test_the_projects_own_goals_are_sound() -> None:
    deployments = read_goals()
    assert {"cpu-embedded", "fake", "cuda"} <= set(deployments)
    # No GPU has been at hand: nothing may say otherwise before one has.
    assert not any(each.is_measured for name, each in deployments.items() if "cuda" in name)
    for name in ("cpu-embedded", "fake", "cuda"):
        assert set(deployments[name].goals) == set(PROFILE_NAMES)


def test_the_deployment_is_the_one_of_the_device_or_named(tmp_path: Path) -> None:
    other = GOOD.replace("here", "there").replace("cpu", "cuda")
    deployments = read_goals(write(tmp_path, GOOD + other))
    assert choose_deployment(deployments, None, "cuda").name == "there"
    assert choose_deployment(deployments, "here", "cuda").name == "here"
    with pytest.raises(GoalsError, match=r"0 deployments .* 'tpu': name one .*here, there"):
        choose_deployment(deployments, None, "tpu")
    with pytest.raises(GoalsError, match="no deployment 'nowhere'"):
        choose_deployment(deployments, "nowhere", "cpu")


def test_two_deployments_of_one_device_must_be_named(tmp_path: Path) -> None:
    deployments = read_goals(write(tmp_path, GOOD + GOOD.replace("here", "there")))
    with pytest.raises(GoalsError, match="2 deployments"):
        choose_deployment(deployments, None, "cpu")


@pytest.mark.parametrize(
    ("text", "quantity", "value"),
    [("1 min", "time", 60), (" 2.5s ", "time", 2.5), ("0 %", "share", 0), ("3 /s", "rate", 3)],
)
def test_quantities(text: str, quantity: str, value: float) -> None:
    assert read_quantity(text, quantity) == value


GOALS = {"p50": 1.0, "p95": 2.0, "error_rate": 0.01, "shed_rate": 0.1, "goodput": 0.9}


def test_goals_are_met_up_to_their_value(make_row, make_run) -> None:
    rows = [make_row(n / 10, 1.0) for n in range(90)]
    rows += [make_row(9, 0.01, outcome=Outcome.SHED) for _ in range(10)]
    verdicts = judge_figures(GOALS, make_run(rows).figures)
    assert [each.status for each in verdicts] == [Status.MET] * 5
    assert [each.value for each in verdicts] == pytest.approx([1.0, 1.0, 0.0, 0.1, 0.9])
    assert exit_code(verdicts) == 0


@pytest.mark.parametrize("name", list(GOALS))
def test_each_goal_can_be_missed(make_row, make_run, name: str) -> None:
    rows = [make_row(n / 10, 1.0) for n in range(80)]
    rows += [make_row(9, 5.0) for _ in range(10)]
    rows += [make_row(9, 0.01, outcome=Outcome.SHED) for _ in range(10)]
    rows += [make_row(9, 0.01, outcome=Outcome.ERROR) for _ in range(10)]
    figures = make_run(rows, goodput_within_s=3.0).figures
    tight = {"p50": 0.9, "p95": 2.0, "error_rate": 0.09, "shed_rate": 0.09, "goodput": 0.75}
    (verdict,) = judge_figures({name: tight[name]}, figures)
    assert verdict.status is Status.MISSED
    assert exit_code([verdict]) == 1


def test_too_few_answers_tell_nothing_of_a_high_percentile(make_row, make_run) -> None:
    figures = make_run([make_row(n / 10, 1.0) for n in range(99)]).figures
    verdicts = judge_figures({"p95": 2.0, "p99": 2.0}, figures)
    assert [each.status for each in verdicts] == [Status.MET, Status.UNTOLD]
    assert exit_code(verdicts) == 2
    # That a goal is missed is known all the same.
    assert exit_code(judge_figures({"p95": 0.5, "p99": 2.0}, figures)) == 1


def test_no_goal_is_none_that_is_met() -> None:
    assert exit_code([]) == 2


def test_starts_are_held_against_their_goals() -> None:
    verdicts = judge_starts({"cold_start": 10.0, "warm_start": 5.0}, {"cold_start": 12.0})
    assert [each.status for each in verdicts] == [Status.MISSED, Status.UNTOLD]
