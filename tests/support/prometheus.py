"""A real Prometheus process on a free port, with the project's own configuration and rules."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "docker" / "prometheus"
# Where .ci/run unpacks the Debian package: installed, it would start a server of its own.
UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"

_CLOSED_METRICS = """\
    # authorization:
    #   credentials_file: /etc/prometheus/detector-key
"""


def find_program(name: str) -> str:
    """Return ``prometheus`` or ``promtool``; skip the test where there is none."""
    found = shutil.which(name) or shutil.which(name, path=UNPACKED)
    if found is None:
        pytest.skip(
            f"no {name}: install the Debian package prometheus, or unpack it as .ci/run does"
        )
    return found


class Prometheus:
    """A running server and questions to it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self.http = httpx.Client(timeout=10)

    def wait_ready(self) -> None:
        wait_until(self._is_ready, timeout_s=60)

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text(encoding="utf-8")
        for connection in psutil.Process(self._process.pid).net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                self.http.base_url = httpx.URL(f"http://127.0.0.1:{connection.laddr.port}")
                return self.http.get("/-/ready").status_code == httpx.codes.OK
        return False

    def ask(self, path: str, **params: str) -> Any:
        """Return the data of an answer of the API."""
        answer = self.http.get(f"/api/v1/{path}", params=params)
        body = answer.json()
        assert (answer.status_code, body["status"]) == (200, "success"), (params, body)
        return body["data"]

    def values(self, expression: str) -> list[float]:
        """Return the values of an expression now, without those that are no numbers."""
        data = self.ask("query", query=expression)
        assert data["resultType"] == "vector", expression
        values = [float(sample["value"][1]) for sample in data["result"]]
        return [value for value in values if math.isfinite(value)]


@contextmanager
def prometheus(folder: Path, target: str, key: str) -> Iterator[Prometheus]:
    """Scrape a target every second, with a key, and evaluate the project's rules as often.

    Args:
        folder: Empty.
        target: Host and port.
        key: That the service asks for.
    """
    program = find_program("prometheus")
    shutil.copytree(CONFIG / "rules", folder / "rules")
    (folder / "key").write_text(key, encoding="utf-8")
    text = (CONFIG / "prometheus.yml").read_text(encoding="utf-8")
    for old, new in (
        ('"detector:8000"', f'"{target}"'),
        ("_interval: 15s", "_interval: 1s"),
        (_CLOSED_METRICS, f"    authorization:\n      credentials_file: {folder / 'key'}\n"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    (folder / "prometheus.yml").write_text(text, encoding="utf-8")
    log = folder / "prometheus.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        server = Prometheus(process, log)
        try:
            server.wait_ready()
            yield server
        finally:
            server.http.close()
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
