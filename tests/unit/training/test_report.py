"""The report of a run folder, whatever of it is there yet."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from training.errors import StoppedRunError, TrainingError
from training.report import report
from training.runs import RunFolder

# A picture of one white pixel.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsH4vuwAAAABJRU5ErkJggg=="
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "a-run")


def log_rows(run: RunFolder, stage: str, *rows: dict[str, Any]) -> None:
    (run.path / stage).mkdir(parents=True)
    lines = [json.dumps({"step": step, "time_s": 90.0 * step, **row}) + "\n"
             for step, row in enumerate(rows, 1)]  # fmt: skip
    (run.path / stage / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def texts_of(page: Path) -> str:
    """Return the text of a page, its tables as one line a row."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"</t[dh]><t", " | <t", text)
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def test_the_curves_of_every_stage_are_drawn_and_shown(run: RunFolder) -> None:
    log_rows(run, "grpo", {"reward": 0.25}, {"reward": 0.5, "validation_f1": 0.75})
    log_rows(run, "warmstart", {"loss": 2.0}, {"loss": 1.0})
    page = report(run)
    assert page == run.path / "report.html"
    pictures = {path.name: path.read_bytes() for path in (run.path / "report").iterdir()}
    assert sorted(pictures) == ["grpo-quality.png", "grpo-reward.png", "warmstart-optimisation.png"]
    text = page.read_text(encoding="utf-8")
    for png in pictures.values():
        assert png.startswith(b"\x89PNG")
        assert f'src="data:image/png;base64,{base64.b64encode(png).decode()}"' in text
    assert "reward 0.25 at step 1, 0.5 at step 2" in text  # what the picture shows, in words
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text) == [
        "Overview",
        "Stage warmstart",  # first, as it ran first
        "Stage grpo",
    ]
    assert "<h1>Training run: a-run</h1>" in text


def test_the_overview_has_the_last_known_values(run: RunFolder) -> None:
    log_rows(run, "grpo", {"reward": 0.25, "validation_f1": 0.75}, {"reward": None}, {"loss": 0.5})
    write_json(run.path / "grpo" / "DONE", {})
    texts = texts_of(report(run))
    assert "grpo | finished | 3 | 4.5 | 0.500 | 0.250 | - | - | 0.750 | -" in texts
    assert "validation_f1 | 1 | 0.75 | 0.75 | 0.75 | 0.75" in texts
    assert "reward | 1 | 0.25" in texts


def test_a_metric_that_never_was_finite_is_said_so(run: RunFolder) -> None:
    log_rows(run, "grpo", {"loss": None})
    assert "loss | 0 | never finite" in texts_of(report(run))


def test_a_stopped_stage_names_the_reason_and_the_knob(run: RunFolder) -> None:
    log_rows(run, "grpo", {"reward": 0.25})
    run.stage("grpo").mark_stopped(StoppedRunError("90% of <all> are equal", "raise rl.beta"))
    texts = texts_of(report(run))
    notice = "Stage grpo was stopped: 90% of <all> are equal. What to change: raise rl.beta."
    assert texts.count(notice) == 2  # in the overview and with its stage
    assert "grpo | stopped | 1" in texts


def test_evaluations_and_the_configuration_are_shown(run: RunFolder) -> None:
    log_rows(run, "grpo", {"reward": 0.25})
    metric = {"value": 0.5, "low": 0.25, "high": 0.75}
    checks = ("num_justifications", "quoted", "verbatim", "agreeing", "neutral", "contradicting")
    part = {
        "name": "overall",
        "num_rows": 4,
        "metrics": {name: metric for name in ("f1", "balanced_accuracy", "unreadable_rate", "ece")},
        "shortcuts": [{"name": "length", "f1": 0.9, "balanced_accuracy": 0.9, "num_rows": 4}],
        "justifications": dict.fromkeys(checks, 0.5),
    }
    evaluation = {"provenance": {"model": "<m>"}, "slices": [part]}
    write_json(run.evaluation / "grpo.json", evaluation)
    (run.evaluation / "grpo.png").write_bytes(PIXEL)
    write_json(run.evaluation / "calibration.json", {"temperature": 1.25})
    write_json(run.path / "config.json", {"config": {"name": "x", "rl": {"beta": 0.5}}})
    page = report(run)
    texts = texts_of(page)
    assert "grpo | 0.500 (0.250-0.750) | 0.500 (0.250-0.750) | - | -" in texts
    assert "overall | rule: length | 4 |  |  | 0.900 | 0.900" in texts
    assert "model | <m>" in texts
    assert "temperature | 1.25" in texts
    assert "config.rl.beta | 0.5" in texts
    text = page.read_text(encoding="utf-8")
    assert base64.b64encode(PIXEL).decode() in text
    assert 'alt="Reliability of grpo: for bins' in text


def test_a_broken_file_is_left_out_and_named(
    run: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    log_rows(run, "grpo", {"reward": 0.25})
    run.evaluation.mkdir()
    (run.evaluation / "half.json").write_text('{"slices": [', encoding="utf-8")
    (run.evaluation / "bytes.json").write_bytes(b"\xff\xfe")
    (run.path / "config.json").write_text("", encoding="utf-8")
    assert "Configuration" not in texts_of(report(run))
    for name in ("half.json", "bytes.json", "config.json"):
        assert f"{name} cannot be read and is left out" in caplog.text


def test_half_a_row_of_a_stage_that_still_trains_is_passed_over(run: RunFolder) -> None:
    log_rows(run, "grpo", {"reward": 0.25})
    with (run.path / "grpo" / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 2, "rew')
    assert "grpo | not finished | 1 |" in texts_of(report(run))


def test_a_report_takes_the_place_of_the_last_one(run: RunFolder) -> None:
    log_rows(run, "grpo", {"reward": 0.25, "loss": 1.0})
    report(run)
    (run.path / "grpo" / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0}\n')
    report(run)
    names = sorted(path.name for path in run.path.iterdir())
    assert names == ["grpo", "report", "report.html"]
    assert [path.name for path in (run.path / "report").iterdir()] == ["grpo-optimisation.png"]


def test_a_plain_path_will_do(run: RunFolder) -> None:
    log_rows(run, "grpo", {"reward": 0.25})
    assert report(run.path) == run.path / "report.html"


@pytest.mark.parametrize("is_begun", [False, True], ids=["no-folder", "nothing-logged"])
def test_a_run_without_metrics_says_what_to_run(run: RunFolder, is_begun: bool) -> None:
    if is_begun:
        log_rows(run, "warmstart")
    with pytest.raises(TrainingError, match=r"has logged a step yet: run `python -m training"):
        report(run)
    assert not (run.path / "report.html").exists()


def test_another_file_under_the_name_of_the_metrics_is_named(run: RunFolder) -> None:
    log_rows(run, "grpo")
    (run.path / "grpo" / "metrics.jsonl").write_text("[1, 2]\n", encoding="utf-8")
    with pytest.raises(TrainingError, match="line 1 is no row of metrics"):
        report(run)


def test_the_page_is_logged(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_rows(run, "grpo", {"reward": 0.25})
    report(run)
    assert f"the report is in {run.path / 'report.html'}" in caplog.text
