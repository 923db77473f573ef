"""Runs the load in a process of its own (``loadtest/locustfile.py``) and returns its raw rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from client.api_key import DEFAULT_KEY_ENV
from loadtest.errors import LoadTestError
from loadtest.plan import Plan
from loadtest.rows import Row, read_rows

ROWS_FILE = "requests.jsonl"
PLAN_FILE = "plan.json"
LOG_FILE = "generator.log"
TOLD_FILE = "generator.json"

_LOCUSTFILE = Path(__file__).with_name("locustfile.py")
_START_S = 60.0  # for Locust to start and to end
_STOP_S = 10.0
_SAY_EVERY_S = 15.0


@dataclass(frozen=True, slots=True)
class Generated:
    """What a load gave.

    Attributes:
        rows: Of all requests that were sent, in the order of their intended starts.
        num_scheduled: Requests that the schedule had; 0 in a closed loop, which has none.
        began_monotonic_s: What their times count from, on the system's monotonic clock.
    """

    rows: list[Row]
    num_scheduled: int
    began_monotonic_s: float


def generate(
    plan: Plan, url: str, api_key: str | None, folder: Path, say: Callable[[str], None]
) -> Generated:
    """Run a load to its end.

    Args:
        plan: Of the load.
        url: Of the service.
        api_key: None for none. It travels in the environment, never on a command line.
        folder: For plan, raw rows and log; it must be there. On Ctrl-C the rows stay.
        say: Told every so often how far the load is.

    Raises:
        LoadTestError: The generator did not start, or did not come to its end.
    """
    folder = folder.resolve()
    for name in (ROWS_FILE, TOLD_FILE):
        (folder / name).unlink(missing_ok=True)
    plan.write(folder / PLAN_FILE)
    log = folder / LOG_FILE
    with log.open("wb") as output, _child(url, folder, api_key, output) as child:
        code = _wait(child, plan, log, say)
    return _read(folder, code, log)


def _wait(child: subprocess.Popen[bytes], plan: Plan, log: Path, say: Callable[[str], None]) -> int:
    began_s = time.monotonic()
    while (spent_s := time.monotonic() - began_s) < plan.duration_s + plan.timeout_s + _START_S:
        try:
            return child.wait(_SAY_EVERY_S)
        except subprocess.TimeoutExpired:
            say(f"{spent_s + _SAY_EVERY_S:.0f} of about {plan.duration_s:.0f} s")
    raise LoadTestError(f"the generator did not end in time, see {log}")


def _command(url: str, folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "locust", "-f", str(_LOCUSTFILE), "--headless", "--only-summary",
        "--host", url, "-u", "1", "-r", "1", "--loglevel", "WARNING",
        "--plan", str(folder / PLAN_FILE), "--rows", str(folder / ROWS_FILE),
    ]  # fmt: skip


@contextmanager
def _child(
    url: str, folder: Path, api_key: str | None, output: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("LOCUST_")}
    environ.pop(DEFAULT_KEY_ENV, None)
    if api_key is not None:
        environ[DEFAULT_KEY_ENV] = api_key
    # A session of its own: Ctrl-C is for this process, which then ends the child. In the folder no
    # locust.conf of the user's changes the load.
    child = subprocess.Popen(  # noqa: S603
        _command(url, folder), cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _read(folder: Path, code: int, log: Path) -> Generated:
    try:
        told = json.loads((folder / TOLD_FILE).read_text(encoding="utf-8"))
        if code != 0 or not told["is_complete"]:
            raise LoadTestError(f"the generator broke off (exit code {code}), see {log}")
        return Generated(
            read_rows(folder / ROWS_FILE), int(told["num_scheduled"]), told["began_monotonic_s"]
        )
    except (OSError, ValueError, KeyError) as error:
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [""]
        remedy = ""
        if "No module named" in said[-1]:
            remedy = ": install what it needs with `python3.11 requirements/install.py --loadtest`"
        raise LoadTestError(
            f"the generator did not start (exit code {code}, {said[-1]!r}), see {log}{remedy}"
        ) from error
