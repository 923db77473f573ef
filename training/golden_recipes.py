"""Choose the cases of ``evaluation/golden/recipes`` and write them into the recipes.

    python -m training.golden_recipes --data-dir DIR

Done once for each recipe: what is there stays what it is when the rules of the treatment change,
since a recipe says of every response what it is made of. All rows are of the test part of the
embedded model's data, which no training touches, and share no sentence with its training part.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

from contract.labels import Label
from evaluation.errors import EvaluationError
from evaluation.files import write_whole
from evaluation.golden_set import content_hash
from evaluation.recipe_sources import Row, Sources, read_rows
from evaluation.recipes import RECIPES, RecipeCase, load_recipe, make_case, short_hash
from training.cleaning import clean
from training.config_file import load_config
from training.errors import TrainingError
from training.records import Record
from training.sources import load_set
from training.spans import kind_of, split_sentences
from training.splits import Fractions, split_by_pair
from training.treatment import group_pairs, treat

CONFIG = Path(__file__).parent / "configs" / "embedded.toml"
QA, SUMMARIES = "halueval_qa", "defacto"

_NUM_TREATED_ROWS = 60
_NUM_COUPLES = 120
_TREATED = ("short-right", "short-wrong", "long-right", "long-wrong")
# A sentence that shares less than this with the question is a plain carrier, written for this
# project; what shares more was rewritten from it, and its parts are cut from there.
_MIN_SHARED_CHARS = 12
_MIN_PART_CHARS = 4
# As in training.splits, but without an exception for sentences of many texts.
_MIN_SENTENCE_WORDS = 8

# Read and left out: both responses are true of the text, or neither is.
_DOUBTFUL = frozenset((
    "440", "778", "1031", "1738", "1872", "2015", "2299", "2563", "3844",
    "4492", "4612", "5930", "6156", "7178", "7419", "9159", "9403", "9718",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row that a recipe may take, and what can be made of it.

    Attributes:
        name: Of the row.
        pair_id: Of its cases.
        row: Its texts, as the source has them.
        records: As found and as made, normalised.
    """

    name: str
    pair_id: str
    row: Row
    records: Sequence[Record]

    def find(self, ending: str) -> Record | None:
        """Return the record whose id goes on like this after the pair's."""
        wanted = f"{self.pair_id}{ending}"
        return next((each for each in self.records if each.id == wanted), None)

    def case(self, part: str, treatment: str, label: Label, response: str) -> RecipeCase:
        """Return a case of this row, without its hash."""
        return RecipeCase(f"{self.pair_id}/{part}", self.name, treatment, label, response, "")


def load_held_out(data_dir: Path) -> list[Record]:
    """Return HaluEval QA and DeFacto as far as no training touches them, the former treated.

    Pairs are in the order of a hash, which no property of theirs sets.

    Args:
        data_dir: Holds the files that the configuration names.

    Raises:
        DataError: A file is missing or wrong.
    """
    config = load_config(CONFIG, [])
    records: list[Record] = []
    for each in config.data.sets:
        # A pair's place is a hash: what the limit leaves out for training is in its part all the
        # same, and the limit takes a quarter of DeFacto's.
        whole = each.model_copy(update={"max_pairs": None}) if each.name == SUMMARIES else each
        records += clean(load_set(whole, data_dir, config.seed).records).records
    fractions = Fractions(config.data.validation_fraction, config.data.test_fraction)
    split = split_by_pair(records, fractions, config.seed)
    test = [row for row in split.test if row.set_name in (QA, SUMMARIES)]
    trained = set(_sentences(split.train))
    free = [row for row in test if trained.isdisjoint(_sentences([row]))]
    treated = treat(
        [row for row in free if row.set_name == QA],
        config.data.treatment,
        config.seed,
        is_training=False,
    )
    rows = [*treated, *(row for row in free if row.set_name == SUMMARIES)]

    def place(record: Record) -> str:
        return hashlib.sha256(f"{config.seed}/{record.pair_id}".encode()).hexdigest()

    return sorted(rows, key=place)


def _sentences(records: Iterable[Record]) -> Iterator[str]:
    """Yield the sentences of their texts that are long enough to say something."""
    for record in records:
        for text in record.knowledge or ():
            for sentence in split_sentences(text):
                if len(sentence.split()) >= _MIN_SENTENCE_WORDS:
                    yield sentence


