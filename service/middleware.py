"""Around every request: its id, the API key, the log line, metrics, a span, the last boundary."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import StartError, UnauthorizedError
from service.problems import PROBLEM_MEDIA_TYPE, problem_headers, problem_type
from service.runtime import Runtime, describe
from service.settings import Settings
from service.telemetry import request_fields, request_id_from

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

logger = logging.getLogger("service.request")

_ITEM_ROUTES = frozenset(("/classify", "/classify/batch"))
_ROUTES = _ITEM_ROUTES | {
    "/livez", "/readyz", "/metrics", "/info", "/docs", "/openapi.json", "/redoc"
}  # fmt: skip
_NO_ANSWER = 499  # the client left before one was sent
_QUIET = frozenset(("/livez", "/readyz", "/metrics"))


class ApiKeys:
    """The keys that callers may use, as digests."""

    def __init__(self, settings: Settings) -> None:
        """Read the keys.

        Raises:
            StartError: The file cannot be read, or keys are asked for and none is there.
        """
        given = settings.api_keys
        keys = _split(given.get_secret_value()) if given is not None else []
        if settings.api_keys_file is not None:
            keys += _read_file(settings.api_keys_file)
        if not keys and (given is not None or settings.api_keys_file is not None):
            raise StartError("API keys are configured, but there is none: set one or unset both")
        if not all(key.isascii() and key.isprintable() for key in keys):
            raise StartError("an API key must be printable ASCII, since it travels in a header")
        self._digests = [_digest(key) for key in keys]
        self.required = bool(keys)

    def name_of(self, authorization: str | None) -> str | None:
        """Return a name for the key's holder, None where the key is not known.

        Every known key is compared, in constant time, so that the time tells nothing.
        """
        scheme, _, key = (authorization or "").partition(" ")
        digest = _digest(key.strip() if scheme.lower() == "bearer" else "")
        found = None
        for known in self._digests:
            if secrets.compare_digest(known, digest):
                found = known.hex()[:12]
        return found


def _split(text: str) -> list[str]:
    return [key.strip() for key in text.split(",") if key.strip()]


def _read_file(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"the file of API keys {path} cannot be read: {error}") from error
    keys = (line.strip() for line in lines)
    return [key for key in keys if key and not key.startswith("#")]


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


class RequestMiddleware:
    """One ASGI layer around the whole app."""

    def __init__(
        self, app: ASGIApp, runtime: Runtime, keys: ApiKeys, tracer: Tracer | None
    ) -> None:
        """Wrap the app."""
        self._app = app
        self._runtime = runtime
        self._keys = keys
        self._tracer = tracer
        self._open = set(_open_paths(runtime.settings))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = Headers(scope=scope)
        request_id = request_id_from(headers.get("x-request-id"))
        state: dict[str, Any] = scope.setdefault("state", {})
        state["request_id"] = request_id
        route = scope["path"] if scope["path"] in _ROUTES else "other"
        status = _NO_ANSWER

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append((b"x-request-id", request_id.encode("ascii")))
            await send(message)

        with self._span(scope, headers) as span:
            try:
                state["caller"] = self._authorize(scope, headers)
                await self._app(scope, receive, send_with_id)
            except Exception as error:
                # The boundary of one request; an answer half sent cannot become another.
                body = self._problem(scope, error, request_id)
                state["log"] = {"outcome": problem_type(error).slug}
                if status == _NO_ANSWER:
                    await _send_problem(send_with_id, body)
            finally:
                elapsed_s = time.perf_counter() - began
                metrics = self._runtime.metrics
                metrics.requests.labels(route, str(status)).inc()
                metrics.request_seconds.labels(route).observe(elapsed_s)
                fields = {"status": status, **request_fields(state)}
                if span is not None:
                    span.set_attributes({f"detector.{k}": v for k, v in fields.items()})
                _log(scope, route, request_id, fields, elapsed_s)

    def _problem(self, scope: Scope, error: Exception, request_id: str) -> dict[str, Any]:
        if scope["path"] in _ITEM_ROUTES:
            return self._runtime.report(error, request_id)
        return describe(error, request_id)

    def _authorize(self, scope: Scope, headers: Headers) -> str:
        """Return whom the rate limit counts: the key's holder, else the address."""
        client = scope.get("client")
        address = str(client[0]) if client else "unknown"
        if not self._keys.required or scope["path"] in self._open:
            return address
        name = self._keys.name_of(headers.get("authorization"))
        if name is None:
            raise UnauthorizedError("send a valid API key as Authorization: Bearer <key>")
        return name

    def _span(self, scope: Scope, headers: Headers) -> Any:
        if self._tracer is None or scope["path"] in _QUIET:
            return nullcontext()
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        return self._tracer.start_as_current_span(
            f"{scope['method']} {scope['path'] if scope['path'] in _ROUTES else 'other'}",
            context=extract({k: headers[k] for k in ("traceparent", "tracestate") if k in headers}),
            kind=SpanKind.SERVER,
        )


def _open_paths(settings: Settings) -> Iterable[str]:
    if settings.open_metrics:
        yield "/metrics"
    if settings.open_probes:
        yield from ("/livez", "/readyz")


def _log(
    scope: Scope, route: str, request_id: str, fields: dict[str, Any], elapsed_s: float
) -> None:
    level = logging.DEBUG if route in _QUIET else logging.INFO
    if not logger.isEnabledFor(level):
        return
    fields = {"request_id": request_id, **fields, "total_ms": round(1000 * elapsed_s, 1)}
    method = scope["method"]
    extra = {"fields": fields, "method": method, "route": route, **fields}
    logger.log(level, "%s %s", method, route, extra=extra)


async def _send_problem(send: Send, body: dict[str, Any]) -> None:
    headers = [
        (b"content-type", PROBLEM_MEDIA_TYPE.encode()),
        *((k.lower().encode(), v.encode()) for k, v in problem_headers(body).items()),
    ]
    await send({"type": "http.response.start", "status": body["status"], "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
