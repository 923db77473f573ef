"""Invented names and values: people, places, numbers with units, dates.

Names are put together from the parts in ``names.toml``. One that exists is a coincidence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random

_LISTS: dict[str, list[str]] = {
    name: text.split()
    for name, text in tomllib.loads(
        (Path(__file__).parent / "names.toml").read_text(encoding="utf-8")
    ).items()
}
_NUMERIC = re.compile(r"^(int|dec|money):(\d+):(\d+)(?::(\d+))?:(.*)$")


CALENDAR = ("year", "date", "time")
"""Kinds of values that are earlier or later."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an attribute.

    Attributes:
        text: As it stands in a sentence, unit included.
        kind: ``int``, ``dec``, ``money``, ``year``, ``date``, ``time``; else any other word.
        number: What it is ordered by, in ``unit``, in years, or in days or minutes from an
            arbitrary start; None where there is no order.
        unit: Behind the number; empty where there is none.
    """

    text: str
    kind: str
    number: float | None = None
    unit: str = ""

    @property
    def has_order(self) -> bool:
        """Whether one value can be more or later than another."""
        return self.number is not None and (bool(self.unit) or self.kind in CALENDAR)

    @property
    def is_quantity(self) -> bool:
        """Whether values can be added."""
        return self.kind in ("int", "money") and bool(self.unit)


def format_number(number: float) -> str:
    """Return digits, with a comma between thousands and a decimal place where there is one.

    Example:
        >>> format_number(12500), format_number(4.5)
        ('12,500', '4.5')
    """
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"


def quantity(number: float, unit: str, kind: str = "int") -> Value:
    """Return a number with its unit."""
    if number == 1 and unit.endswith("s"):
        unit = unit[:-1]
    return Value(f"{format_number(number)} {unit}".strip(), kind, number, unit)


def format_date(day: date) -> str:
    """Return a date as the knowledge writes it: day, month in letters, year."""
    return f"{day.day} {_LISTS['months'][day.month - 1]} {day.year}"


def format_date_otherwise(day: date, rng: Random) -> str:
    """Return a date in another format."""
    month = _LISTS["months"][day.month - 1]
    forms = (day.isoformat(), f"{month} {day.day}, {day.year}", f"{month[:3]} {day.day} {day.year}")
    return rng.choice(forms)


def draw_date(rng: Random) -> date:
    """Return a day of the years 2019 to 2034."""
    return date(2019, 1, 1) + timedelta(days=rng.randrange(5840))


def draw_values(kind: str, count: int, rng: Random, weekdays: str = "") -> list[Value]:
    """Return values that all differ.

    Args:
        kind: A name of ``_DRAWERS``; ``pick:a,b,c``; ``int:LOW:HIGH:STEP:UNIT`` or ``money:...``;
            ``dec:LOW:HIGH:UNIT``, with one decimal place.
        count: How many.
        rng: Draws.
        weekdays: Names of the days in the language of the text; English ones where empty.
    """
    if kind.startswith("pick:"):
        picks = kind.removeprefix("pick:").split(",")
        return [Value(text, "pick") for text in rng.sample(picks, count)]
    if kind == "weekday":
        return [
            Value(text, kind) for text in rng.sample(weekdays.split() or _LISTS["weekdays"], count)
        ]
    numeric = _NUMERIC.match(kind)
    draw = _DRAWERS[kind] if numeric is None else _numeric_drawer(numeric, rng)
    drawn: dict[str, Value] = {}
    while len(drawn) < count:
        value = draw(rng)
        drawn.setdefault(value.text, value)
    return list(drawn.values())


def _numeric_drawer(match: re.Match[str], rng: Random) -> Callable[[Random], Value]:
    name, low, high, step, unit = match.groups()
    size = int(step or 1)
    places = (int(high) - int(low)) // size
    if name == "dec":
        return lambda rng: quantity(rng.randrange(int(low) * 10, int(high) * 10) / 10, unit, name)
    # Half of the time all values lie close together, so that a glance does not tell them apart.
    window = max(8, places // 12) if rng.random() < 0.5 else places
    start = rng.randrange(max(1, places - window + 1))
    return lambda rng: quantity(
        int(low) + size * (start + rng.randrange(min(window, places) + 1)), unit, name
    )


def _draw_time(rng: Random) -> Value:
    minutes = 5 * rng.randrange(6 * 12, 22 * 12)
    return Value(format_time(minutes), "time", minutes)


def format_time(minutes: int) -> str:
    """Return minutes since midnight as hours and minutes, such as ``09:05``."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _draw_dated(rng: Random) -> Value:
    day = draw_date(rng)
    return Value(format_date(day), "date", day.toordinal())


