"""What the golden recipes are made of: rows that no training touches, written as places."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from contract.example import Example, normalise
from contract.labels import Label
from evaluation.recipe_sources import read_rows
from evaluation.recipes import RECIPES, fill, find_recipe, load_recipe, materialise
from training.cleaning import clean
from training.config_file import load_config
from training.golden_recipes import (
    CHOICES,
    CONFIG,
    Candidate,
    choose_matched,
    choose_summaries,
    choose_treated,
    encode,
    find_candidates,
    main,
    write_recipe,
)
from training.records import Record
from training.sources import load_set
from training.spans import split_sentences
from training.splits import Fractions, Split, leave_out_shared, split_by_pair

ROW = {
    "knowledge": "Oslo was founded in 1049. Bergen was founded in 1070.",
    "question": "In which year was the town of Oslo founded?",
    "right": "1049",
    "wrong": "The town of Oslo was founded in 1838.",
}


@pytest.mark.parametrize(
    ("response", "answer", "form", "written"),
    [
        ("1049.", "1049", "question", "{right}."),
        ("1070", "1070", "question", "{knowledge[48:52]}"),
        ("The answer is 1070.", "1070", "question", "The answer is {knowledge[48:52]}."),
        (
            "The town of Oslo was founded in 1070.", "1070", "wrong",
            "{wrong[0:32]}{knowledge[48:52]}.",
        ),
        (
            "In fact, the town of Oslo was founded in 1049", "1049", "question",
            "In fact,{question[17:35]}was {question[35:42]} in {right}",
        ),
    ],
    ids=["right", "knowledge", "carrier", "own-sentence", "rewritten"],
)  # fmt: skip
def test_a_response_is_written_as_places(
    response: str, answer: str, form: str, written: str
) -> None:
    assert encode(response, answer, ROW, form) == written
    assert fill(written, ROW) == response


@pytest.mark.parametrize(
    ("response", "answer"),
    [("It was 1838.", "1838"), ("It was 1049.", "1070"), ("{right} 1049", "1049")],
    ids=["not-in-the-row", "not-in-the-response", "looks-like-a-place"],
)
def test_what_cannot_be_written_so_is_left_out(response: str, answer: str) -> None:
    assert encode(response, answer, ROW, "question") is None


def record(ending: str, response: str, knowledge: str = ROW["knowledge"]) -> Record:
    label = Label.HALLUCINATION if "wrong" in ending or ending == "-1" else Label.CORRECT
    identity = f"halueval-qa-7{ending}"
    question = ROW["question"]
    return Record(
        identity, "halueval-qa-7", "halueval_qa", "qa", (knowledge,), question, response, label
    )


FOUND = [record("-0", "1049"), record("-1", ROW["wrong"])]
MADE = [
    record("-0/short-right", "1049."),
    record("-0/short-wrong", "1070."),
    record("-0/long-right", "The answer is 1049"),
    record("-0/long-wrong", "The answer is 1070"),
]
EXCHANGED = [
    record("-0/long-right/x", "The town of Oslo was founded in 1049."),
    record("-0/long-wrong/x", "The town of Oslo was founded in 1070."),
]


def candidate(records: Iterable[Record], row: dict[str, str] = ROW) -> Candidate:
    return Candidate("7", "halueval-qa-7", row, list(records))


def test_a_treated_question_gives_four_cases() -> None:
    fillers = [Candidate(f"{i}", f"halueval-qa-{i}", ROW, FOUND) for i in range(100, 103)]
    # Without another 120 questions every one goes to the length-matched ones.
    assert list(choose_treated([*fillers, candidate([*FOUND, *MADE])])) == []
    cases = list(choose_matched([*fillers, candidate([*FOUND, *MADE])]))
    assert [case.id for case in cases] == ["halueval-qa-7/long-right", "halueval-qa-7/long-wrong"]
    many = [
        Candidate(f"{i}", "halueval-qa-7", ROW, [*FOUND, *MADE]) for i in range(1000, 1000 + 121)
    ]
    treated = list(choose_treated(many))
    assert [case.response for case in treated] == [
        "{right}.",
        "{knowledge[48:52]}.",
        "The answer is {right}",
        "The answer is {knowledge[48:52]}",
    ]
    assert {case.row for case in treated} == {"1120"}


@pytest.mark.parametrize(
    "made",
    [
        [*MADE[:3], record("-0/long-wrong", "The answer is 1070", "Another text.")],
        [MADE[0], record("-0/short-wrong", "Bergen."), *MADE[2:]],
        MADE[:3],
    ],
    ids=["other-knowledge", "other-kind", "one-missing"],
)
def test_a_question_that_gives_its_answers_away_is_left_out(made: list[Record]) -> None:
    assert list(choose_matched([candidate([*FOUND, *made])])) == []


def test_what_was_found_comes_before_what_was_made() -> None:
    row = {**ROW, "wrong": "1838./n"}
    found = [FOUND[0], record("-1", "1838.")]
    cases = list(choose_matched([candidate([*found, *MADE, *EXCHANGED], row)]))
    assert [case.response for case in cases] == ["{right}", "{wrong[0:5]}"]
    cases = list(choose_matched([candidate([*FOUND, *MADE, *EXCHANGED])]))
    assert [case.response for case in cases] == [
        "{wrong[0:32]}{right}.",
        "{wrong[0:32]}{knowledge[48:52]}.",
    ]


def test_summaries_come_in_couples() -> None:
    cases = list(choose_summaries([candidate(FOUND)]))
    assert [(case.label, case.response) for case in cases] == [
        (Label.CORRECT, "{right}"),
        (Label.HALLUCINATION, "{wrong}"),
    ]


def test_cases_are_written_under_the_head_that_is_there(tmp_path: Path) -> None:
    name = "defacto-summarization"
    head = json.loads((RECIPES / f"{name}.json").read_text(encoding="utf-8"))
    head |= {"counts": {"hallucination": 0, "correct": 0}, "sha256": "", "cases": []}
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(head))
    labels = (Label.HALLUCINATION, Label.CORRECT)
    records = [
        Record(f"defacto-val-{n}-{i}", f"defacto-val-{n}", "defacto", "summarization", (f"K {n}",),
               None, f"R {n} {i}", label)
        for n in (3, 4)
        for i, label in enumerate(labels)
    ]  # fmt: skip
    lines = [{**asdict(each), "knowledge": each.knowledge[0]} for each in records if each.knowledge]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "defacto_summarization.jsonl").write_text(text)
    assert write_recipe(path, CHOICES[name], records, tmp_path) == 4
    made = json.loads(path.read_text(encoding="utf-8"))
    changed = ("counts", "sha256", "cases")
    assert {k: v for k, v in made.items() if k not in changed} == {
        k: v for k, v in head.items() if k not in changed
    }
    assert made["counts"] == {"hallucination": 2, "correct": 2}
    cases = materialise(load_recipe(path), tmp_path)
    assert [case.response for case in cases] == ["R 3 1", "R 3 0", "R 4 1", "R 4 0"]


def test_missing_data_end_it_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data-dir", str(tmp_path), "--out", str(tmp_path)]) == 1
    assert "cannot go on: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def load_split(data_dir: Path) -> Split:
    """The embedded model's split, exactly as ``prepare`` makes it."""
    config = load_config(CONFIG, [])
    records: list[Record] = []
    for each in config.data.sets:
        records += clean(load_set(each, data_dir, config.seed).records).records
    fractions = Fractions(config.data.validation_fraction, config.data.test_fraction)
    return leave_out_shared(split_by_pair(records, fractions, config.seed))


