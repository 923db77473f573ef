"""The main job over engines whose every answer is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.app_client import fake_settings

from contract.calibration import Calibration, LabelLogprobs
from contract.example import Example
from contract.labels import Label
from contract.prompt import Message
from service.detector import Classification, Detector, Evidence, Job, VerdictPath
from service.engine.base import (
    Engine,
    EngineInfo,
    EngineLoad,
    FinishReason,
    Generation,
    LabelRead,
    ProgressCallback,
    Prompt,
)
from service.engine.fake import FakeEngine
from service.errors import (
    EngineDeadError,
    EngineFaultError,
    InputTooLongError,
    InvalidRequestError,
    UnreadableVerdictError,
)
from service.weights import Weights

pytestmark = pytest.mark.anyio

EXAMPLE = Example(("The pool is 25 metres long.",), "How long is the pool?", "50 metres")


def logprobs(hallucination: float, correct: float) -> LabelLogprobs:
    """Return log-probabilities for two probabilities."""
    return LabelLogprobs(math.log(hallucination), math.log(correct))


def generation(text: str, **values: Any) -> Generation:
    return Generation(
        text=text,
        **{
            "finish_reason": FinishReason.STOP,
            "label_logprobs": logprobs(0.6, 0.2),
            "num_input_tokens": 10,
            "num_output_tokens": 12,
            "num_cached_tokens": 4,
            "queue_s": 0.25,
            "inference_s": 1.5,
            **values,
        },
    )


def label_read(**values: Any) -> LabelRead:
    return LabelRead(
        **{
            "logprobs": logprobs(0.1, 0.4),
            "is_label": True,
            "num_input_tokens": 13,
            "num_cached_tokens": 8,
            "queue_s": 0.5,
            "inference_s": 0.125,
            **values,
        }
    )


class ScriptedEngine:
    """Gives the answers that it was told, and keeps what it was asked."""

    def __init__(
        self,
        generations: Sequence[Generation | Exception] = (),
        reads: Sequence[LabelRead | Exception] = (),
        num_prompt_tokens: int = 10,
    ) -> None:
        self._generations = list(generations)
        self._reads = list(reads)
        self._num_prompt_tokens = num_prompt_tokens
        self.messages: list[Message] = []
        self.asked: list[tuple[Any, ...]] = []

    async def start(self, weights: Weights, progress: ProgressCallback) -> None:
        raise NotImplementedError

    @property
    def info(self) -> EngineInfo:
        return EngineInfo("scripted", "1", "none", "none", 200)

    @property
    def label_token_ids(self) -> dict[Label, int]:
        return {Label.HALLUCINATION: 1, Label.CORRECT: 2}

    async def encode(self, messages: Sequence[Message]) -> Prompt:
        self.messages = list(messages)
        return Prompt(tuple(range(self._num_prompt_tokens)))

    async def generate(self, prompt: Prompt, max_tokens: int, request_id: str) -> Generation:
        self.asked.append(("generate", len(prompt.token_ids), max_tokens, request_id))
        return _answer(self._generations.pop(0))

    async def read_label(self, prompt: Prompt, cue: str, request_id: str) -> LabelRead:
        self.asked.append(("read_label", len(prompt.token_ids), cue, request_id))
        return _answer(self._reads.pop(0))

    @property
    def is_dead(self) -> bool:
        return False

    @property
    def stalled_s(self) -> float:
        return 0.0

    @property
    def load(self) -> EngineLoad:
        return EngineLoad(0, 0)

    async def stop(self) -> None:
        raise NotImplementedError


def _answer(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def make_detector(engine: Engine, calibration: Calibration | None = None) -> Detector:
    return Detector(
        engine, calibration or Calibration(), max_model_len_tokens=200, max_output_tokens=50
    )


async def judge(
    engine: ScriptedEngine,
    *,
    justify: bool = True,
    threshold: float | None = None,
    calibration: Calibration | None = None,
) -> Classification:
    detector = make_detector(engine, calibration)
    job = await detector.prepare(EXAMPLE)
    return await detector.classify(job, justify=justify, threshold=threshold, request_id="r1")


async def test_a_readable_reply_becomes_a_verdict() -> None:
    engine = ScriptedEngine([generation("The pool has 25 metres.\nClass: hallucination")])
    assert await judge(engine) == Classification(
        label=Label.HALLUCINATION,
        justification="The pool has 25 metres.",
        probability=pytest.approx(0.75),
        threshold=0.5,
        label_mass=pytest.approx(0.8),
        evidence=Evidence.GIVEN,
        path=VerdictPath.FULL,
        num_input_tokens=10,
        num_output_tokens=12,
        num_cached_tokens=4,
        queue_s=0.25,
        inference_s=1.5,
    )
    assert engine.asked == [("generate", 10, 50, "r1")]
    assert "50 metres" in engine.messages[-1]["content"]


async def test_the_short_path_asks_for_one_token() -> None:
    engine = ScriptedEngine(reads=[label_read()])
    assert await judge(engine, justify=False) == Classification(
        label=Label.CORRECT,
        justification=None,
        probability=pytest.approx(0.2),
        threshold=0.5,
        label_mass=pytest.approx(0.5),
        evidence=Evidence.GIVEN,
        path=VerdictPath.SHORT,
        num_input_tokens=10,
        num_output_tokens=1,
        num_cached_tokens=8,
        queue_s=0.5,
        inference_s=0.125,
    )
    assert engine.asked == [("read_label", 10, "Class:", "r1")]


@pytest.mark.parametrize(
    ("reply", "cue", "justification"),
    [
        (generation("Because it is so."), "Because it is so.\nClass:", "Because it is so."),
        (generation("So.\nClass: maybe"), "So.\nClass:", "So."),
        (generation("So.\nClass: correct\nClass: correct"), "So.\nClass:", "So."),
        (generation("So.\nClass: correct\nBut then:"), "So.\nClass:", "So."),
        (generation("Class: correct"), "Class:", None),
        (generation(""), "Class:", None),
        (
            generation("So.\nClass: correct", finish_reason=FinishReason.LENGTH),
            "So.\nClass:",
            "So.",
        ),
        (generation("So and", finish_reason=FinishReason.LENGTH), "So and\nClass:", "So and"),
        (generation("So.\nClass: correct", label_logprobs=None), "So.\nClass:", "So."),
    ],
    ids=[
        "no_verdict", "no_label", "two_verdicts", "text_after", "no_justification", "empty",
        "cut_after_label", "cut_before_label", "label_not_found",
    ],
)  # fmt: skip
async def test_a_reply_that_cannot_be_read_is_read_again_once(
    reply: Generation, cue: str, justification: str | None
) -> None:
    engine = ScriptedEngine([reply], [label_read()])
    verdict = await judge(engine)
    assert engine.asked == [("generate", 10, 50, "r1"), ("read_label", 10, cue, "r1")]
    assert verdict == Classification(
        label=Label.CORRECT,
        justification=justification,
        probability=pytest.approx(0.2),
        threshold=0.5,
        label_mass=pytest.approx(0.5),
        evidence=Evidence.GIVEN,
        path=VerdictPath.REREAD,
        num_input_tokens=10,
        num_output_tokens=13,
        num_cached_tokens=4,
        queue_s=0.75,
        inference_s=1.625,
    )


@pytest.mark.parametrize("justify", [True, False], ids=["after_a_reply", "short_path"])
async def test_no_label_is_no_verdict(justify: bool) -> None:
    engine = ScriptedEngine([generation("No verdict here.")], [label_read(is_label=False)] * 2)
    with pytest.raises(UnreadableVerdictError, match="no readable verdict"):
        await judge(engine, justify=justify)
    assert [asked[0] for asked in engine.asked].count("read_label") == 1


NAN, MINUS_INFINITY = float("nan"), float("-inf")


@pytest.mark.parametrize(
    "bad", [(NAN, NAN), (NAN, -1.0), (-1.0, NAN), (MINUS_INFINITY, MINUS_INFINITY)], ids=str
)
@pytest.mark.parametrize("justify", [True, False], ids=["full", "short"])
async def test_log_probabilities_that_are_no_numbers_are_no_verdict(
    bad: tuple[float, float], justify: bool
) -> None:
    """NaN is below every threshold, so an engine that overflowed would have said correct."""
    engine = ScriptedEngine(
        [generation("So.\nClass: correct", label_logprobs=LabelLogprobs(*bad))],
        [label_read(logprobs=LabelLogprobs(*bad))],
    )
    with pytest.raises(EngineFaultError):
        await judge(engine, justify=justify)


@pytest.mark.parametrize(
    ("given", "calibrated", "used", "label"),
    [
        (None, 0.5, 0.5, Label.HALLUCINATION),
        (None, 0.8, 0.8, Label.CORRECT),
        (0.8, 0.5, 0.8, Label.CORRECT),
        (0.7, 0.8, 0.7, Label.HALLUCINATION),
        (0.0, 0.9, 0.0, Label.HALLUCINATION),
        (1.0, 0.1, 1.0, Label.CORRECT),
    ],
)
async def test_the_request_s_threshold_goes_before_the_weights_own(
    given: float | None, calibrated: float, used: float, label: Label
) -> None:
    engine = ScriptedEngine([generation("So.\nClass: correct")])
    calibration = Calibration(threshold=calibrated)
    verdict = await judge(engine, threshold=given, calibration=calibration)
    # The probability is 0.75, whatever label the reply wrote.
    assert (verdict.threshold, verdict.label) == (used, label)


async def test_a_probability_at_the_threshold_is_a_hallucination() -> None:
    engine = ScriptedEngine(reads=[label_read(logprobs=LabelLogprobs(-1.0, -1.0))])
    verdict = await judge(engine, justify=False, threshold=0.5)
    assert (verdict.probability, verdict.label) == (0.5, Label.HALLUCINATION)


@pytest.mark.parametrize(
    ("temperature", "probability"),
    [(1.0, 0.75), (0.5, 0.9), (2.0, 0.633975)],
)
async def test_the_calibration_is_applied(temperature: float, probability: float) -> None:
    engine = ScriptedEngine([generation("So.\nClass: hallucination")])
    verdict = await judge(engine, calibration=Calibration(temperature=temperature))
    assert verdict.probability == pytest.approx(probability, abs=1e-6)
    assert verdict.label_mass == pytest.approx(0.8)


@pytest.mark.parametrize(
    "fault", [EngineDeadError("dead", 5), EngineFaultError("failed")], ids=["dead", "fault"]
)
async def test_a_fault_of_the_engine_is_passed_on(fault: Exception) -> None:
    with pytest.raises(type(fault)):
        await judge(ScriptedEngine([fault]))
    with pytest.raises(type(fault)):
        await judge(ScriptedEngine([generation("No verdict.")], [fault]))


async def test_an_input_too_long_is_refused_with_both_numbers() -> None:
    # 200 tokens in all, 50 for the reply, 16 for the cue of a second reading.
    fits = await make_detector(ScriptedEngine(num_prompt_tokens=134)).prepare(EXAMPLE)
    assert len(fits.prompt.token_ids) == 134
    with pytest.raises(InputTooLongError) as caught:
        await make_detector(ScriptedEngine(num_prompt_tokens=135)).prepare(EXAMPLE)
    assert (caught.value.num_tokens, caught.value.limit_tokens) == (135, 134)
    assert "the input has 135 tokens" in str(caught.value)
    assert "the limit is 134 tokens" in str(caught.value)


@pytest.mark.parametrize(
    ("knowledge", "evidence"),
    [(None, Evidence.NONE), (("k",), Evidence.GIVEN), (("k", "l"), Evidence.GIVEN)],
    ids=["none", "one", "two"],
)
async def test_the_evidence_says_whether_knowledge_was_given(
    knowledge: tuple[str, ...] | None, evidence: Evidence
) -> None:
    engine = ScriptedEngine([generation("So.\nClass: correct")])
    detector = make_detector(engine)
    job = await detector.prepare(Example(knowledge, None, "r"))
    verdict = await detector.classify(job, justify=True, threshold=None, request_id="r1")
    assert (job.evidence, verdict.evidence) == (evidence, evidence)


@pytest.mark.parametrize(
    ("example", "field"),
    [
        (Example(None, None, " "), "response"),
        (Example(None, "\u200b", "r"), "question"),
        (Example(("a", ""), None, "r"), "knowledge[1]"),
        (Example((), None, "r"), "knowledge"),
        (Example(None, None, "\ud800"), "response"),
    ],
    ids=["response", "question", "knowledge", "no_documents", "surrogate"],
)
async def test_a_text_that_cannot_be_judged_is_refused(example: Example, field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await make_detector(ScriptedEngine()).prepare(example)
    assert [fault.field for fault in caught.value.faults] == [field]


async def fake_detector(**values: Any) -> tuple[Detector, Job]:
    settings = fake_settings(**values)
    engine = FakeEngine(settings)
    await engine.start(Weights(Path(), "fake", "none", None), lambda phase, text: None)
    detector = Detector(engine, Calibration(), settings.max_model_len, settings.max_output_tokens)
    return detector, await detector.prepare(EXAMPLE)


async def classify_fake(justify: bool = True, **values: Any) -> Classification:
    detector, job = await fake_detector(**values)
    return await detector.classify(job, justify=justify, threshold=None, request_id="r1")


async def test_the_fake_engine_is_judged_like_any_other() -> None:
    full = await classify_fake(fake_output_tokens=8)
    again = await classify_fake(fake_output_tokens=8)
    short = await classify_fake(justify=False)
    assert full.justification == "fake fake fake fake fake"
    assert (full.num_output_tokens, short.num_output_tokens) == (8, 1)
    assert full.probability == again.probability == short.probability
    assert 0.02 <= full.probability <= 0.98
    assert full.label_mass == pytest.approx(0.99)
    assert (full.path, short.path) == (VerdictPath.FULL, VerdictPath.SHORT)


async def test_the_fake_engine_s_faults_are_no_verdicts() -> None:
    reread = await classify_fake(fake_fault="unreadable")
    assert reread.path is VerdictPath.REREAD
    assert reread.probability == (await classify_fake()).probability
    cut = await classify_fake(fake_output_tokens=200, max_output_tokens=50)
    assert (cut.path, cut.num_output_tokens) == (VerdictPath.REREAD, 51)
    for fault, error in {
        "no_label": UnreadableVerdictError,
        "error": EngineFaultError,
        "dead": EngineDeadError,
    }.items():
        with pytest.raises(error):
            await classify_fake(fake_fault=fault)


async def test_the_fake_engine_fails_on_the_share_that_it_was_told() -> None:
    settings = fake_settings(fake_fault="error", fake_fault_rate=0.25)
    engine = FakeEngine(settings)
    num_failed = 0
    for number in range(400):
        try:
            await engine.generate(Prompt((number,)), 50, "r1")
        except EngineFaultError:
            num_failed += 1
    assert 60 < num_failed < 140
