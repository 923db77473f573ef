"""How far a measurement is: a bar on a terminal, else a line every so often; on stderr."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from tqdm import tqdm  # type: ignore[import-untyped]

_LINE_EVERY_S = 10.0


class Progress:
    """Shows how many requests are answered. As a context manager it ends the bar."""

    def __init__(self) -> None:
        """Show nothing before the first report."""
        self._bar: tqdm | None = None
        self._next_line = time.monotonic() + _LINE_EVERY_S

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.close()

    def __call__(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` requests are answered."""
        if sys.stderr.isatty():
            if self._bar is None:
                self._bar = tqdm(total=total, unit="case", file=sys.stderr)
            self._bar.update(done - self._bar.n)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_EVERY_S
            # Where nobody reads it any more, the measurement goes on.
            with suppress(OSError):
                sys.stderr.write(f"{done} of {total} requests answered\n")
