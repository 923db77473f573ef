"""A real service process on a free port, for tests of what only a process can show."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).parents[2]


class ServiceProcess:
    """``python -m service`` with flags; its log is kept for the assertions."""

    def __init__(self, *flags: str, log: Path, environ: Mapping[str, str] | None = None) -> None:
        self.log_path = log
        self._log = log.open("wb")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DETECTOR_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service", "--port", "0", *flags],
            cwd=ROOT,
            env={**clean, **(environ or {})},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            # A group of its own, so that a test can signal it as a terminal's Ctrl-C would.
            start_new_session=True,
        )
        self.http = httpx.Client(timeout=60)

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def wait_for_port(self, timeout_s: float = 30) -> str:
        """Wait until the service listens; return its address."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.check_running()
            for connection in psutil.Process(self.process.pid).net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr.ip == "127.0.0.1":
                    self.http.base_url = httpx.URL(f"http://127.0.0.1:{connection.laddr.port}")
                    if self._answers():
                        return str(self.http.base_url)
            time.sleep(0.05)
        raise TimeoutError(f"the service does not listen:\n{self.log}")

    def _answers(self) -> bool:
        try:
            self.http.get("/livez")
        except httpx.TransportError:
            return False
        return True

    def wait_ready(self, timeout_s: float = 300) -> str:
        """Wait until requests are taken; return the address."""
        address = self.wait_for_port(timeout_s)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.check_running()
            if self.http.get("/readyz").status_code == httpx.codes.OK:
                return address
            time.sleep(0.05)
        raise TimeoutError(f"the service is not ready:\n{self.log}")

    def check_running(self) -> None:
        if self.process.poll() is not None:
            raise RuntimeError(f"the service ended with {self.process.returncode}:\n{self.log}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def signal_group(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def engine_pids(self) -> list[int]:
        """Return the processes that compute, below the service's own."""
        return [
            child.pid
            for child in psutil.Process(self.process.pid).children(recursive=True)
            if "EngineCore" in " ".join(child.cmdline()) or "EngineCore" in child.name()
        ]

    def wait(self, timeout_s: float = 60) -> int:
        """Wait for the end; return the exit code."""
        return self.process.wait(timeout_s)

    def stop(self) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._log.close()


@contextmanager
def service_process(
    tmp_path: Path, *flags: str, environ: Mapping[str, str] | None = None
) -> Iterator[ServiceProcess]:
    process = ServiceProcess(*flags, log=tmp_path / "service.log", environ=environ)
    try:
        yield process
    finally:
        process.stop()


def admitted_items(http: httpx.Client) -> float:
    """Return how many items were let in so far: those being judged and those that have an outcome.

    The second kind must count: on a quick machine the first item ends before the last arrives, and
    a test that waits for all of them in flight would wait for ever, or signal too early.
    """
    total = 0.0
    for line in http.get("/metrics").text.splitlines():
        name, _, value = line.rpartition(" ")
        if name == "detector_in_flight_items" or name.startswith("detector_items_total{"):
            total += float(value)
    return total


def metric(http: httpx.Client, sample: str) -> float:
    """Return one sample of ``/metrics``, 0 where it is not there.

    Args:
        http: Of the service.
        sample: With its labels in alphabetical order, as ``/metrics`` writes it.
    """
    for line in http.get("/metrics").text.splitlines():
        name, _, value = line.rpartition(" ")
        if name == sample:
            return float(value)
    return 0.0
