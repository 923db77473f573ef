"""Rows that can be learned from."""

from __future__ import annotations

from support.records import make_record

from contract.labels import Label
from training.cleaning import clean, keep_whole_pairs


def test_texts_are_normalised_and_junk_at_the_end_goes() -> None:
    rows = [
        make_record("a-0", response=" Ada\u200b  Berg./n"),
        make_record("b-0", response="He left.\\n/n ", knowledge=" Two  blanks "),
        make_record("c-0", response="and/nor"),
    ]
    cleaned = clean(rows)
    assert [row.response for row in cleaned.records] == ["Ada Berg.", "He left.", "and/nor"]
    assert cleaned.records[1].knowledge == ("Two blanks",)
    assert cleaned.dropped == {}


def test_what_the_contract_refuses_is_dropped_and_counted_by_field() -> None:
    rows = [
        make_record("a-0", response=" /n"),
        make_record("b-0", knowledge=("Fine.", "\u200b")),
        make_record("c-0", response="a\ud800"),
        make_record("d-0"),
    ]
    cleaned = clean(rows)
    assert [row.id for row in cleaned.records] == ["d-0"]
    assert cleaned.dropped == {
        "knowledge refused by the contract": 1,
        "response refused by the contract": 2,
    }


def test_conflicts_go_whole_and_repeats_once() -> None:
    rows = [
        make_record("a-0", response="Yes"),
        make_record("a-1", response=" Yes ", label=Label.HALLUCINATION),
        make_record("b-0", response="No"),
        make_record("b-1", response="No"),
    ]
    cleaned = clean(rows)
    assert [row.id for row in cleaned.records] == ["b-0"]
    assert cleaned.dropped == {"repeated row": 1, "same input with both labels": 2}


def test_only_pairs_with_both_labels_are_whole() -> None:
    rows = [
        make_record("a-0"),
        make_record("a-1", response="Carl Moe", label=Label.HALLUCINATION),
        make_record("b-0", response="No"),
    ]
    cleaned = keep_whole_pairs(rows)
    assert [row.id for row in cleaned.records] == ["a-0", "a-1"]
    assert cleaned.dropped == {"pair without both labels": 1}
