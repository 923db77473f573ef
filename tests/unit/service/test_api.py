"""The routes as a caller sees them, and what the metrics say of each fault."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from support.app_client import (
    ITEM,
    LONG_ITEM,
    PROVOKED,
    Provoked,
    caller_of,
    fake_settings,
    items_total,
    running_app,
    samples_of,
    until,
    value_of,
)

from contract.calibration import Calibration
from contract.labels import Label
from contract.manifest import CONTRACT_VERSION, Manifest, fingerprint
from service.app import create_app
from service.engine.base import Generation, Prompt
from service.engine.fake import FakeEngine
from service.errors import EngineDeadError
from service.lifecycle import State
from service.runtime import Runtime
from service.weights import Weights

pytestmark = pytest.mark.anyio

LABELS = ("hallucination", "correct")
PROBLEM = "urn:hallucination-detector:problem:"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with running_app(fake_settings()) as (client, _):
        yield client


def items(count: int) -> list[dict[str, Any]]:
    """Return items that differ, so that their verdicts do."""
    return [{**ITEM, "response": f"The pool is {number} metres long."} for number in range(count)]


def app_of(client: httpx.AsyncClient) -> FastAPI:
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    app = transport.app
    assert isinstance(app, FastAPI)
    return app


def is_idle(runtime: Runtime) -> bool:
    admission, load = runtime.judge.admission, runtime.engine.load
    return not any(
        (
            admission.num_in_flight,
            admission.num_queued_tokens,
            load.num_running,
            load.num_waiting,
        )
    )


async def test_a_verdict_holds_what_is_documented(client: httpx.AsyncClient) -> None:
    answer = await client.post("/classify", json=ITEM, headers={"x-request-id": "r1"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert list(body) == [
        "class", "justification", "probability", "threshold", "label_mass", "evidence", "model",
        "usage", "timings_ms", "request_id",
    ]  # fmt: skip
    assert body["class"] == LABELS[body["probability"] < 0.5]
    assert body["justification"] == " ".join(["fake"] * 21)
    assert 0.02 <= body["probability"] <= 0.98
    assert (body["threshold"], body["label_mass"]) == (0.5, 0.99)
    assert body["evidence"] == "given"
    assert body["usage"]["output_tokens"] == 24
    assert 150 < body["usage"]["input_tokens"] < 400
    assert body["usage"]["cached_tokens"] == 0
    assert body["timings_ms"]["total"] >= body["timings_ms"]["inference"] >= 0
    assert body["request_id"] == "r1"


async def test_every_verdict_names_its_model(client: httpx.AsyncClient) -> None:
    model = {
        "id": "fake", "revision": "none", "contract": None, "engine": "fake", "trained": False,
    }  # fmt: skip
    for values in ({}, {"justification": False}, {"threshold": 0.1}):
        answer = await client.post("/classify", json={**ITEM, **values})
        assert answer.json()["model"] == model
    batch = await client.post("/classify/batch", json={"items": items(2)})
    assert [result["result"]["model"] for result in batch.json()["results"]] == [model, model]


async def test_the_phases_come_as_a_header_too() -> None:
    async with running_app(fake_settings(fake_latency_s=0.03)) as (client, _):
        answer = await client.post("/classify", json=ITEM)
    timings = answer.json()["timings_ms"]
    header = answer.headers["server-timing"]
    shown = dict(re.findall(r"(\w+);dur=([\d.]+)", header))
    assert {name: float(value) for name, value in shown.items()} == timings
    assert list(shown) == ["queue", "inference", "total"]
    assert 30 <= timings["inference"] <= timings["total"] < 5000


async def test_the_short_path_gives_the_same_probability(client: httpx.AsyncClient) -> None:
    full = (await client.post("/classify", json=ITEM)).json()
    short = (await client.post("/classify", json={**ITEM, "justification": False})).json()
    assert short["justification"] is None
    assert short["usage"]["output_tokens"] == 1
    assert (short["class"], short["probability"]) == (full["class"], full["probability"])


@pytest.mark.parametrize(("threshold", "label"), [(0, "hallucination"), (1, "correct")])
async def test_the_class_follows_the_threshold(
    threshold: float, label: str, client: httpx.AsyncClient
) -> None:
    for item in items(5):
        body = (await client.post("/classify", json={**item, "threshold": threshold})).json()
        assert (body["class"], body["threshold"]) == (label, threshold)


async def test_without_knowledge_the_evidence_is_none(client: httpx.AsyncClient) -> None:
    body = (await client.post("/classify", json={"response": "Paris is in Spain."})).json()
    assert body["evidence"] == "none"


async def test_a_batch_is_answered_in_its_order_and_each_as_if_alone(
    client: httpx.AsyncClient,
) -> None:
    sent = items(40)
    alone = [(await client.post("/classify", json=item)).json() for item in sent]
    answer = await client.post(
        "/classify/batch", json={"items": sent}, headers={"x-request-id": "r1"}
    )
    assert answer.status_code == 200
    assert answer.json()["request_id"] == "r1"
    results = [result["result"] for result in answer.json()["results"]]
    assert [r["request_id"] for r in results] == [f"r1.{i}" for i in range(40)]
    for key in ("class", "probability", "justification", "evidence"):
        assert [r[key] for r in results] == [a[key] for a in alone]
    assert len({r["probability"] for r in results}) == 40
    assert {r["class"] for r in results} == set(LABELS)


async def test_every_item_of_a_batch_has_its_result_or_its_problem(
    client: httpx.AsyncClient,
) -> None:
    good, short = items(2)
    sent = [good, {"response": " "}, 7, {"x": 1}, {**short, "justification": False}, LONG_ITEM]
    answer = await client.post("/classify/batch", json={"items": sent})
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [list(result) for result in results] == [
        ["result"], ["problem"], ["problem"], ["problem"], ["result"], ["problem"],
    ]  # fmt: skip
    faults = [
        [(f["field"], f["message"]) for f in result["problem"]["errors"]]
        for result in results
        if "problem" in result
    ]
    assert faults[:3] == [
        [("items[1].response", "must not be blank; an optional field can be left out")],
        [("items[2]", "must be a JSON object, got a number")],
        [("items[3].response", "is required"), ("items[3].x", "is not a known field")],
    ]
    long = results[5]["problem"]
    assert (long["type"], long["limit_tokens"]) == (f"{PROBLEM}input-too-long", 3984)
    identity = answer.json()["request_id"]
    assert results[1]["problem"]["request_id"] == f"{identity}.1"
    assert results[4]["result"]["justification"] is None


@pytest.mark.parametrize(
    ("body", "status", "faults"),
    [
        ({"items": []}, 422, [("items", "must not be empty")]),
        ({}, 422, [("items", "is required")]),
        ({"items": {}}, 422, [("items", "must be an array, got an object")]),
        ({"items": None}, 422, [("items", "must be an array, got null")]),
        ({"items": "x", "a": 1}, 422, [
            ("items", "must be an array, got a string"), ("a", "is not a known field"),
        ]),
        ([ITEM], 422, [
            ("body", "must be a JSON object, got an array; several go to POST /classify/batch"),
        ]),
        ({"items": [ITEM] * 4}, 413, [
            ("items", "has 4 items, the limit is 3: send several batches"),
        ]),
    ],
    ids=["empty", "missing", "object", "null", "two_faults", "array", "too_many"],
)  # fmt: skip
async def test_a_batch_that_is_none_is_refused_whole(
    body: Any, status: int, faults: list[tuple[str, str]]
) -> None:
    async with running_app(fake_settings(max_batch_items=3)) as (client, runtime):
        answer = await client.post("/classify/batch", json=body)
        assert answer.status_code == status
        assert [(f["field"], f["message"]) for f in answer.json()["errors"]] == faults
        assert is_idle(runtime)
        full = await client.post("/classify/batch", json={"items": [ITEM] * 3})
        assert full.status_code == 200


async def test_the_items_of_a_batch_are_admitted_one_by_one() -> None:
    settings = {"max_in_flight": 2, "fake_latency_s": 0.05}
    async with running_app(fake_settings(**settings, max_num_seqs=2)) as (client, _):
        answer = await client.post("/classify/batch", json={"items": items(6)})
        # As many at once as the engine computes at once: all find a place.
        assert ["result" in result for result in answer.json()["results"]] == [True] * 6
    async with running_app(fake_settings(**settings, max_num_seqs=8)) as (client, runtime):
        # More than are ever taken in at once: each waits for those before it.
        answer = await client.post("/classify/batch", json={"items": items(6)})
        assert ["result" in result for result in answer.json()["results"]] == [True] * 6
        assert is_idle(runtime)


async def test_the_items_of_a_batch_are_refused_where_others_have_taken_the_room() -> None:
    settings = fake_settings(max_in_flight=2, fake_latency_s=0.3)
    async with running_app(settings) as (client, runtime):
        others = [asyncio.create_task(client.post("/classify", json=item)) for item in items(2)]
        while runtime.judge.admission.num_in_flight < 2:
            await asyncio.sleep(0.01)
        answer = await client.post("/classify/batch", json={"items": items(3)})
        results = answer.json()["results"]
        assert [result["problem"]["status"] for result in results] == [503] * 3
        assert {result["problem"]["retry_after_s"] for result in results} == {5}
        assert [other.status_code for other in await asyncio.gather(*others)] == [200] * 2
        counted = await items_total(client)
        assert counted["overloaded", ""] == 3.0
        assert sum(counted.values()) == 5.0
        assert is_idle(runtime)


async def test_the_rate_limit_counts_items() -> None:
    async with running_app(fake_settings(rate_limit_per_minute=3)) as (client, _):
        answer = await client.post("/classify/batch", json={"items": items(5)})
        results = answer.json()["results"]
        assert ["result" in result for result in results] == [True] * 3 + [False] * 2
        assert {result["problem"]["type"] for result in results[3:]} == {f"{PROBLEM}rate-limited"}
        single = await client.post("/classify", json=ITEM)
        assert single.status_code == 429
        assert 1 <= int(single.headers["retry-after"]) <= 61


async def test_every_key_has_a_rate_of_its_own() -> None:
    async with running_app(fake_settings(rate_limit_per_minute=1, api_keys="a,b")) as (client, _):
        statuses = [
            (
                await client.post(
                    "/classify", json=ITEM, headers={"authorization": f"Bearer {key}"}
                )
            ).status_code
            for key in ("a", "a", "b", "b")
        ]
    assert statuses == [200, 429, 200, 429]


async def test_while_loading_the_service_lives_but_is_not_ready() -> None:
    async with running_app(fake_settings(fake_start_s=30), is_loaded=False) as (client, runtime):
        await until(lambda: "starting the fake engine" in runtime.lifecycle.progress)
        live = await client.get("/livez")
        assert (live.status_code, live.json()) == (200, {"status": "live"})
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert ready.headers["retry-after"] == "5"
        assert ready.json()["detail"] == ("the service is loading, load: starting the fake engine")
        for method, path in (("POST", "/classify"), ("POST", "/classify/batch"), ("GET", "/info")):
            body = {"items": [ITEM]} if path.endswith("batch") else ITEM
            answer = await client.request(method, path, json=body)
            assert answer.status_code == 503
            assert answer.json()["type"] == f"{PROBLEM}not-ready"
            assert answer.headers["retry-after"] == "5"
        assert await value_of(client, "detector_ready") == 0
        assert await items_total(client) == {("not-ready", ""): 2.0}


async def test_a_bad_request_is_told_so_while_loading_too() -> None:
    async with running_app(fake_settings(fake_start_s=30), is_loaded=False) as (client, _):
        assert (await client.post("/classify", json={})).status_code == 422


async def test_once_loaded_it_is_ready(client: httpx.AsyncClient) -> None:
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
    assert await value_of(client, "detector_ready") == 1


async def test_while_draining_it_is_not_ready_but_still_serves() -> None:
    async with running_app(fake_settings()) as (client, runtime):
        runtime.lifecycle.begin_drain()
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["detail"] == "the service is draining"
        assert "retry-after" in ready.headers
        assert (await client.get("/livez")).status_code == 200
        assert (await client.post("/classify", json=ITEM)).status_code == 200
        assert await value_of(client, "detector_ready") == 0


class StoppableEngine(FakeEngine):
    """Knows whether it was stopped."""

    is_stopped = False

    async def stop(self) -> None:
        self.is_stopped = True


async def test_the_engine_and_the_watch_end_with_the_app() -> None:
    settings = fake_settings()
    engine = StoppableEngine(settings)
    async with running_app(settings, engine) as (client, _):
        before = asyncio.all_tasks()
        assert (await client.get("/livez")).status_code == 200
        assert not engine.is_stopped
    assert engine.is_stopped
    assert asyncio.all_tasks() < before


class StillbornEngine(FakeEngine):
    """Starts, but cannot answer once."""

    async def generate(self, prompt: Prompt, max_tokens: int, request_id: str) -> Generation:
        raise EngineDeadError("gone", 5)


async def test_an_engine_that_cannot_answer_once_is_never_ready() -> None:
    settings = fake_settings()
    engine = StillbornEngine(settings)
    async with running_app(settings, engine, is_loaded=False) as (client, runtime):
        await until(lambda: runtime.lifecycle.state is State.FAILED)
        assert (await client.get("/readyz")).status_code == 503
        live = await client.get("/livez")
        assert live.status_code == 503
        assert live.json()["detail"] == "the engine died on its first request"
        assert (await client.post("/classify", json=ITEM)).status_code == 503


async def test_a_dead_engine_is_no_life() -> None:
    async with running_app(fake_settings(fake_fault="dead")) as (client, runtime):
        assert (await client.post("/classify", json=ITEM)).status_code == 503
        await until(lambda: runtime.lifecycle.state is State.FAILED)
        for path in ("/livez", "/readyz", "/info"):
            assert (await client.get(path)).status_code == 503
        live = (await client.get("/livez")).json()
        assert (live["type"], live["detail"]) == (
            f"{PROBLEM}engine-dead", "the inference engine has died",
        )  # fmt: skip
        answer = await client.post("/classify/batch", json={"items": [ITEM]})
        assert answer.json()["type"] == f"{PROBLEM}engine-dead"


async def test_who_waits_for_a_stuck_engine_hears_of_it() -> None:
    async with running_app(fake_settings(fake_fault="stuck", stuck_after_s=0.1)) as (
        client,
        runtime,
    ):
        single, batch = await asyncio.gather(
            client.post("/classify", json=ITEM),
            client.post("/classify/batch", json={"items": items(2)}),
        )
        assert (single.status_code, batch.status_code) == (503, 503)
        assert "is stuck" in single.json()["detail"]
        assert (await client.get("/livez")).status_code == 503
        assert is_idle(runtime)


async def test_info_says_what_is_served(client: httpx.AsyncClient) -> None:
    body = (await client.get("/info")).json()
    assert body["model"]["engine"] == "fake"
    assert body["model"]["trained"] is False
    assert body["engine"] == {"name": "fake", "version": "1", "device": "none", "dtype": "none"}
    assert body["hardware"]["accelerator"] is None
    assert body["hardware"]["num_cores"] >= 1
    assert body["hardware"]["processor"].strip()
    assert body["weights_sha256"] is None
    assert body["contract"] == fingerprint()
    assert body["calibration"] == {"temperature": 1.0, "threshold": 0.5}
    assert body["label_token_ids"] == {"hallucination": 1, "correct": 2}
    assert body["limits"] == {
        "input_tokens": 3984,
        "output_tokens": 96,
        "body_bytes": 1_048_576,
        "json_depth": 16,
        "batch_items": 64,
        "in_flight_items": 128,
        "queued_tokens": 65_536,
        "items_per_minute": None,
        "request_timeout_s": 60.0,
    }
    assert set(body["cold_start_s"]) == {"download", "load", "warm_up", "total"}
    assert body["reference"] is None
    assert body["window"] == {
        "max_verdicts": 1000,
        "min_verdicts": 200,
        "verdicts": {"full": 0, "reread": 0, "short": 0},
    }


async def test_info_names_the_adapter_that_the_weights_were_exported_from() -> None:
    settings = fake_settings()
    manifest = Manifest(
        contract_version=CONTRACT_VERSION,
        fingerprint=fingerprint(),
        label_token_ids={Label.HALLUCINATION: 1, Label.CORRECT: 2},
        calibration=Calibration(),
        base_model="acme/base",
        base_revision="main",
        trained=True,
        weights_sha256="ab" * 32,
    )
    weights = Weights(Path(), "tiny", "0123", manifest)
    app = create_app(settings, FakeEngine(settings), lambda settings, progress: weights)
    async with app.router.lifespan_context(app):
        await asyncio.wait_for(app.state.runtime.lifecycle.loaded.wait(), 10)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            body = (await client.get("/info")).json()
    assert body["weights_sha256"] == "ab" * 32


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("GET", "/classify", 405, "POST"),
        ("PUT", "/classify/batch", 405, "POST"),
        ("POST", "/info", 405, "GET"),
        ("DELETE", "/metrics", 405, "GET"),
        ("GET", "/classify/", 404, None),
        ("POST", "/v1/classify", 404, None),
    ],
)
async def test_what_is_not_there_is_a_problem(
    method: str, path: str, status: int, allowed: str | None, client: httpx.AsyncClient
) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers.get("allow") == allowed


@pytest.mark.parametrize("fault", PROVOKED.values(), ids=PROVOKED)
async def test_a_fault_has_its_status_and_its_outcome_and_is_no_verdict(fault: Provoked) -> None:
    settings = fake_settings(**fault.settings)
    async with running_app(settings, fault.engine(settings)) as (client, runtime):
        answer = await fault.provoke(client)
        assert answer.status_code == fault.status
        assert answer.headers["content-type"] == "application/problem+json"
        body = answer.json()
        assert (body["status"], body["type"]) == (fault.status, PROBLEM + fault.outcome)
        assert not {"class", "probability", "result", "results"} & set(body)
        assert ("retry_after_s" in body) == (fault.status in (429, 503))
        assert answer.headers.get("retry-after") == (
            str(body["retry_after_s"]) if "retry_after_s" in body else None
        )
        assert is_idle(runtime)
        counted = await items_total(client)
        assert counted.pop((fault.outcome, "")) == 1.0
        assert sum(counted.values()) == fault.num_before
        assert {outcome for outcome, _ in counted} <= {"ok"}
        assert await value_of(client, "detector_in_flight_items") == 0
        assert await value_of(client, "detector_queued_tokens") == 0
        assert await value_of(client, "detector_engine_running") == 0
        judged = [value for _, value in await samples_of(client, "detector_window_verdicts")]
        assert sum(judged) == fault.num_before
        assert await value_of(client, "detector_unreadable_total") == (
            1.0 if fault.outcome == "unreadable-reply" else 0.0
        )
        shed = {
            labels["reason"]: n for labels, n in await samples_of(client, "detector_shed_total")
        }
        assert shed == {"overloaded": 0.0, "rate-limited": float(fault.outcome == "rate-limited")}


@pytest.mark.parametrize("fault", ["engine_fault", "unreadable", "stuck", "slow", "unforeseen"])
async def test_a_fault_of_an_item_is_that_item_s_alone(fault: str) -> None:
    provoked = PROVOKED[fault]
    settings = fake_settings(**provoked.settings)
    async with running_app(settings, provoked.engine(settings)) as (client, runtime):
        answer = await client.post("/classify/batch", json={"items": [ITEM, {}]})
        assert answer.status_code == 200
        problems = [result["problem"] for result in answer.json()["results"]]
        assert [p["type"] for p in problems] == [
            PROBLEM + provoked.outcome, f"{PROBLEM}invalid-request",
        ]  # fmt: skip
        assert await items_total(client) == {
            (provoked.outcome, ""): 1.0, ("invalid-request", ""): 1.0,
        }  # fmt: skip
        assert is_idle(runtime)


async def test_an_item_beyond_the_limit_is_refused_at_once() -> None:
    settings = fake_settings(max_in_flight=1, fake_latency_s=1)
    async with running_app(settings) as (client, runtime):
        first = asyncio.create_task(client.post("/classify", json=ITEM))
        await until(lambda: runtime.judge.admission.num_in_flight == 1)
        assert await value_of(client, "detector_in_flight_items") == 1
        second = await client.post("/classify", json=ITEM)
        assert not first.done()
        assert second.status_code == 503
        assert second.json()["type"] == f"{PROBLEM}overloaded"
        assert second.headers["retry-after"] == "5"
        assert (await first).status_code == 200
        assert is_idle(runtime)
        assert await value_of(client, "detector_shed_total", reason="overloaded") == 1
        assert await value_of(client, "detector_shed_total", reason="rate-limited") == 0
        third = await client.post("/classify", json=ITEM)
        assert third.status_code == 200


async def test_tokens_beyond_the_limit_are_refused_at_once() -> None:
    settings = fake_settings(
        max_model_len=512, max_output_tokens=24, max_queued_tokens=512, fake_latency_s=1
    )
    item = {**ITEM, "knowledge": "word " * 100}
    async with running_app(settings) as (client, runtime):
        first = asyncio.create_task(client.post("/classify", json=item))
        await until(lambda: runtime.judge.admission.num_queued_tokens > 256)
        assert await value_of(client, "detector_queued_tokens") > 256
        second = await client.post("/classify", json=item)
        assert not first.done()
        assert second.status_code == 503
        assert "tokens of the 512" in second.json()["detail"]
        assert int(second.headers["retry-after"]) >= 1
        assert (await first).status_code == 200
        assert is_idle(runtime)


async def test_the_time_to_retry_follows_what_was_measured() -> None:
    settings = fake_settings(max_in_flight=40, fake_latency_s=0.001, max_num_seqs=64)
    async with running_app(settings) as (client, runtime):
        for _ in range(4):
            await client.post("/classify", json=ITEM)
        slots = [runtime.judge.admission.admit() for _ in range(40)]
        answer = await client.post("/classify", json=ITEM)
        # 4 in a second at the most: half of 40 take 5 s at the least.
        slow = int(answer.headers["retry-after"])
        assert slow >= 5
        for slot in slots:
            with slot:
                pass
        for _ in range(40):
            runtime.judge.admission.admit()
        answer = await client.post("/classify", json=ITEM)
        assert 1 <= int(answer.headers["retry-after"]) < slow


@pytest.mark.parametrize(
    ("path", "body"),
    [("/classify", ITEM), ("/classify/batch", {"items": items(3)})],
    ids=["single", "batch"],
)
async def test_a_client_that_leaves_frees_its_place(path: str, body: Any) -> None:
    async with running_app(fake_settings(fake_latency_s=30)) as (client, runtime):
        caller = caller_of(app_of(client), path, body)
        call = asyncio.create_task(caller.call())
        num_items = len(body.get("items", [body]))
        await until(lambda: runtime.engine.load.num_running == num_items)
        assert runtime.judge.admission.num_in_flight == num_items
        caller.leave()
        await asyncio.wait_for(call, 5)
        assert is_idle(runtime)
        assert caller.sent[0]["status"] == 499
        assert await items_total(client) == {("client-gone", ""): 1.0}


async def test_a_client_that_waits_for_a_seat_frees_its_place_too() -> None:
    async with running_app(fake_settings(fake_latency_s=30, max_num_seqs=1)) as (client, runtime):
        callers = [caller_of(app_of(client), "/classify", item) for item in items(2)]
        calls = [asyncio.create_task(caller.call()) for caller in callers]
        await until(lambda: runtime.engine.load.num_waiting == 1)
        assert await value_of(client, "detector_engine_waiting") == 1
        callers[1].leave()
        await asyncio.wait_for(calls[1], 5)
        load = runtime.engine.load
        assert (load.num_running, load.num_waiting) == (1, 0)
        assert runtime.judge.admission.num_in_flight == 1
        callers[0].leave()
        await asyncio.wait_for(calls[0], 5)
        assert is_idle(runtime)


async def test_verdicts_are_counted_by_class_with_their_share_and_mean() -> None:
    async with running_app(fake_settings()) as (client, _):
        assert await samples_of(client, "detector_window_hallucination_share") == []
        probabilities = []
        for item, threshold in zip(items(4), (0, 0, 0, 1), strict=True):
            answer = await client.post("/classify", json={**item, "threshold": threshold})
            probabilities.append(answer.json()["probability"])
        assert await items_total(client) == {("ok", "hallucination"): 3.0, ("ok", "correct"): 1.0}
        assert await value_of(client, "detector_window_hallucination_share", path="full") == 0.75
        mean = await value_of(client, "detector_window_mean_probability", path="full")
        assert mean == pytest.approx(sum(probabilities) / 4, abs=1e-5)
        assert await value_of(client, "detector_window_verdicts", path="full") == 4


async def test_the_window_forgets_the_oldest_verdicts() -> None:
    async with running_app(fake_settings(window_verdicts=10)) as (client, _):
        for threshold in [0] * 9 + [1] * 6:
            await client.post("/classify", json={**ITEM, "threshold": threshold})
        assert await value_of(client, "detector_window_verdicts", path="full") == 10
        assert await value_of(client, "detector_window_hallucination_share", path="full") == 0.4


async def test_tokens_and_seconds_are_counted() -> None:
    async with running_app(fake_settings(fake_latency_s=0.024)) as (client, _):
        num_input = 0
        for values in ({}, {}, {"justification": False}):
            answer = await client.post("/classify", json={**ITEM, **values})
            num_input += answer.json()["usage"]["input_tokens"]
        assert await value_of(client, "detector_output_tokens_total") == 24 + 24 + 1
        assert await value_of(client, "detector_input_tokens_total") == num_input
        assert await value_of(client, "detector_cached_tokens_total") == 0
        assert await value_of(client, "detector_inference_seconds_count") == 3
        assert 0.048 < await value_of(client, "detector_inference_seconds_sum") < 3
        assert await value_of(client, "detector_queue_seconds_count") == 3
        buckets = await samples_of(client, "detector_request_seconds_bucket")
        bounds = [float(labels["le"]) for labels, _ in buckets if labels["route"] == "/classify"]
        assert (bounds[0], bounds[-2], bounds[-1]) == (0.005, 60.0, float("inf"))


async def test_a_reply_that_was_read_again_is_a_verdict_and_counted_so() -> None:
    async with running_app(fake_settings(fake_fault="unreadable")) as (client, _):
        answer = await client.post("/classify", json=ITEM)
        assert answer.status_code == 200
        assert answer.json()["usage"]["output_tokens"] == 25
        assert await value_of(client, "detector_reread_total") == 1
        assert await value_of(client, "detector_unreadable_total") == 0


async def test_the_metrics_say_what_is_served_and_how_it_started(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "process_resident_memory_bytes" in answer.text
    labels = {"model": "fake", "revision": "none", "contract": "none", "engine": "fake"}
    assert await samples_of(client, "detector_info") == [(labels, 1.0)]
    seconds = {
        labels["phase"]: value
        for labels, value in await samples_of(client, "detector_cold_start_seconds")
    }
    assert set(seconds) == {"download", "load", "warm_up", "total"}
    assert all(value >= 0 for value in seconds.values())
