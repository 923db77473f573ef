"""Starts vLLM's engine process by fork instead of spawn: it need not import torch again.

On a CPU vLLM asks for spawn, because its worker processes must get their threads from an
environment set before they start. The engine here computes without a worker, in threads that the
launcher has set, so a fork is safe for it, and halves the time to the first verdict
(docs/performance.md). What a fork copies and the engine must not keep is dropped here: the web
server's sockets, which would stay open for as long as the engine lives, and the way in which
signals reach the event loop. The engine ends when the server's process does.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOK_EVERY_S = 1.0
_NOT_FOR_THE_ENGINE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_is_forking = False


@contextmanager
def forked_engine() -> Iterator[None]:
    """Let vLLM fork inside the block; call after it has made its configuration."""
    global _is_forking
    method = os.environ.get("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
    _is_forking = True
    try:
        yield
    finally:
        _is_forking = False
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = method


def _drop_what_is_the_servers() -> None:
    """Run in the new process, before anything else."""
    if not _is_forking:
        return
    # Else a signal to the engine would be read from the server's event loop.
    signal.set_wakeup_fd(-1)
    # A terminal or a supervisor may signal every process at once, but the engine has to outlive the
    # drain: it ends with the server, or by SIGKILL. vLLM's own handlers come too late to be heard.
    signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_THE_ENGINE)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for entry in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(entry.name)
        if _is_network_socket(descriptor):
            os.close(descriptor)


def _end_with(parent: int) -> None:
    """End this process once the server's is gone, however that ended: vLLM's engine would stay."""
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _is_network_socket(descriptor: int) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        copy = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        return False
    with copy:
        return copy.family in (socket.AF_INET, socket.AF_INET6)


# A hook cannot be taken back: it is made once, and does nothing outside the block above.
os.register_at_fork(after_in_child=_drop_what_is_the_servers)
