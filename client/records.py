"""Where the records of a bulk run go: a file that survives being killed, or a stream.

``FILE`` only ever appears whole, one record a line in the order of the input. While a run is under
way its records are appended to ``FILE.partial``, each in one write, as they come. At the end both
are merged into a new ``FILE``, put in place in one step, and ``FILE.partial`` is removed. A later
run reads both, the partial one last: an answer that fits its line is kept, all else is done again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol


class RecordsError(Exception):
    """The output cannot be used; the message says why."""


class Records(Protocol):
    """Takes the records of one run."""

    def begin(self, digests: Mapping[int, str]) -> set[int]:
        """Take the digest of each line, in order; return the lines that are answered already."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep a record."""

    def finish(self) -> None:
        """Every line has its record now."""

    def close(self) -> None:
        """End, finished or not."""


def _encode(record: Mapping[str, Any]) -> bytes:
    # ASCII escapes: a lone surrogate of the input must not stop the output.
    return json.dumps(record).encode("ascii") + b"\n"


class StreamRecords:
    """Writes to a stream, in the order of the input."""

    def __init__(self, stream: BinaryIO) -> None:
        """Take a stream, which stays open."""
        self._stream = stream
        self._order: list[int] = []
        self._waiting: dict[int, bytes] = {}

    def begin(self, digests: Mapping[int, str]) -> set[int]:
        """Nothing is answered before."""
        self._order = list(digests)[::-1]
        return set()

    def add(self, record: Mapping[str, Any]) -> None:
        """Write what is next in order."""
        self._waiting[record["line"]] = _encode(record)
        while self._order and self._order[-1] in self._waiting:
            self._stream.write(self._waiting.pop(self._order.pop()))
        self._stream.flush()

    def finish(self) -> None:
        """All is written."""

    def close(self) -> None:
        """Write what waits for an earlier record that will not come."""
        for line in sorted(self._waiting):
            self._stream.write(self._waiting.pop(line))
        self._stream.flush()


@dataclass(frozen=True, slots=True)
class _Place:
    digest: str
    is_answer: bool
    source: BinaryIO
    start: int
    num_bytes: int


class FileRecords:
    """Writes to ``FILE.partial``, and at the end to ``FILE``."""

    def __init__(self, path: Path) -> None:
        """Open what is there.

        Raises:
            RecordsError: It is not ours, or another run writes to it.
            OSError: It cannot be read or written.
        """
        self._path = path.resolve()
        if self._path.exists() and not self._path.is_file():
            raise RecordsError(f"{path} is not a file: use --out - and redirect")
        self._partial_path = self._path.with_name(self._path.name + ".partial")
        self._digests: Mapping[int, str] = {}
        self._places: dict[int, _Place] = {}
        self._partial = self._partial_path.open("a+b")
        self._sources: list[BinaryIO] = [self._partial]
        self._owns_partial = False
        try:
            try:
                fcntl.flock(self._partial, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RecordsError(f"another run is writing to {self._partial_path}") from None
            self._owns_partial = True
            if self._path.exists():
                self._sources.append(self._path.open("rb"))
                self._index(self._sources[-1], self._path)
            self._cut_last_line()
            self._index(self._partial, self._partial_path)
        except BaseException:
            self.close()
            raise

    def _cut_last_line(self) -> None:
        """Drop what a killed run wrote of a line."""
        self._partial.seek(0)
        whole = 0
        for line in self._partial:
            if line.endswith(b"\n"):
                whole += len(line)
        self._partial.truncate(whole)

    def _index(self, source: BinaryIO, path: Path) -> None:
        source.seek(0)
        start = 0
        for number, text in enumerate(source, 1):
            try:
                record = json.loads(text)
                line, digest, is_answer = record["line"], record["digest"], "result" in record
                is_ours = isinstance(line, int) and (is_answer or "problem" in record)
            except (ValueError, KeyError, TypeError, RecursionError):
                is_ours = False
            if not is_ours:
                raise RecordsError(
                    f"{path}: line {number} is no record of `python -m client`: move the file away"
                )
            self._places[line] = _Place(digest, is_answer, source, start, len(text))
            start += len(text)

    def begin(self, digests: Mapping[int, str]) -> set[int]:
        """Compare with what is there.

        Raises:
            RecordsError: There are answers, and not one fits.
        """
        self._digests = digests
        answers = {line: place for line, place in self._places.items() if place.is_answer}
        fit = {line for line, place in answers.items() if place.digest == digests.get(line)}
        if answers and not fit:
            raise RecordsError(
                f"the answers in {self._path} are to another input, or were given under another "
                "--threshold or --no-justification: choose another --out"
            )
        return fit

    def add(self, record: Mapping[str, Any]) -> None:
        """Append a record."""
        data = _encode(record)
        start = self._partial.seek(0, os.SEEK_END)
        self._partial.write(data)
        self._partial.flush()
        self._places[record["line"]] = _Place(
            record["digest"], "result" in record, self._partial, start, len(data)
        )

    def finish(self) -> None:
        """Merge all into ``FILE``.

        Raises:
            RecordsError: A line has no record, since the input changed under the run.
        """
        merged_path = self._path.with_name(self._path.name + ".merging")
        try:
            with merged_path.open("wb") as merged:
                for line, digest in self._digests.items():
                    merged.write(self._read(line, digest))
                merged.flush()
                os.fsync(merged.fileno())
            os.replace(merged_path, self._path)
        finally:
            merged_path.unlink(missing_ok=True)
        self._partial_path.unlink(missing_ok=True)
        self._owns_partial = False

    def _read(self, line: int, digest: str) -> bytes:
        place = self._places.get(line)
        if place is None or place.digest != digest:
            raise RecordsError(
                f"line {line} of the input changed during the run: run again; what is done is in "
                f"{self._partial_path}"
            )
        place.source.seek(place.start)
        text = place.source.read(place.num_bytes)
        return text if text.endswith(b"\n") else text + b"\n"

    def close(self) -> None:
        """Close the files. A partial one without a record is removed."""
        # Under the lock: it may be another run's afterwards.
        if self._owns_partial and self._partial.seek(0, os.SEEK_END) == 0:
            self._partial_path.unlink(missing_ok=True)
        for source in self._sources:
            source.close()
