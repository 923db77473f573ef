"""Where the rows of a recipe come from: a data set on the Hub, a file of a folder, or a clone.

A row is one question or text of a public data set with its right and its wrong response. It has one
name, whatever it is read from; ``Sources`` says what the name stands for in each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from contract.labels import Label
from evaluation.errors import GoldenSetError
from evaluation.json_fields import Fields

FIELDS = ("knowledge", "question", "right", "wrong")
"""Texts of a row; a set without questions has no ``question``."""

Row: TypeAlias = Mapping[str, str]
"""Field -> its text, exactly as the source has it."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_PLACE = "{row}"


@dataclass(frozen=True, slots=True)
class HubSource:
    """A data set on the Hugging Face Hub, in which a row's name is its number from 0.

    Attributes:
        repo: Such as ``org/name``.
        revision: Its commit, 40 hex digits.
        config: Of the data set's configurations, the one that the file belongs to.
        split: Of the configuration, the one that the file is the whole of.
        file: A Parquet file in it.
        columns: Field -> column.
    """

    repo: str
    revision: str
    config: str
    split: str
    file: str
    columns: Mapping[str, str]

    @property
    def origin(self) -> str:
        """The source in a message."""
        return f"{self.file} of {self.repo}@{self.revision}"


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A JSON Lines file in the form of docs/data.md: one line for each response.

    Attributes:
        file: Its name in the folder.
        right: Id of the line of the right response, with ``{row}`` for the row's name.
        wrong: The same for the wrong one.
    """

    file: str
    right: str
    wrong: str


@dataclass(frozen=True, slots=True)
class CloneSource:
    """JSON Lines files of a public Git repository, one line for each row.

    Attributes:
        url: What to clone.
        revision: The commit to check out, 40 hex digits.
        files: What a row's name begins with -> the file, from the root of the clone.
        key: Column with the rest of the name.
        columns: Field -> column; a dot leads into an object.
    """

    url: str
    revision: str
    files: Mapping[str, str]
    key: str
    columns: Mapping[str, str]

    @property
    def how_to(self) -> str:
        """What to run to have it."""
        return f"`git clone {self.url} DIR && git -C DIR checkout {self.revision}`"


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a recipe, at least one; None where the rows cannot be had there."""

    hub: HubSource | None
    folder: FolderSource | None
    clone: CloneSource | None


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """The rows that were found.

    Attributes:
        rows: Name -> row; those that the source lacks are not in it.
        origin: Where they were read, for messages.
    """

    rows: Mapping[str, Row]
    origin: str


def parse_sources(fields: Fields) -> Sources:
    """Read the member ``sources`` of a recipe.

    Raises:
        ValueError: A member is missing or wrong, or there is no source.
    """
    found = Sources(
        _parse_hub(fields.fields("hub")) if fields.has("hub") else None,
        _parse_folder(fields.fields("folder")) if fields.has("folder") else None,
        _parse_clone(fields.fields("clone")) if fields.has("clone") else None,
    )
    if found == Sources(None, None, None):
        raise ValueError("sources must name hub, folder or clone")
    return found


def read_rows(sources: Sources, names: Collection[str], data_dir: Path | None) -> LoadedRows:
    """Read the rows of these names.

    Args:
        sources: Of the recipe.
        names: Rows that are wanted.
        data_dir: Folder with the file of ``sources.folder``, or clone of ``sources.clone``; the Hub
            is asked where None.

    Raises:
        GoldenSetError: The source is not there, cannot be read, or is not of its form.
    """
    if data_dir is None:
        if sources.hub is None:
            raise GoldenSetError(f"this recipe names no source on the Hub: {_say_local(sources)}")
        return _read_hub(sources.hub, names)
    folder, clone = sources.folder, sources.clone
    if folder is not None and (data_dir / folder.file).is_file():
        path = data_dir / folder.file
        return LoadedRows(_read_folder(folder, path, names), str(path))
    if clone is not None and all((data_dir / file).is_file() for file in clone.files.values()):
        return LoadedRows(_read_clone(clone, data_dir, names), str(data_dir))
    raise GoldenSetError(f"{data_dir} does not hold this set: {_say_local(sources)}")


def _say_local(sources: Sources) -> str:
    ways = []
    if sources.folder is not None:
        ways.append(f"a folder with {sources.folder.file}")
    if sources.clone is not None:
        ways.append(f"a clone ({sources.clone.how_to})")
    return f"name {' or '.join(ways)} with --data-dir" if ways else "leave --data-dir out"


def _parse_hub(fields: Fields) -> HubSource:
    return HubSource(
        fields.text("repo"),
        _commit(fields),
        fields.text("config"),
        fields.text("split"),
        fields.text("file"),
        _columns(fields),
    )


