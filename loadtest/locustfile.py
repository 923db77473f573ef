"""The load itself, on Locust, with its web page or without.

    locust -f loadtest/locustfile.py --host http://127.0.0.1:8000
    locust -f loadtest/locustfile.py --host http://127.0.0.1:8000 --headless -u 5 -t 60s

Each Locust user stands for many: it is a source of requests that arrive at random,
``--rate-per-user`` a second on average, whatever the answers take. Together N users are a Poisson
process of N times that rate. ``--loop closed`` makes users that wait for each answer instead; their
latencies hide waiting.

Locust shows latencies from the intended start, rounded, and counts refusals for want of room under
a name of their own. Goals, percentiles of raw rows and exit codes are those of ``python -m
loadtest``, which runs this file with ``--plan``, in a process of its own: Locust replaces parts of
the standard library.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import random
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import gevent
import gevent.pool
from locust import User, constant, events, task
from locust.env import Environment
from locust.exception import StopUser

# Locust is often started by its own command, which knows nothing of the project's folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from client.api_key import read_api_key
from loadtest.arrivals import gaps
from loadtest.checks import Judged, Outcome, judge, judge_silence
from loadtest.plan import Loop, Plan
from loadtest.rows import Row
from loadtest.sender import NoAnswerError, Sender
from loadtest.workload import Request, Workload

logger = logging.getLogger(__name__)

_TIMEOUT_S = 70.0  # of an answer, without a plan
_LEAD_S = 0.2  # between the plan's being read and the first second of its schedule


def _options(environment: Environment) -> argparse.Namespace:
    options: argparse.Namespace | None = environment.parsed_options
    if options is None:
        raise RuntimeError("this file is for Locust's command line")
    return options


class Load:
    """What all users of a run share: connections, workload, rows, and the clock."""

    def __init__(self, environment: Environment, plan: Plan | None) -> None:
        """Take the options.

        Args:
            environment: Of Locust.
            plan: None where users follow the web page or ``-u``.

        Raises:
            ValueError: The host or the API key cannot be used.
        """
        options = _options(environment)
        timeout_s = _TIMEOUT_S if plan is None else plan.timeout_s
        self._sender = Sender(environment.host or "", read_api_key(None), timeout_s)
        self._events = environment.events
        self._rows: IO[str] | None = None
        if options.rows:
            # By lines, so that whatever ends the process leaves whole rows.
            self._rows = open(options.rows, "w", buffering=1, encoding="utf-8")  # noqa: SIM115
        self.workload = Workload(options.seed if plan is None else plan.seed)
        self.indices: Iterator[int] = itertools.count()
        self.under_way = gevent.pool.Group()
        self.began = time.monotonic() + _LEAD_S
        self._run_id = uuid.uuid4().hex[:8]

    def now_s(self) -> float:
        """Return seconds since the load began."""
        return time.monotonic() - self.began

    def wait_until(self, moment_s: float) -> None:
        """Sleep until so many seconds after the load began; not at all where that is past."""
        while (left_s := moment_s - self.now_s()) > 0:
            gevent.sleep(left_s)

    def spawn(self, index: int, request: Request, intended_s: float) -> None:
        """Send a request now, without waiting for its answer."""
        self.under_way.spawn(self.send, index, request, intended_s)

    def send(self, index: int, request: Request, intended_s: float | None = None) -> None:
        """Send a request and note what became of it.

        Args:
            index: Of the request.
            request: What to send.
            intended_s: When it should have been sent; None in a closed loop: now.
        """
        request_id = f"loadtest-{self._run_id}-{index}"
        sent_s = self.now_s()
        status = None
        try:
            answer = self._sender.send(request, request_id)
            done_s = self.now_s()
            status, judged = answer.status, judge(request, request_id, answer)
        except NoAnswerError as error:
            done_s = self.now_s()
            judged = judge_silence(str(error))
        intended_s = sent_s if intended_s is None else intended_s
        self._note(Row(index, request.kind, intended_s, sent_s, done_s, status, judged))

    def _note(self, row: Row) -> None:
        if self._rows is not None:
            self._rows.write(row.to_line())
        judged = row.judged
        self._events.request.fire(  # type: ignore[no-untyped-call]
            request_type="POST",
            name=f"{row.kind} (shed)" if judged.outcome is Outcome.SHED else str(row.kind),
            response_time=1000 * row.latency_s,
            response_length=0,
            exception=_fault(judged),
            context={},
        )

    def close(self) -> None:
        """Close the connections and the file of rows."""
        self._sender.close()
        if self._rows is not None:
            self._rows.close()


def _fault(judged: Judged) -> Exception | None:
    return RuntimeError(judged.reason) if judged.outcome is Outcome.ERROR else None


class DetectorUser(User):
    """A source of requests, open loop or closed."""

    wait_time = constant(0)
    load: Load | None = None
    plan: Plan | None = None
    numbers: Iterator[int] = itertools.count()

    @task
    def make_load(self) -> None:
        """Send requests until stopped, or as the plan says."""
        if self.load is None:
            raise StopUser
        if self.plan is not None:
            _follow(self.plan, self.load, self.environment)
        elif _options(self.environment).loop == Loop.CLOSED:
            _send_one_by_one(self.load)
        else:
            self._send_at_random(self.load)

    def _send_at_random(self, load: Load) -> None:
        options = _options(self.environment)
        rng = random.Random(f"user:{options.seed}:{next(self.numbers)}")  # noqa: S311
        moment_s = load.now_s()
        for gap_s in gaps(options.rate_per_user, rng):
            moment_s += gap_s
            index = next(load.indices)
            request = load.workload.request(index)
            load.wait_until(moment_s)
            load.spawn(index, request, moment_s)


def _follow(plan: Plan, load: Load, environment: Environment) -> None:
    """Run a plan to its end, wait for the last answer, and end Locust."""
    folder = Path(_options(environment).rows).parent
    parent = os.getppid()
    arrivals = plan.arrivals() if plan.loop is Loop.OPEN else []
    load.began = time.monotonic() + _LEAD_S
    _tell(folder, load, len(arrivals), is_complete=False)
    if plan.loop is Loop.OPEN:
        for index, intended_s in enumerate(arrivals):
            # Made while there is time, not when it is due.
            request = load.workload.request(index)
            load.wait_until(intended_s)
            if os.getppid() != parent:
                break  # Nobody waits for the figures any more.
            load.spawn(index, request, intended_s)
        else:
            load.wait_until(plan.duration_s)
    else:
        load.wait_until(0)
        for _ in range(plan.concurrency):
            load.under_way.spawn(_send_one_by_one, load, plan.duration_s)
    load.under_way.join()
    _tell(folder, load, len(arrivals), is_complete=True)
    environment.process_exit_code = 0
    runner = environment.runner
    if runner is not None:
        # Not from here: it ends this very greenlet.
        gevent.spawn(runner.quit)
    gevent.sleep(60)


def _send_one_by_one(load: Load, until_s: float = float("inf")) -> None:
    while load.now_s() < until_s:
        index = next(load.indices)
        load.send(index, load.workload.request(index))


def _tell(folder: Path, load: Load, num_scheduled: int, *, is_complete: bool) -> None:
    """Write what ``loadtest/generator.py`` reads."""
    told = {
        "began_monotonic_s": load.began,
        "num_scheduled": num_scheduled,
        "is_complete": is_complete,
    }
    partial = folder / "generator.json.partial"
    partial.write_text(json.dumps(told) + "\n", encoding="utf-8")
    partial.replace(folder / "generator.json")


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]
def _add_options(parser: Any) -> None:
    parser.add_argument(
        "--loop", choices=[str(loop) for loop in Loop], default=str(Loop.OPEN),
        help="open: requests arrive on their own; closed: each user waits for its answer",
    )  # fmt: skip
    parser.add_argument(
        "--rate-per-user",
        type=float,
        default=1.0,
        help="requests a second of each user (open loop)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of workload and arrivals")
    parser.add_argument(
        "--rows", default="", include_in_web_ui=False, help="file for raw rows (JSONL)"
    )
    parser.add_argument(
        "--plan", default="", include_in_web_ui=False,
        help="file with a whole load, as python -m loadtest writes it; needs --rows",
    )  # fmt: skip


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def _begin(environment: Environment, **_: Any) -> None:
    options = _options(environment)
    DetectorUser.load = None
    try:
        DetectorUser.plan = Plan.read(Path(options.plan)) if options.plan else None
        DetectorUser.load = Load(environment, DetectorUser.plan)
    except (OSError, ValueError) as error:
        logger.error("no load: %s", error)
        if options.headless:
            sys.exit(2)


@events.test_stop.add_listener  # type: ignore[untyped-decorator]
def _end(environment: Environment, **_: Any) -> None:
    load = DetectorUser.load
    if load is not None:
        load.under_way.kill()
        load.close()
