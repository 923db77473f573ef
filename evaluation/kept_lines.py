"""JSON objects in a file as they are made, one a line: what an interrupted run has done already.

What a line means, and what it is bound to, is the caller's: ``evaluation/kept_answers.py``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


class KeptLines:
    """A file of JSON objects that only grows.

    Attributes:
        path: It, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        """Touch nothing yet."""
        self.path = path
        self._is_begun = False

    def read(self) -> list[dict[str, Any]]:
        """Return the objects in their order; lines that were cut off are passed over.

        Raises:
            OSError: The file is there and cannot be read.
        """
        try:
            text = self.path.read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            return []
        objects = []
        for line in text.splitlines():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                objects.append(value)
        return objects

    def append(self, rows: Iterable[Mapping[str, Any]], *, is_synced: bool = False) -> None:
        """Add objects, which outlive the process.

        Args:
            rows: JSON-ready.
            is_synced: They outlive a loss of power, too, which costs milliseconds a call.

        Raises:
            OSError: They cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A line of an earlier run may have been cut off.
        begin = "" if self._is_begun else "\n"
        with self.path.open("a", encoding="ascii") as file:
            file.write(begin + "".join(json.dumps(row) + "\n" for row in rows))
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        self._is_begun = True

    def forget(self) -> None:
        """Delete the file: what its lines were for is done.

        Raises:
            OSError: It cannot be deleted.
        """
        self.path.unlink(missing_ok=True)
        self._is_begun = False
