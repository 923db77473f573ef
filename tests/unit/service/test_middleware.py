"""Around every request: its id, the key, the log line, the span, the last boundary."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from support.app_client import (
    ITEM,
    BrokenEngine,
    Caller,
    caller_of,
    fake_settings,
    items_total,
    make_app,
    running_app,
    samples_of,
    until,
)

from service.engine.base import Engine
from service.engine.fake import FakeEngine
from service.errors import StartError
from service.middleware import ApiKeys
from service.runtime import Runtime
from service.settings import Settings
from service.telemetry import configure_logging

CANARY = "kanarie vogel"
SECRET_ITEM = {key: f"{CANARY} {value}" for key, value in ITEM.items()}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with running_app(fake_settings()) as (client, _):
        yield client


@pytest.mark.parametrize("sent", ["a", "my-id.7_X", "0" * 128])
@pytest.mark.anyio
async def test_a_harmless_request_id_is_kept(sent: str, client: httpx.AsyncClient) -> None:
    for body, status in ((ITEM, 200), ({}, 422)):
        answer = await client.post("/classify", json=body, headers={"x-request-id": sent})
        assert answer.status_code == status
        assert answer.headers["x-request-id"] == sent
        assert answer.json()["request_id"] == sent


@pytest.mark.parametrize("sent", [None, "", "a b", "a\tb", "<b>", "é", "a" * 129, "a/b", "a,b"])
@pytest.mark.anyio
async def test_another_request_id_is_replaced(sent: str | None, client: httpx.AsyncClient) -> None:
    headers = {} if sent is None else {"x-request-id": sent.encode()}
    ids = set()
    for _ in range(2):
        answer = await client.post("/classify", json=ITEM, headers=headers)
        assert answer.headers["x-request-id"] == answer.json()["request_id"]
        ids.add(answer.json()["request_id"])
    assert len(ids) == 2
    assert all(len(made) == 32 and int(made, 16) for made in ids)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/info", "/docs", "/nowhere"])
@pytest.mark.anyio
async def test_every_answer_has_a_request_id(path: str, client: httpx.AsyncClient) -> None:
    answer = await client.get(path, headers={"x-request-id": "mine"})
    assert answer.headers["x-request-id"] == "mine"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.anyio
async def test_any_of_the_keys_opens() -> None:
    async with running_app(fake_settings(api_keys=" first ,second,, third")) as (client, _):
        for key in ("first", "second", "third"):
            answer = await client.post("/classify", json=ITEM, headers=bearer(key))
            assert answer.status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer fourth",
        "Bearer firs",
        "Bearer first,second",
        "Bearer FIRST",
        "Basic first",
        "first",
        "Bearer: first",
        "Token first",
        "Bearer \udce9",
    ],
)
@pytest.mark.anyio
async def test_anything_else_does_not(authorization: str | None) -> None:
    headers = {}
    if authorization is not None:
        headers["authorization"] = authorization.encode("utf-8", "surrogateescape")
    async with running_app(fake_settings(api_keys="first,second")) as (client, _):
        answer = await client.post("/classify", json=ITEM, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "send a valid API key as Authorization: Bearer <key>"
    assert "class" not in answer.json()


@pytest.mark.parametrize("authorization", ["Bearer first", "bearer first", "BEARER  first "])
@pytest.mark.anyio
async def test_the_scheme_may_be_written_in_any_case(authorization: str) -> None:
    async with running_app(fake_settings(api_keys="first")) as (client, _):
        answer = await client.get("/info", headers={"authorization": authorization})
    assert answer.status_code == 200


@pytest.mark.anyio
async def test_a_wrong_key_costs_no_work_and_reads_no_body() -> None:
    async with running_app(fake_settings(api_keys="first")) as (client, runtime):
        caller = caller_of(make_app(runtime.settings), "/classify", ITEM)
        await caller.call()
        assert caller.sent[0]["status"] == 401
        assert caller.num_received == 0
        assert (await client.get("/readyz")).status_code == 200


def keys_of(**values: Any) -> ApiKeys:
    return ApiKeys(Settings(engine="fake", **values))


def test_keys_come_from_a_file_too(tmp_path: Path) -> None:
    """An indented comment was taken for a key."""
    path = tmp_path / "keys"
    path.write_text("# team a\nalpha\n\n   beta  \n  # gamma\n#delta\n", encoding="utf-8")
    keys = keys_of(api_keys_file=path, api_keys="omega")
    assert keys.required
    known = ["alpha", "beta", "omega"]
    assert all(keys.name_of(f"Bearer {key}") for key in known)
    assert len({keys.name_of(f"Bearer {key}") for key in known}) == 3
    for key in ("gamma", "# gamma", "#delta", "# team a", "delta", ""):
        assert keys.name_of(f"Bearer {key}") is None


def test_a_name_is_not_the_key() -> None:
    name = keys_of(api_keys="alpha").name_of("Bearer alpha")
    assert name is not None
    assert "alpha" not in name


def test_no_keys_means_open() -> None:
    assert not keys_of().required


@pytest.mark.parametrize("content", ["", "\n\n", "# only a comment\n"])
def test_keys_that_are_asked_for_must_be_there(content: str, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(StartError, match="there is none"):
        keys_of(api_keys_file=path)
    with pytest.raises(StartError, match="there is none"):
        keys_of(api_keys=" , ")


def test_a_file_of_keys_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be read"):
        keys_of(api_keys_file=tmp_path / "none")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(StartError, match="cannot be read"):
        keys_of(api_keys_file=binary)


ALL_PATHS = [
    "/livez", "/readyz", "/metrics", "/info", "/docs", "/redoc", "/openapi.json", "/nowhere",
    "/classify", "/classify/batch", "/livez/", "//livez", "/metrics/x", "/LIVEZ",
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "opened"),
    [
        ({}, {"/livez", "/readyz", "/metrics"}),
        ({"open_metrics": False}, {"/livez", "/readyz"}),
        ({"open_probes": False}, {"/metrics"}),
        ({"open_metrics": False, "open_probes": False}, set()),
    ],
    ids=["default", "metrics_closed", "probes_closed", "all_closed"],
)
@pytest.mark.anyio
async def test_what_stays_open_is_a_setting(settings: dict[str, Any], opened: set[str]) -> None:
    async with running_app(fake_settings(api_keys="k", **settings)) as (client, _):
        without = {path: (await client.get(path)).status_code for path in ALL_PATHS}
        within = {
            path: (await client.get(path, headers=bearer("k"))).status_code for path in ALL_PATHS
        }
    assert {path for path, status in without.items() if status == 200} == opened
    assert {status for path, status in without.items() if path not in opened} == {401}
    assert 401 not in within.values()
    assert within["/nowhere"] == 404
    assert within["/classify"] == 405


@contextmanager
def own_logging(level: str = "info", *, as_json: bool = True) -> Iterator[None]:
    """Log as the service does, to stderr, and put back afterwards what was there."""
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    root.handlers.clear()
    configure_logging(level, as_json)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)


@asynccontextmanager
async def logged_app(
    capsys: pytest.CaptureFixture[str], settings: Settings, engine: Engine | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Run the app with a log of JSON from which the lines of its start are gone."""
    with own_logging():
        async with running_app(settings, engine) as (client, _):
            log_lines(capsys)
            yield client


