"""A real Prometheus over a running service: rules load, and every expression finds its metrics."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import httpx
import pytest
import uvicorn
from support.app_client import ITEM, fake_settings, make_app
from support.made_weights import make_weights
from support.monitoring import Expression, alerts, dashboard_expressions, read_rules, recordings
from support.prometheus import CONFIG, Prometheus, find_program, prometheus
from support.waiting import wait_until

KEY = "key-of-prometheus"
HEADERS = {"Authorization": f"Bearer {KEY}"}
RULES = [str(path) for path in sorted((CONFIG / "rules").glob("*.yml"))]
TESTS = [str(path) for path in sorted((CONFIG / "tests").glob("*.yml"))]


@contextmanager
def serving() -> Iterator[str]:
    """Serve weights that carry a reference, with the fake engine; yield host and port."""
    settings = fake_settings(
        window_verdicts=100, window_min_verdicts=20, api_keys=KEY, open_metrics=False
    )
    # The process is that of the tests, and older than any service that starts.
    with mock.patch("service.lifecycle.process_age_s", return_value=0.0):
        app = make_app(settings, weights=make_weights())
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", ws="none")
    server = uvicorn.Server(config)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{sock.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            wait_until(lambda: server.started and is_ready(address), timeout_s=30)
            yield address
        finally:
            server.should_exit = True
            thread.join(30)


def is_ready(address: str) -> bool:
    return httpx.get(f"http://{address}/readyz").status_code == httpx.codes.OK


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    find_program("prometheus")
    with serving() as address:
        yield address


@pytest.fixture(scope="module")
def server(service: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has scraped the service, before and after its first verdicts."""
    with prometheus(tmp_path_factory.mktemp("prometheus"), service, KEY) as server:
        wait_until(lambda: server.values("detector_ready") == [1], timeout_s=30)
        send(service, 65)
        send(service, 35, first=65)
        send(service, 30, justification=False)
        wait_until(
            lambda: server.values('detector_window_verdicts{path="short"}') == [30], timeout_s=30
        )
        yield server


def send(address: str, num: int, *, first: int = 0, justification: bool = True) -> None:
    """Ask for one verdict alone and for others in a batch."""
    bodies = [
        {**ITEM, "question": f"Question {i}?", "justification": justification}
        for i in range(first, first + num)
    ]
    with httpx.Client(base_url=f"http://{address}", headers=HEADERS, timeout=30) as http:
        assert http.post("/classify", json=bodies[0]).status_code == httpx.codes.OK
        answer = http.post("/classify/batch", json={"items": bodies[1:]}).json()
        assert all("result" in each for each in answer["results"])


def run_promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [find_program("promtool"), *arguments], check=False, capture_output=True, text=True
    )


def test_configuration_and_rules_are_valid() -> None:
    done = run_promtool("check", "config", str(CONFIG / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rule files found" in done.stdout
    assert done.stdout.count("rules found") == len(RULES)


def test_the_alerts_fire_when_they_should() -> None:
    done = run_promtool("test", "rules", *TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == len(TESTS) > 0


def test_a_rule_that_is_broken_is_found(tmp_path: Path) -> None:
    """promtool reads what it is given: without this, an empty folder would pass."""
    broken = Path(RULES[0]).read_text(encoding="utf-8").replace("expr: up{", "expr: up{{")
    (tmp_path / "broken.yml").write_text(broken, encoding="utf-8")
    assert run_promtool("check", "rules", str(tmp_path / "broken.yml")).returncode != 0


def test_the_service_is_scraped_with_its_key(server: Prometheus, service: str) -> None:
    assert httpx.get(f"http://{service}/metrics").status_code == httpx.codes.UNAUTHORIZED
    [target] = server.ask("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert server.values('up{job="hallucination-detector"}') == [1]


def test_prometheus_keeps_what_the_service_measured(server: Prometheus, service: str) -> None:
    text = httpx.get(f"http://{service}/metrics", headers=HEADERS).text
    [line] = [each for each in text.splitlines() if each.startswith("detector_drift_psi ")]
    measured = float(line.split()[1])
    wait_until(lambda: server.values("detector_drift_psi") == [measured], timeout_s=30)
    assert server.values('detector_window_verdicts{path="full"}') == [100]
    assert server.values('sum(detector_items_total{outcome="ok"})')[0] >= 130


@pytest.mark.parametrize("rule", recordings(), ids=lambda rule: rule["record"])
def test_every_recorded_figure_is_there(
    server: Prometheus, service: str, rule: dict[str, str]
) -> None:
    wait_for_data(server, service, Expression(rule["record"], rule["record"]))


@pytest.mark.parametrize("expression", dashboard_expressions(), ids=lambda each: each.name)
def test_every_expression_of_the_dashboard_finds_data(
    server: Prometheus, service: str, expression: Expression
) -> None:
    wait_for_data(server, service, expression)


def wait_for_data(server: Prometheus, address: str, expression: Expression) -> None:
    """Go on asking for verdicts until there is a number; a rate needs two scrapes around some."""

    def has_data() -> bool:
        if server.values(expression.text):
            return True
        # The short path, so that the window of the full one stays as it is.
        send(address, 2, justification=False)
        return False

    try:
        wait_until(has_data, timeout_s=30)
    except AssertionError:
        pytest.fail(f"no data: {expression.text}")


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_no_alert_is_raised_by_a_service_that_is_well(
    server: Prometheus, rule: dict[str, str]
) -> None:
    assert server.values(rule["expr"]) == []


def test_every_rule_was_evaluated_without_a_fault(server: Prometheus) -> None:
    def evaluated() -> bool:
        groups = server.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert len(rules) == len(read_rules())
        assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []
        return {rule["health"] for rule in rules} == {"ok"}

    wait_until(evaluated, timeout_s=30)
