"""A measurement that was interrupted, and goes on: each command's ``--resume``.

That a process keeps its answers on Ctrl-C is in ``tests/integration/test_drift_resume.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.made_measurement import (
    LENIENT,
    SPEED,
    count_lines,
    drift_words,
    measure_baseline,
    read_report,
    say,
    write_golden,
)
from support.stub_service import StubService

from evaluation.__main__ import main
from evaluation.baseline import Baseline
from evaluation.drift_folder import REPORT_FILES
from evaluation.progress import Progress

pytestmark = [
    pytest.mark.usefixtures("drop_sockets_here"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

KEPT = "answers.partial.jsonl"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HALLUCINATION_DETECTOR_API_KEY", "GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stub() -> Iterator[Any]:
    service = StubService()
    service.reply = lambda body: say(body["response"])
    yield service
    service.close()


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return write_golden(tmp_path / "golden.jsonl")


@pytest.fixture
def words(stub: Any, golden: Path, tmp_path: Path) -> list[str]:
    """The command line of ``drift``, but for --out."""
    assert measure_baseline(stub, golden, tmp_path / "baseline.json") == 0
    stub.bodies.clear()
    return drift_words(stub, golden, tmp_path / "baseline.json")


Interrupt = Callable[[Callable[[int], bool], Callable[[], int]], None]


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch, drop_sockets_here: Callable[[], None]) -> Interrupt:
    """Run a command, and press Ctrl-C when an answer is in."""

    def run(is_due: Callable[[int], bool], command: Callable[[], int]) -> None:
        def press(self: Progress, done: int, total: int) -> None:
            if is_due(done):
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Progress, "__call__", press)
            assert command() == 130
        # Requests under way end by themselves, and would be counted later.
        drop_sockets_here()

    return run


@pytest.mark.parametrize(
    ("num", "status"), [(13, "reported"), (53, "passed")], ids=["first-pass", "second-pass"]
)
def test_the_speed_of_a_pass_that_was_taken_up_again_is_not_judged(
    words: list[str], tmp_path: Path, interrupt: Interrupt, num: int, status: str
) -> None:
    out = tmp_path / "reports"
    interrupt(lambda done: done == num, lambda: main([*words, "--out", str(out)]))
    assert main([*words, "--out", str(out), "--resume"]) == 0
    checks = {check["name"]: check for check in read_report(out)["checks"]}
    assert {checks[name]["status"] for name in SPEED} == {status}
    is_told = "the measurement of service was interrupted and taken up again"
    assert (is_told in checks["throughput"]["text"]) is (status == "reported")
    assert read_report(out)["after"]["speed"]["cases_per_s"] > 0


@pytest.mark.parametrize(
    ("num", "is_known"), [(13, False), (53, True)], ids=["first-pass", "second-pass"]
)
def test_a_baseline_goes_on_and_has_no_speed_of_two_runs(
    stub: Any,
    golden: Path,
    tmp_path: Path,
    interrupt: Interrupt,
    capsys: pytest.CaptureFixture[str],
    num: int,
    is_known: bool,
) -> None:
    out = tmp_path / "deep" / "baseline.json"
    interrupt(lambda done: done == num, lambda: measure_baseline(stub, golden, out))
    (kept,) = out.parent.iterdir()
    assert kept.name == "baseline.json.answers.partial.jsonl"
    assert "Because" not in kept.read_text(), "a baseline has no text"
    stub.bodies.clear()
    capsys.readouterr()
    assert measure_baseline(stub, golden, out, "--resume") == 0
    assert len(stub.bodies) == 80 - num
    assert list(out.parent.iterdir()) == [out]
    baseline = Baseline.read(out)
    assert baseline.num_cases == 40
    assert baseline.overall.balanced_accuracy == 1.0
    assert baseline.speed.is_known is is_known
    assert baseline.speed.concurrency == 8
    assert ("It has no speed" in capsys.readouterr().err) is not is_known


def test_a_comparison_goes_on_with_the_service_that_it_was_at(
    stub: Any, golden: Path, tmp_path: Path, interrupt: Interrupt
) -> None:
    other = StubService()
    other.reply = lambda body: say(body["response"], "c00")
    out = tmp_path / "reports"
    line = ["compare", "--a", stub.url, "--b", other.url, "--set", str(golden), "--out", str(out)]
    try:
        interrupt(lambda done: bool(other.bodies) and done == 7, lambda: main([*line, *LENIENT]))
        names = {path.name for path in out.iterdir()}
        assert names == {"answers-a.partial.jsonl", "answers-b.partial.jsonl"}
        assert count_lines(out / "answers-b.partial.jsonl") == 1 + 7
        stub.bodies.clear()
        other.bodies.clear()
        assert main([*line, *LENIENT, "--resume"]) == 0
    finally:
        other.close()
    assert stub.bodies == []
    assert len(other.bodies) == 80 - 7
    (flip,) = read_report(out)["flips"]
    assert flip["id"] == "c00"
    assert flip["before"]["justification"] == flip["after"]["justification"] == "Because of c00."
    assert {path.name for path in out.iterdir()} == set(REPORT_FILES)


@pytest.fixture
def interrupted(words: list[str], tmp_path: Path, interrupt: Interrupt) -> Path:
    """Return the folder of an interrupted drift gate."""
    out = tmp_path / "reports"
    interrupt(lambda done: done == 13, lambda: main([*words, "--out", str(out)]))
    return out


def test_answers_of_another_service_are_refused(
    stub: Any, words: list[str], interrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.info[2]["engine"]["dtype"] = "bfloat16"
    stub.bodies.clear()
    before = (interrupted / KEPT).read_bytes()
    assert main([*words, "--out", str(interrupted), "--resume"]) == 2
    err = capsys.readouterr().err
    assert "are of something else: service.engine.dtype was " in err
    assert '"none" and is "bfloat16"' in err
    assert "leave out --resume to start anew" in err
    assert stub.bodies == []
    assert (interrupted / KEPT).read_bytes() == before
    assert main([*words, "--out", str(interrupted)]) == 0
    assert len(stub.bodies) == 80
    assert "starting anew: the answers in" in capsys.readouterr().err


def test_answers_to_another_set_or_at_another_concurrency_are_refused(
    words: list[str], interrupted: Path, golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [*words, "--out", str(interrupted), "--resume"]
    assert main([*line, "--concurrency", "3"]) == 2
    assert "passes.together was 8 and is 3" in capsys.readouterr().err
    golden.write_text(golden.read_text().replace("A fact.", "Another fact."))
    assert main([*line, "--accept-change"]) == 2
    assert "are of something else: golden was " in capsys.readouterr().err


def test_answers_beside_another_baseline_are_refused(
    stub: Any,
    golden: Path,
    words: list[str],
    interrupted: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Which justifications are kept depends on which verdicts are another's."""
    stub.reply = lambda body: say(body["response"], "c03")
    assert measure_baseline(stub, golden, tmp_path / "baseline.json") == 0
    assert main([*words, "--out", str(interrupted), "--resume"]) == 2
    assert "are of something else: compared_with was " in capsys.readouterr().err


