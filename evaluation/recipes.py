"""Recipes: golden sets made of public data that this repository does not carry.

A recipe (``evaluation/golden/recipes/*.json``) names a data set, its commit, the rows, what is done
with them, and the hash of what has to come out; it holds none of their texts.

    python -m evaluation materialise halueval-qa-treated --out treated.jsonl
    python -m evaluation baseline --set treated.jsonl --url URL --out baseline.json

The response of a case is written as a text with places for parts of the row's own texts, counted in
Unicode code points: ``The answer is {right}.`` or ``It was {knowledge[10:14]}``. What the rows are
read from is ``evaluation/recipe_sources.py``; how they were chosen, ``training/golden_recipes.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from contract.labels import Label
from evaluation.errors import GoldenSetError
from evaluation.files import write_whole
from evaluation.golden_set import FOLDER, GoldenCase, Kind, content_hash
from evaluation.json_fields import Fields, parse_object
from evaluation.recipe_sources import FIELDS, LoadedRows, Row, Sources, parse_sources, read_rows

RECIPES = FOLDER / "recipes"
"""The project's own recipes, called by the stems of their names."""

FORMAT = 1

_SLOT = re.compile(rf"\{{({'|'.join(FIELDS)})(?:\[(\d+):(\d+)\])?\}}")
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class RecipeCase:
    """How one case is made.

    Attributes:
        id: Unique in the recipe.
        row: Name of the row that it is made of; cases of one row are a pair.
        treatment: What is done with it, a key of the recipe's ``treatments``.
        label: The gold class.
        response: The response, with places for parts of the row's texts.
        sha256: ``content_hash`` of the case, its first 12 digits.
    """

    id: str
    row: str
    treatment: str
    label: Label
    response: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """A golden set, without its texts.

    Attributes:
        title: What people call the data set.
        url: Of its project.
        licence: In words, with what its texts are made of.
        language: Of its texts, such as ``en``.
        selection: How the rows were chosen, in words.
        sources: What the rows can be read from.
        pair: Pair id of a row's cases, with ``{row}`` for its name.
        treatments: Name -> what is done, in words.
        counts: Class -> number of cases.
        sha256: ``content_hash`` of the whole set.
        cases: In the order of the golden set.
    """

    title: str
    url: str
    licence: str
    language: str
    selection: str
    sources: Sources
    pair: str
    treatments: Mapping[str, str]
    counts: Mapping[Label, int]
    sha256: str
    cases: tuple[RecipeCase, ...]

    @property
    def rows(self) -> list[str]:
        """The names of the rows, each once, in the order of the cases."""
        return list(dict.fromkeys(case.row for case in self.cases))


def find_recipe(name: str) -> Path:
    """Return the file of a recipe, given its path or the name of one of the project's own.

    Raises:
        GoldenSetError: There is no such recipe; those that are there are listed.
    """
    own = RECIPES / f"{name}.json"
    for path in (own, Path(name)):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in RECIPES.glob("*.json")))
    raise GoldenSetError(f"there is no recipe {name}: name a file, or one of {known}")


