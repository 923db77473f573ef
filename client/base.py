"""What the sync and the async client share: the settings, and the rules of their loops."""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable
from typing import TypedDict

from client.errors import ConnectionFailed, DetectorError, Overloaded, ProtocolError
from client.retry import Attempts, RetryPolicy
from client.wire import HttpOptions, http_options

USER_AGENT = "hallucination-detector-client"
_READY_POLL_S = 1.0


class Options(TypedDict, total=False):
    """Keyword arguments of both clients.

    Attributes:
        api_key: Sent as ``Authorization: Bearer``; shown nowhere.
        timeout_s: For one attempt; 70 by default, more than the service takes for itself.
        deadline_s: For one item, all attempts and waits together; 300 by default.
        max_attempts: For one item, the first included; 6 by default.
        user_agent: Name in the service's log.
        clock: Monotonic seconds, for tests.
        draw: Random numbers in [0, 1), for tests.
    """

    api_key: str | None
    timeout_s: float
    deadline_s: float
    max_attempts: int
    user_agent: str
    clock: Callable[[], float]
    draw: Callable[[], float]


class ClientBase:
    """Address and policy of a client."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 70.0,
        deadline_s: float = 300.0,
        max_attempts: int = 6,
        user_agent: str = USER_AGENT,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """See ``Options``.

        Raises:
            ValueError: An argument is out of range.
        """
        if not 0 < timeout_s < math.inf:
            raise ValueError("timeout_s must be above 0 and finite")
        self._http_options: HttpOptions = http_options(base_url, api_key, user_agent)
        self._policy = RetryPolicy(deadline_s=deadline_s, max_attempts=max_attempts)
        self._timeout_s = timeout_s
        self._clock = clock
        self._draw = draw

    def __repr__(self) -> str:
        """Name the address, not the key."""
        return f"{type(self).__name__}({self._http_options['base_url']!r})"

    def _begin(self, policy: RetryPolicy | None = None) -> Attempts:
        return Attempts(policy or self._policy, self._timeout_s, self._clock, self._draw)


def patience(timeout_s: float) -> RetryPolicy:
    """Return the policy of a wait until the service is ready: ask about every half second."""
    return RetryPolicy(
        deadline_s=timeout_s,
        max_attempts=sys.maxsize,
        base_s=_READY_POLL_S,
        max_backoff_s=_READY_POLL_S,
        heed_retry_after=False,
    )


ONCE = RetryPolicy(max_attempts=1)


def means_not_ready(error: DetectorError) -> bool:
    """Return whether a failed ``GET /readyz`` says "not yet" rather than "not like this"."""
    is_gateway = isinstance(error, ProtocolError) and error.status in (502, 503, 504)
    return is_gateway or isinstance(error, ConnectionFailed | Overloaded)
