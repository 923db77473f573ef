"""One item from its checked form to its answer: rate limit -> slot -> detector -> metrics.

The single path for ``/classify`` and for every item of a batch.
"""

from __future__ import annotations

import asyncio
import time

from service.admission import Admission, RateLimiter
from service.detector import Classification
from service.errors import DeadlineError
from service.lifecycle import Lifecycle
from service.schemas import ClassifyRequest, ClassifyResponse
from service.settings import Settings
from service.telemetry import Metrics


class Judge:
    """Judges single items within the limits."""

    def __init__(self, settings: Settings, lifecycle: Lifecycle, metrics: Metrics) -> None:
        """Begin with no work in hand."""
        self._timeout_s = settings.request_timeout_s
        self._lifecycle = lifecycle
        self._metrics = metrics
        self.admission = Admission(settings.max_in_flight, settings.max_queued_tokens)
        self._rate_limiter = RateLimiter(settings.rate_limit_per_minute)
        metrics.in_flight.set_function(lambda: self.admission.num_in_flight)
        metrics.queued_tokens.set_function(lambda: self.admission.num_queued_tokens)

    def count(self, caller: str) -> None:
        """Count one item against its caller's rate limit.

        Raises:
            RateLimitedError: The caller has had its items for this minute.
            NotReadyError: Nothing is judged yet, so nothing is counted.
        """
        self._lifecycle.require_detector()
        self._rate_limiter.check(caller)

    async def judge(self, request: ClassifyRequest, request_id: str) -> ClassifyResponse:
        """Return the verdict.

        Args:
            request: Checked.
            request_id: Of the item.

        Raises:
            ServiceError: No verdict was reached, and why.
        """
        began = time.perf_counter()
        verdict = await self._classify(request, request_id)
        self._metrics.count_verdict(verdict)
        total_s = time.perf_counter() - began
        return ClassifyResponse.build(verdict, self._lifecycle.model, total_s, request_id)

    async def _classify(self, request: ClassifyRequest, request_id: str) -> Classification:
        detector = self._lifecycle.require_detector()
        try:
            with self.admission.admit() as slot:
                async with asyncio.timeout(self._timeout_s):
                    job = await detector.prepare(request.to_example())
                    slot.claim(len(job.prompt.token_ids))
                    return await detector.classify(
                        job,
                        justify=request.justification,
                        threshold=request.threshold,
                        request_id=request_id,
                    )
        except TimeoutError as error:
            raise DeadlineError(
                f"no verdict within {self._timeout_s:g} s; the work on it was stopped"
            ) from error
