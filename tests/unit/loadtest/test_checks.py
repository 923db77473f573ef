"""Answers, right and wrong: what a load test counts them as."""

from __future__ import annotations

import copy
import json
from typing import Any

import httpx
import pytest
from support.stub_service import ANSWER, problem_json

from loadtest.checks import Answer, Judged, Outcome, judge, judge_silence
from loadtest.workload import ExpectedItem, Kind, Refusal, Request

FULL = Request(Kind.SHORT_QA, "classify", b"", (ExpectedItem("given"),))
SHORT = Request(Kind.SHORT_PATH, "classify", b"", (ExpectedItem("given", False),))
BAD = Request(Kind.BAD_REQUEST, "classify", b"", (), Refusal(422, "invalid-request"))
BATCH = Request(Kind.BATCH, "classify/batch", b"", (ExpectedItem("given"),) * 2)


def answer(status: int, content: Any, kind: str | None = None, **headers: str) -> Answer:
    kind = kind or ("application/json" if status == 200 else "application/problem+json")
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Answer(status, httpx.Headers({"content-type": kind, **names}), body)


def verdict(**members: Any) -> dict[str, Any]:
    return {**copy.deepcopy(ANSWER), "request_id": "r1", **members}


def problem(status: int, slug: str, **headers: str) -> Answer:
    return answer(status, problem_json(status, slug), **headers)


def test_a_verdict_as_it_should_be() -> None:
    timing = "queue;dur=2.5, inference;dur=380, total;dur=400"
    judged = judge(FULL, "r1", answer(200, verdict(), server_timing=timing))
    assert judged == Judged(
        Outcome.OK, None, 1, queue_ms=2.5, inference_ms=380, server_ms=400, output_tokens=21
    )
    without_words = judge(SHORT, "r1", answer(200, verdict(justification=None)))
    assert without_words.outcome is Outcome.OK
    assert without_words.queue_ms is None


USAGE = {"input_tokens": 187, "output_tokens": 0, "cached_tokens": 128}
WRONG = {
    "class": (FULL, verdict(**{"class": "correct"}), "does not follow from its probability"),
    "probability": (FULL, verdict(probability=1.5), "probability is out of range"),
    "missing": (FULL, {"class": "correct"}, "missing"),
    "not-json": (FULL, b"<html>", "not JSON"),
    "empty-words": (FULL, verdict(justification=" "), "has no justification"),
    "no-words": (FULL, verdict(justification=None), "has no justification"),
    "words": (SHORT, verdict(), "has a justification"),
    "evidence": (FULL, verdict(evidence="none"), "evidence is not given"),
    "another": (FULL, verdict(request_id="r2"), "that of another request"),
    "tokens": (FULL, verdict(usage=USAGE), "counts no tokens"),
    "too-few-results": (BATCH, {"results": [], "request_id": "r1"}, "one result for each"),
    "no-results": (BATCH, {"request_id": "r1"}, "one result for each"),
    "swapped-items": (
        BATCH,
        {"results": [{"result": verdict(request_id=f"r1.{n}")} for n in (1, 0)]},
        "that of another request",
    ),
}


@pytest.mark.parametrize(("request_", "content", "reason"), WRONG.values(), ids=WRONG)
def test_a_wrong_body_is_an_error_whatever_its_status(
    request_: Request, content: Any, reason: str
) -> None:
    judged = judge(request_, "r1", answer(200, content))
    assert judged.outcome is Outcome.ERROR
    assert reason in (judged.reason or "")
    assert judged.num_verdicts == 0


PROBLEMS = {
    "overloaded": (problem(503, "overloaded", retry_after="2"), Outcome.SHED, 2.0),
    "rate-limited": (problem(429, "rate-limited", retry_after="7"), Outcome.SHED, 7.0),
    "no-time": (problem(503, "overloaded"), Outcome.ERROR, None),
    "time-in-the-body-only": (
        answer(503, problem_json(503, "overloaded", retry_after_s=3)), Outcome.ERROR, None,
    ),
    "zero": (problem(503, "overloaded", retry_after="0"), Outcome.ERROR, None),
    "not-ready": (problem(503, "not-ready", retry_after="5"), Outcome.ERROR, 5.0),
    "dead": (problem(503, "engine-dead", retry_after="30"), Outcome.ERROR, 30.0),
    "unreadable": (problem(502, "unreadable-reply"), Outcome.ERROR, None),
    "deadline": (problem(504, "deadline"), Outcome.ERROR, None),
    "gateway": (answer(503, b"<html>", "text/html", retry_after="1"), Outcome.ERROR, None),
}  # fmt: skip


@pytest.mark.parametrize("request_", [FULL, BATCH], ids=["single", "batch"])
@pytest.mark.parametrize(("given", "outcome", "wait_s"), PROBLEMS.values(), ids=PROBLEMS)
def test_only_a_refusal_for_want_of_room_that_names_a_time_is_shed(
    given: Answer, outcome: Outcome, wait_s: float | None, request_: Request
) -> None:
    judged = judge(request_, "r1", given)
    assert (judged.outcome, judged.retry_after_s) == (outcome, wait_s)
    assert str(given.status) in (judged.reason or "")


def batch(*items: dict[str, Any]) -> Answer:
    return answer(200, {"results": list(items), "request_id": "r1"})


def test_a_batch_is_as_good_as_its_worst_item() -> None:
    good = {"result": verdict(request_id="r1.0")}
    other = {"result": verdict(request_id="r1.1"), "problem": None}
    shed = {"problem": problem_json(503, "overloaded", retry_after_s=4)}
    dead = {"problem": problem_json(503, "engine-dead", retry_after_s=30)}
    judged = judge(BATCH, "r1", batch(good, other))
    assert (judged.outcome, judged.num_verdicts, judged.output_tokens) == (Outcome.OK, 2, 42)
    judged = judge(BATCH, "r1", batch(good, shed))
    assert (judged.outcome, judged.retry_after_s) == (Outcome.SHED, 4.0)
    assert judge(BATCH, "r1", batch(shed, dead)).reason == "503 engine-dead"


REFUSALS = {
    "as-due": (problem(422, "invalid-request"), Outcome.OK, None),
    "another-status": (
        problem(400, "malformed-body"), Outcome.ERROR,
        "a bad request was answered with 400 malformed-body, not 422 invalid-request",
    ),
    "another-type": (
        problem(422, "input-too-long"), Outcome.ERROR,
        "a bad request was answered with 422 input-too-long, not 422 invalid-request",
    ),
    "a-verdict": (
        answer(200, verdict()), Outcome.ERROR,
        "a bad request was answered with 200, not 422 invalid-request",
    ),
    "shed": (problem(429, "rate-limited", retry_after="7"), Outcome.SHED, "429 rate-limited"),
    "no-problem": (answer(422, b"no", "text/plain"), Outcome.ERROR, None),
}  # fmt: skip


@pytest.mark.parametrize(("given", "outcome", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_a_bad_request_must_be_refused_as_documented(
    given: Answer, outcome: Outcome, reason: str | None
) -> None:
    judged = judge(BAD, "r1", given)
    assert judged.outcome is outcome
    if reason is not None or outcome is Outcome.OK:
        assert judged.reason == reason


def test_silence_is_an_error() -> None:
    assert judge_silence("not within 70 s").outcome is Outcome.ERROR
