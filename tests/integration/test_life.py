"""The service's life as a process, with the fake engine: load, overload, drain, death."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from support.service_process import ServiceProcess, metric, service_process
from support.waiting import wait_until

BODY = {"knowledge": "The pool is 25 metres long.", "response": "It is 25 metres long."}
FAST = ("--engine", "fake", "--drain-grace-s", "0.2", "--log-json")

Start = Callable[..., ServiceProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start services; all are stopped at the end."""
    managers = []

    def begin(*flags: str, **environ: str) -> ServiceProcess:
        folder = tmp_path / str(len(managers))
        folder.mkdir()
        managers.append(service_process(folder, *FAST, *flags, environ=environ))
        return managers[-1].__enter__()

    yield begin
    for manager in managers:
        manager.__exit__(None, None, None)


def classify(address: str, number: int = 0) -> httpx.Response:
    body = {**BODY, "question": f"Question {number}?"}
    return httpx.post(f"{address}/classify", json=body, timeout=60)


def test_http_answers_while_the_model_loads(start: Start) -> None:
    service = start("--fake-start-s", "3")
    address = service.wait_for_port()
    assert service.http.get("/livez").status_code == 200
    ready = service.http.get("/readyz")
    assert ready.status_code == 503
    assert ready.headers["retry-after"] == "5"
    assert "load: starting the fake engine" in ready.json()["detail"]
    refused = classify(address)
    assert (refused.status_code, refused.json()["type"]) == (
        503,
        "urn:hallucination-detector:problem:not-ready",
    )
    service.wait_ready()
    assert classify(address).json()["model"]["engine"] == "fake"


def test_sigterm_turns_not_ready_then_drains_every_accepted_request(start: Start) -> None:
    service = start("--fake-latency-s", "1.5", "--drain-grace-s", "1")
    address = service.wait_ready()
    with ThreadPoolExecutor(16) as pool:
        accepted = [pool.submit(classify, address, i) for i in range(8)]
        wait_until(lambda: metric(service.http, "detector_in_flight_items") == 8)
        service.signal(signal.SIGTERM)
        wait_until(lambda: service.http.get("/readyz").status_code == 503)
        # Load balancers have not noticed yet: what they send now is judged too.
        late = pool.submit(classify, address, 99)
        assert [answer.result().status_code for answer in [*accepted, late]] == [200] * 9
    assert service.wait() == 0
    assert "every accepted item has its answer" in service.log


def test_drain_ends_at_its_bound(start: Start) -> None:
    service = start("--fake-latency-s", "60", "--drain-timeout-s", "1")
    address = service.wait_ready()
    with ThreadPoolExecutor(1) as pool:
        never = pool.submit(classify, address)
        wait_until(lambda: metric(service.http, "detector_in_flight_items") == 1)
        began = time.monotonic()
        service.signal(signal.SIGTERM)
        assert service.wait() == 0
        assert time.monotonic() - began < 10
        # Given up: an error, never a verdict.
        answer = never.result()
        assert answer.status_code == 503
        assert answer.json()["type"].endswith(":not-ready")
    assert "ended: 1 accepted items were given up" in service.log
    assert "Traceback" not in service.log


def test_a_second_signal_ends_at_once(start: Start) -> None:
    service = start("--drain-grace-s", "60")
    service.wait_ready()
    service.signal(signal.SIGTERM)
    wait_until(lambda: "draining" in service.log)
    service.signal(signal.SIGTERM)
    assert service.wait(5) == 0


def test_a_batch_waits_for_its_own_items_instead_of_refusing_them(start: Start) -> None:
    """An idle service refused 40 of 64 long items, since the batch itself took all the room."""
    service = start("--max-in-flight", "3", "--max-queued-tokens", "4096", "--max-num-seqs", "8")
    service.wait_ready()
    items = [{"response": f"{i} " + "long " * 2000} for i in range(12)]
    results = service.http.post("/classify/batch", json={"items": items}).json()["results"]
    assert [set(result) for result in results] == [{"result"}] * 12
    assert metric(service.http, "detector_in_flight_items") == 0
    assert metric(service.http, "detector_queued_tokens") == 0


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
def test_a_body_beside_an_upgrade_header_is_read(start: Start, upgrade: str) -> None:
    """Clients that offer HTTP/2 were told that their body is empty, or never answered."""
    service = start()
    service.wait_ready()
    headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": upgrade, "HTTP2-Settings": "AA"}
    assert service.http.post("/classify", json=BODY, headers=headers).status_code == 200


