"""Pairs about configuration files and short programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from training.made.cases import Case, Side, end, mirror
from training.made.lookups import Setting
from training.made.scenes import ENGLISH
from training.made.values import draw_name, quantity

# Key, in words, unit, values.
_KEYS: tuple[tuple[str, str, str, tuple[int | str, ...]], ...] = (
    ("timeout_s", "timeout", "seconds", (5, 10, 15, 20, 30, 45, 60, 90, 120)),
    ("max_retries", "number of retries", "", (1, 2, 3, 4, 5, 6, 8)),
    ("cache_size_mb", "cache size", "megabytes", (64, 128, 256, 512, 1024)),
    ("batch_size", "batch size", "", (8, 16, 24, 32, 48, 64, 96)),
    ("port", "port", "", (8000, 8080, 8443, 9000, 9090, 5000)),
    ("num_workers", "number of workers", "", (1, 2, 4, 6, 8, 12, 16)),
    ("retention_days", "retention time", "days", (7, 14, 30, 60, 90, 180)),
    ("poll_interval_ms", "polling interval", "milliseconds", (50, 100, 200, 250, 500)),
    ("max_upload_mb", "upload limit", "megabytes", (5, 10, 20, 25, 50, 100)),
    ("queue_length", "length of the queue", "", (10, 50, 100, 200, 400)),
    ("session_minutes", "length of a session", "minutes", (10, 15, 20, 30, 60)),
    ("log_level", "log level", "", ("debug", "info", "warning", "error")),
    ("region", "region", "", ("north", "south", "east", "west")),
)
_STAGES = ("development", "staging", "production", "test")
_NOTES = ("old value", "was too high", "before the move", "do not use", "example", "until spring")
_RATES = (
    ("fee", "weight_kg", "fee for {n} kg"),
    ("discount", "num_items", "discount for {n} items"),
    ("grade", "points", "grade for {n} points"),
    ("speed", "load_kg", "speed at a load of {n} kg"),
    ("fare", "zones", "fare for {n} zones"),
    ("wait", "attempt", "wait after attempt {n}"),
    ("bonus", "years", "bonus after {n} years"),
    ("dose", "age", "dose at the age of {n}"),
)


@dataclass(frozen=True, slots=True)
class _Setting:
    """A key of a configuration with two of its values."""

    key: str
    words: str
    unit: str
    values: tuple[int | str, int | str]

    def say(self, value: int | str) -> str:
        """Return a value with its unit."""
        if isinstance(value, str) or not self.unit:
            return str(value)
        return quantity(value, self.unit).text


def make_listing(_: Setting, rng: Random) -> Case:
    """Ask what a configuration sets, or what a program returns."""
    return rng.choice(_MAKERS)(rng)


def _draw(rng: Random) -> _Setting:
    key, words, unit, values = rng.choice(_KEYS)
    one, other = rng.sample(values, 2)
    return _Setting(key, words, unit, (one, other))


def _answer(text: str, words: str, shape: int, seed: int) -> str:
    own = Random(seed)  # noqa: S311 - no secret hangs on it
    said = (text, f"the {words} is {text}", f"it is set to {text}", f"{text} is what applies")
    return end(said[shape], ENGLISH, own)


def _stages(rng: Random) -> Case:
    """Two sections set one key."""
    setting, other = _draw(rng), _draw(rng)
    stages = rng.sample(_STAGES, 2)
    is_yaml = rng.random() < 0.5
    blocks = []
    for stage, value, more in zip(stages, setting.values, other.values, strict=True):
        pairs = [(setting.key, value), (other.key, more)]
        lines = [
            f"  {k}: {v}" if is_yaml else f"{k} = {v}"
            for k, v in pairs[: 2 if setting.key != other.key else 1]
        ]
        blocks.append("\n".join([f"{stage}:" if is_yaml else f"[{stage}]", *lines]))
    knowledge, shape, seed = ("\n".join(blocks),), rng.randrange(4), rng.getrandbits(48)
    sides = []
    for stage, value in zip(stages, setting.values, strict=True):
        asked = f"What is the {setting.words} in {stage}?"
        text = _answer(setting.say(value), setting.words, shape, seed)
        told = f'By the knowledge, {setting.key} in {stage} is "{value}".'
        sides.append(Side(knowledge, asked, text, told))
    return mirror("configuration", "qa", *sides)


def _commented(rng: Random) -> Case:
    """A line that is commented out holds another value."""
    setting, other = _draw(rng), _draw(rng)
    mark, note, shape = rng.choice(("# ", "; ", "// ")), rng.choice(_NOTES), rng.randrange(4)
    seed, is_first = rng.getrandbits(48), rng.random() < 0.5
    rest = f"{other.key} = {other.values[0]}" if other.key != setting.key else "verbose = true"
    sides = []
    for value, dead in (setting.values, setting.values[::-1]):
        lines = [f"{setting.key} = {value}", f"{mark}{setting.key} = {dead} ({note})"]
        text = "\n".join([rest, *(lines if is_first else lines[::-1])])
        told = f'By the knowledge, {setting.key} is "{value}"; the other line is a comment.'
        answer = _answer(setting.say(value), setting.words, shape, seed)
        sides.append(Side((text,), f"What is the {setting.words}?", answer, told))
    return mirror("configuration", "qa", *sides)


def _thresholds(rng: Random) -> Case:
    """A function returns one of two or three values."""
    name, argument, asked = rng.choice(_RATES)
    low, high = sorted(rng.sample(range(4, 40), 2))
    returns = rng.sample(range(2, 60), 3)
    sign = rng.choice(("<", "<="))
    code = (
        f"def {name}({argument}):\n    if {argument} {sign} {low}:\n        return {returns[0]}\n"
        f"    if {argument} {sign} {high}:\n        return {returns[1]}\n    return {returns[2]}"
    )
    points = [rng.randrange(1, low), rng.randrange(low, high) + (sign == "<=")]
    points.append(high + rng.randrange(1, 12))
    if sign == "<":
        points[1] = rng.randrange(low, high)
    chosen = rng.sample(range(3), 2)
    shape, seed = rng.randrange(2), rng.getrandbits(48)
    sides = []
    for i in chosen:
        words = asked.format(n=points[i])
        value = str(returns[i])
        own = Random(seed)  # noqa: S311 - no secret hangs on it
        text = end((value, f"it is {value}")[shape], ENGLISH, own)
        limit = f"{sign} {(low, high)[i]}" if i < 2 else f"above {high}"
        told = f'By the knowledge, {points[i]} is {limit}: "return {returns[i]}".'
        sides.append(Side((code,), f"What is the {words}?", text, told))
    return mirror("code", "qa", *sides)


def _defaults(rng: Random) -> Case:
    """A function has defaults, and one call changes one of them."""
    setting, other = _draw(rng), _draw(rng)
    while other.key == setting.key:
        other = _draw(rng)
    name = draw_name("{w}", rng).lower()
    verb = rng.choice(("start", "open", "run", "load", "sync"))
    default, given = setting.values
    code = (
        f"def {verb}_{name}(path, {setting.key}={default!r}, {other.key}={other.values[0]!r}):\n"
        f"    ...\n\n{verb}_{name}('{name}.dat', {setting.key}={given!r})"
    )
    shape, seed = rng.randrange(4), rng.getrandbits(48)
    asks = (
        (f"What is the {setting.words} where {verb}_{name} is called without it?", default),
        (f"With which {setting.words} is {verb}_{name} called here?", given),
    )
    sides = []
    for asked, value in asks:
        told = f'By the knowledge, it is "{setting.key}={value!r}".'
        text = _answer(setting.say(value), setting.words, shape, seed)
        sides.append(Side((code,), asked, text, told))
    return mirror("code", "qa", *sides)


def _switches(rng: Random) -> Case:
    """A flag is on or off."""
    words = rng.sample(
        ("compression", "encryption", "tracing", "paging", "caching", "mirroring"), 2
    )
    on, off = rng.choice((("true", "false"), ("on", "off"), ("yes", "no"), ("1", "0")))
    form = rng.choice(("{k} = {v}", "{k}: {v}", "export {k}={v}", "--{k}={v}"))
    rest = form.format(k=words[1], v=rng.choice((on, off)))
    said = (
        (f"{words[0]} is switched on", f"{words[0]} is switched off"),
        (f"{words[0]} is used", f"{words[0]} is not used"),
        ("yes", "no"),
    )
    shape, seed = rng.randrange(3), rng.getrandbits(48)
    question = f"Is {words[0]} active?" if shape == 2 or rng.random() < 0.5 else None
    sides = []
    for is_off, value in enumerate((on, off)):
        own = Random(seed)  # noqa: S311 - no secret hangs on it
        line = form.format(k=words[0], v=value)
        text = end(said[shape][is_off], ENGLISH, own)
        knowledge = "\n".join(own.sample((line, rest), 2))
        sides.append(Side((knowledge,), question, text, f'The knowledge says "{line}".'))
    return mirror("configuration", "general" if question is None else "qa", *sides)


_MAKERS: tuple[Callable[[Random], Case], ...] = (
    _stages,
    _commented,
    _thresholds,
    _defaults,
    _switches,
)
