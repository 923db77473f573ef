"""``python -m loadtest`` and its locustfile on real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from support.service_process import ROOT, ServiceProcess, service_process
from support.stub_service import ANSWER, StubService
from support.waiting import wait_until

from loadtest.__main__ import main
from loadtest.checks import Outcome
from loadtest.processes import free_port
from loadtest.rows import Row, read_rows
from loadtest.workload import Kind

FAKE = ("--engine", "fake", "--drain-grace-s", "0")
GOALS = """
[fake]
device = "none"
rate = "30 /s"
measured = true
note = "a test"
"""

Spawn = Callable[..., subprocess.Popen[bytes]]

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALLUCINATION_DETECTOR_API_KEY", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ServiceProcess]]:
    """Start services with the fake engine; all are stopped at the end."""
    managers = []

    def begin(*flags: str, **environ: str) -> ServiceProcess:
        managers.append(service_process(tmp_path, *FAKE, *flags, environ=environ))
        return managers[-1].__enter__()

    yield begin
    for manager in managers:
        manager.__exit__(None, None, None)


@pytest.fixture
def goals(tmp_path: Path) -> Callable[..., str]:
    """Write goals of one profile to a file; return its name."""

    def write(profile: str, **values: str) -> str:
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        path = tmp_path / "slo.toml"
        table = f"[fake.goals.{profile}]"
        path.write_text("\n".join([GOALS, table, *lines, ""]), encoding="utf-8")
        return str(path)

    return write


def run(url: str, out: Path, *words: str, seconds: float = 4) -> int:
    return main(
        ["--url", url, "--out", str(out), "--duration", str(seconds), "--warm-up", "1", *words]
    )


def report_of(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return content


def rows_of(out: Path) -> list[Row]:
    return read_rows(out / "requests.jsonl")


def test_smoke_meets_its_goals(
    start: Callable[..., ServiceProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    url = start("--fake-latency-s", "0.02").wait_ready()
    assert run(url, tmp_path, "--profile", "smoke", seconds=6) == 0
    content = report_of(tmp_path)
    figures = content["run"]["figures"]
    assert content["outcome"] == "met"
    assert figures["outcomes"]["error"] == figures["outcomes"]["shed"] == 0
    # Rows and report agree, and the engine's own time stands in both.
    counted = [row for row in rows_of(tmp_path) if row.intended_s >= 1]
    assert len(counted) == figures["num_requests"] > 30
    assert {row.kind for row in counted} == set(Kind)
    assert 0.02 <= figures["inference_s"]["p50"] < figures["latency_s"]["p50"]
    # The service's own view: what it judged is what was answered.
    samples = content["run"]["samples"]
    judged = samples[-1]["num_verdicts"] - samples[0]["num_verdicts"]
    assert judged == sum(row.judged.num_verdicts for row in rows_of(tmp_path))
    assert summary.read_text(encoding="utf-8").startswith("# Load test, smoke: met")
    assert "<img " in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_goal_that_is_impossible_is_missed(
    start: Callable[..., ServiceProcess], tmp_path: Path, goals: Callable[..., str]
) -> None:
    url = start("--fake-latency-s", "0.05").wait_ready()
    slo = goals("slo", p50="1 ms", error_rate="0 %")
    assert run(url, tmp_path, "--profile", "slo", "--slo", slo, seconds=2) == 1
    found = {goal["goal"]: goal["status"] for goal in report_of(tmp_path)["goals"]}
    assert found == {"p50": "missed", "error_rate": "met"}


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--fake-latency-s", "0.5", "--max-num-seqs", "2", "--max-in-flight", "2"), "503"),
        (("--rate-limit-per-minute", "20"), "429"),
    ],
    ids=["overloaded", "rate-limited"],
)
def test_refusals_for_want_of_room_are_shed_and_no_errors(
    start: Callable[..., ServiceProcess],
    tmp_path: Path,
    goals: Callable[..., str],
    flags: tuple[str, ...],
    reason: str,
) -> None:
    url = start(*flags).wait_ready()
    slo = goals("stress", error_rate="0 %", shed_rate="10 %")
    assert run(url, tmp_path, "--profile", "stress", "--slo", slo) == 1
    figures = report_of(tmp_path)["run"]["figures"]
    assert figures["error_rate"] == 0
    assert figures["shed_rate"] > 0.3
    stages = report_of(tmp_path)["run"]["stages"]
    assert len(stages) == 5
    assert stages[-1]["offered_per_s"] > 2 * stages[0]["offered_per_s"]
    assert stages[-1]["shed_rate"] > 0.3
    assert figures["latency_s"]["num"] > 0
    shed = [row for row in rows_of(tmp_path) if row.judged.outcome is Outcome.SHED]
    assert {(row.judged.reason or "").split()[0] for row in shed} == {reason}
    assert all((row.judged.retry_after_s or 0) >= 1 for row in shed)


@pytest.fixture
def stub() -> Iterator[Any]:
    service = StubService()
    service.info[2]["engine"]["device"] = "none"
    yield service
    service.close()


def test_some_wrong_bodies_are_errors(stub: Any, tmp_path: Path, goals: Callable[..., str]) -> None:
    """One at a time, so that the stub knows whose request it answers."""

    def reply(body: Any) -> Any:
        words = None if body.get("justification") is False else "So."
        given = {
            **ANSWER,
            "justification": words,
            "evidence": "given" if "knowledge" in body else "none",
            "request_id": stub.headers[-1]["X-Request-ID"],
        }
        # Every third one says the class that its probability contradicts, with status 200.
        return (200, {}, {**given, "class": "correct"} if len(stub.bodies) % 3 == 0 else given)

    stub.reply = reply
    slo = goals("slo", error_rate="5 %")
    closed = ("--loop", "closed", "--concurrency", "1")
    assert run(stub.url, tmp_path, "--profile", "slo", "--slo", slo, *closed, seconds=1) == 1
    content = report_of(tmp_path)
    reasons = content["run"]["figures"]["reasons"]
    assert any("class does not follow from its probability" in reason for reason in reasons)
    assert content["run"]["figures"]["latency_s"]["num"] > 0
    assert "Closed loop" in content["notices"][0]
    assert "(closed loop)" in content["title"]


def test_nothing_but_wrong_bodies_is_no_measurement(stub: Any, tmp_path: Path) -> None:
    stub.reply = lambda body: (200, {}, {**ANSWER, "request_id": "of somebody else"})
    assert run(stub.url, tmp_path, "--profile", "slo", seconds=1) == 2
    content = report_of(tmp_path)
    assert content["outcome"] == "could not measure"
    assert "no request for a verdict finished" in content["reason"]


def test_the_key_comes_from_the_environment(
    start: Callable[..., ServiceProcess],
    tmp_path: Path,
    goals: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = start(DETECTOR_API_KEYS="sesame-1234").wait_ready()
    slo = goals("slo", error_rate="0 %")
    assert run(url, tmp_path, "--profile", "slo", "--slo", slo, seconds=1) == 2
    assert "API key" in capsys.readouterr().err
    monkeypatch.setenv("LOAD_KEY", "sesame-1234")
    words = ("--profile", "slo", "--slo", slo, "--api-key-env", "LOAD_KEY")
    assert run(url, tmp_path, *words, seconds=1) == 0
    written = [path for path in tmp_path.iterdir() if path.name != "service.log"]
    assert not any(b"sesame-1234" in path.read_bytes() for path in written if path.is_file())


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start processes; those that a failed test leaves are ended."""
    processes: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, cwd: Path = ROOT) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env={k: v for k, v in os.environ.items() if not k.startswith("LOCUST_")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # What runs in a shell's background inherits an ignored Ctrl-C, which Python leaves so.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.terminate()
        process.communicate(timeout=30)


def loadtest(url: str, out: Path, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "loadtest", "--url", url, "--out", str(out), *words)


def num_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_a_test_that_is_stopped_keeps_its_rows(
    start: Callable[..., ServiceProcess],
    spawn: Spawn,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
) -> None:
    url = start().wait_ready()
    process = spawn(*loadtest(url, tmp_path, "--profile", "soak"))
    wait_until(lambda: num_lines(tmp_path / "requests.jsonl") > 5, timeout_s=30)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) == 1
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == code
    assert b"Traceback" not in said
    assert len(rows_of(tmp_path)) > 5
    assert not (tmp_path / "report.json").exists()
    assert not children[0].is_running()


