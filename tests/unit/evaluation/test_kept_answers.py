"""The file of kept answers: what a line is bound to, and what it takes from several runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.made_baseline import CASES, RIGHT, SHA, WRONG

from evaluation.errors import EvaluationError
from evaluation.kept_answers import KeptAnswers, Said
from evaluation.kept_lines import KeptLines
from evaluation.noise import Outcome

A, B, C, D = CASES
SURE = Said(Outcome(WRONG, 0.75, SHA), "Because.", 12.5)
UNREAD = Said(Outcome(None, None, None), None, 3.0)
OF = {"service": {"model": "m"}, "passes": {"first": 8}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "answers.jsonl"


def begin(path: Path, *, is_text_needed: bool = True) -> KeptAnswers:
    kept = KeptAnswers(path, lambda text: None, is_resumed=True)
    kept.begin(OF, lambda id, outcome: is_text_needed)
    return kept


def test_answers_come_back_with_the_time_and_the_runs_that_they_took(path: Path) -> None:
    first = begin(path)
    first.add("first", A, SURE, 2.0)
    first.add("first", B, UNREAD, 1.5)
    second = begin(path)
    second.add("first", C, SURE, 2.25)
    third = begin(path)
    found = third.find("first", CASES)
    assert found.said == {"a": SURE, "b": UNREAD, "c": SURE}
    assert (found.seconds, found.num_runs) == (2.25, 2)
    alone = third.find("first", [A, B])
    assert (alone.seconds, alone.num_runs) == (2.0, 1)
    none = third.find("second", CASES)
    assert (none.said, none.seconds, none.num_runs) == ({}, 0.0, 0)


@pytest.mark.parametrize(
    "change",
    [{"knowledge": ("Another fact.",)}, {"knowledge": None}, {"question": "What?"}],
    ids=["knowledge", "no-knowledge", "question"],
)
def test_a_row_in_other_words_was_not_answered(path: Path, change: dict[str, object]) -> None:
    begin(path).add("first", A, SURE, 1.0)
    kept = begin(path)
    assert list(kept.find("first", [A]).said) == ["a"]
    assert kept.find("first", [replace(A, **change)]).said == {}  # type: ignore[arg-type]


def test_a_text_is_kept_only_where_it_is_needed(path: Path) -> None:
    begin(path, is_text_needed=False).add("first", A, SURE, 1.0)
    assert "Because." not in path.read_text()
    assert begin(path).find("first", [A]).said == {"a": replace(SURE, justification=None)}


def test_a_broken_line_is_passed_over(path: Path) -> None:
    kept = begin(path)
    kept.add("first", A, SURE, 1.0)
    kept.add("first", B, SURE, 1.0)
    text = path.read_text()
    path.write_text(text.replace('"probability": 0.75', '"probability": NaN', 1) + "[]\n{")
    resumed = begin(path)
    assert list(resumed.find("first", CASES).said) == ["b"]
    resumed.add("first", D, Said(Outcome(RIGHT, 0.25, None), None, 1.0), 2.0)
    assert list(begin(path).find("first", CASES).said) == ["b", "d"]


def test_what_differs_is_named_with_both_values(path: Path) -> None:
    begin(path).add("first", A, SURE, 1.0)
    other = KeptAnswers(path, lambda text: None, is_resumed=True)
    with pytest.raises(EvaluationError) as caught:
        other.begin({"service": {"model": "n"}, "passes": {"first": 8}, "more": None}, None)
    assert 'something else: service.model was "m" and is "n". Go on' in str(caught.value)


def test_a_file_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = KeptAnswers(tmp_path / "file" / "answers.jsonl", lambda text: None)
    with pytest.raises(EvaluationError, match=r"answers.jsonl cannot be written \("):
        kept.add("first", A, SURE, 1.0)


def test_lines_are_appended_after_one_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n{"b"')
    KeptLines(path).append([{"c": "ä"}, {"d": None}], is_synced=True)
    lines = KeptLines(path)
    assert lines.read() == [{"a": 1}, {"c": "ä"}, {"d": None}]
    lines.forget()
    assert lines.read() == []
    lines.forget()
