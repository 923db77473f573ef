"""Whether an answer is the one that was due: its status, its body, every field of a verdict.

The client's own reading does most of it (``client/models.py``): members, types, ranges, a class
that follows from its probability. Here comes what depends on the request: whose answer it is,
whether words were asked for, whether knowledge was sent, which refusal a bad request must get.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import httpx

from client import Classification, ProblemError, ProtocolError
from client.models import Members
from client.wire import PROBLEM_PREFIX, Call, read_answer, read_retry_after
from loadtest.workload import ExpectedItem, Refusal, Request


class Outcome(StrEnum):
    """What became of a request.

    Attributes:
        OK: Answered as it should be: every verdict, or the refusal that a bad request is due.
        SHED: Refused for want of room (429 ``rate-limited``, 503 ``overloaded``), with a time after
            which to come again.
        ERROR: Anything else, a wrong or an incomplete answer and none at all included.
    """

    OK = "ok"
    SHED = "shed"
    ERROR = "error"


_SHED = {(429, "rate-limited"), (503, "overloaded")}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        status: HTTP status.
        headers: Of the answer.
        content: Its body.
    """

    status: int
    headers: httpx.Headers
    content: bytes


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer, judged. Times in milliseconds, as the service says them.

    Attributes:
        outcome: What it is.
        reason: Why it is no ``ok``; never a text of the answer but its problem type.
        num_verdicts: That are as they should be.
        retry_after_s: Seconds that a refusal asks to wait.
        queue_ms: In the engine's queue, from ``Server-Timing``; None where it is not sent.
        inference_ms: Computing.
        server_ms: In the service altogether.
        output_tokens: Of all verdicts.
    """

    outcome: Outcome
    reason: str | None = None
    num_verdicts: int = 0
    retry_after_s: float | None = None
    queue_ms: float | None = None
    inference_ms: float | None = None
    server_ms: float | None = None
    output_tokens: int = 0


def judge(request: Request, request_id: str, answer: Answer) -> Judged:
    """Judge an answer.

    Args:
        request: What was asked.
        request_id: That was sent with it; the answer must carry it.
        answer: What came back.
    """
    try:
        if request.refusal is not None:
            return _judge_refusal(request.refusal, answer)
        if request.path == "classify":
            call = Call("POST", request.path, Classification.from_json)
            verdict = read_answer(call, answer.status, answer.headers, answer.content)
            _check(verdict, request.items[0], request_id)
            return _good([verdict], answer)
        return _judge_batch(request, request_id, answer)
    except ProblemError as error:
        # The header must say it: the client would make do with the body.
        return _judge_problem(error.status, error.type, read_retry_after(answer.headers))
    except ProtocolError as error:
        return Judged(Outcome.ERROR, f"{answer.status}: {error}")


def judge_silence(reason: str) -> Judged:
    """Return what a request is that was not answered."""
    return Judged(Outcome.ERROR, f"no answer: {reason}")


def read_server_timing(text: str) -> dict[str, float]:
    """Return the durations of a ``Server-Timing`` header, in milliseconds.

    Example:
        >>> read_server_timing("queue;dur=2.5, inference;dur=380, cached")
        {'queue': 2.5, 'inference': 380.0}
    """
    found = re.findall(r"([\w-]+)\s*;\s*dur=([0-9]+(?:\.[0-9]+)?)", text)
    return {name: float(value) for name, value in found}


def _good(verdicts: list[Classification], answer: Answer) -> Judged:
    timings = read_server_timing(answer.headers.get("server-timing", ""))
    return Judged(
        Outcome.OK,
        num_verdicts=len(verdicts),
        queue_ms=timings.get("queue"),
        inference_ms=timings.get("inference"),
        server_ms=timings.get("total"),
        output_tokens=sum(verdict.usage.output_tokens for verdict in verdicts),
    )


def _judge_batch(request: Request, request_id: str, answer: Answer) -> Judged:
    """Judge a batch by its worst item: an error before a refusal before a verdict."""
    call = Call("POST", request.path, Members)
    batch = read_answer(call, answer.status, answer.headers, answer.content)
    results = batch.value.get("results")
    if not isinstance(results, list) or len(results) != len(request.items):
        raise ProtocolError("the batch has not one result for each item")
    verdicts: list[Classification] = []
    problems: list[Judged] = []
    for place, (result, expected) in enumerate(zip(results, request.items, strict=True)):
        item = Members(result, "a result")
        if item.value.get("problem") is not None:
            problem = item.members("problem")
            wait_s = problem.value.get("retry_after_s")
            problems.append(
                _judge_problem(
                    problem.count("status"),
                    problem.text("type"),
                    None if wait_s is None else problem.number("retry_after_s"),
                )
            )
            continue
        verdict = Classification.from_json(item.members("result").value)
        _check(verdict, expected, f"{request_id}.{place}")
        verdicts.append(verdict)
    if problems:
        return next((each for each in problems if each.outcome is Outcome.ERROR), problems[0])
    return _good(verdicts, answer)


def _judge_problem(status: int, problem_type: str, retry_after_s: float | None) -> Judged:
    slug = problem_type.removeprefix(PROBLEM_PREFIX)
    if (status, slug) not in _SHED:
        return Judged(Outcome.ERROR, f"{status} {slug}", retry_after_s=retry_after_s)
    if retry_after_s is None or retry_after_s <= 0:
        return Judged(Outcome.ERROR, f"{status} {slug} without a Retry-After")
    return Judged(Outcome.SHED, f"{status} {slug}", retry_after_s=retry_after_s)


def _judge_refusal(refusal: Refusal, answer: Answer) -> Judged:
    due = f"{refusal.status} {refusal.slug}"
    try:
        read_answer(Call("POST", "", Members), answer.status, answer.headers, answer.content)
    except ProblemError as error:
        judged = _judge_problem(error.status, error.type, read_retry_after(answer.headers))
        if judged.outcome is Outcome.SHED:
            return judged
        slug = error.type.removeprefix(PROBLEM_PREFIX)
        if (answer.status, error.status, slug) == (refusal.status, refusal.status, refusal.slug):
            return Judged(Outcome.OK)
        return Judged(Outcome.ERROR, f"a bad request was answered with {judged.reason}, not {due}")
    return Judged(Outcome.ERROR, f"a bad request was answered with {answer.status}, not {due}")


def _check(verdict: Classification, expected: ExpectedItem, request_id: str) -> None:
    """Find what is wrong with a verdict that is well-formed.

    Raises:
        ProtocolError: Says what.
    """
    if verdict.request_id != request_id:
        raise ProtocolError("the answer's request_id is that of another request")
    if verdict.evidence != expected.evidence:
        raise ProtocolError(f"the answer's evidence is not {expected.evidence}")
    if expected.has_justification and not (verdict.justification or "").strip():
        raise ProtocolError("the answer has no justification, and one was asked for")
    if not expected.has_justification and verdict.justification is not None:
        raise ProtocolError("the answer has a justification, and none was asked for")
    if verdict.usage.input_tokens < 1 or verdict.usage.output_tokens < 1:
        raise ProtocolError("the answer's usage counts no tokens")
