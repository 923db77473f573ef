"""``python -m client``: classify a JSONL file, resumably.

    python -m client --url http://127.0.0.1:8000 rows.jsonl --out verdicts.jsonl

The formats stand in ``client/rows.py``, how a run is resumed in ``client/records.py``. Run the same
command again to go on after a stop, or to try failed rows again.

Exit codes: 0 every row is classified; 1 some rows failed, their records hold the problem; 2 a wrong
argument or file, or the service cannot be reached or refuses the key: what was done is kept; 130
Ctrl-C: what was done is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm  # type: ignore[import-untyped]

from client.async_client import AsyncDetectorClient
from client.bulk import BulkRun, StoppedEarly, Tally
from client.errors import DetectorError
from client.records import FileRecords, Records, RecordsError, StreamRecords

DEFAULT_KEY_ENV = "DETECTOR_API_KEY"
_LINE_EVERY_S = 10.0


class Progress:
    """A bar on a terminal, else a line every so often; on stderr."""

    def __init__(self) -> None:
        """Show nothing before the first report."""
        self._bar: tqdm | None = None
        self._next_line = time.monotonic() + _LINE_EVERY_S

    def __call__(self, tally: Tally) -> None:
        """Show how far the run is."""
        done = tally.kept + tally.answered + tally.failed
        if sys.stderr.isatty():
            if self._bar is None:
                self._bar = tqdm(total=tally.total, initial=done, unit="row", file=sys.stderr)
            self._bar.update(done - self._bar.n)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_EVERY_S
            print(f"{done}/{tally.total} rows, {tally.failed} failed", file=sys.stderr)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.close()


def _number(low: float, high: float) -> "type[float]":
    raise NotImplementedError
