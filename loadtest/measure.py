"""Measures one contender: start, latency alone and under load, memory of the process tree."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from contract.example import Example
from loadtest.contenders import Contender
from loadtest.contenders import Path as RequestPath
from loadtest.processes import free_port, running
from loadtest.rows import percentile

START_TIMEOUT_S = 600.0
REQUEST_TIMEOUT_S = 600.0
_MEMORY_EVERY_S = 0.5
MIB = 1024**2  # bytes


class ContenderError(Exception):
    """A contender did not start or did not answer; nothing was measured."""


@dataclass(frozen=True, slots=True)
class Level:
    """Requests sent at one level of concurrency.

    Attributes:
        concurrency: Requests open at once (closed loop: each answer makes room for the next).
        path: Of the service.
        examples: One request each.
    """

    concurrency: int
    path: RequestPath
    examples: Sequence[Example]


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """What a level gave. Times in seconds.

    Attributes:
        concurrency: As asked for.
        path: As asked for.
        num_requests: All answered; one failure fails the run.
        requests_per_s: Over the whole level.
        p50_s: Median latency.
        p95_s: 95th percentile of latency.
        num_without_verdict: Answers that say that the model gave no readable verdict.
        mean_output_tokens: Of the others.
        outside_engine_p50_s: Median of latency less the engine's own time; None where the server
            does not tell it.
        latencies_s: Raw, in the order of the answers.
        output_tokens: Of each answer, in the same order; None where it is not told.
    """

    concurrency: int
    path: RequestPath
    num_requests: int
    requests_per_s: float
    p50_s: float
    p95_s: float
    num_without_verdict: int
    mean_output_tokens: float
    outside_engine_p50_s: float | None
    latencies_s: list[float]
    output_tokens: list[int | None]


@dataclass
class ContenderFigures:
    """What a contender gave in one round.

    Attributes:
        name: Of the contender.
        first_verdict_s: From the start of its process to its first answer.
        peak_memory_mib: Of the process tree, proportional set size.
        levels: In the order of the run.
    """

    name: str
    first_verdict_s: float
    peak_memory_mib: float = 0.0
    levels: list[LevelFigures] = field(default_factory=list)


def measure(
    contender: Contender, levels: Sequence[Level], warm_up: Sequence[Example], log: Path
) -> ContenderFigures:
    """Start a contender, ask it everything, stop it.

    Raises:
        ContenderError: It did not start or failed a request; its log says more.
    """
    port = free_port()
    with log.open("wb") as output:
        began = time.perf_counter()
        with (
            running(contender.command(port), contender.environ(os.environ), output) as process,
            _peak_memory(process) as memory,
        ):
            try:
                figures = asyncio.run(_ask_all(contender, port, process, levels, warm_up, began))
            except (httpx.HTTPError, ExceptionGroup) as error:
                raise ContenderError(
                    f"{contender.name} failed a request ({error!r}), see {log}"
                ) from error
        figures.peak_memory_mib = memory[0] / MIB
    return figures


@contextmanager
def _peak_memory(process: subprocess.Popen[bytes]) -> Iterator[list[float]]:
    """Sample the proportional set size of the process tree; yields a list with its peak, bytes."""
    peak = [0.0]
    ended = threading.Event()

    def watch() -> None:
        root = psutil.Process(process.pid)
        while not ended.wait(_MEMORY_EVERY_S):
            total = 0
            try:
                tree = [root, *root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for member in tree:
                try:
                    total += member.memory_full_info().pss
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
            peak[0] = max(peak[0], total)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


async def _ask_all(
    contender: Contender,
    port: int,
    process: subprocess.Popen[bytes],
    levels: Sequence[Level],
    warm_up: Sequence[Example],
    began: float,
) -> ContenderFigures:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", timeout=REQUEST_TIMEOUT_S, limits=limits
    ) as http:
        await _wait_ready(contender, http, process, began)
        await contender.ask(http, warm_up[0], "full")
        figures = ContenderFigures(contender.name, time.perf_counter() - began)
        for example in warm_up[1:]:
            await contender.ask(http, example, "full")
        for level in levels:
            if contender.supports(level.path):
                figures.levels.append(await _run_level(contender, http, level))
    return figures


async def _wait_ready(
    contender: Contender, http: httpx.AsyncClient, process: subprocess.Popen[bytes], began: float
) -> None:
    while time.perf_counter() - began < START_TIMEOUT_S:
        if process.poll() is not None:
            raise ContenderError(f"{contender.name} ended with {process.returncode} at its start")
        try:
            if (await http.get(contender.ready_path)).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.05)
    raise ContenderError(f"{contender.name} was not ready within {START_TIMEOUT_S:.0f} s")


async def _run_level(contender: Contender, http: httpx.AsyncClient, level: Level) -> LevelFigures:
    waiting = iter(level.examples)
    latencies: list[float] = []
    num_tokens: list[int | None] = []
    outside_s: list[float] = []

    async def caller() -> None:
        for example in waiting:
            sent = time.perf_counter()
            answer = await contender.ask(http, example, level.path)
            latencies.append(time.perf_counter() - sent)
            if answer.engine_s is not None:
                outside_s.append(latencies[-1] - answer.engine_s)
            num_tokens.append(answer.num_output_tokens)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(level.concurrency):
            group.create_task(caller())
    elapsed_s = time.perf_counter() - began
    return LevelFigures(
        concurrency=level.concurrency,
        path=level.path,
        num_requests=len(latencies),
        requests_per_s=len(latencies) / elapsed_s,
        p50_s=percentile(latencies, 50),
        p95_s=percentile(latencies, 95),
        num_without_verdict=num_tokens.count(None),
        mean_output_tokens=statistics.fmean(n for n in num_tokens if n is not None),
        outside_engine_p50_s=percentile(outside_s, 50) if outside_s else None,
        latencies_s=latencies,
        output_tokens=num_tokens,
    )
