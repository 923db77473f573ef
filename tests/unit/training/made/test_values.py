"""Invented values differ where they must, and are written one way."""

from __future__ import annotations

import doctest
from datetime import date
from random import Random
from types import ModuleType

import pytest

from training.made import cases, figures, generator, values
from training.made.figures import spell
from training.made.values import (
    draw_name,
    draw_values,
    format_date,
    format_date_otherwise,
    format_number,
    format_time,
    quantity,
)


@pytest.mark.parametrize(
    "kind",
    [
        "person", "town", "firm", "year", "date", "time", "version", "weekday",
        "int:1:24:1:", "int:80:900:10:passengers", "money:4:28:1:euros", "dec:2:38:degrees",
        "pick:a,b,c,d,e,f", "zperson", "ztown", "zfirm",
    ],
)  # fmt: skip
def test_values_of_a_scene_all_differ(kind: str) -> None:
    for seed in range(40):
        values = draw_values(kind, 5, Random(seed))
        assert len({value.text for value in values}) == 5


def test_numbers_stay_within_their_bounds() -> None:
    for seed in range(200):
        for value in draw_values("int:80:900:10:passengers", 4, Random(seed)):
            assert value.number is not None
            assert 80 <= value.number <= 900
            assert value.number % 10 == 0
            assert value.text == f"{value.number:.0f} passengers"


def test_quantities_are_written_with_their_unit() -> None:
    assert quantity(1, "weeks").text == "1 week"
    assert quantity(12500, "euros").text == "12,500 euros"
    assert quantity(2.5, "hours").text == "2.5 hours"
    assert (format_number(7), format_time(545)) == ("7", "09:05")


def test_only_what_has_an_order_can_be_compared() -> None:
    kinds = ("year", "date", "time", "int:1:99:1:rooms", "person", "int:1:99:1:", "version")
    orders = [draw_values(kind, 1, Random(1))[0].has_order for kind in kinds]
    assert orders == [True, True, True, True, False, False, False]


def test_a_date_has_other_formats() -> None:
    day = date(2031, 5, 3)
    assert format_date(day) == "3 May 2031"
    found = {format_date_otherwise(day, Random(seed)) for seed in range(40)}
    assert found == {"2031-05-03", "May 3, 2031", "May 3 2031"}


def test_numbers_are_spelt() -> None:
    assert [spell(number) for number in (0, 13, 20, 21, 99)] == [
        "zero",
        "thirteen",
        "twenty",
        "twenty-one",
        "ninety-nine",
    ]


def test_names_follow_their_pattern() -> None:
    names = {draw_name("the {t} Museum", Random(seed)) for seed in range(50)}
    assert len(names) > 40
    assert all(name.startswith("the ") and name.endswith(" Museum") for name in names)
    assert not any(name.split()[1][0] in "AEIOU" for name in names)


@pytest.mark.parametrize("module", [cases, figures, generator, values])
def test_the_examples_of_the_modules_hold(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0
