"""THE table: exception -> HTTP status and problem type (RFC 9457).

No other place in the service decides on a status. The detail comes from the exception, which never
holds a user's text; of an exception that is not in the table nothing is told but the request id.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from service import errors

PROBLEM_MEDIA_TYPE = "application/problem+json"
_TYPE_PREFIX = "urn:hallucination-detector:problem:"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One row of the table.

    Attributes:
        status: HTTP status.
        slug: Last part of the problem's type, and the outcome in the metrics.
        title: The same for every problem of the type.
    """

    status: int
    slug: str
    title: str


PROBLEMS: dict[type[errors.ServiceError], ProblemType] = {
    errors.MalformedBodyError: ProblemType(400, "malformed-body", "The body is not JSON"),
    errors.UnauthorizedError: ProblemType(401, "unauthorized", "No valid API key"),
    errors.BodyTooLargeError: ProblemType(413, "too-large", "The body is too large"),
    errors.MediaTypeError: ProblemType(415, "media-type", "The body must be application/json"),
    errors.InvalidRequestError: ProblemType(422, "invalid-request", "The request is not valid"),
    errors.InputTooLongError: ProblemType(422, "input-too-long", "The input has too many tokens"),
    errors.RateLimitedError: ProblemType(429, "rate-limited", "Too many requests"),
    errors.ClientGoneError: ProblemType(499, "client-gone", "The client closed the connection"),
    errors.EngineFaultError: ProblemType(500, "engine-fault", "The engine failed"),
    errors.UnreadableVerdictError: ProblemType(502, "unreadable-reply", "No readable verdict"),
    errors.OverloadedError: ProblemType(503, "overloaded", "The service is at its limit"),
    errors.NotReadyError: ProblemType(503, "not-ready", "The service is not ready"),
    errors.EngineDeadError: ProblemType(503, "engine-dead", "The engine has died"),
    errors.DeadlineError: ProblemType(504, "deadline", "Not finished in time"),
}

INTERNAL = ProblemType(500, "internal", "An unexpected error")
NOT_FOUND = ProblemType(404, "not-found", "No such path")
METHOD_NOT_ALLOWED = ProblemType(405, "method-not-allowed", "The path does not take this method")


def problem_type(error: Exception) -> ProblemType:
    """Return the row for an exception; ``INTERNAL`` where it has none."""
    if isinstance(error, errors.ServiceError):
        return PROBLEMS.get(type(error), INTERNAL)
    return INTERNAL


def problem_body(kind: ProblemType, detail: str, request_id: str) -> dict[str, Any]:
    """Return the problem's members that every problem has."""
    return {
        "type": _TYPE_PREFIX + kind.slug,
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "request_id": request_id,
    }


def to_problem(error: Exception, request_id: str) -> dict[str, Any]:
    """Return the problem as a JSON object, with the members of its kind."""
    kind = problem_type(error)
    if kind is INTERNAL:
        return problem_body(kind, "see the service's log for this request id", request_id)
    body = problem_body(kind, str(error), request_id)
    if isinstance(error, errors.RequestError):
        body["errors"] = [{"field": f.field, "message": f.message} for f in error.faults]
    if isinstance(error, errors.InputTooLongError):
        body["num_tokens"] = error.num_tokens
        body["limit_tokens"] = error.limit_tokens
    if isinstance(error, errors.RetryableError):
        body["retry_after_s"] = math.ceil(error.retry_after_s)
    return body


def problem_headers(body: dict[str, Any]) -> dict[str, str]:
    """Return the headers that a problem calls for."""
    headers = {}
    if "retry_after_s" in body:
        headers["Retry-After"] = str(body["retry_after_s"])
    if body["status"] == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return headers
