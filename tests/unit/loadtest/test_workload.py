"""The mix: its shares and lengths, and that the service answers every request as it says."""

from __future__ import annotations

import asyncio
import json
import math
import random
import statistics
from collections import Counter

import httpx
import pytest
from support.app_client import fake_settings, running_app

from loadtest.checks import Answer, Judged, Outcome, judge
from loadtest.texts import Length, passage
from loadtest.workload import LENGTHS, SHARES, Kind, Request, Workload

REQUESTS = [Workload(3).request(index) for index in range(4000)]


def of(kind: Kind) -> list[Request]:
    return [request for request in REQUESTS if request.kind is kind]


def knowledges(request: Request) -> list[str]:
    body = json.loads(request.body)
    given = [item["knowledge"] for item in body.get("items", [body])]
    return [text for each in given for text in (each if isinstance(each, list) else [each])]


def test_the_shares_are_those_that_are_written_down() -> None:
    assert sum(SHARES.values()) == pytest.approx(1)
    counts = Counter(request.kind for request in REQUESTS)
    for kind, share in SHARES.items():
        error = math.sqrt(share * (1 - share) / len(REQUESTS))
        assert abs(counts[kind] / len(REQUESTS) - share) < 4 * error


@pytest.mark.parametrize("kind", list(LENGTHS))
def test_lengths_stay_within_their_bounds(kind: Kind) -> None:
    length = LENGTHS[kind]
    words = [len(text.split()) for request in of(kind) for text in knowledges(request)]
    # A passage ends with a whole sentence: up to 20 words more than drawn.
    assert length.low_words <= min(words)
    assert max(words) < length.high_words + 20


def test_lengths_are_log_normal_between_their_bounds() -> None:
    wide, rng = Length(100, 0.5, 1, 10_000), random.Random(5)
    logs = [math.log(wide.draw(rng)) for _ in range(5000)]
    assert statistics.mean(logs) == pytest.approx(math.log(100), abs=0.03)
    assert statistics.stdev(logs) == pytest.approx(0.5, abs=0.02)
    narrow = Length(100, 0.5, 90, 110)
    drawn = Counter(narrow.draw(rng) for _ in range(1000))
    assert (min(drawn), max(drawn)) == (90, 110)
    # What lies outside comes to lie on the bounds: P(x < 90) = 0.417 for this distribution.
    assert drawn[90] / 1000 == pytest.approx(0.417, abs=0.06)


def test_a_passage_states_its_fact_and_is_as_long_as_asked() -> None:
    text = passage(7, 25, 300, random.Random(1))
    assert text.startswith("Pool 7 is 25 metres long")
    assert 300 <= len(text.split()) < 320


def test_a_request_depends_on_its_seed_and_number_alone() -> None:
    assert Workload(3).request(1234) == REQUESTS[1234]
    assert Workload(4).request(1234) != REQUESTS[1234]


def test_no_two_requests_are_the_same() -> None:
    assert len({request.body for request in REQUESTS}) == len(REQUESTS)


def test_documents_come_as_a_list_and_no_knowledge_is_left_out() -> None:
    sizes = {len(json.loads(request.body)["knowledge"]) for request in of(Kind.DOCUMENTS)}
    assert sizes == {2, 3, 4, 5, 6}
    assert all("knowledge" not in json.loads(each.body) for each in of(Kind.NO_KNOWLEDGE))
    assert {each.items[0].evidence for each in of(Kind.NO_KNOWLEDGE)} == {"none"}


def test_about_half_of_the_responses_agree_with_the_knowledge() -> None:
    bodies = [json.loads(request.body) for request in of(Kind.SHORT_QA)]
    agree = [
        body["response"].split(" metres")[0].split()[-1] == body["knowledge"].split()[3]
        for body in bodies
    ]
    assert statistics.mean(agree) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    "shares", [{Kind.BATCH: 0.5}, {Kind.BATCH: 1.5, Kind.SHORT_QA: -0.5}], ids=["half", "below-0"]
)
def test_what_is_no_distribution_is_refused(shares: dict[Kind, float]) -> None:
    with pytest.raises(ValueError, match="together 1"):
        Workload(1, shares)


async def ask(http: httpx.AsyncClient, request: Request, index: int) -> Judged:
    request_id = f"test-{index}"
    answer = await http.post(
        f"/{request.path}",
        content=request.body,
        headers={"Content-Type": request.content_type, "X-Request-ID": request_id},
    )
    return judge(request, request_id, Answer(answer.status_code, answer.headers, answer.content))


async def ask_all(requests: list[Request]) -> list[Judged]:
    async with running_app(fake_settings()) as (http, _):
        return [await ask(http, request, index) for index, request in enumerate(requests)]


def test_the_service_answers_every_kind_as_it_should() -> None:
    requests = [*of(Kind.BAD_REQUEST)[:60], *REQUESTS[:150]]
    refusals = {(r.refusal.status, r.refusal.slug) for r in requests if r.refusal is not None}
    assert refusals == {(400, "malformed-body"), (415, "media-type"), (422, "invalid-request")}
    judged = asyncio.run(ask_all(requests))
    assert {(each.outcome, each.reason) for each in judged} == {(Outcome.OK, None)}
