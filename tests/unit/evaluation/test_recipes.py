"""Recipes: what they must hold, what they are read from, and that nothing but their set comes out.

The rows are made up; those of the project's own recipes are looked at where there is a folder that
holds them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.made_baseline import answer
from support.stub_service import StubService

from contract.labels import Label
from evaluation.__main__ import main
from evaluation.baseline import Baseline
from evaluation.errors import GoldenSetError
from evaluation.golden_set import content_hash, load_golden_set
from evaluation.recipe_sources import read_rows
from evaluation.recipes import (
    RECIPES,
    fill,
    find_recipe,
    load_recipe,
    make_case,
    materialise,
    short_hash,
)
from evaluation.shortcuts import shortcut_table

OWN = sorted(RECIPES.glob("*.json"))

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = {
    "0": ("The pool is 25 metres long.", "How long is it?", "25 metres", "50 metres."),
    "1": (" Oslo was named in 1925.", "When was it named?", "1925", "In 1838, it was named./n"),
}
# What comes out, worked out by hand.
RESPONSES = ["25 metres", "50 metres.", "It was 1925.", "In 1838, it was named."]


def folder_lines() -> list[dict[str, Any]]:
    """The rows in the project's form, one line for each response, the wrong ones first."""
    return [
        {"id": f"made-{name}-{place}", "pair_id": f"made-{name}", "task": "qa",
         "knowledge": row[0], "question": row[1], "response": row[2 + place], "label": label}
        for place, label in ((1, "hallucination"), (0, "correct"))
        for name, row in ROWS.items()
    ]  # fmt: skip


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    write_lines(path / "made.jsonl", folder_lines())
    return path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    path = tmp_path / "clone"
    rows = [
        {
            "number": int(name),
            "text": row[0],
            "ask": row[1],
            "good": {"text": row[2]},
            "bad": row[3],
        }
        for name, row in ROWS.items()
    ]
    write_lines(path / "data" / "all.jsonl", rows)
    return path