def sentences(texts: Iterable[str]) -> Iterator[str]:
    """Sentences of eight words and more, which say something."""
    for text in texts:
        yield from (each for each in split_sentences(text) if len(each.split()) >= 8)


def test_no_training_touched_a_row_of_the_own_recipes(data_dir: Path) -> None:
    split = load_split(data_dir)
    parts = (split.train, split.validation, split.test)
    train, validation, test = ({row.pair_id for row in part} for part in parts)
    trained = set(sentences({text for row in split.train for text in row.knowledge or ()}))
    assert min(len(validation), len(test), len(trained)) > 300
    for path in RECIPES.glob("*.json"):
        recipe = load_recipe(path)
        pairs = {recipe.pair.replace("{row}", name) for name in recipe.rows}
        assert not pairs & (train | validation), path.stem
        assert pairs <= test or path.stem == "defacto-summarization"
        texts = read_rows(recipe.sources, recipe.rows, data_dir).rows.values()
        # Normalised like the rows that are trained on.
        examples = [normalise(Example((row["knowledge"],), None, "R")) for row in texts]
        own = set(sentences(text for each in examples for text in each.knowledge or ()))
        assert len(own) > len(recipe.rows)
        assert not own & trained, path.stem


def test_the_rows_of_a_recipe_can_be_found_by_their_names(data_dir: Path) -> None:
    recipe = load_recipe(find_recipe("defacto-summarization"))
    lines = (data_dir / "defacto_summarization.jsonl").read_text(encoding="utf-8").split("\n")
    line = json.loads(lines[0])
    pair_id = line["pair_id"]
    records = [
        Record(f"{pair_id}-{i}", pair_id, "defacto", "summarization", ("K",), None, "R", label)
        for i, label in enumerate((Label.HALLUCINATION, Label.CORRECT))
    ]
    (found,) = find_candidates(recipe.sources, recipe.pair, records, data_dir)
    assert found.pair_id == f"defacto-{found.name}"
    assert found.row["wrong"] == line["response"]
    # One class alone makes no couple.
    assert find_candidates(recipe.sources, recipe.pair, records[:1], data_dir) == []