def test_a_service_that_dies_under_load_is_a_missed_goal(
    start: Callable[..., ServiceProcess], spawn: Spawn, tmp_path: Path
) -> None:
    service = start()
    url = service.wait_ready()
    words = ("--profile", "slo", "--duration", "5", "--warm-up", "1", "--rate", "20")
    process = spawn(*loadtest(url, tmp_path, *words))
    wait_until(lambda: num_lines(tmp_path / "requests.jsonl") > 40, timeout_s=30)
    service.signal(signal.SIGKILL)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1, said
    figures = report_of(tmp_path)["run"]["figures"]
    assert figures["outcomes"]["error"] > 5
    assert any(reason.startswith("no answer") for reason in figures["reasons"])
    assert report_of(tmp_path)["run"]["metrics_fault"] is not None


def test_a_generator_that_stood_still_has_measured_nothing(
    start: Callable[..., ServiceProcess], spawn: Spawn, tmp_path: Path
) -> None:
    url = start().wait_ready()
    words = ("--profile", "slo", "--duration", "4", "--warm-up", "1", "--rate", "20")
    process = spawn(*loadtest(url, tmp_path, *words))
    wait_until(lambda: num_lines(tmp_path / "requests.jsonl") > 25, timeout_s=30)
    (generator,) = psutil.Process(process.pid).children(recursive=True)
    generator.suspend()
    time.sleep(0.8)
    generator.resume()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 2, said
    content = report_of(tmp_path)
    assert content["outcome"] == "could not measure"
    assert "the generator fell behind" in content["reason"]
    # The service was quick all the while: only who counts from the intended start has seen it.
    figures = content["run"]["figures"]
    assert figures["latency_s"]["highest"] > 0.5 > figures["latency_from_send_s"]["p95"]


