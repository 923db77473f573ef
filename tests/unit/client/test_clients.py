"""Both clients, by the same tests: what they send, when they try again, what they return."""

import asyncio
import inspect
import json
import threading

import httpx
import pytest

from client import (
    AsyncDetectorClient,
    Classification,
    ConnectionFailed,
    DeadlineExceeded,
    DeadlineExhausted,
    DetectorClient,
    Example,
    InvalidRequest,
    Overloaded,
    ProtocolError,
    Unauthorized,
    UnreadableReply,
)

EXAMPLE = Example(("The pool is 25 metres long.",), "How long?", "50 metres.")


class Harness:
    """One client over a scripted transport, with a clock that only sleeping moves."""

    def __init__(self, kind, script, **options):
        """Make a client whose attempts meet the script's entries in turn; the last one stays."""
        self.now = 1000.0
        self.slept = []
        self.requests = []
        script = list(script)

        def handler(request):
            self.requests.append(request)
            entry = script.pop(0) if len(script) > 1 else script[0]
            if isinstance(entry, Exception):
                raise entry
            if isinstance(entry, httpx.Response):
                # A fresh one each time: it can be read only once.
                return httpx.Response(
                    entry.status_code, headers=entry.headers, content=entry.content
                )
            return entry(request)

        def sleep(seconds):
            self.slept.append(seconds)
            self.now += seconds

        async def async_sleep(seconds):
            sleep(seconds)

        is_sync = kind is DetectorClient
        self.client = kind(
            "http://service/prefix",
            transport=httpx.MockTransport(handler),
            sleep=sleep if is_sync else async_sleep,
            clock=lambda: self.now,
            draw=lambda: 0.5,
            **options,
        )

    def call(self, name, *args, **options):
        """Call a method of the client, whichever kind it is."""
        result = getattr(self.client, name)(*args, **options)
        return asyncio.run(result) if inspect.isawaitable(result) else result


@pytest.fixture(params=[DetectorClient, AsyncDetectorClient], ids=["sync", "async"])
def kind(request):
    """Return the class of a client."""
    return request.param


@pytest.fixture
def ok(answer):
    """Return the maker of a good answer that repeats the response as its justification."""

    def make(request):
        return httpx.Response(
            200, json={**answer, "justification": json.loads(request.content)["response"]}
        )

    return make


@pytest.fixture
def bad(make_problem):
    """Return the maker of a problem."""

    def make(status, slug="x", headers=None, **members):
        return httpx.Response(
            status,
            json=make_problem(status, slug, **members),
            headers={"content-type": "application/problem+json", **(headers or {})},
        )

    return make


def test_a_verdict_is_returned_and_the_request_is_as_promised(kind, ok):
    harness = Harness(kind, [ok], api_key="secret", user_agent="tests")
    verdict = harness.call("classify", EXAMPLE, request_id="mine-1", threshold=0.25)
    assert isinstance(verdict, Classification)
    assert verdict.justification == "50 metres."
    (request,) = harness.requests
    assert str(request.url) == "http://service/prefix/classify"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["x-request-id"] == "mine-1"
    assert request.headers["user-agent"] == "tests"
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.content) == {
        "response": "50 metres.",
        "question": "How long?",
        "knowledge": "The pool is 25 metres long.",
        "threshold": 0.25,
    }


def test_overload_is_waited_out(kind, ok, bad):
    harness = Harness(kind, [bad(503, headers={"retry-after": "10"}), bad(429), ok])
    harness.call("classify", EXAMPLE)
    assert harness.slept == [10.5, 0.5]