def recipe_json() -> dict[str, Any]:
    """A recipe of four cases; its hashes are filled in by ``write_recipe``."""
    templates = ["{right}", "{wrong}", "It was {knowledge[19:23]}.", "{wrong[0:22]}"]
    return {
        "format": 1,
        "dataset": {"title": "Made", "url": "http://example.org", "licence": "CC0",
                    "language": "en"},
        "selection": "All.",
        "sources": {
            "folder": {"file": "made.jsonl", "right": "made-{row}-0", "wrong": "made-{row}-1"},
            "clone": {
                "url": "https://example.org/made", "revision": COMMIT,
                "files": {"": "data/all.jsonl"}, "key": "number",
                "columns": {"knowledge": "text", "question": "ask", "right": "good.text",
                            "wrong": "bad"},
            },
        },
        "pair": "made-{row}",
        "treatments": {"kept": "as the set has it"},
        "counts": {"hallucination": 2, "correct": 2},
        "sha256": "",
        "cases": [
            {"id": f"made-{place}", "row": str(place // 2), "treatment": "kept",
             "label": "hallucination" if place % 2 else "correct", "response": template,
             "sha256": ""}
            for place, template in enumerate(templates)
        ],
    }  # fmt: skip


def write_recipe(path: Path, raw: dict[str, Any]) -> Path:
    """Write the recipe with the hashes of what its made-up rows give."""
    path.write_text(json.dumps(raw), encoding="utf-8")
    recipe = load_recipe(path)
    fields = ("knowledge", "question", "right", "wrong")
    rows = {name: dict(zip(fields, row, strict=True)) for name, row in ROWS.items()}
    made = [make_case(recipe, case, rows[case.row]) for case in recipe.cases]
    for line, case in zip(raw["cases"], made, strict=True):
        line["sha256"] = short_hash(case)
    raw["sha256"] = content_hash(made)
    path.write_text(json.dumps(raw), encoding="utf-8")
    return path


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return write_recipe(tmp_path / "recipe.json", recipe_json())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "golden.jsonl"


def run(recipe: Path | str, out: Path, data_dir: Path) -> int:
    return main(["materialise", str(recipe), "--out", str(out), "--data-dir", str(data_dir)])


@pytest.mark.parametrize("source", ["folder", "clone"])
def test_folder_and_clone_give_one_and_the_same_golden_set(
    source: str, recipe: Path, out: Path, request: pytest.FixtureRequest
) -> None:
    assert run(recipe, out, request.getfixturevalue(source)) == 0
    golden = load_golden_set(out)
    assert golden.sha256 == load_recipe(recipe).sha256
    assert [case.response for case in golden.cases] == RESPONSES
    assert [case.pair_id for case in golden.cases] == ["made-0", "made-0", "made-1", "made-1"]
    first, *_, last = golden.cases
    assert (first.label, last.label) == (Label.CORRECT, Label.HALLUCINATION)
    assert (last.knowledge, last.question) == ((" Oslo was named in 1925.",), "When was it named?")
    assert first.why == "Made, row 0: as the set has it"
    assert [each.name for each in out.parent.iterdir()] == ["golden.jsonl"]


def test_what_was_made_is_told_with_the_rule_to_beat(
    recipe: Path, out: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(recipe, out, folder)
    err = capsys.readouterr().err
    assert "golden.jsonl: 4 cases (2 hallucination, 2 correct) of Made, sha256 " in err
    # Words that stand in the knowledge: 2 of 2 and 2 of 3 against 1 of 2 and 3 of 5.
    assert "that reads nothing (overlap) has a balanced accuracy of 1.000. Licence: CC0\n" in err


@pytest.fixture
def stub() -> Iterator[Any]:
    service = StubService()
    service.reply = lambda body: answer(0.75 if body["response"] in RESPONSES[1::2] else 0.25)
    yield service
    service.close()


def test_a_baseline_can_be_made_of_it(
    stub: Any, recipe: Path, out: Path, folder: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("HALLUCINATION_DETECTOR_API_KEY", raising=False)
    baseline = tmp_path / "baseline.json"
    assert run(recipe, out, folder) == 0
    words = ["baseline", "--url", stub.url, "--set", str(out), "--out", str(baseline)]
    assert main(words) == 0
    measured = Baseline.read(baseline)
    assert measured.golden_sha256 == load_recipe(recipe).sha256
    assert (measured.num_cases, measured.overall.balanced_accuracy) == (4, 1.0)
    assert set(stub.responses) == set(RESPONSES)


def test_rows_that_are_not_there_are_named_and_nothing_is_written(
    recipe: Path, out: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for line in folder_lines() if line["id"] != "made-1-1"]
    write_lines(folder / "made.jsonl", lines)
    assert run(recipe, out, folder) == 2
    err = capsys.readouterr().err
    assert "could not materialise: " in err
    assert "made.jsonl lacks 1 of the 2 rows of the recipe: 1. " in err
    assert f"It has to be https://example.org/made at {COMMIT}" in err
    assert list(out.parent.iterdir()) == []


def test_other_texts_are_named_and_an_older_set_stays(
    recipe: Path, out: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(recipe, out, folder)
    before = out.read_bytes()
    lines = folder_lines()
    for line in lines:
        if line["id"].startswith("made-1"):
            line["knowledge"] += " "
    write_lines(folder / "made.jsonl", lines)
    assert run(recipe, out, folder) == 2
    assert "other texts than the recipe was made of in 2 of 4 cases: made-2, made-3. It" in (
        capsys.readouterr().err
    )
    assert out.read_bytes() == before
    assert [each.name for each in out.parent.iterdir()] == ["golden.jsonl"]


def test_only_the_first_of_many_are_named(tmp_path: Path, folder: Path) -> None:
    raw = recipe_json()
    for place in range(2, 9):
        case = {**raw["cases"][0], "id": f"more-{place}", "row": str(place), "response": "{right}"}
        raw["cases"].append(case)
    raw["counts"]["correct"] += 7
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(GoldenSetError, match=r"lacks 7 of the 9 rows .*: 2, 3, 4, 5, 6 and 2 more"):
        materialise(load_recipe(path), folder)


def test_a_recipe_whose_hash_is_not_that_of_its_cases_is_refused(
    recipe: Path, folder: Path
) -> None:
    raw = json.loads(recipe.read_text())
    raw["sha256"] = "0" * 64
    recipe.write_text(json.dumps(raw))
    with pytest.raises(GoldenSetError, match="the recipe contradicts itself"):
        materialise(load_recipe(recipe), folder)


def test_a_folder_whose_labels_are_others_is_refused(recipe: Path, folder: Path) -> None:
    lines = folder_lines()
    lines[0]["label"] = "correct"
    write_lines(folder / "made.jsonl", lines)
    with pytest.raises(GoldenSetError, match=r"line 1: made-0-1 must be hallucination, and is cor"):
        materialise(load_recipe(recipe), folder)


def test_a_folder_without_the_set_is_told_what_to_bring(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError) as caught:
        materialise(load_recipe(recipe), tmp_path)
    assert "does not hold this set: name a folder with made.jsonl or a clone (" in f"{caught.value}"
    assert f"git -C DIR checkout {COMMIT}" in f"{caught.value}"


def test_a_set_that_is_not_on_the_hub_needs_a_folder(recipe: Path) -> None:
    with pytest.raises(GoldenSetError, match="names no source on the Hub: name a folder with made"):
        materialise(load_recipe(recipe), None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"made\.jsonl is not JSON Lines in UTF-8"),
        (b"\xff", r"made\.jsonl is not JSON Lines in UTF-8"),
        (b"[]\n", r"made\.jsonl, line 1: it must be a JSON object"),
        (
            b'{"id": "made-0-0", "label": "correct", "response": 3}\n',
            r"line 1: response must be a text",
        ),
    ],
    ids=["cut-off", "not-utf-8", "array", "number"],
)
def test_a_broken_file_is_named(recipe: Path, folder: Path, content: bytes, message: str) -> None:
    (folder / "made.jsonl").write_bytes(content)
    with pytest.raises(GoldenSetError, match=message):
        materialise(load_recipe(recipe), folder)


def test_parts_are_counted_in_code_points() -> None:
    row = {"knowledge": "Zoë 😀 Ünal", "right": "yes"}
    assert fill("{knowledge[0:3]}, {knowledge[4:5]} and {right}", row) == "Zoë, 😀 and yes"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format must be 1"),
        ({"sources": {}}, "sources must name hub, folder or clone"),
        ({"counts": {"hallucination": 2, "correct": 3}}, r"counts\.correct is 3, and 2 cases are"),
        ({"treatments": {}}, "the treatment kept is not in treatments"),
        ({"sha256": None}, "sha256 must be a string"),
    ],
    ids=["format", "sources", "counts", "treatments", "hash"],
)
def test_a_broken_recipe_is_named_with_the_member(
    recipe: Path, change: dict[str, Any], message: str
) -> None:
    recipe.write_text(json.dumps(recipe_json() | change))
    with pytest.raises(GoldenSetError, match=rf"recipe\.json is no recipe: .*{message}"):
        load_recipe(recipe)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"response": "{answer}"}, r"cases\[1\]\.response: a place is written"),
        ({"response": "{right[1:]}"}, r"cases\[1\]\.response: a place is written"),
        ({"label": "maybe"}, r"cases\[1\]\.label must be one of"),
        ({"id": "made-0"}, "two have the id made-0"),
    ],
    ids=["field", "range", "label", "id"],
)
def test_a_broken_case_is_named(recipe: Path, change: dict[str, Any], message: str) -> None:
    raw = recipe_json()
    raw["cases"][1] |= change
    recipe.write_text(json.dumps(raw))
    with pytest.raises(GoldenSetError, match=message):
        load_recipe(recipe)


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        ("clone", {"revision": "main"}, r"sources\.clone\.revision must be a commit, 40 hex"),
        ("clone", {"columns": {"label": "x"}}, r"sources\.clone\.columns: label is none of a row"),
        ("folder", {"right": "made-0"}, r"sources\.folder\.right must hold \{row\}"),
    ],
    ids=["commit", "columns", "template"],
)
def test_a_broken_source_is_named(
    recipe: Path, source: str, change: dict[str, Any], message: str
) -> None:
    raw = recipe_json()
    raw["sources"][source] |= change
    recipe.write_text(json.dumps(raw))
    with pytest.raises(GoldenSetError, match=message):
        load_recipe(recipe)


