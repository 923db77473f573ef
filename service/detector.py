"""The main job: render -> generate -> parse -> calibrate. Knows neither HTTP nor vLLM."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from enum import StrEnum

from contract.calibration import Calibration, LabelLogprobs, classify
from contract.errors import TextError, UnreadableReplyError
from contract.example import Example
from contract.labels import Label
from contract.prompt import render
from contract.reply import label_cue, parse, split_justification
from service.engine.base import Engine, FinishReason, Generation, LabelRead, Prompt
from service.errors import (
    EngineFaultError,
    Fault,
    InputTooLongError,
    InvalidRequestError,
    UnreadableVerdictError,
)

logger = logging.getLogger(__name__)

# Room for "\nClass: <label>" after a reply that used its whole budget, when it is read again.
_CUE_RESERVE_TOKENS = 16


class Evidence(StrEnum):
    """What the verdict rests on."""

    GIVEN = "given"
    NONE = "none"


class VerdictPath(StrEnum):
    """How a verdict was reached."""

    FULL = "full"
    REREAD = "reread"
    SHORT = "short"


@dataclass(frozen=True, slots=True)
class Classification:
    """A verdict and how it came about.

    Attributes:
        label: The class: a hallucination where ``probability >= threshold``.
        justification: The model's words; None where none was asked for, or none was given.
        probability: P(hallucination), calibrated, in [0, 1].
        threshold: In [0, 1].
        label_mass: Share of the model's next-token probability on the two labels, in [0, 1].
        evidence: ``none`` where no knowledge was given.
        path: ``full`` for a reply that could be read, ``reread`` where the label was then asked for
            alone, ``short`` where no justification was asked for.
        num_input_tokens: Of the prompt.
        num_output_tokens: Of all that was generated.
        num_cached_tokens: Prompt tokens whose computation was reused.
        queue_s: Seconds waited in the engine.
        inference_s: Seconds computed.
    """

    label: Label
    justification: str | None
    probability: float
    threshold: float
    label_mass: float
    evidence: Evidence
    path: VerdictPath
    num_input_tokens: int
    num_output_tokens: int
    num_cached_tokens: int
    queue_s: float
    inference_s: float


@dataclass(frozen=True, slots=True)
class Job:
    """An example that fits the model, ready to be judged."""

    prompt: Prompt
    evidence: Evidence


class Detector:
    """Judges examples with one engine."""

    def __init__(
        self,
        engine: Engine,
        calibration: Calibration,
        max_model_len_tokens: int,
        max_output_tokens: int,
    ) -> None:
        """Bind a started engine to the calibration of its weights."""
        self._engine = engine
        self.calibration = calibration
        self._max_output_tokens = max_output_tokens
        self.limit_tokens = max_model_len_tokens - max_output_tokens - _CUE_RESERVE_TOKENS

    async def prepare(self, example: Example) -> Job:
        """Render and tokenise.

        Raises:
            InvalidRequestError: A text is blank or invalid.
            InputTooLongError: It has more tokens than the model takes; nothing is ever cut off.
        """
        try:
            messages = render(example)
        except TextError as error:
            raise InvalidRequestError([Fault(error.field, error.reason)]) from error
        prompt = await self._engine.encode(messages)
        if len(prompt.token_ids) > self.limit_tokens:
            raise InputTooLongError(len(prompt.token_ids), self.limit_tokens)
        return Job(prompt, Evidence.NONE if example.knowledge is None else Evidence.GIVEN)

    async def classify(
        self, job: Job, *, justify: bool, threshold: float | None, request_id: str
    ) -> Classification:
        """Reach a verdict.

        Args:
            job: From ``prepare``.
            justify: False takes the short path: one token, no justification.
            threshold: In [0, 1]; None for the one that came with the weights.
            request_id: For the engine's logs.

        Raises:
            UnreadableVerdictError: None was reached.
            EngineDeadError: The engine is gone.
            EngineFaultError: It failed on this request.
        """
        if threshold is None:
            threshold = self.calibration.threshold
        if not justify:
            read = await self._read_label(job, label_cue(None), request_id)
            return self._conclude(job, threshold, read.logprobs, None, None, read)
        generation = await self._engine.generate(job.prompt, self._max_output_tokens, request_id)
        if generation.finish_reason is FinishReason.STOP and generation.label_logprobs:
            try:
                justification = parse(generation.text).justification
            except UnreadableReplyError as error:
                logger.debug("%s: reply not readable: %s", request_id, error)
            else:
                logprobs = generation.label_logprobs
                return self._conclude(job, threshold, logprobs, justification, generation, None)
        justification = split_justification(generation.text)
        read = await self._read_label(job, label_cue(justification), request_id)
        return self._conclude(
            job, threshold, read.logprobs, justification or None, generation, read
        )

    async def _read_label(self, job: Job, cue: str, request_id: str) -> LabelRead:
        read = await self._engine.read_label(job.prompt, cue, request_id)
        if not read.is_label:
            raise UnreadableVerdictError(
                "the model gave no readable verdict; the same request would end the same way"
            )
        return read

    def _conclude(
        self,
        job: Job,
        threshold: float,
        logprobs: LabelLogprobs,
        justification: str | None,
        generation: Generation | None,
        read: LabelRead | None,
    ) -> Classification:
        probability = self.calibration.probability(logprobs)
        if not math.isfinite(probability):
            # Numbers that overflowed in the engine; compared with a threshold, NaN would be
            # `correct`.
            raise EngineFaultError(
                "the inference engine gave log-probabilities that are no numbers"
            )
        first = generation or read
        calls = [call for call in (generation, read) if call is not None]
        return Classification(
            label=classify(probability, threshold),
            justification=justification,
            probability=probability,
            threshold=threshold,
            label_mass=logprobs.mass,
            evidence=job.evidence,
            path=_path(generation, read),
            num_input_tokens=len(job.prompt.token_ids),
            num_output_tokens=(generation.num_output_tokens if generation else 0) + bool(read),
            num_cached_tokens=first.num_cached_tokens if first else 0,
            queue_s=sum(call.queue_s for call in calls),
            inference_s=sum(call.inference_s for call in calls),
        )


def _path(generation: Generation | None, read: LabelRead | None) -> VerdictPath:
    if generation is None:
        return VerdictPath.SHORT
    return VerdictPath.FULL if read is None else VerdictPath.REREAD
