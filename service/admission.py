"""How much work is taken in: bounded items and tokens; beyond them a refusal, never a queue.

A refusal names the time after which a retry has a chance, from the throughput measured here.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from service.errors import OverloadedError, RateLimitedError

_WINDOW_S = 30.0
_MIN_RETRY_S = 1.0
_MAX_RETRY_S = 60.0


class Admission:
    """Counts what was accepted and not yet answered."""

    def __init__(
        self,
        max_in_flight: int,
        max_queued_tokens: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin empty.

        Args:
            max_in_flight: Items that may be accepted at once.
            max_queued_tokens: Input tokens that they may hold together.
            clock: Seconds, monotonic.
        """
        self._max_in_flight = max_in_flight
        self._max_queued_tokens = max_queued_tokens
        self._clock = clock
        self._finished_at: deque[float] = deque(maxlen=4096)
        self.num_in_flight = 0
        self.num_queued_tokens = 0

    def admit(self) -> Slot:
        """Take one item in.

        Raises:
            OverloadedError: As many as allowed are in already.
        """
        if self.num_in_flight >= self._max_in_flight:
            raise OverloadedError(
                f"{self._max_in_flight} items are being judged, as many as this service takes "
                "at once",
                self.retry_after_s(),
            )
        self.num_in_flight += 1
        return Slot(self)

    def claim_tokens(self, num_tokens: int) -> None:
        """Add an item's tokens.

        Raises:
            OverloadedError: Together with those that are in they would be too many.
        """
        if self.num_queued_tokens + num_tokens > self._max_queued_tokens:
            raise OverloadedError(
                f"the accepted items hold {self.num_queued_tokens} tokens of the "
                f"{self._max_queued_tokens} that this service takes at once",
                self.retry_after_s(),
            )
        self.num_queued_tokens += num_tokens

    def release(self, num_tokens: int, is_finished: bool) -> None:
        """Let an item go; a finished one counts towards the throughput."""
        self.num_in_flight -= 1
        self.num_queued_tokens -= num_tokens
        if is_finished:
            self._finished_at.append(self._clock())

    def items_per_s(self) -> float:
        """Return items finished per second over the last half minute; 0 where none was."""
        now = self._clock()
        while self._finished_at and now - self._finished_at[0] > _WINDOW_S:
            self._finished_at.popleft()
        if not self._finished_at:
            return 0.0
        return len(self._finished_at) / max(1.0, now - self._finished_at[0])

    def retry_after_s(self) -> float:
        """Return the time in which half of the items inside will be done, in [1, 60] s.

        Half, because a caller that waits for one place finds it taken by the others that wait.
        """
        rate = self.items_per_s()
        if rate == 0.0:
            return 5.0
        return min(_MAX_RETRY_S, max(_MIN_RETRY_S, 0.5 * self.num_in_flight / rate))


class Slot:
    """One admitted item; leaving the block gives its place back."""

    def __init__(self, admission: Admission) -> None:
        """Made by ``Admission.admit``."""
        self._admission = admission
        self._num_tokens = 0

    def __enter__(self) -> Slot:
        """Begin."""
        return self

    def claim(self, num_tokens: int) -> None:
        """Add the item's input tokens, once they are known.

        Raises:
            OverloadedError: They do not fit.
        """
        self._admission.claim_tokens(num_tokens)
        self._num_tokens += num_tokens

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the place back."""
        self._admission.release(self._num_tokens, is_finished=error is None)


class RateLimiter:
    """A bound on items per minute for each caller (moving window, in memory)."""

    def __init__(self, items_per_minute: int | None) -> None:
        """Bound every caller alike; None for no bound."""
        self._item = RateLimitItemPerMinute(items_per_minute) if items_per_minute else None
        self._limiter = MovingWindowRateLimiter(MemoryStorage()) if items_per_minute else None

    def check(self, caller: str) -> None:
        """Count one item.

        Args:
            caller: Who sent it; any name that stays the same.

        Raises:
            RateLimitedError: The caller has had its items for this minute.
        """
        if self._limiter is None or self._item is None or self._limiter.hit(self._item, caller):
            return
        reset_at = self._limiter.get_window_stats(self._item, caller).reset_time
        raise RateLimitedError(
            f"this caller may send {self._item.amount} items a minute",
            max(1.0, math.ceil(reset_at - time.time())),
        )