def _parse_folder(fields: Fields) -> FolderSource:
    for name in ("right", "wrong"):
        if _PLACE not in fields.text(name):
            raise ValueError(f"{fields.place(name)} must hold {_PLACE}")
    return FolderSource(fields.text("file"), fields.text("right"), fields.text("wrong"))


def _parse_clone(fields: Fields) -> CloneSource:
    files = fields.fields("files")
    return CloneSource(
        fields.text("url"),
        _commit(fields),
        {name: files.text(name) for name in files.names},
        fields.text("key"),
        _columns(fields),
    )


def _commit(fields: Fields) -> str:
    revision = fields.text("revision")
    if not _COMMIT.fullmatch(revision):
        raise ValueError(f"{fields.place('revision')} must be a commit, 40 hex digits")
    return revision


def _columns(fields: Fields) -> dict[str, str]:
    columns = fields.fields("columns")
    unknown = sorted(set(columns.names) - set(FIELDS))
    if unknown:
        raise ValueError(f"{fields.place('columns')}: {', '.join(unknown)} is none of a row")
    return {name: columns.text(name) for name in columns.names}


def _read_hub(source: HubSource, names: Collection[str]) -> LoadedRows:
    from httpx import HTTPError
    from huggingface_hub import hf_hub_download

    try:
        path = hf_hub_download(
            source.repo, source.file, repo_type="dataset", revision=source.revision
        )
    except (OSError, ValueError, HTTPError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].split(". ")[0]
        raise GoldenSetError(
            f"{source.origin} cannot be had from the Hub: {reason[:200]}. Check the network, and "
            "HF_ENDPOINT where it is set; or name a folder that holds the set with --data-dir"
        ) from error
    return LoadedRows(_read_parquet(source, Path(path), names), source.origin)


def _read_parquet(source: HubSource, path: Path, names: Collection[str]) -> dict[str, Row]:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise GoldenSetError(
            f"{source.origin}, in {path}, is no Parquet file that can be read ({error}): delete it "
            "and try again"
        ) from error
    absent = sorted(set(source.columns.values()) - set(table.column_names))
    if absent:
        raise GoldenSetError(
            f"{source.origin} has no column {', '.join(absent)}; it has "
            f"{', '.join(table.column_names)}"
        )
    numbers = {name: int(name) for name in names if name.isdecimal()}
    found = {name: number for name, number in numbers.items() if number < table.num_rows}
    cells = table.select(list(source.columns.values())).take(list(found.values())).to_pylist()
    return {
        name: _texts(source.columns, cell, f"{source.origin}, row {name}")
        for name, cell in zip(found, cells, strict=True)
    }


def _read_folder(source: FolderSource, path: Path, names: Collection[str]) -> dict[str, Row]:
    wanted = {
        template.replace(_PLACE, name): (name, field, label)
        for field, template, label in (
            ("right", source.right, Label.CORRECT),
            ("wrong", source.wrong, Label.HALLUCINATION),
        )
        for name in names
    }
    halves: dict[str, dict[str, str]] = {}
    for place, line in _read_lines(path):
        identity = line.get("id")
        if not isinstance(identity, str) or identity not in wanted:
            continue
        name, field, label = wanted[identity]
        if line.get("label") != label:
            raise GoldenSetError(
                f"{place}: {identity} must be {label}, and is {line.get('label')}: this is not "
                "the file that the recipe was made from"
            )
        columns = {each: each for each in ("knowledge", "question")} | {field: "response"}
        halves.setdefault(name, {}).update(_texts(columns, line, place))
    return {name: row for name, row in halves.items() if {"right", "wrong"} <= row.keys()}


def _read_clone(source: CloneSource, folder: Path, names: Collection[str]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for prefix, file in source.files.items():
        for place, line in _read_lines(folder / file):
            name = f"{prefix}{line.get(source.key)}"
            if name in names:
                rows[name] = _texts(source.columns, line, place)
    return rows


def _read_lines(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield (place, object) for each line.

    Raises:
        GoldenSetError: The file cannot be read, or a line is no JSON object.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise GoldenSetError(f"{path}, line {number}: it must be a JSON object")
                yield f"{path}, line {number}", line
    except OSError as error:
        raise GoldenSetError(f"{path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise GoldenSetError(f"{path} is not JSON Lines in UTF-8 ({error})") from error


def _texts(columns: Mapping[str, str], cells: Mapping[str, object], place: str) -> dict[str, str]:
    """Return the texts of a row; a field that is null is left out."""
    texts = {}
    for field, column in columns.items():
        value: object = cells
        for part in column.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, str):
            texts[field] = value
        elif value is not None:
            raise GoldenSetError(f"{place}: {column} must be a text")
    return texts
