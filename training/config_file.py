"""Reads a TOML file and ``--set`` into a ``RunConfig``, and says all that is wrong at once."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from training.config import RunConfig
from training.errors import ConfigError


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a TOML file.

    Args:
        path: The file.
        overrides: ``a.b=c`` each, later ones win; ``c`` is a TOML value, or else a string. A set
            is named by its name or its number: ``data.sets.halueval_qa.max_pairs=100``.

    Raises:
        ConfigError: Names the file, every key at fault, and what to do.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no {path}: training/configs/ has ready ones") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}") from error
    keys = {_override(raw, override) for override in overrides}
    try:
        # As JSON and strict: a list is a tuple there, and neither "8" nor true is a number.
        return RunConfig.model_validate_json(json.dumps(raw, default=str), strict=True)
    except ValidationError as error:
        found = error.errors()
        # Of a list whose items are at fault, pydantic says too that it is short of items.
        outer = {fault["loc"][:depth] for fault in found for depth in range(len(fault["loc"]))}
        faults = [_describe(fault, raw, keys) for fault in found if fault["loc"] not in outer]
        text = "".join(f"\n  {fault}" for fault in faults)
        raise ConfigError(f"{path} is not a valid configuration:{text}") from error


def _override(raw: dict[str, Any], override: str) -> str:
    """Put one ``a.b=c`` into the raw configuration; return its key, with numbers for sets."""
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"--set {override!r} is not KEY=VALUE, such as rl.max_steps=100")
    here: Any = raw
    place: list[str] = []
    for part in parts[:-1]:
        if isinstance(here, dict):
            here = here.setdefault(part, {})
        elif isinstance(here, list):
            part = str(_find_set(here, part, key))
            here = here[int(part)]
        place.append(part)
    if not isinstance(here, dict):
        raise ConfigError(f"--set {key}: {'.'.join(place)} is a value or a list, not a section")
    here[parts[-1]] = _read_value(text.strip())
    return ".".join([*place, parts[-1]])


def _find_set(sets: Sequence[Any], part: str, key: str) -> int:
    names = [each.get("name") if isinstance(each, dict) else None for each in sets]
    if part in names:
        return names.index(part)
    if part.isdecimal() and int(part) < len(sets):
        return int(part)
    known = ", ".join(str(name) for name in names if name is not None)
    raise ConfigError(f"--set {key}: there is no set {part!r}, only {known}")


def _read_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _describe(fault: ErrorDetails, raw: Mapping[str, Any], keys: set[str]) -> str:
    location = fault["loc"]
    plain = ".".join(str(part) for part in location)
    is_from_override = any(
        f"{plain}.".startswith(f"{key}.") or f"{key}.".startswith(f"{plain}.") for key in keys
    )
    origin = " (from --set)" if is_from_override else ""
    name = _name(location, raw) or "the file as a whole"
    return f"{name}{origin}: {_explain(fault)}"


def _name(location: Sequence[int | str], raw: Mapping[str, Any]) -> str:
    """Return ``data.sets.halueval_qa.file`` for ``("data", "sets", 0, "file")``."""
    here: Any = raw
    parts = []
    for part in location:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            here = None
        name = here.get("name") if isinstance(part, int) and isinstance(here, dict) else None
        parts.append(str(part if name is None else name))
    return ".".join(parts)


def _explain(fault: ErrorDetails) -> str:
    if fault["type"] == "missing":
        return "is missing and has no default"
    if fault["type"] == "extra_forbidden":
        *path, unknown = fault["loc"]
        known = _fields(path)
        near = difflib.get_close_matches(str(unknown), known, n=1)
        return f"is unknown; {f'did you mean {near[0]}?' if near else 'known: ' + ', '.join(known)}"
    message = re.sub(r"^Value error, ", "", fault["msg"])
    if fault["type"] == "value_error":
        return message
    return f"{message[:1].lower()}{message[1:]}, and not {fault['input']!r}"


def _fields(path: Sequence[int | str]) -> list[str]:
    """Return the keys that are known in the section at ``path``."""
    section: type[BaseModel] = RunConfig
    for part in path:
        if isinstance(part, int):
            continue
        annotation = section.model_fields[str(part)].annotation
        found = [each for each in (annotation, *get_args(annotation)) if _is_section(each)]
        section = found[0]
    return list(section.model_fields)


def _is_section(each: object) -> bool:
    return isinstance(each, type) and issubclass(each, BaseModel)