def test_an_unknown_recipe_is_told_the_known_ones(
    out: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("halueval", out, folder) == 2
    assert (
        "could not materialise: there is no recipe halueval: name a file, or one of "
        "defacto-summarization, halueval-qa-length-matched, halueval-qa-treated\n"
    ) in capsys.readouterr().err


def test_what_cannot_be_written_is_found_out_first(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(recipe, tmp_path, tmp_path / "no-such-folder") == 2
    assert "is a folder: name a file with --out" in capsys.readouterr().err


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_own_recipes_are_balanced(path: Path) -> None:
    recipe = load_recipe(path)
    assert set(recipe.counts.values()) == {120}
    assert len({case.sha256 for case in recipe.cases}) == 240


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_own_recipes_hold_none_of_the_texts(path: Path, data_dir: Path) -> None:
    recipe = load_recipe(path)
    rows = read_rows(recipe.sources, recipe.rows, data_dir).rows
    for case in recipe.cases:
        # This project's own carriers, such as "The answer is", and now and then a name.
        for written in re.split(r"\{[^}]*\}", case.response):
            found = [field for field, text in rows[case.row].items() if written.strip() in text]
            assert len(written) < 20 or not found, case.id


def test_the_own_recipes_are_those_that_the_documentation_names() -> None:
    page = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    assert [path.stem for path in OWN] == sorted(re.findall(r"(?m)^\| `([a-z-]+)` \| 240 \|", page))


# Balanced accuracy that no rule passes which looks at the form of a response or counts its words.
BEST_RULE = {
    "defacto-summarization": 0.67,
    "halueval-qa-length-matched": 0.63,
    "halueval-qa-treated": 0.55,
}


@pytest.mark.parametrize("name", BEST_RULE)
def test_own_recipes_give_their_sets(name: str, data_dir: Path) -> None:
    recipe = load_recipe(find_recipe(name))
    cases = materialise(recipe, data_dir)
    assert content_hash(cases) == recipe.sha256
    scores = {each.name: each.balanced_accuracy for each in shortcut_table(cases, cases)}
    assert max(scores.values()) <= BEST_RULE[name], scores


def test_no_row_is_in_both_sets_of_halueval(data_dir: Path) -> None:
    names = ("halueval-qa-length-matched", "halueval-qa-treated")
    one, other = (load_recipe(find_recipe(name)) for name in names)
    assert not set(one.rows) & set(other.rows)
    texts = read_rows(one.sources, [*one.rows, *other.rows], data_dir).rows
    assert len({row["question"] for row in texts.values()}) == len(one.rows) + len(other.rows)
