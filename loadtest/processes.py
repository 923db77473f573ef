"""Servers that a measurement starts: a free port, and a process whose children end with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

_STOP_TIMEOUT_S = 60.0


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], environ: Mapping[str, str], output: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a session of its own; end it, and all that is left of it, with the block.

    Args:
        command: Program and arguments.
        environ: All of its environment.
        output: Where its output and its errors go.

    Raises:
        OSError: It cannot be started.
    """
    process = subprocess.Popen(  # noqa: S603
        command,
        env=environ,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
        # Whatever is left of its children would spoil the next figures.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