def log_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def request_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [line for line in log_lines(capsys) if line["logger"] == "service.request"]


@pytest.mark.anyio
async def test_a_verdict_is_one_line_with_its_figures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with logged_app(capsys, fake_settings(fake_latency_s=0.02)) as client:
        answer = await client.post("/classify", json=SECRET_ITEM, headers={"x-request-id": "r1"})
    [line] = request_lines(capsys)
    assert set(line) == {
        "time", "level", "logger", "message", "request_id", "method", "route", "status", "class",
        "input_tokens", "output_tokens", "queue_ms", "inference_ms", "total_ms",
    }  # fmt: skip
    body = answer.json()
    assert line["message"] == "POST /classify"
    assert (line["method"], line["route"], line["status"]) == ("POST", "/classify", 200)
    assert (line["request_id"], line["class"]) == ("r1", body["class"])
    assert line["input_tokens"] == body["usage"]["input_tokens"]
    assert line["output_tokens"] == 24
    assert 20 <= line["inference_ms"] <= line["total_ms"] < 5000


@pytest.mark.anyio
async def test_every_request_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with logged_app(capsys, fake_settings()) as client:
        await client.post("/classify", json={"response": 7})
        await client.post("/classify/batch", json={"items": [ITEM, {}, ITEM]})
        await client.get(f"/{CANARY}")
        await client.delete("/classify")
        await client.get("/info")
        lines = request_lines(capsys)
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("POST", "/classify", 422),
        ("POST", "/classify/batch", 200),
        ("GET", "other", 404),
        ("DELETE", "/classify", 405),
        ("GET", "/info", 200),
    ]
    assert (lines[1]["items"], lines[1]["problems"]) == (3, 1)
    assert len({line["request_id"] for line in lines}) == 5


