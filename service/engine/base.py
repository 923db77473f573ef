"""What the service asks of an inference engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from contract.calibration import LabelLogprobs
from contract.labels import Label
from contract.prompt import Message
from service.weights import Weights

WARM_UP_ID = "warm-up"
"""Request id of the calls that the service itself makes before it is ready."""


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What runs, for ``/info``.

    Attributes:
        name: Of the engine, such as ``vllm`` or ``fake``.
        version: Of the engine's package.
        device: ``cpu`` or ``cuda``, as ROCm calls itself too; ``none`` where nothing is computed.
        dtype: Number format of the weights.
        max_model_len_tokens: Prompt and reply together.
        accelerator: The GPU's name; None where the processor computes.
    """

    name: str
    version: str
    device: str
    dtype: str
    max_model_len_tokens: int
    accelerator: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt, ready for the engine."""

    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Generation:
    """What the engine answered.

    Attributes:
        text: The new text.
        finish_reason: ``length`` where the reply was cut off.
        label_logprobs: Read where the label's first token stands after the last ``Class:``; None
            where the text has no label there.
        num_input_tokens: Of the prompt.
        num_output_tokens: Of the new text.
        num_cached_tokens: Prompt tokens whose computation was reused.
        queue_s: Seconds that the request waited in the engine.
        inference_s: Seconds from its first computation to its end.
    """

    text: str
    finish_reason: FinishReason
    label_logprobs: LabelLogprobs | None
    num_input_tokens: int
    num_output_tokens: int
    num_cached_tokens: int
    queue_s: float
    inference_s: float


@dataclass(frozen=True, slots=True)
class LabelRead:
    """One token asked for at the place of the label.

    Attributes:
        logprobs: Of the two labels.
        is_label: True where the model's own first choice was a label.
        num_input_tokens: Of the prompt, cue included.
        num_cached_tokens: Prompt tokens whose computation was reused.
        queue_s: Seconds that the request waited in the engine.
        inference_s: Seconds from its first computation to its end.
    """

    logprobs: LabelLogprobs
    is_label: bool
    num_input_tokens: int
    num_cached_tokens: int
    queue_s: float
    inference_s: float


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """Requests inside the engine.

    Attributes:
        num_running: Computing now.
        num_waiting: Waiting for a place.
    """

    num_running: int
    num_waiting: int


class Phase(StrEnum):
    """A phase of the start, in order."""

    DOWNLOAD = "download"
    LOAD = "load"
    WARM_UP = "warm_up"


ProgressCallback = Callable[[Phase, str], None]
"""Told of each phase as it begins, and of its progress in words."""


class Engine(Protocol):
    """An inference engine. All methods but ``start`` are called from one event loop.

    Cancelling a call aborts its work in the engine.
    """

    async def start(self, weights: Weights, progress: ProgressCallback) -> None:
        """Load the weights, check the label tokens, warm up.

        Raises:
            StartError: The engine cannot run here, with the remedy.
        """

    @property
    def info(self) -> EngineInfo:
        """What runs. Only after ``start``."""

    @property
    def label_token_ids(self) -> dict[Label, int]:
        """First token of each label in its place after ``Class:``. Only after ``start``."""

    async def encode(self, messages: Sequence[Message]) -> Prompt:
        """Apply the chat template and tokenise."""

    async def generate(self, prompt: Prompt, max_tokens: int, request_id: str) -> Generation:
        """Decode greedily until the model ends its turn or ``max_tokens`` are there.

        Raises:
            EngineDeadError: The engine is gone.
            EngineFaultError: It failed on this request alone.
        """

    async def read_label(self, prompt: Prompt, cue: str, request_id: str) -> LabelRead:
        """Compute one token after the prompt and the cue, and the labels' log-probabilities there.

        Raises:
            EngineDeadError: The engine is gone.
            EngineFaultError: It failed on this request alone.
        """

    @property
    def is_dead(self) -> bool:
        """True once the engine can serve nothing more."""

    @property
    def stalled_s(self) -> float:
        """Seconds since the last progress while requests run; 0 where none runs."""

    @property
    def load(self) -> EngineLoad:
        """Requests now inside the engine."""

    async def stop(self) -> None:
        """End the engine and free what it holds. Safe to call twice, or before ``start``."""
