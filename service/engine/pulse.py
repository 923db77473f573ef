"""The heartbeat that vLLM's own health check lacks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from service.engine.base import EngineLoad


class Pulse:
    """Counts the requests inside an engine and notes when it last moved.

    Attributes:
        load: As the engine last told it.
    """

    def __init__(self) -> None:
        """Begin at rest."""
        self._num_requests = 0
        self._beat_at = 0.0
        self.load = EngineLoad(0, 0)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count one request as running while the block lasts."""
        if self._num_requests == 0:
            self._beat_at = time.monotonic()
        self._num_requests += 1
        try:
            yield
        finally:
            self._num_requests -= 1

    def beat(self, load: EngineLoad) -> None:
        """Note that the engine has finished a step."""
        self._beat_at = time.monotonic()
        self.load = load

    @property
    def stalled_s(self) -> float:
        """Seconds since the last step, 0 where no request runs."""
        return time.monotonic() - self._beat_at if self._num_requests else 0.0
