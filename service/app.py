"""``create_app(settings, engine)``: the web application, without a server around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from service.engine.base import Engine
from service.judge import Judge
from service.lifecycle import Lifecycle
from service.middleware import ApiKeys, RequestMiddleware
from service.openapi import DESCRIPTION, install_openapi
from service.problems import (
    INTERNAL,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    PROBLEM_MEDIA_TYPE,
    problem_body,
)
from service.routes import router
from service.runtime import Runtime
from service.settings import Settings
from service.telemetry import Metrics, make_tracer_provider
from service.weights import Weights

VERSION = "0.1.0"


def create_app(
    settings: Settings,
    engine: Engine,
    resolve_weights: Callable[[Settings, Callable[[str], None]], Weights],
    on_failure: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Return the application; entering its lifespan begins to load the model.

    Args:
        settings: Of the process.
        engine: Not started.
        resolve_weights: From settings to a verified folder of weights; runs in a thread.
        on_failure: Called when the process should end with an error.

    Raises:
        StartError: The API keys cannot be read.
    """
    metrics = Metrics(settings.window_verdicts)
    lifecycle = Lifecycle(settings, engine, metrics, resolve_weights, on_failure)
    judge = Judge(settings, lifecycle, metrics)
    tracing = make_tracer_provider(settings)
    runtime = Runtime(settings, engine, metrics, lifecycle, judge)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        lifecycle.start()
        try:
            yield
        finally:
            await lifecycle.stop()
            if tracing is not None:
                await asyncio.to_thread(tracing.shutdown)

    app = FastAPI(
        title="hallucination-detector",
        version=VERSION,
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.runtime = runtime
    app.include_router(router)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_middleware(
        RequestMiddleware,
        runtime=runtime,
        keys=ApiKeys(settings),
        tracer=tracing.get_tracer("service") if tracing else None,
    )
    install_openapi(app)
    return app


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    """Answer what the router refuses: unknown paths and methods."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    kind, detail = {
        404: (NOT_FOUND, "the paths are listed in /docs"),
        405: (METHOD_NOT_ALLOWED, "the methods are listed in /docs"),
    }.get(status, (INTERNAL, "see the service's log for this request id"))
    return JSONResponse(
        problem_body(kind, detail, request.state.request_id),
        status_code=kind.status,
        media_type=PROBLEM_MEDIA_TYPE,
        headers=headers,
    )