def test_a_line_that_was_cut_off_is_asked_again(
    stub: Any, words: list[str], interrupted: Path
) -> None:
    path = interrupted / KEPT
    path.write_text(path.read_text()[:-9])
    stub.bodies.clear()
    assert main([*words, "--out", str(interrupted), "--resume"]) == 0
    assert len(stub.bodies) == 80 - 12


def test_what_is_no_file_of_answers_is_refused_and_none_is_no_fault(
    stub: Any, words: list[str], interrupted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (interrupted / KEPT).write_text('{"format": 0}\n')
    line = [*words, "--out", str(interrupted), "--resume"]
    assert main(line) == 2
    assert "is no file of kept answers that this code reads" in capsys.readouterr().err
    (interrupted / KEPT).unlink()
    stub.bodies.clear()
    assert main(line) == 0
    assert "there is nothing to go on from" in capsys.readouterr().err
    assert len(stub.bodies) == 80


def test_a_service_that_dies_is_gone_on_with_and_one_that_changed_is_not(
    stub: Any, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "reports"
    line = [*words, "--out", str(out), "--concurrency", "1"]
    stub.reply = lambda body: None if len(stub.bodies) > 20 else say(body["response"])
    assert main(line) == 2
    assert "20 answers are kept in" in capsys.readouterr().err
    assert (out / "report.json").exists()
    stub.reply = lambda body: say(body["response"])
    stub.bodies.clear()
    assert main([*line, "--resume"]) == 0
    assert len(stub.bodies) == 60

    def change(body: dict[str, Any]) -> Any:
        stub.info[2]["engine"]["dtype"] = "bfloat16"
        return say(body["response"])

    stub.reply = change
    assert main(line) == 2
    err = capsys.readouterr().err
    assert "the service changed during the measurement" in err
    assert "answers are kept" not in err
    assert not (out / KEPT).exists(), "some may be the other service's"


def test_a_service_that_is_not_ready_costs_no_kept_answer(
    stub: Any, words: list[str], interrupted: Path
) -> None:
    stub.is_ready = False
    assert main([*words, "--out", str(interrupted), "--wait", "0.3"]) == 2
    assert count_lines(interrupted / KEPT) == 1 + 13
