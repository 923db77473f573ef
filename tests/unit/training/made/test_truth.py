"""Classes are checked against the knowledge by readers that know nothing of how it was made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from random import Random

import pytest

from training.made import figures, listings, lookups, relations
from training.made.cases import Case, Row
from training.made.forms import Form
from training.made.lookups import Setting
from training.made.scenes import english_domains

PROSE = Setting(english_domains(), (Form.PROSE,))
JSON = Setting(english_domains(), (Form.JSON,), (3, 5), (1, 2))
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
UNITS = {
    "metres": ("m", 1.0), "kilometres": ("m", 1000.0), "centimetres": ("m", 0.01),
    "grams": ("g", 1.0), "kilograms": ("g", 1000.0), "tonnes": ("g", 1_000_000.0),
    "millilitres": ("l", 0.001), "litres": ("l", 1.0), "minutes": ("s", 60.0),
    "hours": ("s", 3600.0), "days": ("s", 86400.0), "weeks": ("s", 604800.0),
    "months": ("t", 1.0), "years": ("t", 12.0), "cents": ("c", 1.0), "euros": ("c", 100.0),
    "pieces": ("n", 1.0), "dozen": ("n", 12.0),
}  # fmt: skip


def draw(make: Callable[[Setting, Random], Case], setting: Setting, count: int = 150) -> list[Row]:
    return [row for seed in range(count) for row in make(setting, Random(seed)).rows]


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def table(row: Row) -> dict[str, dict[str, str]]:
    (items,) = json.loads(row.knowledge[0]).values()
    return {item.pop("name"): item for item in items}


def named(text: str, row: Row) -> list[str]:
    """Return the entities that a text names; none stands within the name of another."""
    found = []
    for name in sorted(table(row), key=len, reverse=True):
        if re.search(rf"(?i)(?<!\w){re.escape(name)}(?![\w-])", text):
            found.append(name)
            text = re.sub(rf"(?i){re.escape(name)}", "", text)
    return found


def measure(text: str) -> tuple[str, float]:
    match = re.search(r"(\d[\d,]*(?:\.\d+)?) (\w+)", text)
    assert match is not None
    unit = next(name for name in UNITS if name.rstrip("s") == match.group(2).rstrip("s"))
    base, factor = UNITS[unit]
    return base, round(float(match.group(1).replace(",", "")) * factor, 6)


def test_a_converted_measure_is_right_where_it_is_the_same() -> None:
    rows = draw(figures.make_unit, PROSE)
    for row in rows:
        subject = str(row.question).split(":")[0]
        stated = next(each for each in row.knowledge[0].split(". ") if each.startswith(subject))
        assert (measure(stated) == measure(row.response)) is row.is_right, row


def test_a_date_is_right_where_it_is_the_same_day() -> None:
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    def read(text: str) -> date:
        iso = re.search(r"\d{4}-\d{2}-\d{2}", text)
        if iso:
            return date.fromisoformat(iso.group())
        match = re.search(r"(?:(\d+) )?([A-Z][a-z]{2})[a-z]*(?: (\d+),?)? (\d{4})", text)
        assert match is not None, text
        day = match.group(1) or match.group(3)
        return date(int(match.group(4)), months.index(match.group(2)) + 1, int(day))

    for row in draw(figures.make_date_format, PROSE):
        assert (read(row.justification) == read(row.response)) is row.is_right, row


@pytest.mark.parametrize("make", [figures.make_sum, figures.make_sum_trap])
def test_a_sum_is_right_where_it_adds_up(make: Callable[[Setting, Random], Case]) -> None:
    for row in draw(make, JSON, 100):
        question = str(row.question)
        entities = named(question, row)
        labels = [
            key for key in next(iter(table(row).values())) if key.replace("_", " ") in question
        ]
        if len(entities) != 2 or not labels:
            continue
        (label,) = [key for key in labels if key == max(labels, key=len)]
        one, other = (numbers(table(row)[name][label])[0] for name in entities)
        wanted = abs(one - other) if "apart" in question else one + other
        assert (numbers(row.response)[0] == wanted) is row.is_right, row


def test_a_comparison_is_right_where_the_numbers_say_so() -> None:
    checked = 0
    for row in draw(figures.make_comparison, JSON):
        if row.question is None:
            continue
        question, facts = row.question, table(row)
        word = re.search(r"earlier|later|higher|lower", question)
        labels = [key for key in next(iter(facts.values())) if key.replace("_", " ") in question]
        pair, said = named(question, row), named(row.response, row)
        if word is None or len(labels) != 1 or len(pair) != 2 or len(said) != 1:
            continue
        texts = {name: facts[name][labels[0]] for name in pair}
        if any(re.match(r"\d+ [A-Z]", text) for text in texts.values()):
            continue
        value = {name: numbers(text.replace(":", ""))[0] for name, text in texts.items()}
        choose = max if word.group() in ("later", "higher") else min
        checked += 1
        assert (choose(pair, key=lambda name: value[name]) == said[0]) is row.is_right, row
    assert checked > 50


def test_a_fact_is_right_where_the_field_holds_it() -> None:
    for row in draw(lookups.make_other_world, JSON):
        answer = re.fullmatch(r'By the knowledge, the answer is "(.+)"\.', row.justification)
        assert answer is not None
        texts = [value for facts in table(row).values() for value in facts.values()]
        assert answer.group(1) in texts
        said = [text for text in texts if text.lower() in row.response.lower()]
        assert (answer.group(1) in said) is row.is_right, row


def test_a_quantity_of_a_group_is_right_where_the_count_agrees() -> None:
    checked = 0
    for row in draw(relations.make_quantifier, PROSE):
        match = re.search(r"(\d) of (\d)", row.justification)
        assert match is not None
        count, size = int(match.group(1)), int(match.group(2))
        assert len([each for each in row.knowledge[0].split(".") if each.strip()]) == size
        text = row.response.lower()
        truths = {
            r"^all of": count == size, "without exception": count == size, r"^none of": count == 0,
            r"^not one of": count == 0, r"^not all": count < size,
            "^some of": 0 < count < size, "at least one": count > 0, "^only one": count == 1,
            "^all but one": count == size - 1,
        }  # fmt: skip
        for pattern, is_true in truths.items():
            if re.search(pattern, text) and not (pattern == "^all of" and "all but" in text):
                checked += 1
                assert is_true is row.is_right, row
    assert checked > 300


def test_a_program_returns_what_the_right_answer_says() -> None:
    checked = 0
    for row in draw(listings.make_listing, PROSE, 300):
        match = re.match(r"def (\w+)\((\w+)\):\n    if", row.knowledge[0])
        if match is None:
            continue
        space: dict[str, Callable[[int], int]] = {}
        exec(row.knowledge[0], space)
        (argument,) = numbers(str(row.question))
        checked += 1
        assert (space[match.group(1)](int(argument)) == numbers(row.response)[0]) is row.is_right
    assert checked > 100


def test_a_turned_relation_is_wrong() -> None:
    for seed in range(100):
        rows = relations.make_roles(PROSE, Random(seed)).rows
        right = {row.response.rstrip(".").lower() for row in rows if row.is_right}
        wrong = {row.response.rstrip(".").lower() for row in rows if not row.is_right}
        assert len(right) == len(wrong) == 2
        assert not right & wrong
        assert {tuple(sorted(text.split())) for text in right} == {
            tuple(sorted(text.split())) for text in wrong
        }


def test_a_silence_is_right_where_the_fact_is_left_out() -> None:
    for row in draw(lookups.make_silence, JSON):
        is_silent = row.justification == "The knowledge does not give the answer."
        value = {text for facts in table(row).values() for text in facts.values()}
        says = any(text.lower() in row.response.lower() for text in value)
        assert (says is not is_silent) is row.is_right or any(
            text in str(row.question) for text in value
        ), row
