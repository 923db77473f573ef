"""The way to the first verdict, split by phase and repeated.

From the start of a process, or from the first request to a service that scales to zero. A phase
ends when it is seen to end: the service is asked about every 20 ms. "Cold" means that the service's
cache folder was empty; the system's own cache of files is not touched.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from subprocess import Popen

import httpx

from client import DetectorError
from client.wire import http_options
from evaluation.identity import ServiceIdentity
from evaluation.json_fields import Fields
from loadtest.checks import Answer, Outcome, judge
from loadtest.errors import LoadTestError
from loadtest.processes import running
from loadtest.run import USER_AGENT, Target
from loadtest.workload import Kind, Workload

_EVERY_S = 0.02
_CACHE_ENV = "DETECTOR_CACHE_DIR"
_MARKER = "emptied-by-loadtest"
_LOADING = re.compile(r"loading, (\w+):")

UP, GATEWAY, FIRST_VERDICT = "process up", "gateway", "first verdict"


class Caches(StrEnum):
    """What a start found.

    Attributes:
        COLD: An empty cache folder, or a service that had scaled to zero.
        WARM: The cache folder as the start before left it, or as it was.
    """

    COLD = "cold"
    WARM = "warm"


@dataclass(frozen=True, slots=True)
class Start:
    """One start. Seconds.

    Attributes:
        caches: What it found.
        phases: As seen from outside, in their order: until the port answers, the phases that
            ``/readyz`` reports, and from ready to the first verdict.
        reported: What the service says of its start in ``/info``.
        service: What it says that it is.
    """

    caches: Caches
    phases: Mapping[str, float]
    reported: Mapping[str, float]
    service: ServiceIdentity

    @property
    def total_s(self) -> float:
        """From the start to the first verdict."""
        return sum(self.phases.values())


@dataclass
class _Clock:
    """Adds up the time of each phase."""

    phase: str
    at_s: float = field(default_factory=time.monotonic)
    phases: dict[str, float] = field(default_factory=dict)

    def enter(self, phase: str) -> None:
        now_s = time.monotonic()
        self.phases[self.phase] = self.phases.get(self.phase, 0.0) + now_s - self.at_s
        self.phase, self.at_s = phase, now_s


def name_starts(starts: Sequence[Start]) -> list[str]:
    """Return a name for each start: its kind, and its number among them."""
    counted: Counter[Caches] = Counter()
    names = []
    for start in starts:
        counted[start.caches] += 1
        names.append(f"{start.caches} {counted[start.caches]}")
    return names


def median_starts(starts: Sequence[Start]) -> dict[str, float]:
    """Return the median seconds to the first verdict, as the goals name them."""
    found = {}
    for caches in Caches:
        totals = [start.total_s for start in starts if start.caches is caches]
        if totals:
            found[f"{caches}_start"] = statistics.median(totals)
    return found


def measure_starts(
    target: Target,
    command: str,
    *,
    repeats: int,
    cache_dir: Path | None,
    timeout_s: float,
    folder: Path,
    say: Callable[[str], None],
) -> list[Start]:
    """Start a service again and again, and wait for its first verdict.

    Args:
        target: Where it will listen.
        command: That starts it; ``{port}`` becomes the port of the address, ``{cache_dir}`` the
            folder. It is split as a shell would, and run without one.
        repeats: Starts of each kind.
        cache_dir: Emptied before each cold start, and given to the service as
            ``DETECTOR_CACHE_DIR``; None: only starts with the caches as they are.
        timeout_s: For one start.
        folder: For the logs.
        say: Told of each start.

    Raises:
        LoadTestError: A start failed, or the folder is not to be emptied.
    """
    kinds = [Caches.WARM] if cache_dir is None else [Caches.COLD, Caches.WARM]
    starts = []
    for caches in kinds:
        for number in range(1, repeats + 1):
            if caches is Caches.COLD and cache_dir is not None:
                empty_folder(cache_dir)
            log = folder / f"{caches}-start-{number}.log"
            start = _measure_start(target, command, caches, cache_dir, timeout_s, log)
            say(f"{caches} start {number} of {repeats}: {start.total_s:.2f} s to the first verdict")
            starts.append(start)
    return starts


def measure_wake_ups(
    target: Target, *, repeats: int, idle_s: float, timeout_s: float, say: Callable[[str], None]
) -> list[Start]:
    """Send the first request to a service that has scaled to zero, and wait for its first verdict.

    Args:
        target: The service.
        repeats: How often.
        idle_s: To wait before each but the first one, so that it scales to zero.
        timeout_s: For one start.
        say: Told of each start.

    Raises:
        LoadTestError: It did not come up, or was up before.
    """
    starts = []
    for number in range(1, repeats + 1):
        if number > 1:
            time.sleep(idle_s)
        clock = _Clock(GATEWAY)
        # A platform may hold the first request until the service is up.
        with _http(target, timeout_s) as http:
            began_s = clock.at_s
            was_down = _follow_up(http, target, clock, began_s + timeout_s, None)
            start = _describe_start(target, Caches.COLD, clock)
            if not was_down and not _is_younger(http, time.monotonic() - began_s):
                raise LoadTestError(
                    f"{target.url} was up before the first request: let it scale to zero first "
                    "(--idle is the time that this takes between repeats)"
                )
        say(f"start {number} of {repeats}: {start.total_s:.2f} s to the first verdict")
        starts.append(start)
    return starts


def empty_folder(folder: Path) -> None:
    """Empty a cache folder, and make it where it is not there.

    Raises:
        LoadTestError: It holds something and was not made for this: nothing is deleted then.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / _MARKER).exists():
            raise LoadTestError(
                f"{folder} is not empty and was not made by a load test, so it is not emptied: "
                "name a new folder with --cache-dir"
            )
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        (folder / _MARKER).touch()
    except OSError as error:
        raise LoadTestError(f"{folder} cannot be emptied ({error})") from error


