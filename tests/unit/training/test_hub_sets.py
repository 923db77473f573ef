"""HaluEval's layouts, and a Hub that does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract.labels import Label
from training.data_config import SetConfig
from training.errors import DataError
from training.hub_sets import read_hub_rows, to_records
from training.sources import load_set

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = SetConfig(
    name="h", kind="hub", repo="org/halu", config="qa", split="data", revision=COMMIT
)


@pytest.mark.parametrize(
    ("row", "task", "question", "right", "wrong"),
    [
        (
            {"knowledge": "K", "question": "Q", "right_answer": "R", "hallucinated_answer": "W"},
            "qa", "Q", "R", "W",
        ),
        (
            {"knowledge": "K", "dialogue_history": "H", "right_response": "R",
             "hallucinated_response": "W"},
            "dialogue", "H", "R", "W",
        ),
        (
            {"document": "K", "right_summary": "R", "hallucinated_summary": "W"},
            "summarization", None, "R", "W",
        ),
    ],
    ids=["qa", "dialogue", "summarization"],
)  # fmt: skip
def test_a_row_of_a_pair_gives_both_responses(
    row: dict[str, Any], task: str, question: str | None, right: str, wrong: str
) -> None:
    first, second = to_records(CONFIG, [row])
    assert (first.task, first.question, first.knowledge) == (task, question, ("K",))
    assert (first.response, first.label) == (right, Label.CORRECT)
    assert (second.response, second.label) == (wrong, Label.HALLUCINATION)
    assert first.pair_id == second.pair_id == "h-0"
    assert first.id != second.id


@pytest.mark.parametrize(
    ("row", "task"),
    [
        ({"knowledge": "K", "question": "Q", "answer": "A", "hallucination": "yes"}, "qa"),
        ({"knowledge": "K", "dialogue_history": "H", "response": "A", "hallucination": "Yes"},
         "dialogue"),
        ({"document": "K", "summary": "A", "hallucination": "yes"}, "summarization"),
        ({"ID": 1, "user_query": "Q", "chatgpt_response": "A", "hallucination": "yes"}, "general"),
        ({"ID": 1, "user_query": "Q", "chatgpt_response": "A", "hallucination_label": "yes"},
         "general"),
    ],
)  # fmt: skip
def test_a_row_with_a_label_gives_one_record(row: dict[str, Any], task: str) -> None:
    (record,) = to_records(CONFIG, [row])
    assert (record.task, record.response, record.label) == (task, "A", Label.HALLUCINATION)
    assert record.knowledge == (None if task == "general" else ("K",))


def test_a_label_that_is_neither_yes_nor_no_is_named() -> None:
    row = {"document": "K", "summary": "A", "hallucination": "perhaps"}
    with pytest.raises(DataError, match=r"row 0: the label 'perhaps' is neither yes nor no"):
        list(to_records(CONFIG, [row]))


def test_unknown_columns_are_listed_with_the_way_out() -> None:
    with pytest.raises(DataError, match=r"has the columns text, gold, .*`columns` and `labels`"):
        list(to_records(CONFIG, [{"text": "A", "gold": 1}]))


def test_a_commit_is_demanded_with_the_command_that_prints_it() -> None:
    config = CONFIG.model_copy(update={"revision": None})
    with pytest.raises(DataError, match=r"git ls-remote https://huggingface.co/datasets/org/halu"):
        read_hub_rows(config)


def test_a_folder_of_the_same_name_is_not_read_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "org" / "halu").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"here is a folder org/halu"):
        read_hub_rows(CONFIG)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A Hub that gives the answers in this list, in turn, and notes what was asked for."""
    import datasets

    answers: list[Any] = []

    def load_dataset(*args: Any, **kwargs: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        answers.append((args, kwargs))
        return datasets.Dataset.from_list(answer)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return answers


def test_the_commit_is_asked_for_and_is_the_revision(hub: list[Any]) -> None:
    hub.append([{"document": "K", "right_summary": "R", "hallucinated_summary": "W"}])
    loaded = load_set(CONFIG, Path("/none"), 1)
    assert hub == [(("org/halu", "qa"), {"split": "data", "revision": COMMIT})]
    assert loaded.revision == COMMIT
    assert loaded.origin == f"org/halu@{COMMIT}"
    assert [record.response for record in loaded.records] == ["R", "W"]


def test_other_data_on_the_hub_are_read_through_a_mapping(hub: list[Any]) -> None:
    hub.append([{"text": "A", "gold": 1}])
    columns = {"response": "text", "label": "gold"}
    config = CONFIG.model_copy(
        update={"columns": columns, "labels": {"1": Label.CORRECT}, "task": "own"}
    )
    (record,) = load_set(config, Path("/none"), 1).records
    assert (record.response, record.label, record.task) == ("A", Label.CORRECT, "own")


@pytest.mark.parametrize(
    "error",
    [ConnectionError("no route"), ValueError("Unknown split 'data'"), FileNotFoundError("gone")],
)
def test_a_hub_that_fails_is_named_with_what_to_do(hub: list[Any], error: Exception) -> None:
    hub.append(error)
    with pytest.raises(DataError, match=r"org/halu \(qa, data\) at 0123456789ab .*HF_TOKEN"):
        read_hub_rows(CONFIG)
