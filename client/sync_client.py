"""The blocking client, for scripts and for Locust's users."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from operator import length_hint
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from client.base import ONCE, ClientBase, Options, means_not_ready, patience
from client.errors import ConnectionFailed, DetectorError
from client.models import Classification
from client.retry import RetryPolicy
from client.wire import INFO, READY, Call, classify_call, read_answer, timeouts, transport_errors
from contract.example import Example

T = TypeVar("T")


class DetectorClient(ClientBase):
    """Calls the service. Safe to share between threads."""

    def __init__(
        self,
        base_url: str,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        **options: Unpack[Options],
    ) -> None:
        """Connect to nothing yet.

        Args:
            base_url: Such as ``http://127.0.0.1:8000``.
            transport: In place of the network, for tests.
            sleep: Waits so many seconds, for tests.
            options: See ``client.base.Options``.

        Raises:
            ValueError: An argument is out of range.
        """
        super().__init__(base_url, **options)
        self._sleep = sleep
        self._http = httpx.Client(transport=transport, **self._http_options)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def classify(
        self,
        example: Example,
        *,
        justification: bool = True,
        threshold: float | None = None,
        request_id: str | None = None,
    ) -> Classification:
        """Judge one response.

        Args:
            example: What to judge.
            justification: False takes the short path.
            threshold: In place of the one that came with the weights, in [0, 1].
            request_id: For the service's log; every attempt sends the same one.

        Raises:
            DetectorError: There is no verdict.
            ValueError: The threshold or the request id cannot be sent.
        """
        return self._send(
            classify_call(
                example, justification=justification, threshold=threshold, request_id=request_id
            )
        )

    def classify_many(
        self,
        examples: Iterable[Example],
        *,
        concurrency: int = 8,
        progress: Callable[[int, int], None] | None = None,
        justification: bool = True,
        threshold: float | None = None,
    ) -> list[Classification | DetectorError]:
        """Judge many responses, several at once; the outcomes come in their order.

        Args:
            examples: Taken one by one as there is room.
            concurrency: Requests at once.
            progress: Called in this thread with (done, total); the total is the number begun so
                far where the examples have no length.
            justification: False takes the short path.
            threshold: In place of the one that came with the weights, in [0, 1].
        """

        def attempt(example: Example) -> Classification | DetectorError:
            try:
                return self.classify(example, justification=justification, threshold=threshold)
            except DetectorError as error:
                return error

        outcomes: dict[int, Classification | DetectorError] = {}
        pending: dict[Future[Classification | DetectorError], int] = {}
        total = length_hint(examples)
        numbered = enumerate(examples)
        pool = ThreadPoolExecutor(concurrency)
        try:
            while True:
                for index, example in islice(numbered, concurrency - len(pending)):
                    pending[pool.submit(attempt, example)] = index
                if not pending:
                    return [outcomes[index] for index in range(len(outcomes))]
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    outcomes[pending.pop(future)] = future.result()
                    if progress is not None:
                        progress(len(outcomes), max(total, len(outcomes) + len(pending)))
        finally:
            # On Ctrl-C return at once: attempts under way end by themselves.
            pool.shutdown(wait=False, cancel_futures=True)

    def info(self) -> dict[str, Any]:
        """Return what is served and within which limits (``GET /info``)."""
        return self._send(INFO)

    def ready(self) -> bool:
        """Return whether requests are welcome; one attempt.

        Raises:
            DetectorError: Waiting will not help, such as with a wrong address.
        """
        try:
            self._send(READY, ONCE)
        except DetectorError as error:
            if means_not_ready(error):
                return False
            raise
        return True

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the service is ready.

        Raises:
            DeadlineExhausted: It is not in time; the message says how far it is.
            DetectorError: Waiting will not help.
        """
        self._send(READY, patience(timeout_s))

    def _send(self, call: Call[T], policy: RetryPolicy | None = None) -> T:
        attempts = self._begin(policy)
        while True:
            try:
                return self._attempt(call, attempts.start())
            except DetectorError as error:
                wait_s = attempts.wait_s(error)
            self._sleep(wait_s)

    def _attempt(self, call: Call[T], timeout_s: float) -> T:
        ends = self._clock() + timeout_s
        content = bytearray()
        with (
            transport_errors(timeout_s),
            self._http.stream(
                call.method,
                call.path,
                content=call.body,
                headers=call.headers,
                timeout=timeouts(timeout_s),
            ) as response,
        ):
            for chunk in response.iter_bytes():
                content += chunk
                # The network's timeout begins anew with each piece; the attempt's does not.
                if self._clock() > ends:
                    raise ConnectionFailed(f"the answer did not end within {timeout_s:.1f} s")
        return read_answer(call, response.status_code, response.headers, bytes(content))