def _measure_start(
    target: Target,
    command: str,
    caches: Caches,
    cache_dir: Path | None,
    timeout_s: float,
    log: Path,
) -> Start:
    port = str(httpx.URL(target.url).port or 80)
    words = [
        word.replace("{port}", port).replace("{cache_dir}", str(cache_dir or ""))
        for word in shlex.split(command)
    ]
    environ = dict(os.environ)
    if cache_dir is not None:
        environ[_CACHE_ENV] = str(cache_dir.resolve())
    with _http(target, timeout_s) as http:
        if _answers(http):
            raise LoadTestError(f"something answers at {target.url} already: stop it first")
        with log.open("wb") as output:
            clock = _Clock(UP)
            try:
                with running(words, environ, output) as process:
                    _follow_up(http, target, clock, clock.at_s + timeout_s, process)
                    return _describe_start(target, caches, clock)
            except OSError as error:
                raise LoadTestError(f"{words[0]!r} cannot be started ({error})") from error
            except LoadTestError as error:
                raise LoadTestError(f"{error} (its log is {log})") from error


def _follow_up(
    http: httpx.Client,
    target: Target,
    clock: _Clock,
    deadline_s: float,
    process: Popen[bytes] | None,
) -> bool:
    """Follow a service from nothing to its first verdict; return whether it was seen not ready."""
    was_down = False
    while (phase := _ask_ready(http, clock.phase)) is not None:
        was_down = True
        if phase != clock.phase:
            clock.enter(phase)
        if process is not None and process.poll() is not None:
            raise LoadTestError(f"the service ended with exit code {process.returncode}")
        if time.monotonic() > deadline_s:
            raise LoadTestError(f"{target.url} was not ready in time (its last phase: {phase})")
        time.sleep(_EVERY_S)
    clock.enter(FIRST_VERDICT)
    _ask_verdict(http)
    clock.enter("done")
    return was_down


def _ask_ready(http: httpx.Client, phase: str) -> str | None:
    """Return the phase that a service is in; None once it is ready.

    Raises:
        LoadTestError: Waiting will not help.
    """
    try:
        answer = http.get("readyz")
    except httpx.TransportError:
        return phase
    if answer.status_code == httpx.codes.OK:
        return None
    if answer.status_code in (401, 403, 404):
        raise LoadTestError(
            f"/readyz was answered with {answer.status_code}: check --url and the API key"
        )
    found = _LOADING.search(answer.text)
    return found[1] if found else phase


def _ask_verdict(http: httpx.Client) -> None:
    workload = Workload(0, {Kind.SHORT_QA: 1.0})
    request = workload.request(0)
    headers = {"Content-Type": request.content_type, "X-Request-ID": "loadtest-start"}
    try:
        answer = http.post(request.path, content=request.body, headers=headers)
    except httpx.TransportError as error:
        raise LoadTestError(f"the first verdict did not come ({type(error).__name__})") from error
    judged = judge(
        request, "loadtest-start", Answer(answer.status_code, answer.headers, answer.content)
    )
    if judged.outcome is not Outcome.OK:
        raise LoadTestError(f"the first answer is no verdict: {judged.reason}")


def _describe_start(target: Target, caches: Caches, clock: _Clock) -> Start:
    try:
        with target.client() as client:
            info = Fields(client.info())
        reported = info.fields("cold_start_s")
        seconds = {phase: reported.number(phase) for phase in reported.names}
        return Start(caches, dict(clock.phases), seconds, ServiceIdentity.from_json(info))
    except (DetectorError, ValueError) as error:
        raise LoadTestError(f"the service does not say what it serves: {error}") from error


def _is_younger(http: httpx.Client, elapsed_s: float) -> bool:
    """Return whether the service's process began after the first request, by its own clock."""
    try:
        answer = http.get("metrics")
        now = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (httpx.HTTPError, KeyError, ValueError):
        return False
    found = re.search(r"(?m)^process_start_time_seconds (\S+)$", answer.text)
    # A date has whole seconds.
    return found is not None and now - float(found[1]) <= elapsed_s + 1


def _answers(http: httpx.Client) -> bool:
    try:
        http.get("livez", timeout=1.0)
    except httpx.TransportError:
        return False
    return True


def _http(target: Target, timeout_s: float) -> httpx.Client:
    try:
        options = http_options(target.url, target.api_key, USER_AGENT)
    except ValueError as error:
        raise LoadTestError(f"--url or the API key cannot be used: {error}") from error
    return httpx.Client(timeout=timeout_s, **options)
