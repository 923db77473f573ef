"""The handlers: read, check, judge, answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from prometheus_client import REGISTRY, generate_latest
from pydantic import BaseModel, ConfigDict, Field

from contract.manifest import CONTRACT_VERSION, fingerprint
from service import openapi
from service.batch import Batch
from service.body import read_json, validate
from service.errors import (
    BodyTooLargeError,
    ClientGoneError,
    DeadlineError,
    Fault,
    NotReadyError,
)
from service.hardware import count_cores, find_processor
from service.lifecycle import State
from service.runtime import Runtime
from service.schemas import (
    ClassifyRequest,
    ClassifyResponse,
    Hardware,
    Info,
    Liveness,
    Readiness,
    ReferenceInfo,
    WindowInfo,
)
from service.settings import Settings

ResultT = TypeVar("ResultT")

router = APIRouter()


class _BatchShell(BaseModel):
    """A batch whose items are not looked at yet: a bad one must not spoil the others."""

    model_config = ConfigDict(extra="forbid", strict=True)

    items: list[Any] = Field(min_length=1)


@router.post("/classify", **openapi.CLASSIFY)
async def classify(request: Request) -> Response:
    """Judge one response."""
    runtime = _runtime(request)
    body = await _read(request)
    item = validate(ClassifyRequest, body)
    runtime.judge.count(request.state.caller)
    answer = await run_guarded(request, runtime.judge.judge(item, request.state.request_id))
    request.state.log = _log_fields(answer)
    timings = answer.timings_ms
    phases = {"queue": timings.queue, "inference": timings.inference, "total": timings.total}
    server_timing = ", ".join(f"{name};dur={ms}" for name, ms in phases.items())
    return _json(answer, headers={"Server-Timing": server_timing})


@router.post("/classify/batch", **openapi.BATCH)
async def classify_batch(request: Request) -> Response:
    """Judge several responses. The answers come in the order of the items."""
    runtime = _runtime(request)
    items = validate(_BatchShell, await _read(request)).items
    limit = runtime.settings.max_batch_items
    if len(items) > limit:
        raise BodyTooLargeError(
            [Fault("items", f"has {len(items)} items, the limit is {limit}: send several batches")]
        )
    runtime.lifecycle.require_detector()
    batch = Batch(runtime, request.state.caller, request.state.request_id)
    results = await run_guarded(request, batch.judge(items))
    num_problems = sum("problem" in result for result in results)
    request.state.log = {"items": len(items), "problems": num_problems}
    return _json({"results": results, "request_id": request.state.request_id})


@router.get("/livez", **openapi.LIVEZ)
async def livez(request: Request) -> Response:
    """Whether the process should go on: 503 once the engine is dead or stuck."""
    lifecycle = _runtime(request).lifecycle
    if lifecycle.state is State.FAILED:
        raise lifecycle.why_given_up()
    return _json(Liveness(status="live"))


@router.get("/readyz", **openapi.READYZ)
async def readyz(request: Request) -> Response:
    """Whether requests are welcome: 503 with the progress while loading, and while draining."""
    _runtime(request).lifecycle.require_ready()
    return _json(Readiness(status="ready"))


@router.get("/metrics", **openapi.METRICS)
async def metrics(request: Request) -> Response:
    """The service's metrics and the engine's, in Prometheus' text format."""
    runtime = _runtime(request)
    load = runtime.engine.load
    runtime.metrics.engine_running.set(load.num_running)
    runtime.metrics.engine_waiting.set(load.num_waiting)
    weights = runtime.lifecycle.weights
    manifest = weights.manifest if weights else None
    runtime.metrics.window.compare_with(
        manifest.reference if manifest else None, runtime.settings.window_min_verdicts
    )
    text = generate_latest(runtime.metrics.registry) + generate_latest(REGISTRY)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/info", **openapi.INFO)
