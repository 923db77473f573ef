"""The items of a batch: admitted one by one, answered in order, each with a result or a problem."""

from __future__ import annotations

import asyncio
from typing import Any

from service.body import validate
from service.errors import InputTooLongError, OverloadedError
from service.runtime import Runtime
from service.schemas import ClassifyRequest, ClassifyResponse


class Batch:
    """Judges the items of one request."""

    def __init__(self, runtime: Runtime, caller: str, request_id: str) -> None:
        """Begin with none.

        Args:
            runtime: Of the service.
            caller: Whom the rate limit counts.
            request_id: Of the request; an item's is this with ``.`` and its place.
        """
        self._runtime = runtime
        self._caller = caller
        self._request_id = request_id
        # As many at once as the engine computes at once, and no more than are ever taken in.
        settings = runtime.settings
        self._seats = asyncio.Semaphore(min(settings.max_num_seqs, settings.max_in_flight))
        self._num_inside = 0
        self._has_ended = asyncio.Event()

    async def judge(self, items: list[Any]) -> list[dict[str, Any]]:
        """Return ``{"result": ...}`` or ``{"problem": ...}`` for each item, in order.

        Args:
            items: Decoded, and not yet checked: a bad one must not spoil the others.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._answer(item, index)) for index, item in enumerate(items)
            ]
        return [task.result() for task in tasks]

    async def _answer(self, item: Any, index: int) -> dict[str, Any]:
        request_id = f"{self._request_id}.{index}"
        async with self._seats:
            try:
                request = validate(ClassifyRequest, item, prefix=f"items[{index}].")
                self._runtime.judge.count(self._caller)
                answer = await self._judge(request, request_id)
            except InputTooLongError as error:
                placed = InputTooLongError(error.num_tokens, error.limit_tokens, f"items[{index}]")
                return {"problem": self._runtime.report(placed, request_id)}
            except Exception as error:
                # The boundary of one item: whatever happens to it, the others get their answers.
                return {"problem": self._runtime.report(error, request_id)}
        return {"result": answer.model_dump(mode="json")}

    async def _judge(self, request: ClassifyRequest, request_id: str) -> ClassifyResponse:
        """Judge one item; where its own batch takes all the room, wait for that to end."""
        while True:
            self._num_inside += 1
            try:
                answer = await self._runtime.judge.judge(request, request_id)
            except OverloadedError:
                if self._num_inside == 1:
                    self._leave()
                    raise
                self._num_inside -= 1
                await self._has_ended.wait()
            except BaseException:
                self._leave()
                raise
            else:
                self._leave()
                return answer

    def _leave(self) -> None:
        self._num_inside -= 1
        ended, self._has_ended = self._has_ended, asyncio.Event()
        ended.set()
