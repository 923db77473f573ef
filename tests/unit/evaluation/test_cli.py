"""``python -m evaluation`` against a real HTTP server: exit codes, messages, the file."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.made_baseline import CASES, answer
from support.stub_service import StubService, problem_json

from evaluation.__main__ import main
from evaluation.baseline import Baseline
from evaluation.golden_set import load_golden_set
from evaluation.progress import Progress

pytestmark = [
    pytest.mark.usefixtures("drop_sockets_here"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

ROOT = Path(__file__).parents[3]
KEPT = "baseline.json.answers.partial.jsonl"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALLUCINATION_DETECTOR_API_KEY", raising=False)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


@pytest.fixture
def stub() -> Iterator[Any]:
    service = StubService()
    service.reply = lambda body: answer(0.75 if body["response"] in "ac" else 0.25)
    yield service
    service.close()


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    path = tmp_path / "golden.jsonl"
    path.write_text("".join(json.dumps(case.to_json()) + "\n" for case in CASES))
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "baseline.json"


def run(stub_or_url: Any, golden: Path, out: Path, *options: str) -> int:
    url = getattr(stub_or_url, "url", stub_or_url)
    paths = ["--set", str(golden), "--out", str(out)]
    return main(["baseline", "--url", url, *paths, *options])


def test_a_baseline_is_written_and_summed_up(
    stub: Any, golden: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(stub, golden, out) == 0
    baseline = Baseline.read(out)
    assert [case.id for case in baseline.cases] == ["a", "b", "c", "d"]
    assert baseline.golden_sha256 == load_golden_set(golden).sha256
    assert sorted(baseline.by_kind) == ["dates", "numbers"]
    assert baseline.speed.concurrency == 8
    assert "4 cases, balanced accuracy 1.000, F1 1.000, unreadable 0.0%" in capsys.readouterr().err
    assert [each.name for each in out.parent.iterdir()] == ["baseline.json"]


def test_the_same_service_gives_the_same_file_but_for_the_speed(
    stub: Any, golden: Path, out: Path
) -> None:
    run(stub, golden, out)
    before = json.loads(out.read_text())
    run(stub, golden, out, "--concurrency", "8")
    after = json.loads(out.read_text())
    assert before.pop("speed").keys() == after.pop("speed").keys()
    assert before == after


def test_the_key_comes_from_the_environment(
    stub: Any, golden: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALLUCINATION_DETECTOR_API_KEY", "sesame")
    assert run(stub, golden, out) == 0
    monkeypatch.setenv("MY_KEY", "open")
    assert run(stub, golden, out, "--api-key-env", "MY_KEY") == 0
    assert {each["Authorization"] for each in stub.headers[:8]} == {"Bearer sesame"}
    assert {each["Authorization"] for each in stub.headers[8:]} == {"Bearer open"}
    assert "sesame" not in out.read_text()


def test_a_service_that_is_never_ready_could_not_be_measured(
    stub: Any, golden: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.is_ready = False
    assert run(stub, golden, out, "--wait", "0.3") == 2
    err = capsys.readouterr().err
    assert "waiting up to 0.3 s until http" in err
    assert "could not measure: http" in err
    assert "load: x" in err
    assert not out.exists()
    assert stub.bodies == []


def test_a_service_that_becomes_ready_in_time_is_measured(
    stub: Any, golden: Path, out: Path
) -> None:
    stub.is_ready = False
    timer = threading.Timer(0.2, setattr, (stub, "is_ready", True))
    timer.start()
    assert run(stub, golden, out, "--wait", "10") == 0


def test_nothing_there_could_not_be_measured(
    golden: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    assert run(url, golden, out, "--wait", "0.2") == 2
    assert f"could not measure: {url} is not ready" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((401, {}, problem_json(401, "unauthorized", "send a key")), "401 Unauthorized: send a"),
        ((200, {}, b"<html>"), "text/html, not application/json"),
        ((500, {}, problem_json(500, "engine-fault")), "500 Engine-fault"),
    ],
    ids=["key", "html", "fault"],
)
def test_a_fault_midway_keeps_the_old_file(
    stub: Any,
    golden: Path,
    out: Path,
    capsys: pytest.CaptureFixture[str],
    reply: Any,
    message: str,
) -> None:
    run(stub, golden, out)
    before = out.read_bytes()
    plain = stub.reply
    stub.reply = lambda body: reply if body["response"] == "d" else plain(body)
    assert run(stub, golden, out) == 2
    err = capsys.readouterr().err
    assert "could not measure: the service gave no verdict on row d" in err
    assert message in err
    assert "Traceback" not in err
    assert out.read_bytes() == before
    assert {each.name for each in out.parent.iterdir()} == {"baseline.json", KEPT}


def test_ctrl_c_writes_no_baseline(
    stub: Any,
    golden: Path,
    out: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Progress, "__call__", _interrupt)
    assert run(stub, golden, out) == 130
    err = capsys.readouterr().err
    assert "stopped; no result was written" in err
    assert "1 answers are kept in" in err
    assert [each.name for each in out.parent.iterdir()] == [KEPT]


def _interrupt(self: Progress, done: int, total: int) -> None:
    raise KeyboardInterrupt


def test_what_cannot_be_written_is_found_out_first(
    stub: Any, golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(stub, golden, tmp_path) == 2
    assert "is a folder: name a file with --out" in capsys.readouterr().err
    assert run(stub, golden, golden / "baseline.json") == 2
    assert "cannot be made" in capsys.readouterr().err
    assert stub.bodies == []


def test_a_broken_set_is_named_with_its_line(
    stub: Any, golden: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden.write_text(golden.read_text() + "{\n")
    assert run(stub, golden, out) == 2
    assert f"could not measure: {golden}, line 5: " in capsys.readouterr().err
    assert stub.bodies == []


def test_a_wrong_address_or_key_name_could_not_be_measured(
    golden: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ftp://host", golden, out) == 2
    assert "base_url must be http" in capsys.readouterr().err
    assert run("http://127.0.0.1:9", golden, out, "--api-key-env", "NOT_SET_ANYWHERE") == 2
    assert "NOT_SET_ANYWHERE is not set" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--wait", "0"], ["--wait", "nan"], ["--concurrency", "0"], ["--concurrency", "x"]],
    ids=" ".join,
)
def test_wrong_arguments_are_refused(
    golden: Path, out: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run("http://127.0.0.1:9", golden, out, *options)
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_what_is_not_installed_is_no_drift(golden: Path, out: Path) -> None:
    """Python ends with 1 where an import fails, which is the exit code of drift."""
    code = "import runpy, sys; sys.modules['httpx'] = None; "
    code += "runpy.run_module('evaluation', run_name='__main__', alter_sys=True)"
    done = subprocess.run(
        [sys.executable, "-c", code, "drift", "--url", "http://127.0.0.1:9"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "could not measure: import of httpx halted" in done.stderr
    assert "requirements/install.py" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_left_is_no_drift(golden: Path, out: Path) -> None:
    """As after ``2>&1 | head``: a message that could not be printed was a fault, which ends with
    1."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    words = ["baseline", "--url", "ftp://host", "--set", str(golden), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "evaluation", *words], cwd=ROOT, check=False, stderr=write_end
    )
    os.close(write_end)
    assert done.returncode == 2


def test_without_a_terminal_a_line_comes_every_so_often(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with Progress() as progress:
        for done in range(1, 26):
            now[0] += 1.0
            progress(done, 100)
    expected = "10 of 100 requests answered\n20 of 100 requests answered\n"
    assert capsys.readouterr().err == expected


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress() as progress:
        progress(1, 4)
        progress(4, 4)
    assert "4/4" in terminal.getvalue()
