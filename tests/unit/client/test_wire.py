"""Requests to bytes, answers to values and errors."""

import json
import pickle

import httpx
import pytest

from client.errors import (
    DeadlineExceeded,
    Fault,
    InvalidRequest,
    Overloaded,
    ProtocolError,
    ServiceFailed,
    Unauthorized,
    UnreadableReply,
)
from client.wire import INFO, READY, classify_call, http_options, read_answer, read_retry_after
from contract.example import Example

EXAMPLE = Example(("One.", "Two."), "What?", "This.")
PROBLEM = {"content-type": "application/problem+json; charset=utf-8"}


def read(status, value, headers=PROBLEM):
    """Read an answer to a classification."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_answer(classify_call(EXAMPLE), status, httpx.Headers(headers), content)


@pytest.mark.parametrize(
    ("example", "options", "body"),
    [
        (Example(None, None, "r"), {}, {"response": "r"}),
        (Example(("k",), "q", "r"), {}, {"response": "r", "question": "q", "knowledge": "k"}),
        (Example(("k", "l"), None, "r"), {}, {"response": "r", "knowledge": ["k", "l"]}),
        (Example((), "", "r"), {}, {"response": "r", "question": "", "knowledge": []}),
        (
            Example(None, None, "\ud800"),
            {"justification": False, "threshold": 0},
            {"response": "\ud800", "justification": False, "threshold": 0},
        ),
    ],
    ids=["least", "one document", "two documents", "blank is not absent", "options"],
)
def test_a_request_holds_what_was_given(example, options, body):
    assert json.loads(classify_call(example, **options).body) == body


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_out_of_range_is_refused_before_it_is_sent(threshold):
    with pytest.raises(ValueError, match="threshold"):
        classify_call(EXAMPLE, threshold=threshold)


def test_a_request_id_cannot_open_another_header():
    with pytest.raises(ValueError, match="request_id"):
        classify_call(EXAMPLE, request_id="a\r\nX: y")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (401, Unauthorized),
        (403, Unauthorized),
        (413, InvalidRequest),
        (422, InvalidRequest),
        (429, Overloaded),
        (500, ServiceFailed),
        (502, UnreadableReply),
        (503, Overloaded),
        (504, DeadlineExceeded),
    ],
)
def test_a_problem_becomes_the_error_of_its_status(make_problem, status, kind):
    with pytest.raises(kind) as caught:
        read(status, make_problem(status, "slug", "what is wrong"))
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.request_id, error.title) == (status, "r2", "Slug")
    assert error.type == "urn:hallucination-detector:problem:slug"
    assert str(error) == f"{status} Slug: what is wrong (request r2)"


def test_a_problem_keeps_all_its_members(make_problem):
    faults = [{"field": "response", "message": "is required"}]
    with pytest.raises(InvalidRequest) as caught:
        read(422, make_problem(422, "invalid-request", errors=faults, limit_tokens=3984))
    assert caught.value.errors == (Fault("response", "is required"),)
    assert caught.value.problem["limit_tokens"] == 3984


def test_errors_survive_pickling(make_problem):
    with pytest.raises(Overloaded) as caught:
        read(503, make_problem(503, "overloaded", retry_after_s=9))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.retry_after_s) == (str(caught.value), 9)
    error = pickle.loads(pickle.dumps(ProtocolError("HTML", 503, 2.0)))
    assert (str(error), error.status, error.retry_after_s) == ("HTML", 503, 2.0)


@pytest.mark.parametrize(
    ("headers", "member", "seconds"),
    [
        ({"retry-after": "7"}, 9, 7),
        ({}, 9, 9),
        ({}, 2.5, 2.5),
        ({"retry-after": "soon"}, 9, 9),
        ({"retry-after": "-1"}, None, None),
        ({}, None, None),
        (
            {
                "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT",
                "date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            None,
            30,
        ),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, None, 0),
        ({"retry-after": "nan"}, None, None),
        ({"retry-after": "9" * 400}, None, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(make_problem, headers, member, seconds):
    problem = make_problem(503, "overloaded")
    if member is not None:
        problem["retry_after_s"] = member
    with pytest.raises(Overloaded) as caught:
        read(503, problem, {**PROBLEM, **headers})
    assert caught.value.retry_after_s == seconds


def test_a_date_to_come_counts_from_now_where_the_answer_has_no_date():
    headers = httpx.Headers({"retry-after": "Wed, 21 Oct 2115 07:28:00 GMT"})
    assert read_retry_after(headers) > 1e9


@pytest.mark.parametrize(
    ("status", "headers", "content", "message"),
    [
        (200, {"content-type": "text/html"}, b"<html>", "text/html, not application/json"),
        (200, {}, b"", "no content type"),
        (200, {"content-type": "application/json"}, b'{"class"', "not JSON"),
        (200, {"content-type": "application/json"}, b"\xff", "not JSON"),
        (200, {"content-type": "application/json"}, b"[" * 100_000, "not JSON"),
        (200, {"content-type": "application/json"}, b'{"a": NaN}', "not JSON"),
        (200, {"content-type": "application/json"}, b"[]", "not a JSON object"),
        (204, {}, b"", "204"),
        (307, {"location": "https://x/"}, b"", "redirect"),
        (502, {"content-type": "text/html"}, b"<html>", "text/html"),
        (503, PROBLEM, b"{}", "type is missing"),
        (503, PROBLEM, b'{"type": "about:blank"}', "not of the service"),
        (404, {"content-type": "application/json"}, b'{"detail": "Not Found"}', "404"),
    ],
)
def test_what_the_api_does_not_promise_is_a_protocol_error(status, headers, content, message):
    with pytest.raises(ProtocolError, match=message):
        read(status, content, headers)


@pytest.mark.parametrize("errors", [{"field": "a", "message": "b"}, [3], [{"field": "a"}]])
def test_a_problem_with_broken_faults_is_a_protocol_error(make_problem, errors):
    with pytest.raises(ProtocolError):
        read(422, make_problem(422, "invalid-request", errors=errors))


def test_the_retry_after_of_a_load_balancer_is_kept():
    with pytest.raises(ProtocolError) as caught:
        read(503, b"<html>", {"content-type": "text/html", "retry-after": "4"})
    assert (caught.value.status, caught.value.retry_after_s) == (503, 4)


def test_info_and_readiness_are_read():
    headers = httpx.Headers({"content-type": "application/json"})
    assert read_answer(INFO, 200, headers, b'{"contract": "ab"}') == {"contract": "ab"}
    assert read_answer(READY, 200, headers, b'{"status": "ready"}') is None
    with pytest.raises(ProtocolError):
        read_answer(READY, 200, headers, b'{"status": "fine"}')


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000", "ftp://host", "http://", "http://user:secret@host", "http://host/?a=b"],
)
def test_an_address_that_cannot_be_used_is_refused(url):
    with pytest.raises(ValueError, match="base_url") as caught:
        http_options(url, None, "test")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["", "secret\n", "two secret", "secr\u00e9t"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_told(key):
    with pytest.raises(ValueError, match="api_key") as caught:
        http_options("http://host", key, "test")
    assert "secr" not in str(caught.value)
