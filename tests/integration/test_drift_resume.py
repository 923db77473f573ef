"""``python -m evaluation drift`` as a process that Ctrl-C stops, and one that goes on from it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.made_measurement import (
    SPEED,
    count_lines,
    drift_words,
    measure_baseline,
    read_report,
    say,
    write_golden,
)
from support.stub_service import StubService
from support.waiting import wait_until

from evaluation.drift_folder import REPORT_FILES

ROOT = Path(__file__).parents[2]
KEPT = "answers.partial.jsonl"
FLIPPED = ("c00", "c38")


@pytest.fixture
def stub() -> Iterator[Any]:
    service = StubService()
    yield service
    service.close()


def start(words: list[str]) -> subprocess.Popen[str]:
    hidden = ("HALLUCINATION_DETECTOR_API_KEY", "GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS")
    return subprocess.Popen(
        [sys.executable, "-m", "evaluation", *words],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name not in hidden},
        # A shell may have had it ignored, which a process inherits.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run(words: list[str]) -> str:
    """Run a command that passes; return what it said."""
    with start(words) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return err


def read_until(last: str, process: subprocess.Popen[str]) -> str:
    """Return what a process says up to a line that it says before it ends."""
    said: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        said.append(line)
        if line == last:
            return "".join(said)
    raise AssertionError("".join(said))


def without_speed(content: dict[str, Any]) -> dict[str, Any]:
    """Return what two runs must have in common."""
    kept = {name: content[name] for name in ("outcome", "golden", "changes", "by_kind", "flips")}
    kept["checks"] = [check for check in content["checks"] if check["name"] not in SPEED]
    kept["figures"] = [content[side]["figures"] for side in ("before", "after")]
    return kept


@pytest.mark.parametrize(
    ("num", "is_speed_resumed"), [(13, True), (53, False)], ids=["first-pass", "second-pass"]
)
def test_after_ctrl_c_only_the_rest_is_asked_and_the_result_is_the_same(
    stub: Any, tmp_path: Path, num: int, is_speed_resumed: bool
) -> None:
    """Two verdicts change: one before the stop, whose text must be kept for the report."""
    golden = write_golden(tmp_path / "golden.jsonl")
    stub.reply = lambda body: say(body["response"])
    assert measure_baseline(stub, golden, tmp_path / "baseline.json") == 0
    words = [*drift_words(stub, golden, tmp_path / "baseline.json"), "--concurrency", "2"]
    stub.reply = lambda body: say(body["response"], *FLIPPED)
    run([*words, "--out", str(tmp_path / "whole")])

    stub.bodies.clear()
    released = threading.Event()

    def reply(body: dict[str, Any]) -> Any:
        if len(stub.bodies) > num:
            released.wait(60)
        return say(body["response"], *FLIPPED)

    stub.reply = reply
    out = tmp_path / "resumed"
    with start([*words, "--out", str(out)]) as process:
        try:
            # A line for each answer, after the first line.
            wait_until(lambda: count_lines(out / KEPT) == 1 + num, 60)
            process.send_signal(signal.SIGINT)
            said = read_until("stopped; no result was written\n", process)
            # Two requests are still under way, for up to a minute: it waits for neither.
            assert process.wait(20) == 130
        finally:
            released.set()
            process.kill()
    assert f"{num} answers are kept in {out / KEPT}: the same command with --resume" in said
    assert {path.name for path in out.iterdir()} == {KEPT}
    kept = (out / KEPT).read_text()
    assert "Because of c00." in kept
    assert "Because of c01." not in kept, "no report has the text of a verdict that is the same"
    assert "A fact." not in kept

    stub.bodies.clear()
    assert f"{num} answers were kept" in run([*words, "--out", str(out), "--resume"])
    told = Counter(stub.responses)
    assert sum(told.values()) == 80 - num
    assert max(told.values()) == (2 if num < 40 else 1)
    whole, resumed = read_report(tmp_path / "whole"), read_report(out)
    assert without_speed(whole) == without_speed(resumed)
    texts = {flip["id"]: flip["after"]["justification"] for flip in resumed["flips"]}
    assert texts == {"c00": "Because of c00.", "c38": "Because of c38."}
    assert resumed["after"]["is_speed_resumed"] is is_speed_resumed
    assert {path.name for path in out.iterdir()} == set(REPORT_FILES)
