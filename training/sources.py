"""Where rows come from: a folder of JSONL files, the Hub, the user's own file, or a generator.

Every row that a source cannot give is a ``DataError`` that names file, row and column. What the
contract's normalisation refuses is counted later, in ``training.prepare``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contract.labels import Label
from training.errors import DataError
from training.hub_sets import read_hub_rows, to_records
from training.made.generator import make_records
from training.records import Record

if TYPE_CHECKING:
    from training.data_config import SetConfig

FIELDS = ("response", "label", "knowledge", "question", "pair_id", "id", "task")
"""Fields of a record that a column can be mapped to; the first two are needed."""

_NEEDED_FIELDS = FIELDS[:2]

_NO_VALUE = ("nan", "NaN")
"""What a table's missing number becomes where it is written as a text."""


@dataclass(frozen=True, slots=True)
class LoadedSet:
    """One data set.

    Attributes:
        records: In the source's order.
        revision: ``sha256:`` and hex digits of the file or of the made rows, or the commit on the
            Hub.
        origin: The file, the data set on the Hub, or what made the rows.
    """

    records: tuple[Record, ...]
    revision: str
    origin: str


def load_set(config: SetConfig, data_dir: Path, seed: int) -> LoadedSet:
    """Load a data set.

    Args:
        config: Which.
        data_dir: Holds the files of kind ``folder``; other relative paths are from the working
            directory.
        seed: Chooses the pairs where ``max_pairs`` is set, and makes those of kind ``made``.

    Raises:
        DataError: It cannot be read; the message names file, row and column and says what to do.
    """
    if config.kind == "made":
        return _make_rows(config, seed)
    if config.kind == "hub":
        rows = read_hub_rows(config)
        records = (
            to_records(config, rows)
            if not config.columns
            else _map_rows(config, enumerate(rows, 1), str(config.repo))
        )
        loaded = LoadedSet(tuple(records), str(config.revision), f"{config.repo}@{config.revision}")
    else:
        path = (data_dir if config.kind == "folder" else Path()) / str(config.file)
        rows_in_file = _read_file(path, config)
        records = (
            _map_rows(config, rows_in_file, str(path))
            if config.kind == "file"
            else _read_folder_rows(config, path, rows_in_file)
        )
        loaded = LoadedSet(tuple(records), f"sha256:{_digest(path)}", str(path))
    if not loaded.records:
        raise DataError(f"{loaded.origin} holds no rows: check the set {config.name!r}")
    if config.max_pairs is None:
        return loaded
    kept = _choose_pairs(loaded.records, config.max_pairs, seed)
    return LoadedSet(kept, loaded.revision, loaded.origin)


def _make_rows(config: SetConfig, seed: int) -> LoadedSet:
    num_pairs = config.max_pairs or 0
    records = tuple(make_records(config.name, num_pairs, seed))
    # Of the rows and not of seed and version alone: no change of the generator can go unseen.
    text = "\n".join(json.dumps(asdict(record), ensure_ascii=False) for record in records)
    digest = hashlib.sha256(text.encode()).hexdigest()
    origin = f"training.made, {num_pairs} pairs, seed {seed}"
    return LoadedSet(records, f"sha256:{digest}", origin)


def _choose_pairs(records: tuple[Record, ...], max_pairs: int, seed: int) -> tuple[Record, ...]:
    def place(pair_id: str) -> bytes:
        return hashlib.sha256(f"{seed}/{pair_id}".encode()).digest()

    chosen = set(sorted({record.pair_id for record in records}, key=place)[:max_pairs])
    return tuple(record for record in records if record.pair_id in chosen)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_file(path: Path, config: SetConfig) -> list[tuple[int, Mapping[str, Any]]]:
    """Return (number of the row, row); numbers are lines for JSONL, data rows else, from 1."""
    if not path.is_file():
        where = "name its folder with --data-dir" if config.kind == "folder" else "check the path"
        raise DataError(f"{path} of the set {config.name!r} is missing: {where}")
    readers = {".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(
            f"{path} has the ending {path.suffix!r}: it must be .jsonl, .csv or .parquet"
        )
    return list(reader(path))


def _read_jsonl(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8-sig"))
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, line {number}: it is not UTF-8 text: convert it"
                ) from error
            except ValueError as error:
                raise DataError(f"{path}, line {number}: not valid JSON ({error})") from error
            if not isinstance(row, dict):
                raise DataError(f"{path}, line {number}: a row must be a JSON object")
            yield number, row