@pytest.mark.parametrize(("level", "num_lines"), [("info", 0), ("debug", 3)])
@pytest.mark.anyio
async def test_probes_are_logged_only_when_debugging(
    level: str, num_lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with own_logging(level, as_json=True):
        async with running_app(fake_settings()) as (client, _):
            for path in ("/livez", "/readyz", "/metrics"):
                await client.get(path)
    assert len(request_lines(capsys)) == num_lines


@pytest.mark.anyio
async def test_the_text_format_shows_the_same_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with own_logging("info", as_json=False):
        async with running_app(fake_settings()) as (client, _):
            await client.post("/classify", json=SECRET_ITEM, headers={"x-request-id": "r1"})
    [line] = [line for line in capsys.readouterr().err.splitlines() if "POST" in line]
    assert " INFO    POST /classify request_id=r1 status=200 class=" in line
    for field in ("input_tokens", "output_tokens=24", "queue_ms", "inference_ms", "total_ms"):
        assert f" {field}" in line
    assert CANARY not in line


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
@pytest.mark.anyio
async def test_no_text_is_ever_logged(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with own_logging("debug", as_json=as_json):
        for values in (
            {},
            {"fake_fault": "unreadable"},
            {"fake_fault": "no_label"},
            {"fake_fault": "error"},
            {"fake_fault": "dead"},
            {"fake_fault": "stuck", "request_timeout_s": 0.01},
            {"api_keys": "k"},
        ):
            async with running_app(fake_settings(**values)) as (client, _):
                await client.post("/classify", json=SECRET_ITEM, headers={"x-request-id": CANARY})
                await client.post("/classify", json={**SECRET_ITEM, CANARY: CANARY})
                await client.post("/classify", content=json.dumps(SECRET_ITEM)[:-1])
                await client.post("/classify/batch", json={"items": [SECRET_ITEM, CANARY]})
                await client.get(f"/{CANARY}?q={CANARY}", headers=bearer(CANARY))
    logged = capsys.readouterr().err
    assert logged.count("/classify") >= 28
    assert "kanarie" not in logged


@pytest.mark.anyio
async def test_an_unforeseen_error_is_a_problem_a_traceback_and_a_count(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = fake_settings()
    async with logged_app(capsys, settings, BrokenEngine(settings)) as client:
        answer = await client.post("/classify", json=ITEM, headers={"x-request-id": "r1"})
        lines = log_lines(capsys)
        counted = await items_total(client)
        requests = await samples_of(client, "detector_http_requests_total")
    assert answer.status_code == 500
    assert answer.json() == {
        "type": "urn:hallucination-detector:problem:internal",
        "title": "An unexpected error",
        "status": 500,
        "detail": "see the service's log for this request id",
        "request_id": "r1",
    }
    error, request = lines
    assert (error["level"], error["message"]) == ("ERROR", "r1: unexpected error")
    assert "RuntimeError: never foreseen" in error["exc_info"]
    assert "in generate" in error["exc_info"]
    assert (request["status"], request["request_id"]) == (500, "r1")
    assert counted == {("internal", ""): 1.0}
    assert ({"route": "/classify", "status": "500"}, 1.0) in requests


class UnknowableEngine(FakeEngine):
    """Cannot say what it is, which only ``/metrics`` asks."""

    @property
    def load(self) -> Any:
        raise RuntimeError("never foreseen")


@pytest.mark.anyio
async def test_an_unforeseen_error_beside_verdicts_is_logged_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Outside of /classify the traceback was lost."""
    settings = fake_settings()
    async with logged_app(capsys, settings, UnknowableEngine(settings)) as client:
        answer = await client.get("/metrics", headers={"x-request-id": "r1"})
    assert answer.status_code == 500
    assert answer.json()["type"].endswith(":internal")
    [error] = log_lines(capsys)
    assert error["message"] == "r1: unexpected error"
    assert "RuntimeError: never foreseen" in error["exc_info"]


@pytest.mark.anyio
async def test_one_item_s_unforeseen_error_is_that_item_s_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = fake_settings()
    async with logged_app(capsys, settings, BrokenEngine(settings)) as client:
        short = {**ITEM, "justification": False}
        answer = await client.post("/classify/batch", json={"items": [ITEM, short]})
    first, second = answer.json()["results"]
    assert first["problem"]["type"].endswith(":internal")
    assert second["result"]["class"] in ("hallucination", "correct")
    errors = [line for line in log_lines(capsys) if line["level"] == "ERROR"]
    assert [line["message"] for line in errors] == [
        f"{first['problem']['request_id']}: unexpected error"
    ]


@pytest.mark.anyio
async def test_requests_are_counted_by_route_and_status(client: httpx.AsyncClient) -> None:
    for path in ("/nowhere", f"/{CANARY}", "/livez"):
        await client.get(path)
    await client.post("/classify", json=ITEM)
    await client.post("/classify", json={})
    counted = {
        (labels["route"], labels["status"]): value
        for labels, value in await samples_of(client, "detector_http_requests_total")
    }
    assert counted == {
        ("other", "404"): 2.0,
        ("/livez", "200"): 1.0,
        ("/classify", "200"): 1.0,
        ("/classify", "422"): 1.0,
    }
    timed = dict(
        (labels["route"], value)
        for labels, value in await samples_of(client, "detector_request_seconds_count")
    )
    assert timed["/classify"] == 2.0


@pytest.mark.anyio
async def test_a_client_that_leaves_while_sending_is_counted_as_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app = make_app(fake_settings())
    runtime: Runtime = app.state.runtime
    with own_logging():
        async with app.router.lifespan_context(app):
            await until(runtime.lifecycle.loaded.is_set)
            log_lines(capsys)
            caller = Caller(app, "/classify", [b'{"response": '])
            caller.leave()
            await caller.call()
    [line] = request_lines(capsys)
    assert line["status"] == 499


class Collector:
    """A stub of an OpenTelemetry collector."""

    def __init__(self) -> None:
        collector = self
        self.paths: list[str] = []
        self.bodies: list[bytes] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.paths.append(self.path)
                collector.bodies.append(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for body in self.bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT_ID = "00f067aa0ba902b7"


def attributes_of(span: Span) -> dict[str, Any]:
    return {
        item.key: getattr(item.value, str(item.value.WhichOneof("value")))
        for item in span.attributes
    }


@pytest.mark.anyio
async def test_a_request_joins_the_trace_of_its_caller(collector: Collector) -> None:
    async with running_app(fake_settings(otlp_endpoint=collector.address)) as (client, _):
        headers = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01", "x-request-id": "r1"}
        answer = await client.post("/classify", json=SECRET_ITEM, headers=headers)
        await client.get("/livez")
    # Leaving the lifespan sends what is left.
    [span] = collector.spans
    assert set(collector.paths) == {"/v1/traces"}
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE_ID, PARENT_ID)
    assert (span.name, span.kind) == ("POST /classify", Span.SpanKind.SPAN_KIND_SERVER)
    attributes = attributes_of(span)
    assert attributes["detector.status"] == 200
    assert attributes["detector.class"] == answer.json()["class"]
    assert attributes["detector.output_tokens"] == 24
    assert span.end_time_unix_nano > span.start_time_unix_nano


@pytest.mark.anyio
async def test_a_request_without_a_trace_begins_one(collector: Collector) -> None:
    endpoint = f"{collector.address}/v1/traces"
    async with running_app(fake_settings(otlp_endpoint=endpoint)) as (client, _):
        await client.post("/classify", json={})
        await client.get("/nowhere", headers={"traceparent": "00-xyz"})
    first, second = collector.spans
    assert set(collector.paths) == {"/v1/traces"}
    assert {first.parent_span_id, second.parent_span_id} == {b""}
    assert first.trace_id != second.trace_id
    assert (second.name, attributes_of(second)["detector.status"]) == ("GET other", 404)
    assert attributes_of(first)["detector.status"] == 422


@pytest.mark.anyio
async def test_no_text_leaves_in_a_trace(collector: Collector) -> None:
    settings = fake_settings(otlp_endpoint=collector.address)
    async with running_app(settings, BrokenEngine(settings)) as (client, _):
        short = {**SECRET_ITEM, "justification": False}
        for body in (SECRET_ITEM, short, {**SECRET_ITEM, CANARY: 1}):
            await client.post("/classify", json=body)
        await client.get(f"/{CANARY}", headers={"tracestate": "a=b", **bearer(CANARY)})
    assert len(collector.spans) == 4
    assert b"kanarie" not in b"".join(collector.bodies)