def choose_treated(candidates: Sequence[Candidate]) -> Iterator[RecipeCase]:
    """Yield a short and a long, right and wrong answer to each of the first fitting questions.

    The wrong answer is of the right one's kind, within a word of its length, and stands in the same
    knowledge or in the question: only reading tells them apart. None is a question of
    ``choose_matched``.
    """
    used = {case.row for case in choose_matched(candidates)}
    free = [each for each in candidates if each.name not in used]
    fitting = [cases for each in free if (cases := _make_treated(each))]
    for cases in fitting[:_NUM_TREATED_ROWS]:
        yield from cases


def choose_matched(candidates: Sequence[Candidate]) -> Iterator[RecipeCase]:
    """Yield a right and a wrong response within one word of length for each question.

    First all questions whose two responses are so as they were found, then those in which both
    answers stand in the wrong response's own sentence, then the long ones of ``choose_treated``.
    """
    taken: set[str] = set()
    for make in (_make_as_found, _make_exchanged, _make_long):
        for each in candidates:
            couple = [] if each.name in taken or len(taken) == _NUM_COUPLES else make(each)
            taken |= {case.row for case in couple}
            yield from couple


def choose_summaries(candidates: Sequence[Candidate]) -> Iterator[RecipeCase]:
    """Yield a wrong summary, and a person's correction of it, of each of the first texts."""
    for each in candidates[:_NUM_COUPLES]:
        yield each.case("right", "corrected", Label.CORRECT, "{right}")
        yield each.case("wrong", "judged", Label.HALLUCINATION, "{wrong}")


def _make_treated(each: Candidate) -> list[RecipeCase]:
    found = each.find("-0")
    made = {name: row for name in _TREATED if (row := each.find(f"-0/{name}"))}
    # Some questions get the text of another one beside their own.
    if found is None or {row.knowledge for row in (found, *made.values())} != {found.knowledge}:
        return []
    if len(made) < len(_TREATED):
        return []
    right, wrong = (made[name].response.removesuffix(".") for name in _TREATED[:2])
    return _encode_all(each, made, (right, wrong), "question")


def _make_long(each: Candidate) -> list[RecipeCase]:
    return _make_treated(each)[2:]


def _make_exchanged(each: Candidate) -> list[RecipeCase]:
    names = _TREATED[2:]
    made = {name: row for name in names if (row := each.find(f"-0/{name}/x"))}
    found = each.find("-0")
    if len(made) < len(names) or found is None or not _is_matched(*made.values()):
        return []
    if {row.knowledge for row in made.values()} != {found.knowledge}:
        return []
    right, wrong = (made[name].response for name in names)
    answer = found.response.removesuffix(".")
    start = right.find(answer)
    other = wrong[start : len(wrong) - (len(right) - start - len(answer))]
    return _encode_all(each, made, (answer, other), "wrong")


def _make_as_found(each: Candidate) -> list[RecipeCase]:
    right, wrong = each.find("-0"), each.find("-1")
    if right is None or wrong is None or not _is_matched(right, wrong):
        return []
    cases = []
    for field, record in (("right", right), ("wrong", wrong)):
        # A line end that was written out is left out, and blanks.
        response = _find_place(record.response, each.row, (field,))
        if response is None:
            return []
        cases.append(each.case(field, "as-found", record.label, response))
    return cases


def _encode_all(
    each: Candidate, made: Mapping[str, Record], answers: tuple[str, str], form: str
) -> list[RecipeCase]:
    """Return the cases of the made rows, or none where one cannot be told, or written so."""
    right, wrong = answers
    if abs(len(right.split()) - len(wrong.split())) > 1 or kind_of(right) is not kind_of(wrong):
        return []
    cases = []
    for name, record in made.items():
        answer = right if record.label is Label.CORRECT else wrong
        response = encode(record.response, answer, each.row, form)
        if response is None:
            return []
        cases.append(each.case(name, name, record.label, response))
    return cases


def _is_matched(one: Record, other: Record) -> bool:
    return abs(len(one.response.split()) - len(other.response.split())) <= 1


def encode(response: str, answer: str, row: Row, form: str) -> str | None:
    """Return the response with places for its answer and for what its form took from a text.

    Args:
        response: To be written so.
        answer: What fills its form.
        row: Texts that places lead to.
        form: Field that the form was made from.

    Returns:
        None where the answer stands not in the response, or not in the row, as it is.
    """
    start = response.find(answer)
    place = _find_place(answer, row, ("right", "knowledge", "question"))
    if start < 0 or place is None or set("{}") & set(response):
        return None
    before, after = response[:start], response[start + len(answer) :]
    text = row[form]
    return f"{_encode_form(before, text, form)}{place}{_encode_form(after, text, form)}"


