"""A JSONL row to an example, and an outcome to the record of its row.

A row is ``{"response": str, "question"?: str, "knowledge"?: str | [str, ...], ...}``. Its record is
``{"line": int, "digest": str, "id"?: any, "row"?: {...}, "result" | "problem": {...}}``: ``id`` and
all other members of the row (in ``row``) are carried over, ``digest`` tells whether the answer
still fits the row, ``result`` is the API's answer and ``problem`` an RFC 9457 problem, the
service's or the client's own (``urn:hallucination-detector:client:...``). Blank lines are no rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

from client.errors import DetectorError, ProblemError
from client.models import Classification
from contract.example import Example

_CLIENT_PREFIX = "urn:hallucination-detector:client:"
_EXAMPLE_FIELDS = ("response", "question", "knowledge")


class RowError(Exception):
    """A line is not a row; the message names the line and never repeats its text."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        line: Its number in the file, from 1.
        digest: Of the line and of the options of the run.
        example: What to judge.
        carried: The members that the record repeats.
    """

    line: int
    digest: str
    example: Example
    carried: Mapping[str, Any]


def read_lines(source: BinaryIO, options: str) -> Iterator[tuple[int, str, bytes]]:
    """Return (number, digest, text) of each line from the beginning that is not blank."""
    source.seek(0)
    for number, line in enumerate(source, 1):
        text = line.strip()
        if text:
            digest = hashlib.sha256(options.encode("ascii") + b"\n" + text).hexdigest()[:32]
            yield number, digest, text


def read_row(line: int, digest: str, text: bytes) -> Row:
    """Read a row.

    Raises:
        RowError: It is not JSON, or a member has the wrong type.
    """
    try:
        value = json.loads(text.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise RowError(f"line {line}: it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        reason = error.msg.partition(":")[0].lower()
        raise RowError(f"line {line}: not valid JSON: {reason}, column {error.colno}") from None
    except (ValueError, RecursionError):
        raise RowError(f"line {line}: it holds a number or a nesting out of bounds") from None
    if not isinstance(value, dict):
        raise RowError(f"line {line}: a row must be a JSON object")
    if not isinstance(value.get("response"), str):
        raise RowError(f"line {line}: response must be a string")
    if not isinstance(value.get("question"), str | None):
        raise RowError(f"line {line}: question must be a string; it can be left out")
    knowledge = value.get("knowledge")
    documents = [knowledge] if isinstance(knowledge, str) else knowledge
    if documents is not None and not (
        isinstance(documents, list) and all(isinstance(text, str) for text in documents)
    ):
        raise RowError(
            f"line {line}: knowledge must be a string or an array of strings; it can be left out"
        )
    example = Example(
        None if documents is None else tuple(documents), value.get("question"), value["response"]
    )
    others = {name: item for name, item in value.items() if name not in _EXAMPLE_FIELDS}
    carried = {"id": others.pop("id")} if "id" in others else {}
    return Row(line, digest, example, {**carried, "row": others} if others else carried)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def record(row: Row, outcome: Classification | DetectorError) -> dict[str, Any]:
    """Return the record of a row."""
    head = {"line": row.line, "digest": row.digest, **row.carried}
    if isinstance(outcome, Classification):
        return {**head, "result": outcome.to_json()}
    if isinstance(outcome, ProblemError):
        return {**head, "problem": dict(outcome.problem)}
    return {**head, "problem": _problem(type(outcome).__name__, outcome)}


def bad_record(line: int, digest: str, error: RowError) -> dict[str, Any]:
    """Return the record of a line that is not a row."""
    return {"line": line, "digest": digest, "problem": _problem("BadRow", error)}


def _problem(name: str, error: Exception) -> dict[str, Any]:
    slug = "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")
    title = slug.replace("-", " ").capitalize()
    return {"type": _CLIENT_PREFIX + slug, "title": title, "detail": str(error)}
