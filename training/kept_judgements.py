"""Judgements in a file as they are made, so that an interrupted evaluation asks only the rest.

Each line is bound to what was asked: a row that was changed, or other weights, are judged anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from contract.labels import Label
from evaluation.kept_lines import KeptLines
from training.judging import Judgement
from training.records import Record


class KeptJudgements:
    """A file of judgements.

    Attributes:
        path: It, which need not exist yet.
    """

    def __init__(self, path: Path, made_from: str) -> None:
        """Read what is there; lines that were cut off are passed over.

        Args:
            path: Of the file.
            made_from: All that a judgement depends on besides its row.
        """
        self.path = path
        self._file = KeptLines(path)
        self._made_from = made_from
        self._found: dict[str, Judgement] = {}
        for raw in self._file.read():
            try:
                said = Judgement(**{**raw["judgement"], "label": Label(raw["judgement"]["label"])})
                self._found[raw["row"]] = said
            except (ValueError, KeyError, TypeError):
                continue

    def find(self, records: Sequence[Record]) -> list[Judgement] | None:
        """Return what was said of these rows; None where one of them is missing."""
        names = [self._name(record) for record in records]
        if not all(name in self._found for name in names):
            return None
        return [self._found[name] for name in names]

    def add(self, records: Sequence[Record], judgements: Sequence[Judgement]) -> None:
        """Keep what was said of these rows."""
        rows = [
            {"row": self._name(record), "judgement": asdict(judgement)}
            for record, judgement in zip(records, judgements, strict=True)
        ]
        self._file.append(rows, is_synced=True)

    def forget(self) -> None:
        """Delete the file: the report is written."""
        self._file.forget()

    def _name(self, record: Record) -> str:
        text = json.dumps([self._made_from, asdict(record)], sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()