@pytest.mark.parametrize(
    "fault",
    [
        httpx.ConnectError("refused"),
        httpx.ReadError(""),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut off"),
        httpx.Response(502, html="<html>"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_lost_connection_is_tried_again(kind, ok, fault):
    harness = Harness(kind, [fault, fault, ok])
    harness.call("classify", EXAMPLE)
    assert harness.slept == [0.25, 0.5]


def test_attempts_end_with_the_last_error(kind, bad):
    harness = Harness(kind, [bad(503)], max_attempts=3)
    with pytest.raises(Overloaded):
        harness.call("classify", EXAMPLE)
    assert len(harness.requests) == 3


def test_the_deadline_ends_the_waits(kind, bad):
    harness = Harness(kind, [bad(503, retry_after_s=20)], deadline_s=50)
    with pytest.raises(DeadlineExhausted):
        harness.call("classify", EXAMPLE)
    assert harness.slept == [21.0, 21.0]


@pytest.mark.parametrize(
    ("status", "error", "num_requests"),
    [
        (401, Unauthorized, 1),
        (422, InvalidRequest, 1),
        (502, UnreadableReply, 1),
        (504, DeadlineExceeded, 2),
    ],
)
def test_what_would_come_again_is_not_asked_again(kind, bad, status, error, num_requests):
    harness = Harness(kind, [bad(status)])
    with pytest.raises(error):
        harness.call("classify", EXAMPLE)
    assert len(harness.requests) == num_requests


def test_a_redirect_is_not_followed(kind):
    harness = Harness(kind, [httpx.Response(307, headers={"location": "http://elsewhere/"})])
    with pytest.raises(ProtocolError, match="redirect"):
        harness.call("classify", EXAMPLE)
    assert len(harness.requests) == 1


def test_a_broken_content_encoding_is_a_protocol_error(kind):
    def reply(request):
        return httpx.Response(
            200,
            headers={"content-type": "application/json", "content-encoding": "gzip"},
            stream=Body(b"no gzip"),
        )

    with pytest.raises(ProtocolError, match="encoding"):
        Harness(kind, [reply]).call("classify", EXAMPLE)


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body for either client."""

    def __init__(self, *pieces, between=lambda: None):
        """Take the pieces, and what happens before each."""
        self._pieces = pieces
        self._between = between

    def __iter__(self):
        """Yield the pieces."""
        for piece in self._pieces:
            self._between()
            yield piece

    async def __aiter__(self):
        """Yield the pieces."""
        for piece in self:
            yield piece


def test_an_answer_that_only_drips_ends_with_the_attempt():
    def drip(request):
        return httpx.Response(200, stream=Body(*[b" "] * 100, between=second))

    def second():
        harness.now += 1.0

    harness = Harness(DetectorClient, [drip], timeout_s=5, max_attempts=1)
    with pytest.raises(ConnectionFailed, match=r"within 5\.0 s"):
        harness.call("classify", EXAMPLE)
    assert harness.now == 1006.0


def test_an_async_attempt_has_an_end_whatever_the_transport_does():
    async def hang(request):
        await asyncio.sleep(60)

    async def run():
        client = AsyncDetectorClient(
            "http://service", transport=httpx.MockTransport(hang), timeout_s=0.05, max_attempts=1
        )
        async with client:
            await client.classify(EXAMPLE)

    with pytest.raises(ConnectionFailed, match=r"within 0\.1 s|within 0\.0 s"):
        asyncio.run(run())


def test_the_key_is_shown_nowhere(kind, bad):
    harness = Harness(kind, [bad(401)], api_key="sesame")
    with pytest.raises(Unauthorized) as caught:
        harness.call("classify", EXAMPLE)
    shown = repr(harness.client) + repr(harness.client.__dict__) + repr(caught.value)
    assert "sesame" not in shown
    assert "http://service/prefix" in repr(harness.client)


@pytest.mark.parametrize("timeout_s", [0, float("inf"), float("nan")])
def test_a_timeout_that_is_none_is_refused(kind, timeout_s):
    with pytest.raises(ValueError, match="timeout_s"):
        kind("http://service", timeout_s=timeout_s)


def test_many_keep_their_order_and_one_failure_loses_no_other(kind, ok, bad):
    def reply(request):
        return bad(422) if b'"7"' in request.content else ok(request)

    calls = []
    outcomes = Harness(kind, [reply]).call(
        "classify_many",
        (Example(None, None, str(n)) for n in range(20)),
        concurrency=4,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert isinstance(outcomes.pop(7), InvalidRequest)
    assert [v.justification for v in outcomes] == [str(n) for n in range(20) if n != 7]
    assert [done for done, _ in calls] == list(range(1, 21))
    assert calls[-1] == (20, 20)
    assert all(done <= total for done, total in calls)


def test_progress_knows_the_total_of_what_has_a_length(kind, ok):
    calls = []
    Harness(kind, [ok]).call(
        "classify_many", [EXAMPLE] * 5, progress=lambda done, total: calls.append(total)
    )
    assert calls == [5] * 5


def test_many_of_none_are_none(kind, ok):
    assert Harness(kind, [ok]).call("classify_many", []) == []


def test_no_more_are_begun_than_there_is_room_for(kind, ok):
    lock = threading.Lock()
    taken, answered, most = 0, 0, 0

    def examples():
        nonlocal taken, most
        for _ in range(500):
            with lock:
                taken += 1
                most = max(most, taken - answered)
            yield EXAMPLE

    def reply(request):
        nonlocal answered
        with lock:
            answered += 1
        return ok(request)

    outcomes = Harness(kind, [reply]).call("classify_many", examples(), concurrency=3)
    assert len(outcomes) == 500
    assert most <= 4


@pytest.mark.parametrize("concurrency", [0, -1])
def test_without_any_concurrency_nothing_begins(kind, ok, concurrency):
    with pytest.raises(ValueError, match=r"concurrency|max_workers"):
        Harness(kind, [ok]).call("classify_many", [EXAMPLE], concurrency=concurrency)


def test_an_error_of_the_caller_comes_out_as_it_is(kind, ok):
    def examples():
        yield EXAMPLE
        raise KeyError("theirs")

    with pytest.raises(KeyError, match="theirs"):
        Harness(kind, [ok]).call("classify_many", examples())


@pytest.mark.parametrize(
    ("entry", "is_ready"),
    [
        (httpx.Response(200, json={"status": "ready"}), True),
        (httpx.ConnectError("refused"), False),
        (httpx.Response(503, html="<html>"), False),
    ],
)
def test_ready_is_asked_once(kind, entry, is_ready):
    harness = Harness(kind, [entry])
    assert harness.call("ready") is is_ready
    assert len(harness.requests) == 1


def test_ready_is_false_while_loading(kind, bad):
    assert Harness(kind, [bad(503)]).call("ready") is False


def test_ready_says_when_waiting_will_not_help(kind, bad):
    with pytest.raises(Unauthorized):
        Harness(kind, [bad(401)]).call("ready")
    with pytest.raises(ProtocolError):
        Harness(kind, [httpx.Response(200, html="<html>")]).call("ready")


def test_readiness_is_waited_for_without_heeding_long_waits(kind, bad):
    loading = bad(503, headers={"retry-after": "60"}, detail="loading 40 %")
    script = [httpx.ConnectError("refused"), loading, httpx.Response(200, json={"status": "ready"})]
    harness = Harness(kind, script)
    assert harness.call("wait_ready", 30) is None
    assert harness.slept == [0.5, 0.5]


def test_a_wait_for_readiness_ends_and_says_how_far_it_got(kind, bad):
    harness = Harness(kind, [bad(503, detail="loading 40 %")])
    with pytest.raises(DeadlineExhausted, match="loading 40 %"):
        harness.call("wait_ready", 10)
    assert 1009 <= harness.now <= 1010


def test_info_is_returned(kind):
    harness = Harness(kind, [httpx.Response(200, json={"contract": "ab"})])
    assert harness.call("info") == {"contract": "ab"}


def test_clients_are_context_managers():
    with DetectorClient("http://127.0.0.1:9") as client:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        client.info()


def test_against_a_real_server(stub):
    with DetectorClient(stub.url, draw=lambda: 0.0) as client:
        client.wait_ready(5)
        outcomes = client.classify_many([EXAMPLE] * 10)
    assert [o.justification for o in outcomes] == ["50 metres."] * 10


def test_a_server_that_drops_connections_is_tried_again(stub):
    replies = iter([None, None, stub.reply])
    stub.reply = lambda body: (reply := next(replies)) and reply(body)
    with DetectorClient(stub.url, draw=lambda: 0.0) as client:
        assert client.classify(EXAMPLE).justification == "50 metres."
