"""Rows go into their file and come out of it as they were, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.records import make_record

from contract.labels import Label
from training.errors import DataError
from training.records import Record, read_records, write_records

GOOD = (
    '{"id": "a", "pair_id": "a", "set_name": "s", "task": "qa", "knowledge": ["k"], '
    '"question": null, "response": "r", "label": "correct", "treatment": "raw"}'
)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    records = [
        make_record("a-0", knowledge=("one", "two"), treatment="perturbed"),
        make_record("a-1", knowledge=None, question=None, label=Label.HALLUCINATION),
    ]
    assert write_records(tmp_path / "data" / "train.jsonl", records) == 2
    assert read_records(tmp_path / "data" / "train.jsonl") == records


def test_a_justification_comes_back_and_rows_without_one_are_written_as_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "train.jsonl"
    records = [replace(make_record("a-0"), justification="It is open."), make_record("a-1")]
    write_records(path, records)
    assert read_records(path) == records
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert '"justification": "It is open."' in first
    assert "justification" not in second


@pytest.mark.parametrize(
    "text",
    ["line\u2028end", "next\x85line", "form\x0cfeed", "carriage\r\nreturn", "\x1c", 'a "quote"\n'],
    ids=ascii,
)
def test_a_line_end_in_a_text_ends_no_row(tmp_path: Path, text: str) -> None:
    path = tmp_path / "train.jsonl"
    records = [make_record("a-0", response=text), make_record("a-1", knowledge=text)]
    write_records(path, records)
    assert read_records(path) == records


def test_no_rows_come_back_as_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    assert write_records(path, []) == 0
    assert read_records(path) == []


def test_what_the_model_is_asked_holds_neither_label_nor_treatment() -> None:
    record = make_record(treatment="perturbed", label=Label.HALLUCINATION)
    assert record.example == make_record(label=Label.CORRECT).example
    assert record.example.response == "Ada Berg"


def test_a_fault_while_writing_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def rows() -> Iterator[Record]:
        yield make_record("b-0")
        raise KeyboardInterrupt

    path = tmp_path / "train.jsonl"
    write_records(path, [make_record("a-0")])
    with pytest.raises(KeyboardInterrupt):
        write_records(path, rows())
    assert [record.id for record in read_records(path)] == ["a-0"]
    assert [each.name for each in tmp_path.iterdir()] == ["train.jsonl"]


def test_a_missing_file_says_which_command_makes_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.jsonl is missing: run `python -m training prep"):
        read_records(tmp_path / "train.jsonl")


@pytest.mark.parametrize(
    "line",
    [
        GOOD[:40],
        "[]",
        "null",
        '"text"',
        GOOD.replace('"correct"', '"supported"'),
        GOOD.replace('"id": "a", ', ""),
        GOOD.replace('"task"', '"job"'),
        "",
    ],
    ids=["cut", "list", "null", "text", "label", "missing", "unknown", "empty"],
)
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(f"{GOOD}\n{line}\n{GOOD}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train\.jsonl, line 2 is not a record"):
        read_records(path)


def test_a_file_of_other_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(GOOD.encode() + b"\n\xff\xfe\n")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_records(path)