def test_a_body_that_does_not_arrive_is_given_up(start: Start) -> None:
    service = start("--body-timeout-s", "0.3")
    host, port = service.wait_ready().removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as slow:
        slow.sendall(
            b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b'Content-Length: 100\r\n\r\n{"respo'
        )
        assert slow.recv(100).startswith(b"HTTP/1.1 504 ")


def test_sigterm_while_loading_ends_at_once(start: Start) -> None:
    service = start("--fake-start-s", "60")
    service.wait_for_port()
    service.signal(signal.SIGTERM)
    assert service.wait(10) == 0


def test_overload_is_refused_with_a_time_from_the_measured_throughput(start: Start) -> None:
    service = start(
        "--fake-latency-s", "0.5", "--max-num-seqs", "2", "--max-in-flight", "4"
    )  # fmt: skip
    address = service.wait_ready()
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda i: classify(address, i), range(24)))
    refused = [a for a in answers if a.status_code == 503]
    assert {a.status_code for a in answers} == {200, 503}
    assert all(int(a.headers["retry-after"]) >= 1 for a in refused)
    assert all(a.json()["type"].endswith(":overloaded") for a in refused)
    assert metric(service.http, 'detector_shed_total{reason="overloaded"}') == len(refused)
    assert metric(service.http, "detector_in_flight_items") == 0


def test_a_client_that_leaves_frees_its_slot(start: Start) -> None:
    service = start("--fake-latency-s", "60", "--max-in-flight", "1")
    address = service.wait_ready()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/classify", json=BODY, timeout=0.5)
    wait_until(lambda: metric(service.http, "detector_in_flight_items") == 0)
    assert metric(service.http, "detector_engine_running") == 0
    assert metric(service.http, 'detector_items_total{class="",outcome="client-gone"}') == 1


def test_a_client_that_leaves_a_batch_frees_all_its_slots(start: Start) -> None:
    service = start("--fake-latency-s", "60", "--max-num-seqs", "4")
    address = service.wait_ready()
    items = [{**BODY, "question": f"Question {i}?"} for i in range(8)]
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/classify/batch", json={"items": items}, timeout=0.5)
    wait_until(lambda: metric(service.http, "detector_in_flight_items") == 0)
    assert metric(service.http, "detector_engine_running") == 0


def test_a_deadline_is_a_504_and_frees_the_slot(start: Start) -> None:
    service = start("--fake-latency-s", "60", "--request-timeout-s", "0.3")
    answer = classify(service.wait_ready())
    assert answer.status_code == 504
    assert "class" not in answer.json()
    assert metric(service.http, "detector_in_flight_items") == 0


def test_a_dead_engine_fails_livez_and_ends_the_process(start: Start) -> None:
    service = start("--fake-fault", "dead")
    answer = classify(service.wait_ready())
    assert answer.status_code == 503
    wait_until(lambda: service.http.get("/livez").status_code == 503)
    assert service.wait(10) == 3
    assert "the inference engine has died" in service.log


def test_a_stuck_engine_fails_livez_and_ends_the_process(start: Start) -> None:
    service = start("--fake-fault", "stuck", "--stuck-after-s", "1")
    address = service.wait_ready()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(classify, address)
        wait_until(lambda: service.http.get("/livez").status_code == 503, timeout_s=5)
        assert service.wait(20) == 3
        with contextlib.suppress(httpx.TransportError):
            assert answer.result().status_code >= 500
    assert "is stuck" in service.log


