"""The table of errors: complete, and silent about what is nobody's business."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator

import pytest

from service import errors
from service.errors import Fault
from service.problems import (
    INTERNAL,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    PROBLEMS,
    problem_body,
    problem_headers,
    problem_type,
    to_problem,
)

# Never raised themselves, or raised before there is anyone to answer.
BASES = {"ServiceError", "RequestError", "RetryableError"}
BEFORE_THE_START = {"StartError", "WeightsError"}

FAULTS = [Fault("response", "is required"), Fault("x", "is not a known field")]

# Class name -> (instance, status, end of the problem's type).
EXPECTED: dict[str, tuple[errors.ServiceError, int, str]] = {
    "MalformedBodyError": (errors.MalformedBodyError(FAULTS), 400, "malformed-body"),
    "UnauthorizedError": (errors.UnauthorizedError("send a key"), 401, "unauthorized"),
    "BodyTooLargeError": (errors.BodyTooLargeError(FAULTS), 413, "too-large"),
    "MediaTypeError": (errors.MediaTypeError(FAULTS), 415, "media-type"),
    "InvalidRequestError": (errors.InvalidRequestError(FAULTS), 422, "invalid-request"),
    "InputTooLongError": (errors.InputTooLongError(5321, 3984), 422, "input-too-long"),
    "RateLimitedError": (errors.RateLimitedError("60 a minute", 11.2), 429, "rate-limited"),
    "ClientGoneError": (errors.ClientGoneError("gone"), 499, "client-gone"),
    "EngineFaultError": (errors.EngineFaultError("failed"), 500, "engine-fault"),
    "UnreadableVerdictError": (errors.UnreadableVerdictError("none"), 502, "unreadable-reply"),
    "OverloadedError": (errors.OverloadedError("full", 4.0), 503, "overloaded"),
    "NotReadyError": (errors.NotReadyError("loading", 5), 503, "not-ready"),
    "EngineDeadError": (errors.EngineDeadError("dead", 30), 503, "engine-dead"),
    "DeadlineError": (errors.DeadlineError("late"), 504, "deadline"),
}


def error_classes() -> Iterator[type[Exception]]:
    for _, value in inspect.getmembers(errors, inspect.isclass):
        if issubclass(value, Exception) and value.__module__ == errors.__name__:
            yield value


def test_every_error_has_its_row() -> None:
    names = {cls.__name__ for cls in error_classes()} - BASES - BEFORE_THE_START
    assert {cls.__name__ for cls in PROBLEMS} == names
    assert set(EXPECTED) == names


def test_every_error_is_one_of_the_service_s_own() -> None:
    assert all(issubclass(cls, errors.ServiceError) for cls in error_classes())


@pytest.mark.parametrize("name", EXPECTED)
def test_an_error_becomes_its_problem(name: str) -> None:
    error, status, slug = EXPECTED[name]
    body = to_problem(error, "r1")
    assert type(error).__name__ == name
    assert body["status"] == status
    assert body["type"] == f"urn:hallucination-detector:problem:{slug}"
    assert body["detail"] == str(error)
    assert body["request_id"] == "r1"
    assert problem_type(error).slug == slug
    json.dumps(body)


def test_no_two_problems_share_a_type_or_a_title() -> None:
    kinds = [*PROBLEMS.values(), INTERNAL, NOT_FOUND, METHOD_NOT_ALLOWED]
    assert len({kind.slug for kind in kinds}) == len(kinds)
    assert len({kind.title for kind in kinds}) == len(kinds)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_problem_has_the_members_of_its_kind_and_no_others(name: str) -> None:
    error = EXPECTED[name][0]
    members = {"type", "title", "status", "detail", "request_id"}
    if name in {"MalformedBodyError", "BodyTooLargeError", "MediaTypeError", "InvalidRequestError"}:
        members |= {"errors"}
    if name == "InputTooLongError":
        members |= {"errors", "num_tokens", "limit_tokens"}
    if name in {"RateLimitedError", "OverloadedError", "NotReadyError", "EngineDeadError"}:
        members |= {"retry_after_s"}
    assert set(to_problem(error, "r1")) == members


def test_a_problem_carries_every_fault() -> None:
    body = to_problem(errors.InvalidRequestError(FAULTS), "r1")
    assert body["errors"] == [
        {"field": "response", "message": "is required"},
        {"field": "x", "message": "is not a known field"},
    ]
    assert body["detail"] == "response: is required; x: is not a known field"


def test_a_long_input_carries_both_numbers() -> None:
    body = to_problem(errors.InputTooLongError(5321, 3984), "r1")
    assert (body["num_tokens"], body["limit_tokens"]) == (5321, 3984)
    assert "5321 tokens" in body["detail"]
    assert "3984 tokens" in body["detail"]


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (errors.RateLimitedError("often", 11.2), {"Retry-After": "12"}),
        (errors.OverloadedError("full", 4.0), {"Retry-After": "4"}),
        (errors.NotReadyError("loading", 0.1), {"Retry-After": "1"}),
        (errors.UnauthorizedError("send a key"), {"WWW-Authenticate": "Bearer"}),
        (errors.DeadlineError("late"), {}),
        (errors.InvalidRequestError(FAULTS), {}),
        (RuntimeError("x"), {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_problem_calls_for_its_headers(error: Exception, headers: dict[str, str]) -> None:
    assert problem_headers(to_problem(error, "r1")) == headers


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("the secret"),
        KeyError("the secret"),
        errors.ServiceError("the secret"),
        errors.StartError("the secret"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_of_an_unforeseen_error_nothing_is_told(error: Exception) -> None:
    assert problem_type(error) is INTERNAL
    assert to_problem(error, "r1") == {
        "type": "urn:hallucination-detector:problem:internal",
        "title": "An unexpected error",
        "status": 500,
        "detail": "see the service's log for this request id",
        "request_id": "r1",
    }


def test_a_body_is_made_of_its_kind() -> None:
    assert problem_body(NOT_FOUND, "look again", "r2") == {
        "type": "urn:hallucination-detector:problem:not-found",
        "title": "No such path",
        "status": 404,
        "detail": "look again",
        "request_id": "r2",
    }