def _draw_year(rng: Random) -> Value:
    year = rng.randrange(1871, 2024)
    return Value(str(year), "year", year)


def _draw_version(rng: Random) -> Value:
    return Value(f"{rng.randrange(1, 9)}.{rng.randrange(0, 19)}.{rng.randrange(0, 9)}", "version")


def draw_name(pattern: str, rng: Random) -> str:
    """Return a name after a pattern of an entity.

    Args:
        pattern: Holds ``{w}`` (a common word), ``{t}`` (a town), ``{f}`` (a company), ``{p}`` (a
            person), ``{m}`` (a medicine), ``{c}`` (a code), ``{n}`` (a number), ``{club}``,
            ``{soup}``; ``{zf}`` and ``{zp}`` in Chinese.
        rng: Draws.
    """
    parts: dict[str, Callable[[], str]] = {
        "w": lambda: rng.choice(_LISTS["words"]),
        "t": lambda: _town(rng),
        "f": lambda: _firm(rng),
        "p": lambda: _person(rng),
        "m": lambda: _medicine(rng),
        "c": lambda: f"{rng.choice('BDGKLMRTVX')}{rng.choice(('-', ''))}{rng.randrange(11, 989)}",
        "n": lambda: str(rng.randrange(2, 99)),
        "club": lambda: rng.choice(_LISTS["clubs"]),
        "soup": lambda: rng.choice(_LISTS["soups"]),
        "zf": lambda: f"{rng.choice(_LISTS['zh_firms'])}{rng.choice(_LISTS['zh_trades'])}公司",
        "zp": lambda: _zh_person(rng),
    }
    return re.sub(r"\{(\w+)\}", lambda match: parts[match.group(1)](), pattern)


def _person(rng: Random) -> str:
    first, stem, end = (rng.choice(_LISTS[name]) for name in ("first", "stems", "surname_ends"))
    return f"{first} {stem}{end}"


def _town(rng: Random) -> str:
    return f"{rng.choice(_LISTS['stems'])}{rng.choice(_LISTS['town_ends'])}"


def _firm(rng: Random) -> str:
    stem, trade = rng.choice(_LISTS["stems"]), rng.choice(_LISTS["firm_ends"])
    return f"{stem}{rng.choice(('a', 'o', 'ix', 'en'))} {trade}"


def _medicine(rng: Random) -> str:
    end = rng.choice(("dex", "lin", "vir", "zan", "pril"))
    return f"{rng.choice(_LISTS['stems'])}{rng.choice('oia')}{end}"


def _zh_person(rng: Random) -> str:
    return rng.choice(_LISTS["zh_surnames"]) + "".join(rng.sample(_LISTS["zh_given"], 2))


_DRAWERS: dict[str, Callable[[Random], Value]] = {
    "person": lambda rng: Value(_person(rng), "person"),
    "town": lambda rng: Value(_town(rng), "town"),
    "firm": lambda rng: Value(_firm(rng), "firm"),
    "zperson": lambda rng: Value(_zh_person(rng), "person"),
    "ztown": lambda rng: Value(f"{rng.choice(_LISTS['zh_towns'])}市", "town"),
    "zfirm": lambda rng: Value(draw_name("{zf}", rng), "firm"),
    "year": _draw_year,
    "date": _draw_dated,
    "time": _draw_time,
    "version": _draw_version,
}