def load_recipe(path: Path) -> Recipe:
    """Read and check a recipe.

    Raises:
        GoldenSetError: It cannot be read, or breaks a rule; the file and the member are named.
    """
    try:
        return _parse_recipe(parse_object(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise GoldenSetError(f"{path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise GoldenSetError(f"{path} is no recipe: {error}") from error


def materialise(recipe: Recipe, data_dir: Path | None) -> list[GoldenCase]:
    """Return the cases, exactly those that the recipe was made of.

    Args:
        recipe: Of the set.
        data_dir: Folder or clone that holds the data set; the Hub is asked where None.

    Raises:
        GoldenSetError: The data set cannot be read, lacks rows, or has other texts: the first of
            the rows or cases are named.
    """
    loaded = read_rows(recipe.sources, recipe.rows, data_dir)
    _check_rows(recipe, loaded)
    cases = [make_case(recipe, case, loaded.rows[case.row]) for case in recipe.cases]
    _check_cases(recipe, cases, loaded.origin)
    return cases


def make_case(recipe: Recipe, case: RecipeCase, row: Row) -> GoldenCase:
    """Return one case, made of its row."""
    return GoldenCase(
        id=case.id,
        pair_id=recipe.pair.replace("{row}", case.row),
        kind=Kind.OTHER,
        language=recipe.language,
        knowledge=(row["knowledge"],) if "knowledge" in row else None,
        question=row.get("question"),
        response=fill(case.response, row),
        label=case.label,
        why=f"{recipe.title}, row {case.row}: {recipe.treatments[case.treatment]}",
    )


def fill(response: str, row: Row) -> str:
    """Put the parts of a row's texts into their places; a text that the row lacks is blank.

    Example:
        >>> fill("It was {right}, not {knowledge[0:4]}.", {"right": "Rome", "knowledge": "Oslo is"})
        'It was Rome, not Oslo.'
    """

    def part(match: re.Match[str]) -> str:
        field, start, end = match.groups()
        text = row.get(field, "")
        return text if start is None else text[int(start) : int(end)]

    return _SLOT.sub(part, response)


def short_hash(case: GoldenCase) -> str:
    """Return the first 12 hex digits of the case's ``content_hash``."""
    return content_hash([case])[:12]


def write_cases(path: Path, cases: Sequence[GoldenCase]) -> None:
    """Write a golden set, whole or not at all.

    Raises:
        GoldenSetError: It cannot be written.
    """
    lines = [json.dumps(asdict(case), ensure_ascii=False) + "\n" for case in cases]
    try:
        write_whole(path, "".join(lines).encode())
    except OSError as error:
        raise GoldenSetError(f"{path} cannot be written ({error.strerror})") from error


def _check_rows(recipe: Recipe, loaded: LoadedRows) -> None:
    missing = [name for name in recipe.rows if name not in loaded.rows]
    if missing:
        raise GoldenSetError(
            f"{loaded.origin} lacks {len(missing)} of the {len(recipe.rows)} rows of the recipe: "
            f"{_name(missing)}. {_say_revision(recipe.sources)}"
        )


def _check_cases(recipe: Recipe, cases: Sequence[GoldenCase], origin: str) -> None:
    pairs = zip(recipe.cases, cases, strict=True)
    other = [case.id for wanted, case in pairs if short_hash(case) != wanted.sha256]
    if other:
        raise GoldenSetError(
            f"{origin} has other texts than the recipe was made of in {len(other)} of "
            f"{len(cases)} cases: {_name(other)}. {_say_revision(recipe.sources)}"
        )
    found = content_hash(cases)
    if found != recipe.sha256:
        raise GoldenSetError(
            f"the recipe contradicts itself: its cases have the hash {found}, and its sha256 is "
            f"{recipe.sha256}. Take the recipe as it was committed"
        )


def _say_revision(sources: Sources) -> str:
    pinned = [
        f"{where} at {revision}"
        for where, revision in (
            *([(sources.hub.repo, sources.hub.revision)] if sources.hub else []),
            *([(sources.clone.url, sources.clone.revision)] if sources.clone else []),
        )
    ]
    return f"It has to be {' or '.join(pinned)}" if pinned else "Take the file that it was made of"


def _name(names: Collection[str]) -> str:
    first = ", ".join(list(names)[:_MAX_NAMED])
    return f"{first} and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else first


def _parse_recipe(fields: Fields) -> Recipe:
    if fields.count("format") != FORMAT:
        raise ValueError(f"format must be {FORMAT}: this code reads no other")
    dataset, counts = fields.fields("dataset"), fields.fields("counts")
    treatments = fields.fields("treatments")
    recipe = Recipe(
        title=dataset.text("title"),
        url=dataset.text("url"),
        licence=dataset.text("licence"),
        language=dataset.text("language"),
        selection=fields.text("selection"),
        sources=parse_sources(fields.fields("sources")),
        pair=fields.text("pair"),
        treatments={name: treatments.text(name) for name in treatments.names},
        counts={label: counts.count(label) for label in Label},
        sha256=fields.text("sha256"),
        cases=tuple(_parse_case(each) for each in fields.items("cases")),
    )
    _check_recipe(recipe)
    return recipe


def _parse_case(fields: Fields) -> RecipeCase:
    label = fields.text("label")
    if label not in list(Label):
        raise ValueError(f"{fields.place('label')} must be one of {', '.join(Label)}")
    response = fields.text("response")
    if re.search(r"[{}]", _SLOT.sub("", response)):
        raise ValueError(
            f"{fields.place('response')}: a place is written {{FIELD}} or {{FIELD[START:END]}}, "
            f"with one of {', '.join(FIELDS)}"
        )
    return RecipeCase(
        id=fields.text("id"),
        row=fields.text("row"),
        treatment=fields.text("treatment"),
        label=Label(label),
        response=response,
        sha256=fields.text("sha256"),
    )


def _check_recipe(recipe: Recipe) -> None:
    ids = [case.id for case in recipe.cases]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"cases: two have the id {_name(twice)}")
    unknown = sorted({case.treatment for case in recipe.cases} - set(recipe.treatments))
    if unknown:
        raise ValueError(f"cases: the treatment {_name(unknown)} is not in treatments")
    for label in Label:
        number = sum(case.label is label for case in recipe.cases)
        if number != recipe.counts[label]:
            raise ValueError(f"counts.{label} is {recipe.counts[label]}, and {number} cases are")
