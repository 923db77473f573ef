"""After a failed attempt: wait so many seconds, or give up. Pure but for the clock handed in.

Judging is a pure function, so repeating a request is always safe; the policy only asks whether it
is of use. An unreadable reply (502 from the service) comes from greedy decoding and would come
again. A 504 or 500 costs the service a whole verdict's time, so one more try is all it gets. The
same statuses from something before the service (no problem of ours in the body) mean that the
service was not reached, and are tried like a refused connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from client.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    DeadlineExhausted,
    DetectorError,
    Overloaded,
    ProtocolError,
    ServiceFailed,
)

logger = logging.getLogger(__name__)

_GATEWAY_STATUSES = (429, 502, 503, 504)
_RETRY_AFTER_SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to try again.

    Attributes:
        deadline_s: Seconds for all attempts and waits together.
        max_attempts: At least 1; the first one counts.
        base_s: Upper bound of the first random wait; it doubles with each attempt.
        max_backoff_s: What the doubling stops at.
        heed_retry_after: Wait as long as the answer asks, where it does.
    """

    deadline_s: float = 300.0
    max_attempts: int = 6
    base_s: float = 0.5
    max_backoff_s: float = 20.0
    heed_retry_after: bool = True

    def __post_init__(self) -> None:
        """Refuse bounds under which no request could be sent."""
        if not self.deadline_s > 0 or self.max_attempts < 1:
            raise ValueError("deadline_s must be above 0 and max_attempts at least 1")

    def wait_s(
        self, error: DetectorError, *, num_attempts: int, elapsed_s: float, draw: float
    ) -> float:
        """Return the seconds to wait before the next attempt.

        Args:
            error: What the last attempt ended in.
            num_attempts: Attempts made so far.
            elapsed_s: Since before the first one.
            draw: Random, uniform in [0, 1).

        Raises:
            DetectorError: The error itself, where another attempt is of no use.
            DeadlineExhausted: The wait would end after the deadline. Then it is not begun: an
                earlier attempt than asked for would only add to the load.
        """
        if num_attempts >= self._useful_attempts(error):
            raise error
        wait_s = draw * min(self.max_backoff_s, self.base_s * 2.0 ** min(num_attempts - 1, 30))
        if error.retry_after_s and self.heed_retry_after:
            # Never earlier than asked, and not all callers in the same instant.
            wait_s = error.retry_after_s * (1 + _RETRY_AFTER_SPREAD * draw)
        if elapsed_s + wait_s >= self.deadline_s:
            raise DeadlineExhausted(
                f"given up after {elapsed_s:.1f} s and {num_attempts} attempt(s), the deadline is "
                f"{self.deadline_s:g} s; the last one: {error}"
            ) from error
        return wait_s

    def _useful_attempts(self, error: DetectorError) -> int:
        match error:
            case ConnectionFailed() | Overloaded():
                return self.max_attempts
            case DeadlineExceeded() | ServiceFailed():
                return min(self.max_attempts, 2)
            case ProtocolError() if error.status in _GATEWAY_STATUSES:
                return self.max_attempts
            case _:
                return 1


class Attempts:
    """The attempts of one call."""

    def __init__(
        self,
        policy: RetryPolicy,
        timeout_s: float,
        clock: Callable[[], float],
        draw: Callable[[], float],
    ) -> None:
        """Begin now.

        Args:
            policy: For all attempts together.
            timeout_s: For one attempt.
            clock: Monotonic seconds.
            draw: Random, uniform in [0, 1).
        """
        self._policy = policy
        self._timeout_s = timeout_s
        self._clock = clock
        self._draw = draw
        self._began = clock()
        self._num_attempts = 0

    def start(self) -> float:
        """Begin an attempt; return the seconds that it may take, above 0."""
        self._num_attempts += 1
        left_s = self._policy.deadline_s - (self._clock() - self._began)
        return max(0.001, min(self._timeout_s, left_s))

    def wait_s(self, error: DetectorError) -> float:
        """Return the seconds to wait after a failed attempt, or raise as the policy does."""
        wait_s = self._policy.wait_s(
            error,
            num_attempts=self._num_attempts,
            elapsed_s=self._clock() - self._began,
            draw=self._draw(),
        )
        logger.debug("attempt %d: %s; next in %.2f s", self._num_attempts, error, wait_s)
        return wait_s
