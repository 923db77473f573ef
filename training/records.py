"""The one row that all stages of training read and write, and its JSONL form."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contract.example import Example
from contract.labels import Label
from evaluation.files import write_whole
from training.errors import DataError


@dataclass(frozen=True, slots=True)
class Record:
    """A labelled example.

    Attributes:
        id: Unique in its set.
        pair_id: Shared by all responses to one question or text; splits never cut through it.
        set_name: The data set, such as ``halueval_qa``.
        task: ``qa``, ``summarization``, ``dialogue`` or ``general``.
        knowledge: The texts that the response should rest on; None where there are none.
        question: None where there is none.
        response: The text that was judged.
        label: The gold class.
        treatment: How the row came about: ``raw``, or the treatment that made it.
        justification: What a warm start teaches before the class, where it is known; else it is
            found by rule (``training.evidence``).
    """

    id: str
    pair_id: str
    set_name: str
    task: str
    knowledge: tuple[str, ...] | None
    question: str | None
    response: str
    label: Label
    treatment: str = "raw"
    justification: str | None = None

    @property
    def example(self) -> Example:
        """What the model is asked about."""
        return Example(self.knowledge, self.question, self.response)


def write_records(path: Path, records: Iterable[Record]) -> int:
    """Write one JSON object a line, whole or not at all; return the number of lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(_to_json(record), ensure_ascii=False) + "\n" for record in records]
    write_whole(path, "".join(lines).encode())
    return len(lines)


def read_records(path: Path) -> list[Record]:
    """Read what ``write_records`` wrote.

    Raises:
        DataError: The file is missing, or a line is no record; the line is named.
    """
    try:
        text = path.read_text(encoding="utf-8").removesuffix("\n")
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing: run `python -m training prepare` first") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text ({error}): delete it and run `python -m training prepare` "
            "again"
        ) from error
    # Not splitlines(): a text may hold line ends of Unicode that JSON leaves as they are.
    lines = text.split("\n") if text else []
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(_from_json(json.loads(line)))
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"{path}, line {number} is not a record ({error}): delete the file and run "
                "`python -m training prepare` again"
            ) from error
    return records


def _to_json(record: Record) -> dict[str, Any]:
    raw = asdict(record)
    if record.justification is None:
        del raw["justification"]
    return raw


def _from_json(raw: dict[str, Any]) -> Record:
    knowledge = raw["knowledge"]
    return Record(
        **{
            **raw,
            "knowledge": None if knowledge is None else tuple(knowledge),
            "label": Label(raw["label"]),
        }
    )
