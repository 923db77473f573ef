"""Rows from folders and from the user's own files, and every way in which they can be wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from contract.labels import Label
from training.data_config import SetConfig
from training.errors import DataError
from training.sources import LoadedSet, load_set

FOLDER_ROW = {
    "id": "q-0",
    "task": "qa",
    "knowledge": "Ada built it.",
    "question": "Who?",
    "response": "Ada",
    "label": "correct",
    "source": "made",
    "pair_id": "q",
}
COLUMNS = {"response": "answer", "label": "verdict", "knowledge": "report", "pair_id": "case"}
LABELS = {"supported": Label.CORRECT, "made up": Label.HALLUCINATION}
ROW = {"answer": "Ada", "verdict": "supported", "report": "Ada built it.", "case": "7"}


def write_jsonl(path: Path, rows: list[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_csv(path: Path, rows: list[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: list[Mapping[str, Any]]) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


WRITERS: dict[str, Callable[[Path, list[Mapping[str, Any]]], None]] = {
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": write_parquet,
}


def load_folder(path: Path, **changes: Any) -> LoadedSet:
    config = SetConfig(name="s", kind="folder", file=path.name, **changes)
    return load_set(config, path.parent, seed=1)


def load_file(path: Path, **changes: Any) -> LoadedSet:
    values = {"columns": COLUMNS, "labels": LABELS, **changes}
    return load_set(SetConfig(name="s", kind="file", file=str(path), **values), Path("/none"), 1)


def test_a_folder_row_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [FOLDER_ROW, {**FOLDER_ROW, "id": "q-1", "knowledge": None}])
    first, second = load_folder(path).records
    assert (first.id, first.pair_id, first.set_name, first.task) == ("q-0", "q", "s", "qa")
    assert (first.knowledge, first.question) == (("Ada built it.",), "Who?")
    assert (first.response, first.label, first.treatment) == ("Ada", Label.CORRECT, "raw")
    assert second.knowledge is None


def test_the_revision_is_the_hash_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [FOLDER_ROW])
    loaded = load_folder(path)
    assert loaded.revision.startswith("sha256:")
    assert len(loaded.revision) == 7 + 64
    write_jsonl(path, [{**FOLDER_ROW, "response": "Bo"}])
    assert load_folder(path).revision != loaded.revision


@pytest.mark.parametrize("ending", WRITERS)
def test_own_columns_and_labels_are_mapped(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"own.{ending}"
    WRITERS[ending](path, [ROW, {**ROW, "answer": "Bo", "verdict": "made up"}])
    first, second = load_file(path, task="finance").records
    assert (first.response, first.label) == ("Ada", Label.CORRECT)
    assert (second.response, second.label) == ("Bo", Label.HALLUCINATION)
    assert (first.pair_id, second.pair_id) == ("7", "7")
    assert first.knowledge == ("Ada built it.",)
    assert first.question is None
    assert first.task == "finance"
    assert first.id == "s-1"


def test_a_list_of_texts_is_knowledge_of_several_documents(tmp_path: Path) -> None:
    for ending in ("jsonl", "parquet"):
        path = tmp_path / f"own.{ending}"
        WRITERS[ending](path, [{**ROW, "report": ["One.", "Two."]}])
        assert load_file(path).records[0].knowledge == ("One.", "Two.")


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        (True, {"true": Label.HALLUCINATION}),
        (1, {"1": Label.HALLUCINATION}),
        ("hallucination", {}),
    ],
)
def test_labels_may_be_truth_values_numbers_or_the_class_itself(
    tmp_path: Path, value: object, labels: dict[str, Label]
) -> None:
    path = tmp_path / "own.jsonl"
    write_jsonl(path, [{**ROW, "verdict": value}])
    assert load_file(path, labels=labels).records[0].label is Label.HALLUCINATION


def test_a_cell_may_hold_line_ends_commas_and_a_long_document(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    report = 'One, "two"\n' * 30_000
    write_csv(path, [{**ROW, "report": report}])
    assert load_file(path).records[0].knowledge == (report,)


def test_without_a_pair_column_every_row_is_its_own_pair(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    write_jsonl(path, [ROW, ROW])
    columns = {"response": "answer", "label": "verdict"}
    rows = load_file(path, columns=columns).records
    assert [row.pair_id for row in rows] == ["s-1", "s-2"]


def test_rows_of_a_long_parquet_file_are_numbered_throughout(tmp_path: Path) -> None:
    """The number began anew every 1,000 rows, so that two rows shared an id and a pair."""
    path = tmp_path / "own.parquet"
    write_parquet(path, [{"answer": f"A {i}", "verdict": "supported"} for i in range(1001)])
    rows = load_file(path, columns={"response": "answer", "label": "verdict"}).records
    assert (rows[999].id, rows[999].pair_id) == ("s-1000", "s-1000")
    assert (rows[1000].id, rows[1000].pair_id) == ("s-1001", "s-1001")
    assert len({row.pair_id for row in rows}) == 1001


def test_a_gap_in_a_column_of_numbers_is_a_missing_value(tmp_path: Path) -> None:
    """A gap was read as the text "nan", and 7 beside it as "7.0"."""
    import pyarrow
    import pyarrow.parquet as parquet

    nan = float("nan")
    path = tmp_path / "own.parquet"
    columns = {
        "answer": ["Ada", "Bo", "Cy"],
        "verdict": pyarrow.array([1.0, 0.0, 1.0]),
        "report": pyarrow.array([nan, 12.0, 0.5], from_pandas=False),
        "case": pyarrow.array([7.0, nan, None], from_pandas=False),
    }
    parquet.write_table(pyarrow.table(columns), path)
    labels = {"1": Label.CORRECT, "0": Label.HALLUCINATION}
    first, second, third = load_file(path, labels=labels).records
    assert (first.pair_id, first.knowledge, first.label) == ("7", None, Label.CORRECT)
    assert (second.pair_id, second.knowledge) == ("s-2", ("12",))
    assert second.label is Label.HALLUCINATION
    assert (third.pair_id, third.knowledge) == ("s-3", ("0.5",))


@pytest.mark.parametrize("gap", ["", " ", "nan", "NaN"])
def test_a_gap_in_a_csv_file_is_a_missing_value(tmp_path: Path, gap: str) -> None:
    path = tmp_path / "own.csv"
    # A response may well be these three letters.
    write_csv(path, [{"answer": "NaN", "verdict": "1.0", "report": gap, "case": gap}])
    (row,) = load_file(path, labels={"1": Label.CORRECT}).records
    assert (row.pair_id, row.knowledge, row.label) == ("s-1", None, Label.CORRECT)
    assert row.response == "NaN"


def test_a_gap_where_a_response_or_a_label_should_be_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    write_jsonl(path, [{**ROW, "answer": float("nan")}])
    with pytest.raises(DataError, match=r"row 1: 'answer' is missing"):
        load_file(path)
    write_jsonl(path, [{**ROW, "verdict": float("nan")}])
    with pytest.raises(DataError, match=r"row 1, column 'verdict' \(label\): 'nan' is no label"):
        load_file(path)


def test_an_id_that_stands_twice_is_named_with_both_places(tmp_path: Path) -> None:
    """The second row would have been judged as the first."""
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [FOLDER_ROW, {**FOLDER_ROW, "id": "q-1"}, FOLDER_ROW])
    with pytest.raises(
        DataError, match=r"rows.jsonl, line 3: the id 'q-0' is that of .*rows.jsonl, line 1 too"
    ):
        load_folder(path)
    columns = {**COLUMNS, "id": "case"}
    for ending, write in WRITERS.items():
        path = tmp_path / f"own.{ending}"
        write(path, [ROW, ROW])
        with pytest.raises(
            DataError, match=rf"own.{ending}, row 2: the id '7' is that of .*, row 1 too: .*pair_id"
        ):
            load_file(path, columns=columns)


def test_pairs_are_chosen_by_the_seed_and_fewer_are_a_part_of_more(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_jsonl(
        path,
        [
            {**FOLDER_ROW, "id": f"{pair}-{row}", "pair_id": str(pair)}
            for pair in range(40)
            for row in range(2)
        ],
    )
    few = load_folder(path, max_pairs=5).records
    more = load_folder(path, max_pairs=20).records
    assert len(few) == 10
    assert {row.id for row in few} < {row.id for row in more}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"rows.jsonl holds no rows: check the set 's'"),
        ("{", r"rows.jsonl, line 1: not valid JSON"),
        ("[1]", r"line 1: a row must be a JSON object"),
        (json.dumps({**FOLDER_ROW, "label": "wrong"}), r"line 1, label: 'wrong' is no label here"),
        (json.dumps({**FOLDER_ROW, "label": None}), r"line 1, label: 'None' is no label"),
        (json.dumps({**FOLDER_ROW, "response": 1.5}), None),
        (
            json.dumps({**FOLDER_ROW, "response": ["a"]}),
            r"'response': it must be a text, and is list",
        ),
        (json.dumps({k: FOLDER_ROW[k] for k in ("id", "label")}), r"'pair_id' is missing"),
        (
            json.dumps({**FOLDER_ROW, "knowledge": {"a": 1}}),
            r"line 1, knowledge: it must be a text",
        ),
    ],
)
def test_a_fault_in_a_folder_row_names_file_line_and_field(
    tmp_path: Path, text: str, message: str | None
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text, encoding="utf-8")
    if message is None:
        assert load_folder(path).records[0].response == "1.5"
        return
    with pytest.raises(DataError, match=message):
        load_folder(path)


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        (
            {**ROW, "verdict": "maybe"},
            {},
            r"row 2, column 'verdict' \(label\): 'maybe' is no label",
        ),
        (ROW, {"columns": {**COLUMNS, "response": "reply"}}, r"row 1: there is no column 'reply'"),
        (ROW, {"columns": {"response": "answer"}}, r"columns must say which column is label"),
        (ROW, {"columns": {**COLUMNS, "lable": "x"}}, r"columns maps lable, which no record has"),
        ({**ROW, "answer": None}, {}, r"row 2: 'answer' is missing"),
    ],
)
def test_a_fault_in_an_own_row_names_file_row_and_column(
    tmp_path: Path, row: Mapping[str, Any], changes: dict[str, Any], message: str
) -> None:
    path = tmp_path / "own.jsonl"
    write_jsonl(path, [ROW, row])
    with pytest.raises(DataError, match=message):
        load_file(path, **changes)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "own.csv",
            b"answer,verdict,report,case\nAda,supported\n",
            r"row 1 \(line 2\): it has not",
        ),
        ("own.csv", b'answer,verdict\n"Ada', r"not valid CSV"),
        ("own.csv", b"answer\xff\n1\n", r"not UTF-8 text: save it as CSV UTF-8"),
        ("own.jsonl", b'{"answer": "\xff"}\n', r"line 1: it is not UTF-8 text"),
        ("own.parquet", b"PAR1", r"not a Parquet file that can be read"),
        ("own.xlsx", b"", r"the ending '.xlsx': it must be .jsonl, .csv or .parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        load_file(path)
    assert name in str(caught.value)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows.jsonl of the set 's' is missing: .* --data-dir"):
        load_folder(tmp_path / "rows.jsonl")
    with pytest.raises(DataError, match=r"own.csv of the set 's' is missing: check the path"):
        load_file(tmp_path / "own.csv")


def load_made(num_pairs: int, seed: int) -> LoadedSet:
    config = SetConfig(name="worlds", kind="made", max_pairs=num_pairs)
    return load_set(config, Path("/none"), seed)


def test_a_made_set_needs_no_file() -> None:
    loaded = load_made(30, seed=4)
    assert len({record.pair_id for record in loaded.records}) == 30
    assert {record.set_name for record in loaded.records} == {"worlds"}
    assert loaded.origin == "training.made, 30 pairs, seed 4"


def test_the_revision_of_a_made_set_is_the_hash_of_its_rows() -> None:
    revision = load_made(30, seed=4).revision
    assert revision == load_made(30, seed=4).revision
    assert revision.startswith("sha256:")
    assert len({revision, load_made(31, seed=4).revision, load_made(30, seed=5).revision}) == 3