def _read_csv(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    import csv

    # A document in a cell is longer than the default of 128 KiB.
    csv.field_size_limit(2**31 - 1)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            for number, row in enumerate(reader, 1):
                if None in row or None in row.values():
                    raise DataError(
                        f"{path}, row {number} (line {reader.line_num}): it has not as many cells "
                        "as the head line: put texts with commas or line ends in double quotes"
                    )
                yield number, row
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: it is not UTF-8 text: save it as CSV UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not valid CSV ({error})") from error


def _read_parquet(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a Parquet file that can be read ({error})") from error
    rows = (row for batch in table.to_batches(max_chunksize=1000) for row in batch.to_pylist())
    yield from enumerate(rows, 1)


class _Ids:
    """The ids of a set so far: a second row of the same id would stand for the first."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}

    def add(self, identity: str, place: str) -> None:
        """Take an id.

        Raises:
            DataError: The set holds it already; both places are named.
        """
        first = self._places.setdefault(identity, place)
        if first != place:
            raise DataError(
                f"{place}: the id {identity!r} is that of {first} too: give each row its own, or "
                "map no column to id, and rows are numbered. What rows of one case share is pair_id"
            )


def _read_folder_rows(
    config: SetConfig, path: Path, rows: Iterable[tuple[int, Mapping[str, Any]]]
) -> Iterator[Record]:
    ids = _Ids()
    for number, row in rows:
        record = _from_folder_row(config, path, number, row)
        ids.add(record.id, f"{path}, line {number}")
        yield record


def _from_folder_row(config: SetConfig, path: Path, number: int, row: Mapping[str, Any]) -> Record:
    place = f"{path}, line {number}"
    label = _read_label(row.get("label"), {}, f"{place}, label")
    return Record(
        id=_need_text(row, "id", place),
        pair_id=_need_text(row, "pair_id", place),
        set_name=config.name,
        task=_need_text(row, "task", place),
        knowledge=_read_knowledge(row.get("knowledge"), f"{place}, knowledge"),
        question=_read_optional(row.get("question"), f"{place}, question"),
        response=_need_text(row, "response", place),
        label=label,
    )


def _map_rows(
    config: SetConfig, rows: Iterable[tuple[int, Mapping[str, Any]]], origin: str
) -> Iterator[Record]:
    """Read rows through the user's mapping of columns and labels."""
    columns = config.columns
    unknown = sorted(set(columns) - set(FIELDS))
    if unknown:
        raise DataError(
            f"set {config.name!r}: columns maps {', '.join(unknown)}, which no record has: it can "
            f"map {', '.join(FIELDS)}"
        )
    for field in _NEEDED_FIELDS:
        if field not in columns:
            raise DataError(f"set {config.name!r}: columns must say which column is {field}")
    ids = _Ids()
    for number, row in rows:
        place = f"{origin}, row {number}"
        missing = [column for column in columns.values() if column not in row]
        if missing:
            raise DataError(
                f"{place}: there is no column {missing[0]!r}; it has {', '.join(map(str, row))}"
            )
        record = _map_row(config, row, number, place)
        ids.add(record.id, place)
        yield record


def _map_row(config: SetConfig, row: Mapping[str, Any], number: int, place: str) -> Record:
    columns = config.columns

    def cell(field: str) -> Any:
        value = row[columns[field]] if field in columns else None
        return None if isinstance(value, str) and value.strip() in _NO_VALUE else value

    def spot(field: str) -> str:
        return f"{place}, column {columns.get(field, '-')!r} ({field})"

    label = _read_label(cell("label"), config.labels, spot("label"))
    identity = _read_optional(cell("id"), spot("id")) or f"{config.name}-{number}"
    return Record(
        id=identity,
        pair_id=_read_optional(cell("pair_id"), spot("pair_id")) or identity,
        set_name=config.name,
        task=_read_optional(cell("task"), spot("task")) or config.task,
        knowledge=_read_knowledge(cell("knowledge"), spot("knowledge")),
        question=_read_optional(cell("question"), spot("question")),
        response=_need_text(row, columns["response"], place),
        label=label,
    )


def _read_label(value: Any, mapping: Mapping[str, Label], place: str) -> Label:
    names = [str(value).strip()]
    if isinstance(value, bool):
        # A Boolean column comes as True from Parquet and "true" from JSON and CSV users' habit.
        names.append(str(value).lower())
    elif isinstance(value, float) and value.is_integer():
        # A column of whole numbers with a gap comes as floats.
        names.append(str(int(value)))
    elif isinstance(value, str):
        names.append(names[0].removesuffix(".0"))
    for name in names:
        if name in mapping:
            return mapping[name]
        if not mapping and name in list(Label):
            return Label(name)
    known = ", ".join(map(repr, mapping)) or ", ".join(f"{str(label)!r}" for label in Label)
    raise DataError(
        f"{place}: {names[0][:40]!r} is no label here; known are {known}: add it to the labels of "
        "the set"
    )


def _need_text(row: Mapping[str, Any], column: str, place: str) -> str:
    value = row.get(column)
    if value is None or _is_nan(value):
        raise DataError(f"{place}: {column!r} is missing: every row needs it")
    text = _read_optional(value, f"{place}, column {column!r}")
    return "" if text is None else text


def _read_optional(value: Any, place: str) -> str | None:
    """Return a text, or None for a missing or blank one; a number is read as its digits.

    Tables hold a missing number as NaN, and whole numbers with a gap among them as floats.
    """
    if value is None or _is_nan(value):
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"{place}: it must be a text, and is {type(value).__name__}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    return text if text.strip() else None


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _read_knowledge(value: Any, place: str) -> tuple[str, ...] | None:
    """Return the texts; one text is a list of one, a blank one is none."""
    if isinstance(value, list | tuple):
        texts = [_read_optional(each, place) for each in value]
    else:
        texts = [_read_optional(value, place)]
    kept = tuple(text for text in texts if text is not None)
    return kept or None
