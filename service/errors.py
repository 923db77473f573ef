"""Everything that can go wrong between a request and its verdict.

Raised where the fact is known, turned into an HTTP answer in one place: ``service/problems.py``.
Messages are for users: they say what to do and never repeat a user's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ServiceError(Exception):
    """Base of the service's own errors."""


class StartError(ServiceError):
    """The service cannot start as configured; the message says how to mend it."""


class WeightsError(StartError):
    """The model's weights cannot be had, or are not whole, or are not the contract's."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a request.

    Attributes:
        field: Where, such as ``response``, ``knowledge[1]``, ``items[3].threshold``; ``body`` for
            the whole.
        message: What is wrong and what to send instead.
    """

    field: str
    message: str


class RequestError(ServiceError):
    """The request cannot be served as it is; repeating it unchanged is of no use."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        """Keep every fault."""
        super().__init__("; ".join(f"{fault.field}: {fault.message}" for fault in faults))
        self.faults = tuple(faults)


class MalformedBodyError(RequestError):
    """The body is not JSON text."""


class BodyTooLargeError(RequestError):
    """The body has too many bytes, or the batch too many items."""


class MediaTypeError(RequestError):
    """The body is not declared as JSON."""


class InvalidRequestError(RequestError):
    """The body is JSON, but not a request that can be judged."""


class InputTooLongError(InvalidRequestError):
    """The texts have more tokens than the model can take.

    Args:
        num_tokens: Tokens of the rendered prompt.
        limit_tokens: Tokens that a prompt may have.
        field: Where the texts stand in the body.
    """

    def __init__(self, num_tokens: int, limit_tokens: int, field: str = "body") -> None:
        """Name both numbers."""
        super().__init__(
            [
                Fault(
                    field,
                    f"the input has {num_tokens} tokens with its instructions, the limit is "
                    f"{limit_tokens} tokens: shorten it or judge it in parts",
                )
            ]
        )
        self.num_tokens = num_tokens
        self.limit_tokens = limit_tokens


class UnauthorizedError(ServiceError):
    """No API key, or one that is not known."""


class RetryableError(ServiceError):
    """The same request can succeed later.

    Args:
        message: What is the matter.
        retry_after_s: Seconds to wait before trying again.
    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        """Say what is the matter, and when to try again."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimitedError(RetryableError):
    """The caller's key has used its requests for this minute."""


class OverloadedError(RetryableError):
    """As much work as the service will hold is waiting already."""


class NotReadyError(RetryableError):
    """The model is still loading, or the service is shutting down."""


class EngineDeadError(RetryableError):
    """The inference engine has died; the process is about to end."""


class EngineFaultError(ServiceError):
    """The engine failed on this request; others may go on."""


class UnreadableVerdictError(ServiceError):
    """The model gave no readable verdict, neither in its reply nor when asked for it alone."""


class DeadlineError(ServiceError):
    """The verdict was not reached in time; the work on it was stopped."""


class ClientGoneError(ServiceError):
    """The client closed the connection; nobody reads the answer."""
