"""``metrics.jsonl``: what a stage measured, one JSON object a logged step.

A row is ``{"step": 7, "time_s": 81.2, "reward": 0.53, ...}``: every other name is a number, or null
where the number was not finite. Steps only rise. A killed run leaves at most half a line at the
end, which the next writer cuts off and a reader passes over.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from training.errors import TrainingError

METRICS_NAME = "metrics.jsonl"

Row = dict[str, float | None]
"""``step``, ``time_s`` and the measured names."""

_logger = logging.getLogger(__name__)


class MetricsFile:
    """Appends rows; what is logged again for the last step is merged into its row.

    ``time_s`` counts the seconds that the stage ran, over all its runs: a resumed run counts on
    from the last row that it keeps.
    """

    def __init__(self, path: Path, after_step: int = 0) -> None:
        """Open a file, or make one.

        Args:
            path: The file; its folder is made where it is missing.
            after_step: Step of the checkpoint that training goes on from, 0 for a new run. Rows of
                later steps are cut off: they will be made again.

        Raises:
            TrainingError: The file holds something else, or cannot be written.
        """
        self._path = path
        self._file = _open(path)
        try:
            self._last, self._start = self._cut(after_step)
        except BaseException:
            self._file.close()
            raise
        self._began_s = time.monotonic() - (self._last.get("time_s") or 0.0)

    def _cut(self, after_step: int) -> tuple[Row, int]:
        """Keep the whole rows up to a step; return the last one and where it begins."""
        last: Row = {"step": 0}
        start = end = 0
        lines = self._file.read().splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            row = _parse(line, self._path, number)
            if row is None or (row["step"] or 0) > after_step:
                num_cut = len(lines) - number + 1
                _logger.info("%s: rows after step %d cut off: %d", self._path, after_step, num_cut)
                break
            last, start, end = row, end, end + len(line)
        self._file.truncate(end)
        self._file.seek(end)
        return last, start

    def log(self, step: int, values: Mapping[str, float | None]) -> Row:
        """Write the row of a step, or add to it; return it.

        Args:
            step: Not before the last one.
            values: Name -> number. One that is not finite is kept as None.

        Raises:
            ValueError: The step goes back.
            TrainingError: The file cannot be written; it still ends with a whole row.
        """
        last_step = int(self._last["step"] or 0)
        if step < last_step:
            raise ValueError(f"step {step} after step {last_step}: open the file at a checkpoint")
        is_new = step > last_step or "time_s" not in self._last
        row: Row = {} if is_new else dict(self._last)
        row.update(step=step, time_s=round(time.monotonic() - self._began_s, 3))
        row.update((name, _finite(name, step, value)) for name, value in values.items())
        end = self._file.tell()
        start = end if is_new else self._start
        self._write(start, json.dumps(row, allow_nan=False).encode(), end)
        self._last, self._start = row, start
        return dict(row)

    def _write(self, start: int, data: bytes, end: int) -> None:
        """Put a line in place of what is between two offsets, nothing or the last line."""
        self._file.seek(start)
        old = self._file.read(end - start)
        try:
            # Padded where it is shorter than what it replaces: a kill leaves no rest behind it.
            self._put(start, data.ljust(len(old) - 1) + b"\n")
        except OSError as error:
            try:
                self._put(start, old)  # its room is still there
                self._file.truncate()
            except OSError:
                _logger.warning("%s may end in half a row; the next run cuts it off", self._path)
            raise TrainingError(
                f"{self._path} cannot be written: {error}. Make room, then go on with --resume"
            ) from error

    def _put(self, start: int, data: bytes) -> None:
        self._file.seek(start)
        while data:  # a nearly full disk takes a part, and says so at the next write only
            data = data[self._file.write(data) :]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> MetricsFile:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()


def read_metrics(path: Path) -> list[Row]:
    """Return the rows of a file; half a line at its end is passed over.

    Raises:
        TrainingError: The file is missing or holds something else; the line is named.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise TrainingError(
            f"{path} cannot be read ({error.strerror}): run the stage that writes it first"
        ) from error
    rows = [_parse(line, path, number) for number, line in enumerate(lines, 1)]
    return [row for row in rows if row is not None]


def _open(path: Path) -> FileIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        # Unbuffered, so that a failed write leaves nothing behind to be written at the next one.
        return path.open("r+b", buffering=0)
    except OSError as error:
        raise TrainingError(
            f"{path} cannot be written: {error}. Choose another --runs-dir, or make room"
        ) from error


def _parse(line: bytes, path: Path, number: int) -> Row | None:
    """Return a row, or None for half a line."""
    if not line.endswith(b"\n"):
        return None
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    is_row = isinstance(row, dict) and type(row.get("step")) is int
    if not is_row or not all(value is None or _is_number(value) for value in row.values()):
        raise TrainingError(
            f"{path}, line {number} is no row of metrics: move the file away, or restore it"
        )
    parsed: Row = row
    return parsed


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _finite(name: str, step: int, value: float | None) -> float | None:
    if value is None or math.isfinite(value):
        return value
    _logger.warning("step %d: %s is %s", step, name, value)
    return None
