"""Requests to bytes and answers to values, without any I/O: what both clients share."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Generic, NoReturn, TypedDict, TypeVar

import httpx

from client.errors import ConnectionFailed, DetectorError, ProtocolError, problem_error
from client.models import Classification, Members
from contract.example import Example

T = TypeVar("T")

PROBLEM_PREFIX = "urn:hallucination-detector:problem:"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_CONNECT_TIMEOUT_S = 10.0
# Below the 5 s after which the service drops an idle connection, so that none dies under a request.
_KEEPALIVE_S = 4.0


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and how its answer is read."""

    method: str
    path: str
    read: Callable[[object], T]
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


class HttpOptions(TypedDict):
    """What both kinds of httpx client are made with."""

    base_url: str
    headers: httpx.Headers
    limits: httpx.Limits
    follow_redirects: bool


def http_options(base_url: str, api_key: str | None, user_agent: str) -> HttpOptions:
    """Check the address and the key.

    Raises:
        ValueError: One of them cannot be used. The key is not told.
    """
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise ValueError("base_url must be http://host[:port][/path] or https://...")
    if url.userinfo:
        raise ValueError("base_url must hold no user or password: pass the key as api_key")
    # httpx's own type: its repr hides the key.
    headers = httpx.Headers({"Accept": "application/json", "User-Agent": user_agent})
    if api_key is not None:
        if not re.fullmatch(r"[!-~]+", api_key):
            raise ValueError("api_key must be printable ASCII without blanks, and not empty")
        headers["Authorization"] = f"Bearer {api_key}"
    limits = httpx.Limits(max_connections=None, keepalive_expiry=_KEEPALIVE_S)
    return {"base_url": str(url), "headers": headers, "limits": limits, "follow_redirects": False}


def timeouts(timeout_s: float) -> httpx.Timeout:
    """Return an attempt's timeouts for the network."""
    return httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S))


def classify_call(
    example: Example,
    *,
    justification: bool = True,
    threshold: float | None = None,
    request_id: str | None = None,
) -> Call[Classification]:
    """Return the request for one example.

    Raises:
        ValueError: The threshold or the request id cannot be sent.
    """
    if threshold is not None and not 0 <= threshold <= 1:
        raise ValueError("threshold must be in [0, 1]")
    headers = {"Content-Type": "application/json"}
    if request_id is not None:
        if not _REQUEST_ID.fullmatch(request_id):
            raise ValueError("request_id must be 1 to 128 of A-Z a-z 0-9 . _ -")
        headers["X-Request-ID"] = request_id
    body: dict[str, Any] = {"response": example.response}
    if example.question is not None:
        body["question"] = example.question
    if example.knowledge is not None:
        documents = list(example.knowledge)
        body["knowledge"] = documents[0] if len(documents) == 1 else documents
    if not justification:
        body["justification"] = False
    if threshold is not None:
        body["threshold"] = threshold
    # ASCII escapes carry even a lone surrogate to the service, which says what is wrong with it.
    content = json.dumps(body).encode("ascii")
    return Call("POST", "classify", Classification.from_json, content, headers)


def _read_ready(value: object) -> None:
    if Members(value).text("status") != "ready":
        raise ProtocolError("the answer's status is not ready")


INFO: Call[dict[str, Any]] = Call("GET", "info", lambda value: Members(value).value)
READY: Call[None] = Call("GET", "readyz", _read_ready)


@contextmanager
def transport_errors(timeout_s: float) -> Iterator[None]:
    """Turn what the transport raises into the client's errors."""
    try:
        yield
    except (TimeoutError, httpx.TimeoutException) as error:
        kind = type(error).__name__
        raise ConnectionFailed(f"no answer within {timeout_s:.1f} s ({kind})") from error
    except httpx.DecodingError as error:
        raise ProtocolError("the answer's content encoding is broken") from error
    except httpx.RequestError as error:
        detail = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise ConnectionFailed(f"no whole answer from the service ({detail})") from error


def read_answer(call: Call[T], status: int, headers: httpx.Headers, content: bytes) -> T:
    """Return what a call's answer says.

    Raises:
        ProblemError: The service answered with a problem.
        ProtocolError: The answer is none that the API has.
    """
    retry_after_s = read_retry_after(headers)
    if 300 <= status < 400:
        raise ProtocolError(
            f"the answer is a redirect ({status}), and redirects are not followed: "
            "give the service's own address",
            status,
        )
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    expected = "application/json" if status == 200 else "application/problem+json"
    if kind != expected:
        shown = kind if re.fullmatch(r"[a-z0-9.+/-]{1,60}", kind) else "no content type"
        raise ProtocolError(
            f"the answer ({status}) is {shown}, not {expected}: is this the service's address?",
            status,
            retry_after_s,
        )
    try:
        value = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ProtocolError(f"the answer ({status}) is not JSON", status, retry_after_s) from None
    if status == 200:
        return call.read(value)
    raise _read_problem(value, status, retry_after_s)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _read_problem(value: object, status: int, retry_after_s: float | None) -> DetectorError:
    try:
        problem = Members(value)
        if not problem.text("type").startswith(PROBLEM_PREFIX):
            raise ProtocolError("the problem is not of the service")
        for name in ("title", "detail", "request_id"):
            problem.text(name)
        faults = problem.value.get("errors") or []
        if not isinstance(faults, list):
            raise ProtocolError("the problem's errors are not an array")
        for fault in map(Members, faults):
            fault.text("field")
            fault.text("message")
        if retry_after_s is None and problem.value.get("retry_after_s") is not None:
            retry_after_s = problem.number("retry_after_s")
    except ProtocolError as error:
        return ProtocolError(f"the answer ({status}): {error}", status, retry_after_s)
    return problem_error(problem.value, status, retry_after_s)


def read_retry_after(headers: httpx.Headers) -> float | None:
    """Return the seconds that ``Retry-After`` asks for; None where it is absent or senseless.

    A date counts from the answer's own ``Date``, so that a wrong clock here does not matter.
    """
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        return float(text)
    then = _timestamp(text)
    if then is None:
        return None
    now = _timestamp(headers.get("date", ""))
    return max(0.0, then - (time.time() if now is None else now))


def _timestamp(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = date.timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None