def test_the_capacity_is_between_a_rate_that_holds_and_one_that_does_not(
    start: Callable[..., ServiceProcess], tmp_path: Path, goals: Callable[..., str]
) -> None:
    """Four seats of 0.1 s are full at 40 verdicts a second, of which 30 requests have some 32."""
    url = start("--fake-latency-s", "0.1", "--max-num-seqs", "4").wait_ready()
    slo = goals("slo", p50="700 ms")
    words = ("--find-capacity", "--slo", slo, "--rate", "30", "--max-runs", "2")
    assert run(url, tmp_path, *words, seconds=4) == 0
    capacity = report_of(tmp_path)["capacity"]
    assert capacity["rate_per_s"] == 30
    assert [point["status"] for point in capacity["points"]] == ["met", "missed"]
    folders = [path for path in tmp_path.iterdir() if path.name.startswith("rate-")]
    assert len(folders) == len(capacity["points"])
    assert all(len(rows_of(folder)) > 100 for folder in folders)


def test_cold_and_warm_starts_are_measured_by_phase(
    tmp_path: Path, goals: Callable[..., str]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    command = f"{sys.executable} -m service --engine fake --port {{port}} --fake-start-s 0.4"
    slo = goals("coldstart", cold_start="30 s", warm_start="100 ms")
    words = ("--profile", "coldstart", "--slo", slo, "--cache-dir", str(tmp_path / "cache"))
    assert run(url, tmp_path, *words, "--start-command", command) == 1
    content = report_of(tmp_path)
    assert [start["caches"] for start in content["starts"]] == ["cold", "warm"]
    for each in content["starts"]:
        assert next(iter(each["phases_s"])) == "process up"
        assert list(each["phases_s"])[-1] == "first verdict"
        assert each["phases_s"]["load"] == pytest.approx(0.4, abs=0.25)
        assert sum(each["phases_s"].values()) == pytest.approx(each["total_s"], abs=0.001)
        assert each["reported_s"]["load"] == pytest.approx(0.4, abs=0.25)
    assert [goal["status"] for goal in content["goals"]] == ["met", "missed"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez")


def test_a_service_that_wakes_up_is_measured_from_the_first_request(
    start: Callable[..., ServiceProcess], tmp_path: Path, goals: Callable[..., str]
) -> None:
    port = free_port()
    start("--fake-start-s", "1", "--port", str(port))
    slo = goals("coldstart", cold_start="30 s")
    words = ("--profile", "coldstart", "--slo", slo, "--wait", "30")
    assert run(f"http://127.0.0.1:{port}", tmp_path, *words) == 0
    (found,) = report_of(tmp_path)["starts"]
    assert next(iter(found["phases_s"])) == "gateway"
    assert found["phases_s"]["load"] == pytest.approx(1, abs=0.5)


def locust(url: str, *words: str) -> tuple[str, ...]:
    """Return Locust's own command."""
    program = Path(sys.executable).with_name("locust")
    file = ROOT / "loadtest" / "locustfile.py"
    return (str(program), "-f", str(file), "--host", url, *words)


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_the_locustfile_runs_headless(
    start: Callable[..., ServiceProcess], spawn: Spawn, tmp_path: Path, loop: str
) -> None:
    url = start("--fake-latency-s", "0.1").wait_ready()
    users = ("--headless", "-u", "4", "-r", "4", "-t", "3s", "--loop", loop)
    rate = ("--rate-per-user", "10", "--rows", "rows.jsonl")
    # Outside the project's folder, which Locust's own command knows nothing of.
    process = spawn(*locust(url, *users, *rate), cwd=tmp_path)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 0, said
    rows = read_rows(tmp_path / "rows.jsonl")
    assert {row.judged.outcome for row in rows} == {Outcome.OK}
    most_open = max(sum(row.sent_s <= each.sent_s < row.done_s for row in rows) for each in rows)
    if loop == "closed":
        # As many as there are users; an open loop of 40 a second and 0.1 s has more now and then.
        assert most_open <= 4
        assert all(row.intended_s == row.sent_s for row in rows)
    else:
        assert most_open > 4
        assert 60 <= len(rows) <= 160


def test_the_locustfile_serves_its_web_page(
    start: Callable[..., ServiceProcess], spawn: Spawn, tmp_path: Path
) -> None:
    url, port = start().wait_ready(), free_port()
    page = f"http://127.0.0.1:{port}"
    spawn(*locust(url, "--web-host", "127.0.0.1", "--web-port", str(port)), cwd=tmp_path)
    with httpx.Client(base_url=page) as http:
        wait_until(lambda: _is_up(http), timeout_s=30)
        assert "rate_per_user" in http.get("/").text
        form = {"user_count": "5", "spawn_rate": "5", "host": url, "rate_per_user": "4"}
        assert http.post("/swarm", data=form).json()["success"] is True
        wait_until(lambda: _num_requests(http) > 20, timeout_s=30)
        assert http.get("/stats/requests").json()["fail_ratio"] == 0
        assert http.post("/stop").json()["success"] is True


def _is_up(http: httpx.Client) -> bool:
    try:
        return http.get("/").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _num_requests(http: httpx.Client) -> int:
    stats = http.get("/stats/requests").json()["stats"]
    return sum(int(row["num_requests"]) for row in stats if row["name"] == "Aggregated")
