"""The web server around the app: signals, the greeting, the drain, the exit code."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import psutil
import uvicorn

from service.app import create_app
from service.engine.base import Engine
from service.engine.fake import FakeEngine
from service.engine.vllm import VllmEngine
from service.lifecycle import Lifecycle, State
from service.runtime import Runtime
from service.settings import Settings
from service.weights import Weights

EXIT_OK = 0
EXIT_START = 1
EXIT_ENGINE = 3

_GIVE_UP_S = 3.0  # for the last answers, once the time for draining is over

ResolveWeights = Callable[[Settings, Callable[[str], None]], Weights]

logger = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """Leaves the signals to this module: they begin a drain, not an end."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(settings: Settings, device: str, sock: socket.socket) -> NoReturn:
    """Serve on a bound socket until a signal or a failure, then end the process."""
    logger.info("settings: %s", settings.redacted())
    stop = asyncio.Event()
    engine, resolve = _choose_engine(settings, device)
    app = create_app(settings, engine, resolve, on_failure=stop.set)
    runtime: Runtime = app.state.runtime
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            # Bounds its headers, and leaves a body alone that comes with an Upgrade header.
            http="h11",
            ws="none",
            timeout_keep_alive=75,
            timeout_graceful_shutdown=math.ceil(settings.drain_timeout_s + _GIVE_UP_S),
        )
    )
    hurry = asyncio.Event()
    _catch_signals(server, stop, hurry)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    greeting = asyncio.create_task(_greet(sock, runtime.lifecycle))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    greeting.cancel()
    stopping.cancel()
    await _drain(runtime, settings.drain_grace_s, hurry)
    server.should_exit = True
    asyncio.get_running_loop().call_later(settings.drain_timeout_s, _give_up, runtime)
    await serving
    _end(runtime)


def _choose_engine(settings: Settings, device: str) -> tuple[Engine, ResolveWeights]:
    if settings.engine == "fake":
        return FakeEngine(settings), _no_weights
    # Brings the Hub's client with it, which the fake engine has no use for.
    from service.weights import resolve_weights

    return VllmEngine(settings, device), resolve_weights


def _no_weights(settings: Settings, progress: Callable[[str], None]) -> Weights:
    return Weights(Path(), "fake", "none", None)


def _catch_signals(server: _Server, stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """Drain at the first signal, end at once at the second."""

    def on_signal(name: str) -> None:
        if stop.is_set():
            logger.warning("%s again: ending without waiting for accepted items", name)
            server.force_exit = True
            hurry.set()
        else:
            logger.info("%s: ending", name)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal, number.name)


async def _greet(sock: socket.socket, lifecycle: Lifecycle) -> None:
    """Say in plain words when the service is ready and what to try."""
    await lifecycle.loaded.wait()
    host, port = sock.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    model = lifecycle.model
    seconds = lifecycle.cold_start_s["total"]
    logger.info("ready after %.1f s: http://%s:%d (model %s)", seconds, host, port, model.id)
    if model.engine == "fake":
        logger.warning("the engine is fake: its verdicts mean nothing")
    elif not model.trained:
        logger.warning(
            "this model was not trained for the task: its verdicts are close to guessing"
        )
    logger.info(
        "try:\n  curl http://%s:%d/classify -H 'Content-Type: application/json' -d '{"
        '"knowledge": "The pool is 25 metres long.", "question": "How long is the pool?", '
        "\"response\": \"50 metres\"}'\n  or open http://%s:%d/docs",
        host, port, host, port,
    )  # fmt: skip


async def _drain(runtime: Runtime, grace_s: float, hurry: asyncio.Event) -> None:
    """Turn not ready, and go on accepting until load balancers have had time to notice."""
    was_ready = runtime.lifecycle.state is State.READY
    runtime.lifecycle.begin_drain()
    if not was_ready:
        return
    logger.info(
        "draining: not ready from now on, %d accepted items go on",
        runtime.judge.admission.num_in_flight,
    )
    with suppress(TimeoutError):
        await asyncio.wait_for(hurry.wait(), grace_s)


def _give_up(runtime: Runtime) -> None:
    num_left = runtime.judge.admission.num_in_flight
    if num_left:
        logger.warning("the time for draining is over: %d accepted items are given up", num_left)
    runtime.lifecycle.give_up(num_left)


def _end(runtime: Runtime) -> NoReturn:
    """End the process with the right code, and every child that is left.

    At once, because nothing is left to save: a thread may still be building an engine that nobody
    wants any more, and vLLM's finaliser fails when it runs as late as the interpreter's own end.
    """
    lifecycle = runtime.lifecycle
    if lifecycle.state is State.FAILED:
        code = EXIT_ENGINE if lifecycle.loaded.is_set() else EXIT_START
    else:
        code = EXIT_OK
        num_left = lifecycle.num_given_up + runtime.judge.admission.num_in_flight
        if num_left:
            logger.warning("ended: %d accepted items were given up", num_left)
        else:
            logger.info("ended: every accepted item has its answer")
    for child in psutil.Process().children(recursive=True):
        child.kill()
    logging.shutdown()
    os._exit(code)