def test_a_busy_engine_is_not_taken_for_stuck(start: Start) -> None:
    service = start(
        "--fake-latency-s", "0.6", "--stuck-after-s", "1", "--max-num-seqs", "1"
    )  # fmt: skip
    address = service.wait_ready()
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda i: classify(address, i), range(5)))
    assert [a.status_code for a in answers] == [200] * 5
    assert service.http.get("/livez").status_code == 200


def test_a_taken_port_is_named_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with service_process(tmp_path, *FAST, "--port", str(port)) as service:
            assert service.wait(20) == 1
            assert f"cannot listen on 127.0.0.1:{port}" in service.log
            assert "PORT=8001" in service.log


@pytest.mark.parametrize(
    ("flags", "environ", "says"),
    [
        ((), {"DETECTOR_MODLE": "x"}, "DETECTOR_MODLE"),
        (("--max-model-len", "100"), {}, "max_model_len"),
        (("--max-queued-tokens", "1000"), {}, "raise max_queued_tokens"),
        (("--api-keys-file", "/nowhere/keys"), {}, "/nowhere/keys"),
        ((), {"DETECTOR_API_KEYS": ""}, "there is none"),
        ((), {"DETECTOR_API_KEYS": "schl\u00fcssel"}, "printable ASCII"),
    ],
    ids=["unknown-variable", "below-bound", "cross-field", "keys-file", "no-key", "odd-key"],
)
def test_wrong_settings_stop_the_start(
    tmp_path: Path, flags: tuple[str, ...], environ: dict[str, str], says: str
) -> None:
    with service_process(tmp_path, *FAST, *flags, environ=environ) as service:
        assert service.wait(20) == 1
        assert says in service.log
        assert "Traceback" not in service.log


def test_a_slow_body_does_not_hold_a_slot(start: Start) -> None:
    service = start("--max-in-flight", "1")
    address = service.wait_ready()
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(
            b"POST /classify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b'Content-Length: 100\r\n\r\n{"respo'
        )
        time.sleep(0.3)
        assert classify(address).status_code == 200


def test_the_log_has_one_line_a_request_and_never_a_text(start: Start) -> None:
    service = start()
    address = service.wait_ready()
    secret = "canary-7f3a"
    body = {"knowledge": f"{secret} one", "question": f"{secret} two?", "response": f"{secret} 3"}
    httpx.post(f"{address}/classify", json=body, headers={"x-request-id": "id-1"})
    httpx.post(f"{address}/classify", json={**body, secret: 1}, headers={"x-request-id": "id-2"})
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert secret not in service.log
    lines = [json.loads(line) for line in service.log.splitlines()]
    by_id = {line["request_id"]: line for line in lines if "request_id" in line}
    assert set(by_id) == {"id-1", "id-2"}
    assert by_id["id-1"]["status"] == 200
    assert by_id["id-1"]["input_tokens"] > 0
    assert by_id["id-2"]["status"] == 422
    assert by_id["id-2"]["outcome"] == "invalid-request"


def test_ctrl_c_on_the_whole_group_drains_too(start: Start) -> None:
    service = start("--fake-latency-s", "1")
    address = service.wait_ready()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(classify, address)
        wait_until(lambda: metric(service.http, "detector_in_flight_items") == 1)
        service.signal_group(signal.SIGINT)
        assert answer.result().status_code == 200
    assert service.wait() == 0


def test_many_half_open_connections_leave_the_service_usable(start: Start) -> None:
    service = start()
    address = service.wait_ready()
    host, port = address.removeprefix("http://").split(":")
    open_sockets = [socket.create_connection((host, int(port))) for _ in range(100)]
    try:
        assert classify(address).status_code == 200
    finally:
        for connection in open_sockets:
            connection.close()


def test_a_kept_connection_is_answered_at_once(start: Start) -> None:
    """A listening socket made without its protocol left Nagle's algorithm on: 44 ms a request."""
    service = start()
    service.wait_ready()
    times = []
    for _ in range(20):
        began = time.perf_counter()
        service.http.get("/livez")
        times.append(time.perf_counter() - began)
    assert sorted(times)[len(times) // 2] < 0.02
