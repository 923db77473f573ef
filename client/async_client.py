"""The asyncio client; ``python -m client`` stands on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from operator import length_hint
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from client.base import ONCE, ClientBase, Options, means_not_ready, patience
from client.errors import DetectorError
from client.models import Classification
from client.retry import RetryPolicy
from client.wire import INFO, READY, Call, classify_call, read_answer, timeouts, transport_errors
from contract.example import Example

T = TypeVar("T")


class AsyncDetectorClient(ClientBase):
    """Calls the service. Of one event loop."""

    def __init__(
        self,
        base_url: str,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        **options: Unpack[Options],
    ) -> None:
        """Connect to nothing yet; the arguments are those of ``DetectorClient``.

        Raises:
            ValueError: An argument is out of range.
        """
        super().__init__(base_url, **options)
        self._sleep = sleep
        self._http = httpx.AsyncClient(transport=transport, **self._http_options)

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def classify(
        self,
        example: Example,
        *,
        justification: bool = True,
        threshold: float | None = None,
        request_id: str | None = None,
    ) -> Classification:
        """Judge one response; see ``DetectorClient.classify``."""
        return await self._send(
            classify_call(
                example, justification=justification, threshold=threshold, request_id=request_id
            )
        )

    async def classify_each(
        self,
        examples: Iterable[Example],
        handle: Callable[[int, Classification | DetectorError], None],
        *,
        concurrency: int = 8,
        justification: bool = True,
        threshold: float | None = None,
    ) -> None:
        """Judge many responses and hand on each outcome as it comes; nothing is kept.

        Args:
            examples: Taken one by one as there is room.
            handle: Called with the example's place and its outcome. What it raises ends the work.
            concurrency: Requests at once.
            justification: False takes the short path.
            threshold: In place of the one that came with the weights, in [0, 1].
        """
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        numbered = enumerate(examples)

        async def work() -> None:
            for index, example in numbered:
                outcome: Classification | DetectorError
                try:
                    outcome = await self.classify(
                        example, justification=justification, threshold=threshold
                    )
                except DetectorError as error:
                    outcome = error
                handle(index, outcome)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            # The first one ended the others.
            raise errors.exceptions[0] from None

    async def classify_many(
        self,
        examples: Iterable[Example],
        *,
        concurrency: int = 8,
        progress: Callable[[int, int], None] | None = None,
        justification: bool = True,
        threshold: float | None = None,
    ) -> list[Classification | DetectorError]:
        """Judge many responses; see ``DetectorClient.classify_many``."""
        outcomes: dict[int, Classification | DetectorError] = {}
        total = length_hint(examples)

        def keep(index: int, outcome: Classification | DetectorError) -> None:
            nonlocal total
            outcomes[index] = outcome
            total = max(total, index + 1)
            if progress is not None:
                progress(len(outcomes), total)

        await self.classify_each(
            examples,
            keep,
            concurrency=concurrency,
            justification=justification,
            threshold=threshold,
        )
        return [outcomes[index] for index in range(len(outcomes))]

    async def info(self) -> dict[str, Any]:
        """Return what is served and within which limits (``GET /info``)."""
        return await self._send(INFO)

    async def ready(self) -> bool:
        """Return whether requests are welcome; see ``DetectorClient.ready``."""
        try:
            await self._send(READY, ONCE)
        except DetectorError as error:
            if means_not_ready(error):
                return False
            raise
        return True

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait until the service is ready; see ``DetectorClient.wait_ready``."""
        await self._send(READY, patience(timeout_s))

    async def _send(self, call: Call[T], policy: RetryPolicy | None = None) -> T:
        attempts = self._begin(policy)
        while True:
            try:
                return await self._attempt(call, attempts.start())
            except DetectorError as error:
                wait_s = attempts.wait_s(error)
            await self._sleep(wait_s)

    async def _attempt(self, call: Call[T], timeout_s: float) -> T:
        with transport_errors(timeout_s):
            async with asyncio.timeout(timeout_s):
                response = await self._http.request(
                    call.method,
                    call.path,
                    content=call.body,
                    headers=call.headers,
                    timeout=timeouts(timeout_s),
                )
        return read_answer(call, response.status_code, response.headers, response.content)
