"""Invented worlds: entities of one domain with their attributes, and what is said about them.

The domains are in ``domains.toml`` (English) and ``tongues.toml`` (six other languages).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from training.made.values import Value, draw_name, draw_values

_FOLDER = Path(__file__).parent

Spot = tuple[int, int]
"""Entity and attribute of a fact, as places in the scene."""


@dataclass(frozen=True, slots=True)
class Tongue:
    """What a response says around an answer, in one language.

    Attributes:
        code: ISO 639-1.
        stop: Ends a sentence.
        carriers: Sentences around a value, ``{v}``.
        silences: Sentences that say that the knowledge does not say it.
        denials: Sentences that deny a statement, ``{s}``.
        checks: Questions whether a statement holds.
        yes: Affirmations, some with the statement.
        no: Their opposites, in the same order.
        weekdays: Names of the days; empty for the English ones.
    """

    code: str
    stop: str
    carriers: tuple[str, ...]
    silences: tuple[str, ...]
    denials: tuple[str, ...]
    checks: tuple[str, ...]
    yes: tuple[str, ...]
    no: tuple[str, ...]
    weekdays: str = ""


ENGLISH = Tongue(
    code="en",
    stop=".",
    carriers=(
        "It is {v}",
        "That is {v}",
        "The answer is {v}",
        "The answer to the question is {v}",
        "From what was given to me, I take {v} as the answer",
        "Having read it all, I arrive at {v}",
        "{v} is what one finds there",
        "What was asked for is {v}",
        "This can be looked up: {v}",
    ),
    silences=(
        "The text does not say",
        "Nothing is said about this",
        "This is left open",
        "I could not find this anywhere in what was given to me",
        "No answer to this can be taken from the text",
        "The material is silent on this point, so I cannot answer",
        "Sadly, that piece of information is not there",
        "Unknown: it is not mentioned",
    ),
    denials=(
        "It is not true that {s}",
        "It is not the case that {s}",
        "It would be wrong to say that {s}",
        "One cannot say that {s}",
        "The claim that {s} is false",
        "Whoever says that {s} is mistaken",
    ),
    checks=(
        "Is it true that {s}?",
        "Is it right that {s}?",
        "I was told that {s}. Is that so?",
        "Would you say that {s}?",
    ),
    yes=("Yes", "Yes, that is true", "Yes, {s}", "True", "That is right: {s}"),
    no=(
        "No",
        "No, that is not true",
        "No, it is not the case that {s}",
        "False",
        "That is wrong: it is not so that {s}",
    ),
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """What can be said about an entity.

    Attributes:
        label: A noun.
        kind: Of its values.
        asks: Questions for it, with ``{e}``.
        says: Statements that mean the same, with ``{e}`` and ``{v}``.
    """

    label: str
    kind: str
    asks: tuple[str, ...]
    says: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """Entities of one kind.

    Attributes:
        plural: What they are.
        entity: Pattern of their names.
        attributes: Theirs.
        tongue: Language of all that.
    """

    plural: str
    entity: str
    attributes: tuple[Attribute, ...]
    tongue: Tongue


@dataclass(frozen=True, slots=True)
class Scene:
    """A world.

    Attributes:
        domain: Of its entities.
        attributes: Those of the domain that it has.
        entities: Names, as they stand in a sentence.
        values: Of each entity, one for each attribute.
        hidden: Facts that the knowledge leaves out.
    """

    domain: Domain
    attributes: tuple[Attribute, ...]
    entities: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    hidden: frozenset[Spot] = frozenset()

    @property
    def tongue(self) -> Tongue:
        """Language of the scene."""
        return self.domain.tongue

    def value(self, spot: Spot) -> Value:
        """Return what a fact says."""
        return self.values[spot[0]][spot[1]]

    def with_value(self, spot: Spot, value: Value) -> Scene:
        """Return the scene with one value put in the place of another."""
        rows = [list(row) for row in self.values]
        rows[spot[0]][spot[1]] = value
        return replace(self, values=tuple(map(tuple, rows)))

    def swap(self, attribute: int, one: int, other: int) -> Scene:
        """Return the scene with the values of two entities exchanged."""
        first, second = self.value((one, attribute)), self.value((other, attribute))
        return self.with_value((one, attribute), second).with_value((other, attribute), first)

    def hide(self, *spots: Spot) -> Scene:
        """Return the scene with facts left out."""
        return replace(self, hidden=self.hidden | set(spots))

    def ask(self, spot: Spot, rng: Random) -> str:
        """Return a question for a fact."""
        asks = self.attributes[spot[1]].asks
        return capitalise(rng.choice(asks).replace("{e}", self.entities[spot[0]]))

    def say(self, spot: Spot, rng: Random, value: Value | None = None) -> str:
        """Return a statement of a fact, or of another value in its place; it begins small."""
        says = rng.choice(self.attributes[spot[1]].says)
        said = self.value(spot) if value is None else value
        return says.replace("{e}", self.entities[spot[0]]).replace("{v}", said.text)


def capitalise(text: str) -> str:
    """Return the text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def bare_name(entity: str) -> str:
    """Return a name without its article, as tables hold it."""
    return entity.removeprefix("the ")


def draw_scene(
    domains: Sequence[Domain], num_entities: int, num_attributes: int, rng: Random
) -> Scene:
    """Return an invented scene.

    Args:
        domains: One is chosen.
        num_entities: Its entities, whose names and values all differ.
        num_attributes: At most so many attributes.
        rng: Draws.
    """
    domain = rng.choice(domains)
    count = min(num_attributes, len(domain.attributes))
    attributes = rng.sample(domain.attributes, count)
    names: dict[str, None] = {}
    while len(names) < num_entities:
        names[draw_name(domain.entity, rng)] = None
    columns = []
    for attribute in attributes:
        column: list[Value] = []
        # A domain may have fewer values to pick from than a long scene has entities.
        while len(column) < num_entities:
            most = len(attribute.kind.split(",")) if attribute.kind.startswith("pick:") else 7
            wanted = min(num_entities - len(column), most)
            column += draw_values(attribute.kind, wanted, rng, domain.tongue.weekdays)
        columns.append(column)
    values = tuple(zip(*columns, strict=True))
    return Scene(domain, tuple(attributes), tuple(names), values)


@cache
def english_domains() -> tuple[Domain, ...]:
    """Return the domains in English."""
    return tuple(_read_domain(raw, ENGLISH) for raw in _load("domains.toml")["domain"])


@cache
def foreign_domains() -> tuple[Domain, ...]:
    """Return the domains in other languages."""
    return tuple(
        _read_domain(each, _read_tongue(raw))
        for raw in _load("tongues.toml")["tongue"]
        for each in raw["domain"]
    )


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / name).read_text(encoding="utf-8"))


def _part(text: str) -> tuple[str, ...]:
    return tuple(text.split("; "))


def _read_tongue(raw: Mapping[str, Any]) -> Tongue:
    parts = {
        name: _part(raw[name])
        for name in ("carriers", "silences", "denials", "checks", "yes", "no")
    }
    return Tongue(code=raw["code"], stop=raw["stop"], weekdays=raw["weekdays"], **parts)


def _read_domain(raw: Mapping[str, Any], tongue: Tongue) -> Domain:
    attributes = tuple(
        Attribute(label, kind, _part(asks), _part(says))
        for label, kind, asks, says in raw["attributes"]
    )
    return Domain(raw["plural"], raw["entity"], attributes, tongue)
