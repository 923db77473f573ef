"""Two passes against a real HTTP server: what is kept, and what makes a measurement void."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.made_baseline import CASES, RIGHT, WRONG, answer
from support.stub_service import StubService, problem_json

from client import DetectorClient
from evaluation.baseline import Baseline, Case, Figures
from evaluation.errors import EvaluationError
from evaluation.measuring import measure_baseline
from evaluation.noise import Noise, Outcome

pytestmark = [
    pytest.mark.usefixtures("drop_sockets_here"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SO = hashlib.sha256(b"So.").hexdigest()
UNREADABLE = (502, {}, problem_json(502, "unreadable-reply"))


@pytest.fixture
def stub() -> Iterator[Any]:
    service = StubService()
    yield service
    service.close()


@pytest.fixture
def client(stub: Any) -> Iterator[DetectorClient]:
    with DetectorClient(stub.url, max_attempts=1) as client:
        yield client


def tell(stub: Any, **replies: list[Any]) -> None:
    """Answer each response with its replies in turn, the last one for ever; else 0.75."""
    asked: Counter[str] = Counter()
    lock = threading.Lock()

    def reply(body: dict[str, Any]) -> Any:
        own = replies.get(body["response"], [answer(0.75)])
        with lock:
            place = min(asked[body["response"]], len(own) - 1)
            asked[body["response"]] += 1
        return own[place]

    stub.reply = reply


def measure(client: DetectorClient, **options: Any) -> Baseline:
    return measure_baseline(client, CASES, "cd" * 32, **{"concurrency": 1, **options})


def test_a_steady_service_has_no_noise(stub: Any, client: DetectorClient) -> None:
    tell(stub, b=[answer(0.25)], d=[answer(0.25)])
    told: list[tuple[int, int]] = []
    baseline = measure(client, progress=lambda done, total: told.append((done, total)))
    assert baseline.noise == Noise(0.0, 0.0, 0.0, 1.0)
    wrong, right = Outcome(WRONG, 0.75, SO), Outcome(RIGHT, 0.25, SO)
    assert baseline.cases == (
        Case("a", wrong, wrong),
        Case("b", right, right),
        Case("c", wrong, wrong),
        Case("d", right, right),
    )
    assert baseline.overall == Figures(4, 1.0, 1.0, 1.0, 1.0, 0.25, 0.0)
    assert (baseline.service.model, baseline.service.revision) == ("embedded", "0123abcd")
    assert (baseline.service.weights_sha256, baseline.golden_sha256) == ("ab" * 32, "cd" * 32)
    assert baseline.speed.concurrency == 1
    assert 0 < baseline.speed.p50_ms <= baseline.speed.p95_ms
    assert stub.responses == ["a", "b", "c", "d"] * 2
    assert told == [(done, 8) for done in range(1, 9)]


def test_a_service_that_flips_shows_it_in_the_noise_and_not_in_the_figures(
    stub: Any, client: DetectorClient
) -> None:
    tell(
        stub,
        a=[answer(0.75), answer(0.25, "No.")],
        b=[answer(0.25), answer(0.375)],
        d=[answer(0.25)],
    )
    baseline = measure(client, concurrency=4)
    # Changes 0.5, 0.125, 0, 0; one verdict and one justification of four are others.
    assert baseline.noise == Noise(0.25, 0.5, 0.15625, 0.75)
    assert baseline.cases[0].second == Outcome(RIGHT, 0.25, hashlib.sha256(b"No.").hexdigest())
    assert baseline.overall.balanced_accuracy == 1.0


def test_unreadable_replies_are_verdicts_that_were_not_reached(
    stub: Any, client: DetectorClient
) -> None:
    tell(stub, a=[UNREADABLE], b=[answer(0.25, None), UNREADABLE], d=[answer(0.25)])
    baseline = measure(client)
    assert baseline.cases[0] == Case("a", Outcome(None, None, None), Outcome(None, None, None))
    assert baseline.cases[1].first == Outcome(RIGHT, 0.25, None)
    assert baseline.noise == Noise(0.25, 0.0, 0.0, 1.0)
    # One of two hallucinations was read, and both correct responses.
    assert baseline.overall == Figures(4, 0.75, 0.666667, 0.5, 1.0, 0.25, 0.25)
    assert baseline.by_kind == {
        "numbers": Figures(2, 0.5, 0.0, 0.0, 1.0, 0.25, 0.5),
        "dates": Figures(2, 1.0, 1.0, 1.0, 1.0, 0.25, 0.0),
    }


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((422, {}, problem_json(422, "input-too-long")), "gave no verdict on row c: 422 Input-too"),
        ((401, {}, problem_json(401, "unauthorized")), "gave no verdict on row c: 401 Unauth"),
        ((503, {}, problem_json(503, "overloaded")), "gave no verdict on row c: .*503 Overloaded"),
        ((200, {}, b"<html>"), "gave no verdict on row c: .*text/html, not application/json"),
        (None, "gave no verdict on row c: .*no whole answer"),
    ],
    ids=["refused", "key", "overloaded", "html", "gone"],
)
def test_a_row_that_is_not_served_ends_the_measurement_at_once(
    stub: Any, client: DetectorClient, reply: Any, message: str
) -> None:
    tell(stub, c=[reply])
    with pytest.raises(EvaluationError, match=message):
        measure(client)
    assert stub.responses.count("a") == 1


def test_answers_of_other_weights_are_not_taken(stub: Any, client: DetectorClient) -> None:
    status, headers, other = answer(0.75)
    other["model"] = other["model"] | {"revision": "4567"}
    tell(stub, b=[(status, headers, other)])
    with pytest.raises(EvaluationError, match=r"row b was judged by embedded@4567, and /info says"):
        measure(client)


def test_a_service_that_is_replaced_meanwhile_is_noticed(stub: Any, client: DetectorClient) -> None:
    def reply(body: dict[str, Any]) -> Any:
        stub.info[2]["engine"]["dtype"] = "bfloat16"
        return answer(0.75)

    stub.reply = reply
    with pytest.raises(EvaluationError, match="the service changed during the measurement"):
        measure(client)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ((401, {}, problem_json(401, "unauthorized")), "does not say what it serves: 401"),
        ((200, {}, b"<html>"), "does not say what it serves: .*text/html"),
        ((200, {}, {"model": {"id": "m"}}), r"/info .*\(engine is missing\)"),
    ],
    ids=["key", "html", "old"],
)
def test_a_service_that_does_not_say_what_it_is_is_not_measured(
    stub: Any, client: DetectorClient, info: Any, message: str
) -> None:
    stub.info = info
    with pytest.raises(EvaluationError, match=message):
        measure(client)
    assert stub.bodies == []


def test_a_set_without_a_case_is_refused(client: DetectorClient) -> None:
    with pytest.raises(EvaluationError, match="the golden set has no case"):
        measure_baseline(client, [], "cd" * 32, concurrency=1)


def test_the_case_is_sent_as_it_is(stub: Any, client: DetectorClient) -> None:
    tell(stub)
    case = replace(CASES[0], knowledge=None, question="What?")
    measure_baseline(client, [case], "cd" * 32, concurrency=1)
    assert stub.bodies == [{"response": "a", "question": "What?"}] * 2
