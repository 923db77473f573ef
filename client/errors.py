"""Everything that a call can end in besides a classification.

No message holds the API key or the texts that were sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class DetectorError(Exception):
    """Base of all errors of the client.

    Attributes:
        retry_after_s: Seconds that the answer asked to wait before another try, if it did.
    """

    retry_after_s: float | None = None


class ConnectionFailed(DetectorError):
    """No whole answer came: refused, reset, timed out, cut off."""


class DeadlineExhausted(DetectorError):
    """The client's own deadline leaves no time for another try; the last error is the cause."""


class ProtocolError(DetectorError):
    """The answer is not what the API promises, such as HTML from a proxy, or a redirect.

    Attributes:
        status: HTTP status; None where it does not matter.
    """

    def __init__(
        self, message: str, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        """Say what is wrong with the answer."""
        super().__init__(message, status, retry_after_s)
        self.status = status
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a request: where, and what to send instead."""

    field: str
    message: str


class ProblemError(DetectorError):
    """The service answered with a problem (RFC 9457).

    Attributes:
        problem: Its members as they came, such as ``limit_tokens``.
        status: HTTP status.
        type: URN of the kind of problem.
        title: The same for every problem of the type.
        detail: What is wrong this time.
        request_id: To find the request in the service's log.
        errors: Every fault of the request, where the request is at fault.
    """

    def __init__(
        self, problem: Mapping[str, Any], status: int, retry_after_s: float | None = None
    ) -> None:
        """Take the members of a checked problem."""
        super().__init__(problem, status, retry_after_s)
        self.problem = problem
        self.status = status
        self.retry_after_s = retry_after_s
        self.type: str = problem["type"]
        self.title: str = problem["title"]
        self.detail: str = problem["detail"]
        self.request_id: str = problem["request_id"]
        self.errors = tuple(Fault(e["field"], e["message"]) for e in problem.get("errors") or ())

    def __str__(self) -> str:
        """Return the problem in one line."""
        return f"{self.status} {self.title}: {self.detail} (request {self.request_id})"


class InvalidRequest(ProblemError):
    """The request cannot be served as it is (4xx); repeating it unchanged is of no use."""


class Unauthorized(ProblemError):
    """No API key, or one that is not known (401, 403)."""


class Overloaded(ProblemError):
    """Too many requests, or not ready (429, 503): the same request can succeed later."""


class ServiceFailed(ProblemError):
    """The service failed on this request (500)."""


class UnreadableReply(ProblemError):
    """The model gave no readable verdict (502), and would give none again."""


class DeadlineExceeded(ProblemError):
    """The service did not finish in its time (504)."""


_BY_STATUS: dict[int, type[ProblemError]] = {
    401: Unauthorized,
    403: Unauthorized,
    429: Overloaded,
    502: UnreadableReply,
    503: Overloaded,
    504: DeadlineExceeded,
}


def problem_error(
    problem: Mapping[str, Any], status: int, retry_after_s: float | None
) -> ProblemError:
    """Return a checked problem as the error of its status."""
    other = ServiceFailed if status >= 500 else InvalidRequest
    return _BY_STATUS.get(status, other)(problem, status, retry_after_s)