async def info(request: Request) -> Response:
    """What is served, and within which limits."""
    runtime = _runtime(request)
    detector = runtime.lifecycle.require_detector()
    engine = runtime.engine.info
    weights = runtime.lifecycle.weights
    if weights is None:
        raise NotReadyError("the service is starting", 5)
    manifest = weights.manifest
    return _json(
        Info(
            model=runtime.lifecycle.model,
            base_model=manifest.base_model if manifest else None,
            weights_sha256=manifest.weights_sha256 if manifest else None,
            contract_version=CONTRACT_VERSION,
            contract=fingerprint(),
            calibration={
                "temperature": detector.calibration.temperature,
                "threshold": detector.calibration.threshold,
            },
            label_token_ids={str(k): v for k, v in runtime.engine.label_token_ids.items()},
            golden_metrics=dict(manifest.golden_metrics) if manifest else {},
            reference=(
                ReferenceInfo.of(manifest.reference) if manifest and manifest.reference else None
            ),
            window=_window(runtime),
            engine={
                "name": engine.name,
                "version": engine.version,
                "device": engine.device,
                "dtype": engine.dtype,
            },
            hardware=Hardware(
                processor=find_processor(),
                num_cores=count_cores(),
                accelerator=engine.accelerator,
            ),
            limits=_limits(runtime.settings, detector.limit_tokens),
            cold_start_s={
                phase: round(seconds, 3)
                for phase, seconds in runtime.lifecycle.cold_start_s.items()
            },
        )
    )


def _limits(settings: Settings, input_tokens: int) -> dict[str, int | float | None]:
    return {
        "input_tokens": input_tokens,
        "output_tokens": settings.max_output_tokens,
        "body_bytes": settings.max_body_bytes,
        "json_depth": settings.max_json_depth,
        "batch_items": settings.max_batch_items,
        "in_flight_items": settings.max_in_flight,
        "queued_tokens": settings.max_queued_tokens,
        "items_per_minute": settings.rate_limit_per_minute,
        "request_timeout_s": settings.request_timeout_s,
    }


def _window(runtime: Runtime) -> WindowInfo:
    window = runtime.metrics.window
    return WindowInfo(
        max_verdicts=window.max_verdicts,
        min_verdicts=min(runtime.settings.window_min_verdicts, window.max_verdicts),
        verdicts={str(path): len(each) for path, each in window.windows.items()},
    )


async def run_guarded(request: Request, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Await the work, but stop it when the client leaves or the verdict will not come any more.

    A client that leaves frees its slot at once; one that waits for an engine that is stuck hears of
    it at once.

    Raises:
        ClientGoneError: The client left first.
        EngineDeadError: The engine failed first.
        NotReadyError: The time for draining was over first.
    """
    lifecycle = _runtime(request).lifecycle
    job = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(request))
    given_up = asyncio.create_task(lifecycle.gave_up.wait())
    tasks = (job, gone, given_up)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            return job.result()
        if given_up.done():
            raise lifecycle.why_given_up()
        raise ClientGoneError("the client closed the connection")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    # Safe only because the body has been read whole: what comes now is the end.
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read(request: Request) -> Any:
    settings = _runtime(request).settings
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            return await read_json(request, settings.max_body_bytes, settings.max_json_depth)
    except TimeoutError as error:
        raise DeadlineError(
            f"the body did not arrive within {settings.body_timeout_s:g} s"
        ) from error


def _runtime(request: Request) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    return runtime


def _log_fields(answer: ClassifyResponse) -> dict[str, Any]:
    return {
        "class": str(answer.label),
        "input_tokens": answer.usage.input_tokens,
        "output_tokens": answer.usage.output_tokens,
        "queue_ms": answer.timings_ms.queue,
        "inference_ms": answer.timings_ms.inference,
    }


def _json(answer: BaseModel | dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    text = answer.model_dump_json() if isinstance(answer, BaseModel) else json.dumps(answer)
    return Response(text, media_type="application/json", headers=headers)
