"""Answers in a file as they come, so that an interrupted measurement asks only the rest.

The first line says what the answers are of: service, golden set, passes. Those of anything else are
refused. Each further line is bound to its pass and to what was asked. It holds the verdict, the
probability and the hash of the justification; the justification itself only where a report would
show it, and no text of the case.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evaluation.errors import EvaluationError
from evaluation.json_fields import Fields
from evaluation.kept_lines import KeptLines
from evaluation.noise import Outcome
from evaluation.remote import Answer, GoldRow

FORMAT = 1
"""Of the file; raise it with every change that older code would misread."""

IsTextNeeded = Callable[[str, Outcome], bool]
"""From a case's id and what was said of it to whether its justification is kept."""


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of one row, as far as a measurement needs it.

    Attributes:
        outcome: Verdict, probability, and hash of the justification.
        justification: None where the model gave none, and where it was not kept.
        latency_ms: From the request to the answer.
    """

    outcome: Outcome
    justification: str | None
    latency_ms: float

    @classmethod
    def of(cls, answer: Answer) -> Said:
        """Return what an answer says."""
        given = answer.classification
        text = None if given is None else given.justification
        return cls(Outcome.of(given), text, answer.latency_ms)


@dataclass(frozen=True, slots=True)
class KeptPass:
    """What earlier runs kept of one pass.

    Attributes:
        said: By the row's id.
        seconds: That they took over it, all together.
        num_runs: How many had a part in it.
    """

    said: Mapping[str, Said] = field(default_factory=dict)
    seconds: float = 0.0
    num_runs: int = 0


@dataclass(frozen=True, slots=True)
class _Line:
    run: int
    pass_name: str
    row: str
    seconds: float
    said: Said

    def to_json(self) -> dict[str, Any]:
        said, text = self.said, self.said.justification
        return {
            "run": self.run,
            "pass": self.pass_name,
            "row": self.row,
            "seconds": self.seconds,
            "latency_ms": said.latency_ms,
            **said.outcome.to_json(),
            **({} if text is None else {"justification": text}),
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> _Line:
        fields = Fields(raw)
        text = fields.text("justification") if fields.has("justification") else None
        said = Said(Outcome.from_json(fields), text, fields.number("latency_ms"))
        return cls(
            fields.count("run"), fields.text("pass"), fields.text("row"), fields.number("seconds"),
            said,
        )  # fmt: skip


class KeptAnswers:
    """The answers of one measurement. As a context manager it says, after a stop, how to go on.

    Attributes:
        path: Of the file.
    """

    def __init__(self, path: Path, say: Callable[[str], None], *, is_resumed: bool = False) -> None:
        """Touch nothing yet.

        Args:
            path: Of the file.
            say: Tells the user.
            is_resumed: Go on from what is there; else start anew.
        """
        self.path = path
        self._file = KeptLines(path)
        self._say = say
        self._is_resumed = is_resumed
        self._is_text_needed: IsTextNeeded = _never
        self._lines: list[_Line] = []
        self._run = 1
        self._header: dict[str, Any] | None = None
        self._num = 0

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Say what is kept, where the measurement did not end."""
        if error is not None and self._num:
            self._say(
                f"{self._num} answers are kept in {self.path}: the same command with --resume "
                "asks only for the rest"
            )

    def begin(self, made_from: Mapping[str, Any], is_text_needed: IsTextNeeded | None) -> None:
        """Read what is to be gone on from, or delete it.

        Args:
            made_from: All that an answer depends on besides its pass and row, JSON-ready.
            is_text_needed: Of a case; None where no justification is.

        Raises:
            EvaluationError: What is there is of something else, or cannot be read.
        """
        self._is_text_needed = is_text_needed or _never
        self._header = {"format": FORMAT, **made_from}
        try:
            if not self._is_resumed:
                if self.path.exists():
                    self._say(f"starting anew: the answers in {self.path} are dropped")
                self._file.forget()
                return
            kept = self._file.read()
        except OSError as error:
            raise EvaluationError(f"{self.path} cannot be read ({error.strerror})") from error
        if not kept:
            self._say(f"there is nothing to go on from in {self.path}: starting anew")
            return
        self._check(kept[0])
        self._header = None
        self._lines = list(_read(kept[1:]))
        self._run = 1 + max((line.run for line in self._lines), default=0)
        self._num = len({(line.pass_name, line.row) for line in self._lines})
        self._say(f"{self._num} answers were kept in {self.path}: asking for the rest")

    def find(self, pass_name: str, rows: Sequence[GoldRow]) -> KeptPass:
        """Return what was kept of these rows, in the words that they have now."""
        names = {name_row(row): row.id for row in rows}
        own = [line for line in self._lines if line.pass_name == pass_name and line.row in names]
        return KeptPass(
            said={names[line.row]: line.said for line in own},
            seconds=max((line.seconds for line in own), default=0.0),
            num_runs=len({line.run for line in own}),
        )

    def add(self, pass_name: str, row: GoldRow, said: Said, seconds: float) -> None:
        """Keep what was said of a row.

        Args:
            pass_name: Which pass.
            row: What was asked.
            said: What was answered.
            seconds: Spent on the pass so far, earlier runs included.

        Raises:
            EvaluationError: It cannot be written.
        """
        is_needed = self._is_text_needed(row.id, said.outcome)
        kept = said if is_needed else Said(said.outcome, None, said.latency_ms)
        line = _Line(self._run, pass_name, name_row(row), seconds, kept)
        head = [] if self._header is None else [self._header]
        try:
            self._file.append([*head, line.to_json()])
        except OSError as error:
            raise EvaluationError(f"{self.path} cannot be written ({error.strerror})") from error
        self._header = None
        self._num += 1

    def forget(self) -> None:
        """Delete the file: the measurement is done, or what was kept is worth nothing."""
        self._file.forget()
        self._num = 0

    def _check(self, header: dict[str, Any]) -> None:
        if header.get("format") != FORMAT:
            raise EvaluationError(
                f"{self.path} is no file of kept answers that this code reads: delete it, or leave "
                "out --resume to start anew"
            )
        changes = list(_changes(header, json.loads(json.dumps(self._header))))
        if changes:
            raise EvaluationError(
                f"the answers in {self.path} are of something else: {'; '.join(changes)}. Go on "
                "with what they are of, or leave out --resume to start anew"
            )


def name_row(row: GoldRow) -> str:
    """Return a name of a row that is another one once it is asked in other words.

    It is the SHA-256, in hex, of its id and texts.
    """
    text = json.dumps([row.id, row.knowledge, row.question, row.response])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _never(id: str, outcome: Outcome) -> bool:
    return False


def _read(kept: Sequence[dict[str, Any]]) -> Iterator[_Line]:
    for raw in kept:
        try:
            yield _Line.from_json(raw)
        except ValueError:
            continue


def _changes(old: object, new: object, place: str = "") -> Iterator[str]:
    """Return in what two JSON values differ, in words."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            inner = f"{place}.{name}" if place else name
            yield from _changes(old.get(name), new.get(name), inner)
    elif old != new:
        yield f"{place} was {json.dumps(old)} and is {json.dumps(new)}"
