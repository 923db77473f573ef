"""Strict reading of JSON objects: every member is of its one kind, or the error names its place."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NoReturn


class Fields:
    """The members of one JSON object. All of it raises ``ValueError``, which names the member.

    Example:
        >>> Fields({"engine": {"name": 3}}).fields("engine").text("name")
        Traceback (most recent call last):
        ValueError: engine.name must be a string
    """

    def __init__(self, raw: object, place: str = "") -> None:
        """Take an object.

        Args:
            raw: What JSON held.
            place: Where it stood, such as ``cases[3]``; nothing for the outermost object.
        """
        if not isinstance(raw, dict):
            raise ValueError(f"{place or 'the content'} must be an object")
        self._raw: dict[str, object] = raw
        self._place = place

    @property
    def names(self) -> list[str]:
        """The members' names, in their order."""
        return list(self._raw)

    def over(self, others: Mapping[str, object]) -> Fields:
        """Return these members, and of others those that are not here."""
        return Fields({**others, **self._raw}, self._place)

    def place(self, name: str) -> str:
        """Return where a member stands, dotted."""
        return f"{self._place}.{name}" if self._place else name

    def has(self, name: str) -> bool:
        """Return whether there is such a member."""
        return name in self._raw

    def is_null(self, name: str) -> bool:
        """Return whether a member, which must be there, is null."""
        return self._value(name) is None

    def text(self, name: str) -> str:
        """Return a string."""
        value = self._value(name)
        if not isinstance(value, str):
            raise ValueError(f"{self.place(name)} must be a string")
        return value

    def text_or_none(self, name: str) -> str | None:
        """Return a string or null."""
        return None if self.is_null(name) else self.text(name)

    def texts_or_none(self, name: str) -> tuple[str, ...] | None:
        """Return an array of strings, or null."""
        value = self._value(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{self.place(name)} must be null or an array of strings")
        return tuple(value)

    def count(self, name: str) -> int:
        """Return a whole number from 0."""
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{self.place(name)} must be a whole number from 0")
        return value

    def number(self, name: str, high: float = math.inf) -> float:
        """Return a finite number in [0, high]."""
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{self.place(name)} must be a number")
        try:
            number = float(value)
        except OverflowError:  # JSON's whole numbers have no end.
            number = math.inf
        if not (math.isfinite(number) and 0 <= number <= high):
            bound = "" if math.isinf(high) else f" and at most {high:g}"
            raise ValueError(f"{self.place(name)} must be finite, at least 0{bound}")
        return number

    def number_or_none(self, name: str, high: float = math.inf) -> float | None:
        """Return a finite number in [0, high], or null."""
        return None if self.is_null(name) else self.number(name, high)

    def fields(self, name: str) -> Fields:
        """Return an object."""
        return Fields(self._value(name), self.place(name))

    def items(self, name: str) -> list[Fields]:
        """Return an array of objects."""
        value = self._value(name)
        if not isinstance(value, list):
            raise ValueError(f"{self.place(name)} must be an array")
        return [Fields(each, f"{self.place(name)}[{i}]") for i, each in enumerate(value)]

    def _value(self, name: str) -> object:
        if name not in self._raw:
            raise ValueError(f"{self.place(name)} is missing")
        return self._raw[name]


def parse_object(text: str) -> Fields:
    """Return the JSON object in a text.

    Refused are NaN and infinities, which JSON does not have, and a member that stands there twice,
    of which JSON keeps the last in silence.

    Raises:
        ValueError: It is none.
    """
    try:
        raw = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repetition
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return Fields(raw)


def _refuse_repetition(members: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(members)
    if len(content) < len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice!r} stands there twice")
    return content


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