def _find_place(part: str, row: Row, fields: Sequence[str]) -> str | None:
    for field in fields:
        start = row[field].find(part)
        if part and start >= 0:
            end = start + len(part)
            return f"{{{field}}}" if part == row[field] else f"{{{field}[{start}:{end}]}}"
    return None


def _encode_form(form: str, text: str, field: str) -> str:
    start = text.find(form)
    if start >= 0 and len(form) >= _MIN_PART_CHARS:
        return f"{{{field}[{start}:{start + len(form)}]}}"
    matcher = SequenceMatcher(None, form, text, autojunk=False)
    if matcher.find_longest_match().size < _MIN_SHARED_CHARS:
        return form
    written, end = "", 0
    for block in matcher.get_matching_blocks():
        if block.size >= _MIN_PART_CHARS:
            written += form[end : block.a] + f"{{{field}[{block.b}:{block.b + block.size}]}}"
            end = block.a + block.size
    return written + form[end:]


@dataclass(frozen=True, slots=True)
class Choice:
    """How a recipe gets its cases.

    Attributes:
        set_name: Data set that they are of.
        choose: From all that is held out of it.
    """

    set_name: str
    choose: Callable[[Sequence[Candidate]], Iterator[RecipeCase]]


CHOICES = {
    "halueval-qa-treated": Choice(QA, choose_treated),
    "halueval-qa-length-matched": Choice(QA, choose_matched),
    "defacto-summarization": Choice(SUMMARIES, choose_summaries),
}
"""Name of a recipe -> its choice."""


def find_candidates(
    sources: Sources, pair: str, records: Sequence[Record], data_dir: Path
) -> list[Candidate]:
    """Return the rows with both classes that a recipe may take, in the order of the records.

    Args:
        sources: Of the recipe.
        pair: Its pair id, with ``{row}`` for a row's name.
        records: Of its data set.
        data_dir: Holds the set.
    """
    before, after = pair.split("{row}")
    pairs = {
        name: (pair_id, rows)
        for (_, pair_id), rows in group_pairs(records).items()
        if (name := pair_id.removeprefix(before).removesuffix(after)) not in _DOUBTFUL
        and {row.label for row in rows} == set(Label)
    }
    texts = read_rows(sources, pairs.keys(), data_dir).rows
    return [Candidate(name, pair_id, texts[name], rows) for name, (pair_id, rows) in pairs.items()]


def write_recipe(path: Path, choice: Choice, held_out: Sequence[Record], data_dir: Path) -> int:
    """Choose the cases of a recipe, and write them with their number and hashes; the head stays.

    Returns:
        Number of cases.

    Raises:
        EvaluationError: There is no head, or the sources cannot be read.
    """
    recipe = load_recipe(path)
    records = [row for row in held_out if row.set_name == choice.set_name]
    candidates = find_candidates(recipe.sources, recipe.pair, records, data_dir)
    rows = {each.name: each.row for each in candidates}
    chosen = list(choice.choose(candidates))
    made = [make_case(recipe, case, rows[case.row]) for case in chosen]
    head = json.loads(path.read_text(encoding="utf-8"))
    head["counts"] = {label: sum(case.label is label for case in made) for label in Label}
    head["sha256"] = content_hash(made)
    head["cases"] = []
    lines = ",\n".join(
        f"    {json.dumps(asdict(replace(case, sha256=short_hash(each))), ensure_ascii=False)}"
        for case, each in zip(chosen, made, strict=True)
    )
    text = json.dumps(head, ensure_ascii=False, indent=2).removesuffix("[]\n}")
    write_whole(path, f"{text}[\n{lines}\n  ]\n}}\n".encode())
    return len(chosen)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the cases of all recipes; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.golden_recipes")
    parser.add_argument("--data-dir", type=Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, default=RECIPES, metavar="DIR", help="folder of heads")
    options = parser.parse_args(arguments)
    try:
        held_out = load_held_out(options.data_dir)
        for name, choice in CHOICES.items():
            path = options.out / f"{name}.json"
            number = write_recipe(path, choice, held_out, options.data_dir)
            sys.stderr.write(f"{path}: {number} cases\n")
    except (TrainingError, EvaluationError) as error:
        sys.stderr.write(f"cannot go on: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
