"""The app with its lifespan entered and a client in front of it, without a server or a port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from contract.calibration import LabelLogprobs
from service.app import create_app
from service.engine.base import WARM_UP_ID, Engine, Generation, LabelRead, Prompt
from service.engine.fake import FakeEngine
from service.runtime import Runtime
from service.settings import Settings
from service.weights import Weights

ITEM: dict[str, Any] = {
    "knowledge": "The pool is 25 metres long.",
    "question": "How long is the pool?",
    "response": "The pool is 50 metres long.",
}


LONG_ITEM: dict[str, Any] = {**ITEM, "knowledge": "word " * 5000}
"""More tokens than the fake engine takes by default."""


def fake_settings(**values: Any) -> Settings:
    """Return settings for the fake engine."""
    return Settings(**{"engine": "fake", **values})


def fake_weights(settings: Settings, progress: Callable[[str], None]) -> Weights:
    """Stand in for the weights that the fake engine does not need."""
    return Weights(Path(), "fake", "none", None)


def make_app(
    settings: Settings, engine: Engine | None = None, weights: Weights | None = None
) -> FastAPI:
    """Return the app, its lifespan not entered."""
    resolve = fake_weights if weights is None else lambda settings, progress: weights
    return create_app(settings, engine or FakeEngine(settings), resolve)


@asynccontextmanager
async def running_app(
    settings: Settings,
    engine: Engine | None = None,
    *,
    is_loaded: bool = True,
    weights: Weights | None = None,
) -> AsyncIterator[tuple[httpx.AsyncClient, Runtime]]:
    """Enter the app's lifespan and yield a client and the parts behind it.

    Args:
        settings: Of the process.
        engine: Not started; the fake one by default.
        is_loaded: Wait until the model is loaded.
        weights: What is served; without a contract by default.
    """
    app = make_app(settings, engine, weights)
    runtime: Runtime = app.state.runtime
    async with app.router.lifespan_context(app):
        if is_loaded:
            await asyncio.wait_for(runtime.lifecycle.loaded.wait(), 10)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client, runtime


async def until(is_true: Callable[[], object], timeout_s: float = 5.0) -> None:
    """Return once the condition holds.

    Raises:
        TimeoutError: It did not hold in time.
    """
    async with asyncio.timeout(timeout_s):
        while not is_true():
            await asyncio.sleep(0.001)


class Caller:
    """One raw ASGI request whose client can leave while it waits, or while it sends."""

    def __init__(self, app: FastAPI, path: str, chunks: list[bytes]) -> None:
        """Prepare the request.

        Args:
            app: Its lifespan entered.
            path: Such as ``/classify``.
            chunks: Of the body; the client is done sending only if the last one is empty.
        """
        self._app = app
        self._path = path
        self._chunks = chunks
        self._has_left = asyncio.Event()
        self.sent: list[dict[str, Any]] = []
        self.num_received = 0

    def leave(self) -> None:
        """Close the connection."""
        self._has_left.set()

    async def call(self) -> None:
        """Send the request and wait until the app is done with it."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1),
            "server": ("test", 80),
        }
        await self._app(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        self.num_received += 1
        if self._chunks:
            chunk = self._chunks.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(chunk)}
        await self._has_left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


def caller_of(app: FastAPI, path: str, body: Any) -> Caller:
    """Return a raw request that has been sent whole and whose client waits for the answer."""
    return Caller(app, path, [json.dumps(body).encode(), b""])


async def items_total(client: httpx.AsyncClient) -> dict[tuple[str, str], float]:
    """Return ``detector_items_total``: (outcome, class) -> count; what has not happened is out."""
    samples = await samples_of(client, "detector_items_total")
    return {(labels["outcome"], labels["class"]): value for labels, value in samples if value}


async def samples_of(client: httpx.AsyncClient, name: str) -> list[tuple[dict[str, str], float]]:
    """Return the samples of one metric: (labels, value)."""
    text = (await client.get("/metrics")).text
    return [
        (dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]


async def value_of(client: httpx.AsyncClient, name: str, **labels: str) -> float:
    """Return the value of a metric with these labels and no others."""
    [value] = [value for own, value in await samples_of(client, name) if own == labels]
    return value


class BrokenEngine(FakeEngine):
    """Fails with an exception that nobody foresaw."""

    MESSAGE = "never foreseen"

    async def generate(self, prompt: Prompt, max_tokens: int, request_id: str) -> Generation:
        if request_id != WARM_UP_ID:
            raise RuntimeError(self.MESSAGE)
        return await super().generate(prompt, max_tokens, request_id)


class OverflowingEngine(FakeEngine):
    """Computes no numbers any more, as weights in too small a number format do."""

    async def read_label(self, prompt: Prompt, cue: str, request_id: str) -> LabelRead:
        read = await super().read_label(prompt, cue, request_id)
        nan = float("nan")
        return read if request_id == WARM_UP_ID else replace(read, logprobs=LabelLogprobs(nan, nan))


@dataclass(frozen=True)
class Provoked:
    """A fault that one request meets.

    Attributes:
        status: Of the answer.
        outcome: In the metrics, and the end of the problem's type.
        settings: Under which it happens.
        content: The body, if it is not ``ITEM`` as JSON.
        headers: Beside the content type.
        num_before: Requests that are sent, and answered well, before it.
        engine: Class of the engine.
    """

    status: int
    outcome: str
    settings: dict[str, Any] = field(default_factory=dict)
    content: bytes = json.dumps(ITEM).encode()
    headers: dict[str, str] = field(default_factory=dict)
    num_before: int = 0
    engine: type[FakeEngine] = FakeEngine

    async def provoke(self, client: httpx.AsyncClient) -> httpx.Response:
        """Send the request."""
        headers = {"content-type": "application/json", **self.headers}
        for _ in range(self.num_before):
            before = await client.post("/classify", content=self.content, headers=headers)
            assert before.status_code == httpx.codes.OK
        return await client.post("/classify", content=self.content, headers=headers)


PROVOKED = {
    "no_json": Provoked(400, "malformed-body", content=b"{"),
    "no_key": Provoked(401, "unauthorized", {"api_keys": "one,two"}),
    "large": Provoked(413, "too-large", {"max_body_bytes": 1024}, json.dumps(LONG_ITEM).encode()),
    "no_media_type": Provoked(415, "media-type", headers={"content-type": "text/plain"}),
    "invalid": Provoked(422, "invalid-request", content=b"{}"),
    "blank": Provoked(422, "invalid-request", content=b'{"response": " "}'),
    "long": Provoked(422, "input-too-long", content=json.dumps(LONG_ITEM).encode()),
    "often": Provoked(429, "rate-limited", {"rate_limit_per_minute": 2}, num_before=2),
    "engine_fault": Provoked(500, "engine-fault", {"fake_fault": "error"}),
    "no_numbers": Provoked(
        500,
        "engine-fault",
        content=b'{"response": "a", "justification": false}',
        engine=OverflowingEngine,
    ),
    "unforeseen": Provoked(500, "internal", engine=BrokenEngine),
    "unreadable": Provoked(502, "unreadable-reply", {"fake_fault": "no_label"}),
    "engine_dead": Provoked(503, "engine-dead", {"fake_fault": "dead"}),
    "stuck": Provoked(504, "deadline", {"fake_fault": "stuck", "request_timeout_s": 0.05}),
    "slow": Provoked(504, "deadline", {"fake_latency_s": 30, "request_timeout_s": 0.05}),
}
"""Every fault that a single request can meet; overload and departure take two parties."""
