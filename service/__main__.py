"""``python -m service``: read the settings, set up the process, serve until told to end.

Run ``python -m service --help`` for the settings. Exit codes: 0 after SIGTERM or Ctrl-C and a
drain, 1 for settings or weights that cannot be served, 3 for an engine that died or got stuck.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError
from pydantic_settings import CliApp

from service.errors import StartError
from service.launcher import detect_device, launch
from service.settings import Settings, check_environment
from service.telemetry import configure_logging

EXIT_START = 1

logger = logging.getLogger("service")


def main(arguments: list[str]) -> int:
    """Serve; return the exit code."""
    try:
        check_environment()
        settings = CliApp.run(Settings, cli_args=arguments)
    except (StartError, ValidationError) as error:
        sys.stderr.write(f"cannot start: {_explain(error)}\n")
        return EXIT_START
    configure_logging(settings.log_level, settings.log_json)
    device = "cpu"
    try:
        if settings.engine == "vllm":
            device = detect_device()
            launch(settings, device)
        with _listening_socket(settings) as sock:
            # Imported after the launch: the first of the two runs must be quick.
            from service.server import serve

            asyncio.run(serve(settings, device, sock))
    except StartError as error:
        logger.error("cannot start: %s", error)
        return EXIT_START


def _explain(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'settings'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)
    )


@contextmanager
def _listening_socket(settings: Settings) -> Iterator[socket.socket]:
    """Bind before anything slow happens, so that a taken port is known at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named, not 0: asyncio sends small answers at once only on sockets that say they are TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as error:
        sock.close()
        raise StartError(
            f"cannot listen on {settings.host}:{settings.port} ({error.strerror}): choose another "
            "port, such as `make serve PORT=8001` or --port 8001"
        ) from error
    with sock:
        yield sock


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
