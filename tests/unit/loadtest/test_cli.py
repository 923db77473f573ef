"""``python -m loadtest`` with bad input: exit code 2, the reason, and never a report."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.stub_service import ANSWER, StubService, problem_json

from loadtest.__main__ import main
from loadtest.load_files import REPORT_FILES

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALLUCINATION_DETECTOR_API_KEY", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.fixture
def stub() -> Iterator[Any]:
    service = StubService()
    service.info[2]["engine"]["device"] = "none"
    yield service
    service.close()


@pytest.fixture
def refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Run a command that must fail before it measures; return what it says."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        (tmp_path / "out").mkdir(exist_ok=True)
        for name in REPORT_FILES:
            (tmp_path / "out" / name).write_text("of an earlier test", encoding="utf-8")
        assert main([*words, "--out", "out"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("could not measure: ")
        return said

    return run


def unused_url() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_a_wrong_url(refused: Any, tmp_path: Path) -> None:
    url = unused_url()
    assert url in refused("--url", url, "--wait", "0.2")
    # What an earlier test wrote would be taken for what this one found.
    assert not any((tmp_path / "out" / name).exists() for name in REPORT_FILES)
    assert "base_url" in refused("--url", "ftp://x")


def test_a_service_that_is_never_ready(
    refused: Any, stub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    stub.is_ready = False
    assert "load: x" in refused("--url", stub.url, "--wait", "0.2")
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("# Load test: could not measure\n")
    assert "load: x" in summary


def test_a_key_that_is_refused(refused: Any, stub: Any) -> None:
    stub.info = (401, {}, problem_json(401, "unauthorized", "send a valid API key"))
    assert "send a valid API key" in refused("--url", stub.url)


def test_a_variable_without_a_key(refused: Any, stub: Any) -> None:
    said = refused("--url", stub.url, "--api-key-env", "NO_SUCH_KEY")
    assert "NO_SUCH_KEY is not set" in said


def test_a_service_that_does_not_say_what_it_is(refused: Any, stub: Any) -> None:
    stub.info = (200, {}, {"model": {}})
    assert "does not say what it serves" in refused("--url", stub.url)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("p50", "p51", "fake.goals.slo.p51 is unknown, allowed are: p50, p95, p99"),
        ("5 ms", "5 parsecs", "one of the units ms, s, min, such as '5 ms': the unit 'parsecs'"),
    ],
    ids=["field", "unit"],
)
def test_goals_that_nobody_knows(
    refused: Any, stub: Any, tmp_path: Path, old: str, new: str, says: str
) -> None:
    goals = '[fake]\nrate = "1 /s"\nmeasured = false\nnote = ""\n[fake.goals.slo]\np50 = "5 ms"\n'
    (tmp_path / "slo.toml").write_text(goals.replace(old, new), encoding="utf-8")
    assert says in refused("--url", stub.url, "--profile", "slo", "--slo", "slo.toml")
    assert stub.bodies == []


def test_a_profile_without_goals(refused: Any, stub: Any) -> None:
    said = refused("--url", stub.url, "--deployment", "cuda-scale-to-zero", "--profile", "soak")
    assert "has no goals for cuda-scale-to-zero in the profile soak" in said
    assert "no deployment 'mars'" in refused("--url", stub.url, "--deployment", "mars")
    stub.info[2]["engine"]["device"] = "abacus"
    assert "the service's device 'abacus'" in refused("--url", stub.url)


def test_options_that_do_not_go_together(refused: Any, stub: Any) -> None:
    cold = ("--url", stub.url, "--profile", "coldstart")
    assert "--cache-dir needs --start-command" in refused(*cold, "--cache-dir", "cache")
    assert "needs --idle" in refused(*cold, "--repeats", "2")
    capacity = ("--url", stub.url, "--find-capacity", "--loop", "closed")
    assert "needs an open loop" in refused(*capacity)


@pytest.mark.parametrize(
    "words",
    [
        ("--profile", "sloow"),
        ("--rate", "0"),
        ("--rate", "nan"),
        ("--duration", "-1"),
        ("--warm-up", "-1"),
        ("--repeats", "0"),
    ],
    ids=" ".join,
)
def test_a_wrong_argument(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--url", "http://127.0.0.1:1", *words])
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_a_service_that_is_up_already_has_no_cold_start(refused: Any, stub: Any) -> None:
    stub.info[2]["cold_start_s"] = {"total": 1.0}
    stub.reply = lambda body: (200, {}, {**ANSWER, "request_id": "loadtest-start"})
    assert "was up before the first request" in refused(
        "--url", stub.url, "--profile", "coldstart", "--wait", "5"
    )
    command = ("--url", stub.url, "--profile", "coldstart", "--start-command", "true")
    assert "something answers at" in refused(*command)


def test_a_start_command_that_ends_or_is_none(refused: Any) -> None:
    cold = ("--url", unused_url(), "--profile", "coldstart", "--wait", "20", "--start-command")
    said = refused(*cold, "python3 -c 'import sys; sys.exit(3)'")
    assert "the service ended with exit code 3" in said
    assert "warm-start-1.log" in said
    assert "'no-such-program' cannot be started" in refused(*cold, "no-such-program --port {port}")
