"""The source of made sets: pairs of all kinds in fixed shares, by the run's seed.

    python -m training prepare CONFIG

with ``kind = "made"`` in a ``[[data.sets]]``; docs/data.md says what the pairs are like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from contract.labels import Label
from training.made import figures, listings, lookups, relations
from training.made.cases import Case, quote_as_it_stands
from training.made.forms import PLAIN, SPOKEN, WRITTEN, Form
from training.made.hostile import add_orders
from training.made.lookups import Setting
from training.made.scenes import Domain, english_domains, foreign_domains
from training.records import Record
from training.treatment import MADE

Maker = Callable[[Setting, Random], Case]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One sort of pairs.

    Attributes:
        share: Of all pairs, relative to the others.
        makers: One is chosen.
        setting: Where it finds its scene.
        is_hostile: An order to the judge is put into it.
    """

    share: float
    makers: tuple[Maker, ...]
    setting: Setting
    is_hostile: bool = False


_ASKING: tuple[Maker, ...] = (
    lookups.make_other_entity,
    lookups.make_other_attribute,
    lookups.make_other_world,
)
_ANY: tuple[Maker, ...] = (
    *_ASKING,
    lookups.make_claims,
    lookups.make_yes_no,
    lookups.make_silence,
    lookups.make_addition,
    lookups.make_summary,
)


_WORDY = (Form.HTML_TABLE, Form.LOG)
"""Forms that take twice as many tokens as the others."""


def recipes() -> tuple[Recipe, ...]:
    """Return all sorts of pairs with their shares."""
    english, foreign = english_domains(), foreign_domains()
    chinese = tuple(each for each in foreign if each.tongue.code == "zh")
    latin = tuple(each for each in foreign if each.tongue.code != "zh")
    prose = Setting(english, SPOKEN)
    mixed = Setting(english, PLAIN)
    wide = Setting(english, PLAIN, num_entities=(3, 5), num_attributes=(1, 2))
    return (
        Recipe(9, _ASKING, prose),
        Recipe(8, (lookups.make_claims,), mixed),
        Recipe(3, (lookups.make_yes_no,), mixed),
        Recipe(5, (lookups.make_silence,), mixed),
        Recipe(4, (lookups.make_addition,), prose),
        Recipe(4, (lookups.make_summary,), prose),
        Recipe(2, (lookups.make_partial,), mixed),
        Recipe(2, (lookups.make_dialogue,), Setting(english, SPOKEN, (2, 3), (2, 2))),
        # These three are not mirrored; their shares make up for each other.
        Recipe(5, (lookups.make_off_target,), prose),
        Recipe(2, (figures.make_sum_trap,), mixed),
        Recipe(7, (lookups.make_near,), prose),
        Recipe(4, (figures.make_comparison,), mixed),
        Recipe(2, (figures.make_superlative,), wide),
        Recipe(4, (figures.make_sum,), mixed),
        Recipe(1.5, (figures.make_count,), wide),
        Recipe(4, (figures.make_unit,), mixed),
        Recipe(3, (figures.make_date_format,), mixed),
        Recipe(2.5, (figures.make_duration,), wide),
        Recipe(2, (figures.make_number_words,), mixed),
        Recipe(6, (relations.make_roles,), prose),
        Recipe(4, (relations.make_cause,), prose),
        Recipe(5, (relations.make_condition,), prose),
        Recipe(4, (relations.make_quantifier,), prose),
        Recipe(3, (relations.make_change,), prose),
        Recipe(5, (listings.make_listing,), prose),
        *_written(english),
        Recipe(9, _ANY, Setting(latin, PLAIN, (2, 3), (2, 2), "languages")),
        Recipe(1.5, _ANY, Setting(chinese, PLAIN, (2, 3), (2, 2), "languages")),
        Recipe(
            5,
            (*_ANY, lookups.make_off_target, lookups.make_near),
            Setting(english, SPOKEN, (2, 3), (2, 2)),
            is_hostile=True,
        ),
        Recipe(5, _ANY, Setting(english, SPOKEN, (6, 9), (3, 5), "long", 45)),
    )


def _written(domains: tuple[Domain, ...]) -> Iterator[Recipe]:
    shares = {Form.TABLE: 3.0, Form.JSON: 1.5, Form.HTML_TABLE: 1.5}
    for form in WRITTEN:
        most = 2 if form in _WORDY else 4
        setting = Setting(domains, (form,), (2, most), (2, 2), str(form))
        yield Recipe(shares.get(form, 1.0), _ANY, setting)


def make_records(set_name: str, num_pairs: int, seed: int) -> Iterator[Record]:
    """Yield the rows of a made set, pair by pair, right and wrong ones in a shuffled order.

    A pair depends on the seed and its number alone: more pairs change none that are there.

    Args:
        set_name: The set; every ``pair_id`` and ``id`` begins with it.
        num_pairs: At least 1.
        seed: Of every choice.
    """
    known = recipes()
    shares = [recipe.share for recipe in known]
    for number in range(num_pairs):
        rng = Random(f"{seed}/{MADE}/{number}")  # noqa: S311 - no secret hangs on it
        (recipe,) = rng.choices(known, shares)
        case = _draw(recipe, rng)
        yield from _to_records(set_name, number, case, rng)


def _draw(recipe: Recipe, rng: Random) -> Case:
    while True:
        case = rng.choice(recipe.makers)(recipe.setting, rng)
        classes = {(row.knowledge, row.question, row.response.rstrip(".")) for row in case.rows}
        # A number can be the sum of two others and their difference too.
        if len(classes) == len(case.rows):
            return add_orders(case, rng) if recipe.is_hostile else case


def _to_records(set_name: str, number: int, case: Case, rng: Random) -> Iterator[Record]:
    pair_id = f"{set_name}-{case.kind}-{number:06d}"
    for place, row in enumerate(rng.sample(case.rows, len(case.rows))):
        yield Record(
            id=f"{pair_id}-{place}",
            pair_id=pair_id,
            set_name=set_name,
            task=case.task,
            knowledge=row.knowledge,
            question=row.question,
            response=row.response,
            label=Label.CORRECT if row.is_right else Label.HALLUCINATION,
            treatment=MADE,
            justification=quote_as_it_stands(row.justification, row.knowledge),
        )


def kind_of_pair(set_name: str, pair_id: str) -> str:
    """Return the kind in a made pair's id, such as ``units``.

    Example:
        >>> kind_of_pair("made", "made-other-entity-000012")
        'other-entity'
    """
    return pair_id.removeprefix(f"{set_name}-").rpartition("-")[0]
