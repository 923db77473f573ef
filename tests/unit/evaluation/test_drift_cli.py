"""``python -m evaluation drift`` and ``compare`` against real HTTP servers: outcomes and files."""

from __future__ import annotations

import copy
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.made_baseline import RIGHT, WRONG, MadeCase, answer
from support.stub_service import ANSWER, INFO, StubService, problem_json

from client.models import Classification
from evaluation.__main__ import main
from evaluation.baseline import Baseline, Case, Figures, Speed
from evaluation.drift_folder import REPORT_FILES
from evaluation.golden_set import load_golden_set
from evaluation.identity import ServiceIdentity
from evaluation.json_fields import Fields
from evaluation.noise import Outcome
from evaluation.progress import Progress

KINDS = ("numbers", "dates", "units", "hostile")
ROWS = [
    MadeCase(f"c{n:02}", (WRONG, RIGHT)[n % 2], KINDS[n // 2 % 4], f"p{n // 2:02}")
    for n in range(40)
]
GOLDS = {row.id: row.label for row in ROWS}
# Latency on this machine is nobody's business here, and 40 cases show large drops alone.
LENIENT = (
    *("--max-p50-ratio", "1e9", "--max-p95-ratio", "1e9"),
    *("--min-throughput-ratio", "1e-9", "--max-detectable-drop", "0.4"),
)
UNREADABLE: Any = (502, {}, problem_json(502, "unreadable-reply"))
KEPT = "answers.partial.jsonl"
FAILURE_FILES = {"report.json", "report.md", "junit.xml"}


def say(name: str, is_right: bool = True, text: str = "So.") -> Any:
    """Answer a case; the two last are wrong in any case."""
    is_wrong = (GOLDS[name] is WRONG) is (is_right and name not in ("c38", "c39"))
    return answer(0.9 if is_wrong else 0.1, text)


pytestmark = [
    pytest.mark.usefixtures("drop_sockets_here"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALLUCINATION_DETECTOR_API_KEY", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def serve() -> Any:
    service = StubService()
    service.reply = lambda body: say(body["response"])
    return service


@pytest.fixture
def stub() -> Iterator[Any]:
    service = serve()
    yield service
    service.close()


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("golden") / "golden.jsonl"
    path.write_text("".join(json.dumps(row.to_json()) + "\n" for row in ROWS))
    return path


@pytest.fixture(scope="module")
def recorded(golden: Path) -> Baseline:
    """Return what ``baseline`` writes of the stub."""
    cases = []
    for row in ROWS:
        said = Outcome.of(Classification.from_json(say(row.id)[2]))
        cases.append(Case(row.id, said, said))
    figures = Figures(40, 0.95, 0.95, 0.95, 0.95, 0.05, 0.0)
    return Baseline(
        service=ServiceIdentity.from_json(Fields(copy.deepcopy(INFO))),
        golden_sha256=load_golden_set(golden).sha256,
        cases=tuple(cases),
        overall=figures,
        by_kind={"numbers": figures},
        speed=Speed(8, 10.0, 20.0, 100.0),
    )


@pytest.fixture
def baseline(recorded: Baseline, tmp_path: Path) -> Path:
    path = tmp_path / "baseline.json"
    recorded.write(path)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "reports"


@pytest.fixture
def drift(stub: Any, golden: Path, baseline: Path, out: Path) -> Callable[..., int]:
    def run(*options: str) -> int:
        paths = ["--set", str(golden), "--baseline", str(baseline), "--out", str(out)]
        return main(["drift", "--url", stub.url, *paths, *LENIENT, *options])

    return run


def read(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "report.json").read_text())
    return content


def names(content: dict[str, Any], status: str) -> set[str]:
    return {check["name"] for check in content["checks"] if check["status"] == status}


def files(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()} if out.exists() else set()


def check_failure(out: Path, message: str) -> None:
    """Check that every report says why nothing could be measured, and nothing else."""
    assert files(out) - {KEPT} == FAILURE_FILES
    content = read(out)
    assert (content["outcome"], content["exit_code"]) == ("could not measure", 2)
    assert message in content["reason"]
    assert "python -m evaluation" in content["command"]
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert [suite.attrib[name] for name in ("tests", "failures", "errors")] == ["1", "0", "1"]
    error = suite.find("testcase/error")
    assert error is not None
    assert message in error.attrib["message"]
    markdown = (out / "report.md").read_text()
    assert "could not measure" in markdown.split("\n")[0]
    assert message in markdown


def test_the_same_service_passes_and_is_reported(
    drift: Callable[..., int],
    stub: Any,
    out: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# Earlier\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert drift() == 0
    content = read(out)
    assert (content["outcome"], content["exit_code"]) == ("same", 0)
    assert names(content, "failed") == names(content, "unsure") == set()
    assert content["golden"]["num_compared"] == 40
    assert content["before"]["figures"] == content["after"]["figures"]
    assert content["after"]["figures"]["balanced_accuracy"] == 0.95
    assert content["after"]["speed"]["concurrency"] == 8
    assert content["after"]["speed_alone"]["concurrency"] == 1
    assert content["flips"] == []
    assert Counter(stub.responses) == {row.id: 2 for row in ROWS}
    assert stub.responses[40:] == [row.id for row in ROWS], "the pass alone comes last, in order"
    markdown = (out / "report.md").read_text()
    assert "| correctness | passed | 0.000 | - | 1 |" in markdown
    assert summary.read_text() == f"# Earlier\n{markdown}\n"
    assert files(out) == set(REPORT_FILES)
    err = capsys.readouterr().err
    assert "would have been seen four times in five" in err
    assert "same: no check failed" in err


def test_flipped_verdicts_are_drift_and_listed(
    drift: Callable[..., int], stub: Any, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.reply = lambda body: say(
        body["response"], body["response"] >= "c12", "<b>Because</b> | of it."
    )
    assert drift() == 1
    content = read(out)
    assert content["outcome"] == "worse"
    assert {"correctness", "balanced accuracy", "F1", "flip rate"} <= names(content, "failed")
    assert [flip["id"] for flip in content["flips"]] == [f"c{n:02}" for n in range(12)]
    flip = content["flips"][0]
    assert flip["before"]["justification"] is None
    assert flip["after"]["justification"] == "<b>Because</b> | of it."
    assert flip["is_justification_equal"] is False
    page = (out / "report.html").read_text()
    assert page.count("<img ") == 3
    assert "&lt;b&gt;Because&lt;/b&gt;" in page
    assert "another one" in page
    assert "c00, numbers, hallucination: hallucination (0.900), correct (0.100)" in page
    assert "Because" not in (out / "report.md").read_text(), "a summary holds no text of a case"
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert int(suite.attrib["tests"]) == len(suite) == len(content["checks"])
    failures = {case.attrib["name"] for case in suite if case.find("failure") is not None}
    assert failures == names(content, "failed")
    assert int(suite.attrib["failures"]) == len(failures)
    assert "failed: correctness: right verdicts: 38 of 40 before" in capsys.readouterr().err


def test_a_slower_service_is_drift_and_other_hardware_is_not_judged(
    drift: Callable[..., int], stub: Any, out: Path, baseline: Path, recorded: Baseline
) -> None:
    replace(recorded, speed=Speed(8, 0.001, 0.001, 1e6)).write(baseline)
    limits = ["--max-p50-ratio", "2", "--max-p95-ratio", "2", "--min-throughput-ratio", "0.5"]
    assert drift(*limits) == 1
    speed = {"p50 latency", "p95 latency", "throughput"}
    assert names(read(out), "failed") == speed
    stub.info[2]["hardware"]["num_cores"] = 64
    assert drift(*limits) == 0
    assert speed <= names(read(out), "reported")
    assert "the hardware was Made-up 3000, 2 cores and is" in (out / "report.md").read_text()


def test_verdicts_that_differ_alone_are_drift(
    drift: Callable[..., int], stub: Any, out: Path
) -> None:
    """The pass alone is the second time that a case is asked for."""
    asked: Counter[str] = Counter()
    lock = threading.Lock()

    def reply(body: dict[str, Any]) -> Any:
        with lock:
            asked[body["response"]] += 1
        return say(body["response"], asked[body["response"]] == 1 or body["response"] > "c13")

    stub.reply = reply
    assert drift() == 1
    assert names(read(out), "failed") == {"alone and concurrent"}


def test_unreadable_replies_are_drift(drift: Callable[..., int], stub: Any, out: Path) -> None:
    stub.reply = lambda body: UNREADABLE if body["response"] < "c12" else say(body["response"])
    assert drift() == 1
    assert {"correctness", "unreadable rate"} <= names(read(out), "failed")


def test_too_few_cases_cannot_tell(drift: Callable[..., int], out: Path) -> None:
    assert drift("--max-detectable-drop", "0.1") == 2
    content = read(out)
    assert (content["outcome"], content["exit_code"]) == ("could not tell", 2)
    assert names(content, "unsure") == {"power"}
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert suite.attrib["errors"] == "1"


def test_a_service_that_is_not_ready_could_not_be_measured(
    drift: Callable[..., int],
    stub: Any,
    out: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    stub.is_ready = False
    assert drift("--wait", "0.3") == 2
    said = capsys.readouterr()
    assert "could not measure: http" in said.err
    assert said.out == "", "annotations are for GitHub Actions"
    check_failure(out, "is not ready")
    assert (tmp_path / "summary.md").read_text() == (out / "report.md").read_text() + "\n"
    assert stub.bodies == []


def test_on_github_actions_the_cause_is_one_annotation(
    drift: Callable[..., int],
    stub: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A service that answers with line ends must not speak to the runner."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    problem = problem_json(401, "unauthorized", "no key\n::add-mask::a\r::debug::100 %")
    stub.info = (401, {}, problem)
    assert drift() == 2
    said = capsys.readouterr()
    assert said.out == (
        "::error::could not measure: the service does not say what it serves: 401 Unauthorized: "
        "no key%0A::add-mask::a%0D::debug::100 %25 (request r2)\n"
    )
    assert "::add-mask::a" in said.err
    assert not [line for line in said.err.splitlines() if line.startswith("::")]
    stub.info = (200, {}, copy.deepcopy(INFO))
    stub.reply = lambda body: say(body["response"], body["response"] >= "c12")
    assert drift() == 1
    assert capsys.readouterr().out.startswith("::error::worse: failed: correctness, ")


def test_what_a_service_says_is_no_heading_and_no_exit_code(
    drift: Callable[..., int], stub: Any, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lone surrogate could not be printed, and the gate ended as if there were drift."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    problem = problem_json(401, "unauthorized", "no key \ud800\n# Drift gate: same\n")
    stub.info = (401, {}, problem)
    assert drift() == 2
    assert (out / "report.md").read_text().count("\n# ") == 0
    assert "no key ? # Drift gate: same" in (out / "report.md").read_text()


def test_nothing_there_could_not_be_measured(
    stub: Any, golden: Path, baseline: Path, out: Path
) -> None:
    url = stub.url
    stub.close()
    paths = ["--set", str(golden), "--baseline", str(baseline), "--out", str(out)]
    assert main(["drift", "--url", url, *paths, "--wait", "0.3"]) == 2
    check_failure(out, f"{url} is not ready")


@pytest.mark.parametrize(
    "reply",
    [
        lambda count, name: None if count > 20 else say(name),
        lambda count, name: (401, {}, problem_json(401, "unauthorized")),
        lambda count, name: (200, {}, b"<html>"),
        lambda count, name: (
            (503, {}, problem_json(503, "overloaded")) if name[-1] in "258" else say(name)
        ),
        lambda count, name: (200, {}, {**ANSWER, "probability": float("nan")}),
    ],
    ids=["dies-midway", "key", "html", "refuses-a-third", "nan"],
)
def test_a_fault_midway_could_not_be_measured_and_is_reported(
    drift: Callable[..., int],
    stub: Any,
    out: Path,
    reply: Callable[[int, str], Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    out.mkdir()
    (out / "report.json").write_text('{"outcome": "same"}')
    (out / "report.html").write_text("same")
    stub.reply = lambda body: reply(len(stub.bodies), body["response"])
    assert drift() == 2
    err = capsys.readouterr().err
    assert "could not measure: the service gave no verdict on row c" in err
    assert "Traceback" not in err
    check_failure(out, "the service gave no verdict on row c")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contract": "other"}, "the contract was 4567ef01 and is other"),
        ({"weights_sha256": "cd" * 32}, "the model was embedded@0123abcd and is embedded@"),
        (
            {"calibration": {"temperature": 1.5000001, "threshold": 0.5}},
            "the calibration was temperature 1.5, threshold 0.5 and is temperature 1.5000001, ",
        ),
        (
            {"calibration": {"temperature": 1.5, "threshold": 0.4}},
            "temperature 1.5, threshold 0.5 and is temperature 1.5, threshold 0.4",
        ),
    ],
    ids=["contract", "model", "temperature", "threshold"],
)
def test_another_contract_model_or_calibration_is_refused_unless_accepted(
    drift: Callable[..., int],
    stub: Any,
    out: Path,
    change: dict[str, Any],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stub.info[2].update(change)
    assert drift() == 2
    err = capsys.readouterr().err
    assert message in err
    assert "--accept-change" in err
    assert stub.bodies == []
    check_failure(out, message)
    assert drift("--accept-change") == 0
    content = read(out)
    assert message in content["changes"][0]
    assert {"flip rate", "probability, KS", "probability, PSI"} <= names(content, "reported")


def test_another_golden_set_is_refused_unless_accepted(
    stub: Any,
    baseline: Path,
    out: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "fewer.jsonl"
    path.write_text("".join(json.dumps(row.to_json()) + "\n" for row in ROWS[:30]))
    words = ["drift", "--url", stub.url, "--set", str(path), "--baseline", str(baseline)]
    assert main([*words, "--out", str(out), *LENIENT]) == 2
    assert "the golden set was" in capsys.readouterr().err
    check_failure(out, "the golden set was")
    main([*words, "--out", str(out), *LENIENT, "--accept-change"])
    assert read(out)["golden"]["num_compared"] == 30


def test_a_baseline_that_lacks_a_case_is_refused(
    drift: Callable[..., int],
    stub: Any,
    baseline: Path,
    recorded: Baseline,
    out: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = replace(recorded.overall, num_cases=39)
    replace(
        recorded, cases=recorded.cases[:-1], overall=figures, by_kind={"numbers": figures}
    ).write(baseline)
    assert drift() == 2
    assert "not of its cases (the first is 'c39')" in capsys.readouterr().err
    baseline.write_text(baseline.read_text().replace("0.9", "NaN", 1))
    assert drift() == 2
    assert "NaN is no JSON number" in capsys.readouterr().err
    check_failure(out, "NaN is no JSON number")
    assert stub.bodies == []


def test_a_broken_golden_set_is_reported_with_its_line(
    stub: Any, golden: Path, baseline: Path, out: Path, tmp_path: Path
) -> None:
    """It was found out before earlier reports were removed, which then stood for this one's."""
    broken = tmp_path / "broken.jsonl"
    broken.write_text(golden.read_text() + "{\n")
    out.mkdir()
    (out / "report.json").write_text('{"outcome": "same"}')
    (out / "report.html").write_text("same")
    words = ["drift", "--url", stub.url, "--set", str(broken), "--baseline", str(baseline)]
    assert main([*words, "--out", str(out)]) == 2
    check_failure(out, f"{broken}, line 41: ")
    assert stub.bodies == []


def test_a_fault_of_our_own_is_no_drift(
    drift: Callable[..., int],
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python ends with 1 on an exception, which is the exit code of drift."""

    def fail(self: Progress, done: int, total: int) -> None:
        raise ZeroDivisionError("made up")

    monkeypatch.setattr(Progress, "__call__", fail)
    assert drift() == 2
    assert "Traceback" in capsys.readouterr().err
    check_failure(out, "ZeroDivisionError: made up")


def test_a_limit_out_of_range_or_a_folder_that_is_a_file_is_found_out_first(
    drift: Callable[..., int], stub: Any, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drift("--margin", "0") == 2
    assert "margin must be above 0 and below 1, not 0" in capsys.readouterr().err
    check_failure(out, "margin must be above 0 and below 1, not 0")
    for name in files(out):
        (out / name).unlink()
    out.rmdir()
    out.write_text("")
    assert drift() == 2
    err = capsys.readouterr().err
    assert "could not measure: " in err
    assert "is a file: name a folder with --out" in err
    assert out.read_text() == ""
    assert stub.bodies == []


def test_ctrl_c_midway_leaves_no_report_and_what_was_answered(
    drift: Callable[..., int],
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(self: Progress, done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "__call__", interrupt)
    assert drift() == 130
    assert files(out) == {KEPT}
    err = capsys.readouterr().err
    assert f"1 answers are kept in {out / KEPT}: the same command with --resume" in err
    assert "stopped; no result was written" in err


def test_ctrl_c_between_two_files_leaves_none(
    drift: Callable[..., int], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    sync = os.fsync

    def interrupt(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 3:
            raise KeyboardInterrupt
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", interrupt)
    assert drift() == 130
    assert files(out) == {KEPT}


def test_two_services_are_compared_with_both_texts(
    stub: Any, golden: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = serve()
    other.reply = lambda body: say(body["response"], body["response"] >= "c12", "No.")
    try:
        words = ["compare", "--a", stub.url, "--b", other.url, "--set", str(golden)]
        assert main([*words, "--out", str(out), *LENIENT]) == 1
    finally:
        other.close()
    content = read(out)
    assert (content["before"]["name"], content["after"]["name"]) == ("a", "b")
    assert content["before"]["speed_alone"]["concurrency"] == 1
    flip = content["flips"][0]
    assert (flip["before"]["justification"], flip["after"]["justification"]) == ("So.", "No.")
    markdown = (out / "report.md").read_text()
    assert "| balanced accuracy | 0.950 | 0.650 | -0.300 |" in markdown
    assert "cases a second, alone" in markdown
    assert "worse: failed: " in capsys.readouterr().err


def test_a_password_in_an_address_is_in_no_report(
    stub: Any, golden: Path, baseline: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It could not fail: no report was asked for, and a password with an @ was shown from there."""
    url = stub.url.replace("//", "//me:open@sesame@")
    paths = ["--set", str(golden), "--baseline", str(baseline), "--out", str(out)]
    assert main(["drift", "--url", url, *paths, *LENIENT]) == 2
    check_failure(out, "no request can be sent: base_url ")
    said = [*capsys.readouterr(), *((out / name).read_text() for name in FAILURE_FILES)]
    assert not [text for text in said if "sesame" in text]
