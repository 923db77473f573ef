"""Pairs about numbers, units, dates, order and sums: what the knowledge holds in another form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import pairwise
from random import Random

from training.made.cases import Case, Side, end, justify_answer, justify_fact, mirror, pick_two
from training.made.lookups import Setting, name_entity
from training.made.scenes import ENGLISH, Scene, Spot, capitalise
from training.made.values import (
    Value,
    draw_date,
    draw_name,
    format_date,
    format_date_otherwise,
    format_number,
    quantity,
)

_ORDER = {
    "year": ("earlier", "later", "earliest", "latest"),
    "date": ("earlier", "later", "earliest", "latest"),
    "time": ("earlier", "later", "earliest", "latest"),
}
_SIZE = ("lower", "higher", "lowest", "highest")

# Small unit, large unit, small ones in a large one.
_UNITS = (
    ("metres", "kilometres", 1000),
    ("grams", "kilograms", 1000),
    ("millilitres", "litres", 1000),
    ("centimetres", "metres", 100),
    ("minutes", "hours", 60),
    ("days", "weeks", 7),
    ("months", "years", 12),
    ("kilograms", "tonnes", 1000),
    ("cents", "euros", 100),
    ("pieces", "dozen", 12),
)
_MEASURED = (
    ("the {w} trail", "is {v} long", "length"),
    ("the {w} reservoir", "was topped up with {v} of water", "refill"),
    ("the sack marked {w}", "weighs {v}", "weight"),
    ("the workshop on {w}", "lasts {v}", "duration"),
    ("the lease named {w}", "runs for {v}", "term"),
    ("the order from {w}", "comes to {v}", "size"),
    ("the {w} sticker", "costs {v}", "price"),
    ("the {w} cable", "measures {v}", "length"),
)
_MEASURES = {
    "metres": (0, 7),
    "grams": (2,),
    "millilitres": (1,),
    "centimetres": (7,),
    "minutes": (3,),
    "days": (4, 3),
    "months": (4,),
    "kilograms": (2,),
    "cents": (6,),
    "pieces": (5,),
}
_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = (
    "zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
)  # fmt: skip


def draw_with(
    setting: Setting, rng: Random, is_wanted: Callable[[Value], bool]
) -> tuple[Scene, int]:
    """Return a scene and one of its attributes whose values are wanted."""
    while True:
        scene = setting.draw(rng)
        found = [k for k in range(len(scene.attributes)) if is_wanted(scene.value((0, k)))]
        if found:
            return scene, rng.choice(found)


def make_comparison(setting: Setting, rng: Random) -> Case:
    """Ask which of two has more, or is earlier, in two worlds or for both ends."""
    scene, k = draw_with(setting, rng, lambda value: value.has_order)
    i, j = pick_two(scene, k, rng)
    shown, label = setting.show(rng), scene.attributes[k].label
    low, high, _, _ = _ORDER.get(scene.value((i, k)).kind, _SIZE)
    is_turned = rng.random() < 0.5
    # Whoever says that one has less has told which has more: no wrong answer to either question.
    shape, seed = rng.choice((0, 4)) if is_turned else rng.randrange(5), rng.getrandbits(48)
    is_asked = shape in (0, 4) or rng.random() < 0.6
    names = (name_entity(scene, i), name_entity(scene, j))

    def side(world: Scene, is_high: bool) -> Side:
        one, other = world.value((i, k)).number or 0, world.value((j, k)).number or 0
        first = (one > other) is is_high
        more, less = scene.entities[i if first else j], scene.entities[j if first else i]
        word, opposite = (high, low) if is_high else (low, high)
        own = Random(seed)  # noqa: S311 - no secret hangs on it
        asked = own.choice(
            (
                f"Which has the {word} {label}, {names[0]} or {names[1]}?",
                f"Compare {names[0]} and {names[1]}: which one has the {word} {label}?",
                f"Of {names[0]} and {names[1]}, whose {label} is {word}?",
            )
        )
        answer = (
            more,
            f"{more} has {_an(word)} {word} {label} than {less}",
            f"the {label} of {more} is {word} than that of {less}",
            f"compared with {more}, {less} has {_an(opposite)} {opposite} {label}",
            f"it is {more}",
        )[shape]
        said, question = shown(world), asked if is_asked else None
        told = justify_fact(world, said, (i, k), (j, k))
        return Side(said.texts, question, end(answer, scene.tongue, own), told)

    is_high = rng.random() < 0.5
    if is_turned:
        sides = side(scene, True), side(scene, False)
    else:
        sides = side(scene, is_high), side(scene.swap(k, i, j), is_high)
    return mirror(setting.name("comparison"), "qa" if is_asked else "general", *sides)


def _an(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def make_superlative(setting: Setting, rng: Random) -> Case:
    """Ask for the first and the last of several."""
    scene, k = draw_with(setting, rng, lambda value: value.has_order)
    while len({scene.value((i, k)) for i in range(len(scene.entities))}) < len(scene.entities):
        scene, k = draw_with(setting, rng, lambda value: value.has_order)
    shown, label, plural = setting.show(rng)(scene), scene.attributes[k].label, scene.domain.plural
    _, _, lowest, highest = _ORDER.get(scene.value((0, k)).kind, _SIZE)
    ranked = sorted(range(len(scene.entities)), key=lambda i: scene.value((i, k)).number or 0)
    shape, seed = rng.randrange(3), rng.getrandbits(48)
    sides = []
    for word, i in ((lowest, ranked[0]), (highest, ranked[-1])):
        own = Random(seed)  # noqa: S311 - no secret hangs on it
        asked = own.choice(
            (
                f"Which of the {plural} has the {word} {label}?",
                f"Of all {plural}, which one has the {word} {label}?",
            )
        )
        entity = scene.entities[i]
        answer = (entity, f"it is {entity}", f"among the {plural}, {entity} is the one")[shape]
        told = justify_fact(scene, shown, (i, k))
        sides.append(Side(shown.texts, asked, end(answer, scene.tongue, own), told))
    return mirror(setting.name("superlative"), "qa", *sides)


def make_sum(setting: Setting, rng: Random) -> Case:
    """Ask for the total and the difference of two quantities, or for one of the two."""
    scene, k = draw_with(setting, rng, lambda value: value.is_quantity)
    i, j = pick_two(scene, k, rng)
    shown, label = setting.show(rng)(scene), scene.attributes[k].label
    one, other = scene.value((i, k)), scene.value((j, k))
    a, b = one.number or 0, other.number or 0
    names = f"{scene.entities[i]} and {scene.entities[j]}"
    told = justify_fact(scene, shown, (i, k), (j, k))
    total, gap = quantity(a + b, one.unit).text, quantity(abs(a - b), one.unit).text
    options = [
        (f"What do the {label} of {names} add up to?", total, f" Together: {total}."),
        (f"How far apart are the {label} of {names}?", gap, f" Difference: {gap}."),
        (scene.ask((i, k), rng), one.text, ""),
    ]
    chosen = rng.sample(options, 2)
    shape, seed = rng.randrange(3), rng.getrandbits(48)
    sides = [
        Side(shown.texts, asked, _speak(value, shape, seed), told + more)
        for asked, value, more in chosen
    ]
    return mirror(setting.name("computation"), "qa", *sides)


def _speak(value: str, shape: int, seed: int) -> str:
    own = Random(seed)  # noqa: S311 - no secret hangs on it
    carrier = own.choice(("It comes to {v}", "I make it {v}", "The result is {v}", "That is {v}"))
    text = (value, f"It is {value}", carrier.replace("{v}", value))[shape]
    return end(text, ENGLISH, own)


def make_sum_trap(setting: Setting, rng: Random) -> Case:
    """Put a total beside one of its parts, which stands in the knowledge.

    Not mirrored, like ``lookups.make_off_target``: what stands word for word is wrong.
    """
    scene, k = draw_with(setting, rng, lambda value: value.is_quantity)
    i, j = pick_two(scene, k, rng)
    shown, label = setting.show(rng)(scene), scene.attributes[k].label
    one, other = scene.value((i, k)), scene.value((j, k))
    total = quantity((one.number or 0) + (other.number or 0), one.unit).text
    names = f"{scene.entities[i]} and {scene.entities[j]}"
    asks = (
        f"What is the {label} of {names} taken together?",
        f"If one adds the {label} of {names}, what is the result?",
    )
    told = f"{justify_fact(scene, shown, (i, k), (j, k))} Together: {total}."
    side = Side(shown.texts, rng.choice(asks), "", told)
    shape, seed = rng.randrange(3), rng.getrandbits(48)
    wrong = one.text if rng.random() < 0.5 else other.text
    rows = (
        side.row(_speak(total, shape, seed), True),
        side.row(_speak(wrong, shape, seed), False),
    )
    return Case(setting.name("computation"), "qa", rows)


def make_count(setting: Setting, rng: Random) -> Case:
    """Ask how many of several are above a limit, with two limits."""
    scene, k = draw_with(setting, rng, lambda value: value.is_quantity)
    numbers = sorted({scene.value((i, k)).number or 0 for i in range(len(scene.entities))})
    while len(numbers) < 3:
        scene, k = draw_with(setting, rng, lambda value: value.is_quantity)
        numbers = sorted({scene.value((i, k)).number or 0 for i in range(len(scene.entities))})
    shown, label = setting.show(rng)(scene), scene.attributes[k].label
    unit = scene.value((0, k)).unit
    cuts = rng.sample([(a + b) // 2 for a, b in pairwise(numbers)], 2)
    shape, seed = rng.randrange(3), rng.getrandbits(48)
    sides = []
    for cut in cuts:
        above = [i for i in range(len(scene.entities)) if (scene.value((i, k)).number or 0) > cut]
        named = ", ".join(name_entity(scene, i) for i in above)
        asked = (
            f"How many of the {scene.domain.plural} have {_an(label)} {label} of more than "
            f"{format_number(cut)} {unit}?"
        )
        count = _ONES[len(above)] if shape else str(len(above))
        told = f"By the knowledge, these are above: {named}. That makes {len(above)}."
        sides.append(Side(shown.texts, asked, _speak(count, shape, seed), told))
    return mirror(setting.name("count"), "qa", *sides)


def make_unit(_: Setting, rng: Random) -> Case:
    """State a measure in one unit and answer in another."""
    small, large, factor = rng.choice(_UNITS)
    pattern, verb, label = _MEASURED[rng.choice(_MEASURES[small])]
    name, other = draw_name(pattern, rng), draw_name(pattern, rng)
    numbers = rng.sample((0.5, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9, 10, 12, 20, 25, 40), 2)
    if rng.random() < 0.5:
        # A slip of the decimal point.
        numbers[1] = numbers[0] * 10
    is_down = rng.random() < 0.5
    as_stated, as_asked = (large, small) if is_down else (small, large)
    asked = f"{capitalise(name)}: what is its {label} in {as_asked}?"
    shape, seed, wording = rng.randrange(3), rng.getrandbits(48), rng.getrandbits(48)
    sides = []
    for number in numbers:
        texts = {large: quantity(number, large).text, small: quantity(number * factor, small).text}
        own = Random(wording)  # noqa: S311 - no secret hangs on it
        stated = f"{capitalise(name)} {verb.replace('{v}', texts[as_stated])}"
        more = quantity(own.randrange(13, 39), as_stated).text
        rest = f"{capitalise(other)} {verb.replace('{v}', more)}"
        knowledge = " ".join(f"{text}." for text in own.sample((stated, rest), 2))
        told = f'The knowledge says "{stated}": {texts[as_asked]}.'
        sides.append(Side((knowledge,), asked, _speak(texts[as_asked], shape, seed), told))
    return mirror("units", "qa", *sides)


def make_date_format(setting: Setting, rng: Random) -> Case:
    """Answer with a date in another format than that of the knowledge; the wrong one is near."""
    scene, k = draw_with(setting, rng, lambda value: value.kind == "date")
    i = rng.randrange(len(scene.entities))
    day = draw_date(rng).replace(day=rng.randrange(1, 13))
    near = rng.choice(
        (
            date(day.year, day.day, day.month),
            day + timedelta(days=rng.choice((1, 10, 7))),
            day.replace(year=day.year + rng.choice((-1, 1))),
            day.replace(month=day.month % 12 + 1),
        )
    )
    if near == day:
        near = day + timedelta(days=1)
    shown, question, seed = setting.show(rng), scene.ask((i, k), rng), rng.getrandbits(48)
    sides = []
    for each in (day, near):
        world = scene.with_value((i, k), Value(format_date(each), "date", each.toordinal()))
        own = Random(seed)  # noqa: S311 - no secret hangs on it
        text = format_date_otherwise(each, own)
        text = _speak(text, own.randrange(3), own.getrandbits(48))
        told = justify_answer(format_date(each))
        sides.append(Side(shown(world).texts, question, text, told))
    return mirror("dates", "qa", *sides)


def make_duration(setting: Setting, rng: Random) -> Case:
    """Ask how long lies between two points in time, and between two others."""
    kinds = ("year", "time")
    scene, k = draw_with(setting, rng, lambda value: value.kind in kinds)
    while len(scene.entities) < 3:
        scene, k = draw_with(setting, rng, lambda value: value.kind in kinds)
    shown, label = setting.show(rng)(scene), scene.attributes[k].label
    first, *others = rng.sample(range(len(scene.entities)), 3)
    gaps = [_gap(scene, (first, k), (other, k)) for other in others]
    if gaps[0] == gaps[1] or "0" in (gaps[0][0], gaps[1][0]):
        return make_duration(setting, rng)
    shape, seed = rng.randrange(3), rng.getrandbits(48)
    sides = []
    for other, gap in zip(others, gaps, strict=True):
        names = f"{scene.entities[first]} and {scene.entities[other]}"
        asked = f"How much time lies between the {label} of {names}?"
        told = f"{justify_fact(scene, shown, (first, k), (other, k))} Between them: {gap}."
        sides.append(Side(shown.texts, asked, _speak(gap, shape, seed), told))
    return mirror("duration", "qa", *sides)


def _gap(scene: Scene, one: Spot, other: Spot) -> str:
    kind = scene.value(one).kind
    gap = abs((scene.value(one).number or 0) - (scene.value(other).number or 0))
    return quantity(gap, {"year": "years", "time": "minutes"}[kind]).text


def make_number_words(setting: Setting, rng: Random) -> Case:
    """Answer in words where the knowledge has digits."""
    scene, k = draw_with(setting, rng, lambda v: v.kind == "int" and (v.number or 0) < 100)
    i = 0
    unit, number = scene.value((i, k)).unit, round(scene.value((i, k)).number or 0)
    near = rng.choice([n for n in _near(number) if 1 < n < 100 and n != number])
    shown, question = setting.show(rng), scene.ask((i, k), rng)
    shape, seed = rng.randrange(3), rng.getrandbits(48)
    sides = []
    for each in (number, near):
        value = quantity(each, unit)
        world = scene.with_value((i, k), value)
        text = f"{spell(each)} {value.unit}".strip()
        told = justify_answer(value.text)
        sides.append(Side(shown(world).texts, question, _speak(text, shape, seed), told))
    return mirror("number-words", "qa", *sides)


def _near(number: int) -> Sequence[int]:
    swapped = int(str(number)[::-1])
    return (number + 1, number - 1, number + 10, number - 10, swapped, number + 2, number + 3)


def spell(number: int) -> str:
    """Return a whole number below 100 in words.

    Example:
        >>> spell(7), spell(40), spell(93)
        ('seven', 'forty', 'ninety-three')
    """
    if number < 20:
        return _ONES[number]
    tens, ones = divmod(number, 10)
    return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
