"""An engine that computes nothing: verdicts follow from a hash of the prompt.

It ships with the service, so that anyone can try what stands around an engine (limits, overload,
drain, clients, dashboards) without weights. It is named ``fake`` in ``/info`` and in every answer.
Latency, reply length and faults are set by the ``fake_*`` settings.
"""

from __future__ import annotations

import asyncio
import math
import time
import zlib
from collections.abc import Sequence

from contract.calibration import LabelLogprobs
from contract.labels import Label
from contract.prompt import Message
from contract.reply import REPLY_MARK
from service.engine.base import (
    WARM_UP_ID,
    EngineInfo,
    EngineLoad,
    FinishReason,
    Generation,
    LabelRead,
    Phase,
    ProgressCallback,
    Prompt,
)
from service.errors import EngineDeadError, EngineFaultError
from service.settings import Settings
from service.weights import Weights

_BYTES_PER_TOKEN = 4
_LABEL_MASS = 0.99


class FakeEngine:
    """Deterministic stand-in for an inference engine; see ``Engine`` for the methods."""

    def __init__(self, settings: Settings) -> None:
        """Take latency and faults from the settings."""
        self._settings = settings
        self._seats = asyncio.Semaphore(settings.max_num_seqs)
        self._num_running = 0
        self._num_waiting = 0
        self._progressed_at = 0.0
        self._is_dead = False

    async def start(self, weights: Weights, progress: ProgressCallback) -> None:
        """Wait for ``fake_start_s``."""
        progress(Phase.LOAD, "starting the fake engine")
        await asyncio.sleep(self._settings.fake_start_s)

    @property
    def info(self) -> EngineInfo:
        """What runs."""
        return EngineInfo("fake", "1", "none", "none", self._settings.max_model_len)

    @property
    def label_token_ids(self) -> dict[Label, int]:
        """Made-up ids."""
        return {Label.HALLUCINATION: 1, Label.CORRECT: 2}

    async def encode(self, messages: Sequence[Message]) -> Prompt:
        """Cut the text into pieces of four bytes: about as many as a real tokeniser gives."""
        text = "\n".join(message["content"] for message in messages).encode()
        pieces = (text[i : i + _BYTES_PER_TOKEN] for i in range(0, len(text), _BYTES_PER_TOKEN))
        return Prompt(tuple(zlib.crc32(piece) for piece in pieces))

    async def generate(self, prompt: Prompt, max_tokens: int, request_id: str) -> Generation:
        """Answer after ``fake_latency_s`` with a verdict that depends on the prompt alone."""
        queue_s, inference_s = await self._compute(
            prompt, self._settings.fake_latency_s, request_id
        )
        num_tokens = min(self._settings.fake_output_tokens, max_tokens)
        logprobs = _logprobs(prompt)
        words = " ".join(["fake"] * max(1, num_tokens - 3))
        is_cut = self._settings.fake_output_tokens > max_tokens
        is_readable = not (is_cut or self._has_fault(prompt, "unreadable", "no_label"))
        return Generation(
            text=f"{words}\n{REPLY_MARK} {logprobs.chosen}" if is_readable else words,
            finish_reason=FinishReason.LENGTH if is_cut else FinishReason.STOP,
            label_logprobs=logprobs if is_readable else None,
            num_input_tokens=len(prompt.token_ids),
            num_output_tokens=num_tokens,
            num_cached_tokens=0,
            queue_s=queue_s,
            inference_s=inference_s,
        )

    async def read_label(self, prompt: Prompt, cue: str, request_id: str) -> LabelRead:
        """Answer after the time of one token, with the label that ``generate`` would give."""
        one_token_s = self._settings.fake_latency_s / self._settings.fake_output_tokens
        queue_s, inference_s = await self._compute(prompt, one_token_s, request_id)
        return LabelRead(
            logprobs=_logprobs(prompt),
            is_label=not self._has_fault(prompt, "no_label"),
            num_input_tokens=len(prompt.token_ids) + len(cue) // _BYTES_PER_TOKEN,
            num_cached_tokens=0,
            queue_s=queue_s,
            inference_s=inference_s,
        )

    @property
    def is_dead(self) -> bool:
        """True after the fault ``dead``."""
        return self._is_dead

    @property
    def stalled_s(self) -> float:
        """Seconds since the last progress while requests run."""
        return time.monotonic() - self._progressed_at if self._num_running else 0.0

    @property
    def load(self) -> EngineLoad:
        """Requests now computing and waiting."""
        return EngineLoad(self._num_running, self._num_waiting)

    async def stop(self) -> None:
        """Nothing to free."""

    async def _compute(
        self, prompt: Prompt, latency_s: float, request_id: str
    ) -> tuple[float, float]:
        """Take a seat, wait, and fail as told. Return seconds waited and seconds computed."""
        arrived = time.monotonic()
        self._num_waiting += 1
        try:
            await self._seats.acquire()
        finally:
            self._num_waiting -= 1
        if not self._num_running:
            self._progressed_at = time.monotonic()
        self._num_running += 1
        started = time.monotonic()
        try:
            if request_id != WARM_UP_ID:
                await self._fail_as_told(prompt)
                await asyncio.sleep(latency_s)
        finally:
            self._num_running -= 1
            self._seats.release()
        self._progressed_at = time.monotonic()
        return started - arrived, self._progressed_at - started

    async def _fail_as_told(self, prompt: Prompt) -> None:
        if self._is_dead or self._has_fault(prompt, "dead"):
            self._is_dead = True
            raise EngineDeadError("the fake engine died as told", retry_after_s=5)
        if self._has_fault(prompt, "error"):
            raise EngineFaultError("the fake engine failed as told")
        if self._has_fault(prompt, "stuck"):
            await asyncio.Event().wait()

    def _has_fault(self, prompt: Prompt, *faults: str) -> bool:
        if self._settings.fake_fault not in faults:
            return False
        return _share(prompt, salt=1) < self._settings.fake_fault_rate


def _share(prompt: Prompt, salt: int) -> float:
    """Return a number in [0, 1) that depends on the prompt alone."""
    data = repr(prompt.token_ids).encode()
    return zlib.crc32(data, salt) / 2**32


def _logprobs(prompt: Prompt) -> LabelLogprobs:
    share = 0.02 + 0.96 * _share(prompt, salt=2)
    return LabelLogprobs(
        hallucination=math.log(_LABEL_MASS * share), correct=math.log(_LABEL_MASS * (1 - share))
    )
