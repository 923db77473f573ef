"""The project's golden set keeps its own rules, and the loader says which line breaks one."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract.example import normalise
from contract.labels import Label
from evaluation.errors import EvaluationError, GoldenSetError
from evaluation.golden_set import GoldenCase, Kind, content_hash, load_golden_set
from evaluation.remote import GoldRow
from evaluation.shortcuts import FEATURES, fit_rule, score_rule, words

MOST_THAT_A_SHORTCUT_MAY_REACH = 0.60
LANGUAGES = {"de", "es", "fr", "it", "pt", "zh"}
NEGATION = re.compile(
    r"""
      (?: no | not | none | never | nobody | nothing | neither | nor | without | cannot | \w+n't
        | nicht | kein | keine | keinen | nein | nie | non | ne | pas | aucun | aucune | jamais
        | nunca | ning\u00fan | ninguna | n\u00e3o | nenhum | nessun | nessuna | mai )
    | [\u4e0d\u6ca1\u672a\u65e0]
    """,
    re.VERBOSE,
)

OWN = load_golden_set().cases


def mentions_negation(case: GoldenCase) -> float:
    return float(any(NEGATION.fullmatch(word) for word in words(case.response)))


def num_unknown_words(case: GoldenCase) -> float:
    known = {word for text in case.knowledge or () for word in words(text)}
    return float(sum(word not in known for word in words(case.response)))


def has_unknown_number(case: GoldenCase) -> float:
    numbers = re.findall(r"\d+", case.response)
    return float(any(number not in " ".join(case.knowledge or ()) for number in numbers))


SURFACE: dict[str, Callable[[GoldenCase], float]] = {
    **FEATURES,
    "characters": lambda case: float(len(case.response)),
    "digits": lambda case: float(sum(sign.isdigit() for sign in case.response)),
    "a digit": lambda case: float(any(sign.isdigit() for sign in case.response)),
    "capitals": lambda case: float(sum(sign.isupper() for sign in case.response)),
    "commas": lambda case: float(case.response.count(",")),
    "negation": mentions_negation,
    "unknown words": num_unknown_words,
    "unknown number": has_unknown_number,
    "place in the file": lambda case: float(case.id[1:]),
    "parity of the id": lambda case: float(int(case.id[1:]) % 2),
}


def test_the_set_is_large_and_balanced() -> None:
    assert len(OWN) >= 240
    classes = Counter(case.label for case in OWN)
    assert classes[Label.HALLUCINATION] == classes[Label.CORRECT]


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.OTHER])
def test_every_kind_has_cases_of_both_classes(kind: Kind) -> None:
    classes = Counter(case.label for case in OWN if case.kind is kind)
    assert classes.total() >= 8
    assert abs(classes[Label.HALLUCINATION] - classes[Label.CORRECT]) <= 2


def test_no_case_is_of_the_kind_that_is_for_other_sets() -> None:
    assert not [case.id for case in OWN if case.kind is Kind.OTHER]


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_language_has_cases_of_both_classes(language: str) -> None:
    classes = Counter(case.label for case in OWN if case.language == language)
    assert classes.total() >= 6
    assert classes[Label.HALLUCINATION] == classes[Label.CORRECT]


def test_other_languages_than_english_are_a_kind_of_their_own() -> None:
    assert {case.language for case in OWN} == {"en", *LANGUAGES}
    assert all((case.language != "en") == (case.kind is Kind.LANGUAGES) for case in OWN)


@pytest.mark.parametrize("name", SURFACE)
def test_no_rule_that_reads_nothing_tells_the_classes_apart(name: str) -> None:
    """The rules are fitted on the very cases that they are scored on, which favours them."""
    values, labels = [SURFACE[name](case) for case in OWN], [case.label for case in OWN]
    score = score_rule(fit_rule(values, labels), values, labels).balanced_accuracy
    assert score <= MOST_THAT_A_SHORTCUT_MAY_REACH


def test_a_surface_rule_would_be_found() -> None:
    wrong = [case for case in OWN if case.label is Label.HALLUCINATION]
    shortened = [case for case in OWN if case.label is Label.CORRECT and len(case.response) < 30]
    cases = [*wrong, *shortened]
    values, labels = [SURFACE["characters"](case) for case in cases], [c.label for c in cases]
    score = score_rule(fit_rule(values, labels), values, labels).balanced_accuracy
    assert score > MOST_THAT_A_SHORTCUT_MAY_REACH


def test_cases_with_one_knowledge_share_their_pair() -> None:
    pair_of: dict[tuple[str, ...], str] = {}
    for case in OWN:
        if case.knowledge is not None:
            assert pair_of.setdefault(case.knowledge, case.pair_id) == case.pair_id, case.id


def test_every_pair_has_both_classes() -> None:
    """Else the knowledge alone would tell."""
    pairs = {case.pair_id for case in OWN}
    assert len({(case.pair_id, case.label) for case in OWN}) == 2 * len(pairs)


def test_the_long_texts_are_long() -> None:
    """600 to 900 words of knowledge; responses of both classes that are longer than a few lines."""
    texts = [
        text for case in OWN if case.kind is Kind.LONG_KNOWLEDGE for text in case.knowledge or ()
    ]
    assert len(set(texts)) >= 5
    assert all(600 <= len(text.split()) <= 900 for text in texts)
    responses = [case.response for case in OWN if case.kind is Kind.LONG_RESPONSE]
    assert all(len(words(response)) >= 50 for response in responses)


def test_several_documents_are_two_to_five() -> None:
    counts = [len(case.knowledge or ()) for case in OWN if case.kind is Kind.SEVERAL_DOCUMENTS]
    assert set(counts) <= {2, 3, 4, 5}
    assert len(set(counts)) > 1


def test_most_texts_are_as_the_model_sees_them() -> None:
    """Elsewhere than in indented lines and hostile texts, a stray blank would be an accident."""
    odd = (Kind.CODE, Kind.HOSTILE, Kind.MARKUP)
    plain = [case for case in OWN if case.kind not in odd]
    assert [case.id for case in plain if normalise(case.example) != case.example] == []


def test_a_case_is_a_gold_row() -> None:
    row: GoldRow = OWN[0]
    assert row.set_name == "golden: numbers"


def raw_case(**changes: Any) -> dict[str, Any]:
    raw = {
        "id": "a1",
        "pair_id": "a",
        "kind": "numbers",
        "language": "en",
        "knowledge": ["The pool is 25 metres long."],
        "question": "How long is the pool?",
        "response": "25 metres",
        "label": "correct",
        "why": "As the knowledge says.",
    }
    return {**raw, **changes}


WRONG = raw_case(id="a2", response="50 metres", label="hallucination")


def write(path: Path, *rows: dict[str, Any] | str) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = write(
        tmp_path / "fees.jsonl",
        raw_case(kind="other", knowledge=["One.", "A\u2028B."], question=None),
        "",
        raw_case(id="a2", label="hallucination", knowledge=None, language="pt-BR"),
    )
    first, second = load_golden_set(path).cases
    assert first == GoldenCase(
        "a1", "a", Kind.OTHER, "en", ("One.", "A\u2028B."), None, "25 metres", Label.CORRECT,
        "As the knowledge says.",
    )  # fmt: skip
    assert first.set_name == "golden: other"
    assert second.knowledge is None
    assert second.label is Label.HALLUCINATION


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", raw_case())
    write(tmp_path / "a.jsonl", WRONG)
    write(tmp_path / "notes.txt", "no case")
    assert [case.id for case in load_golden_set(tmp_path).cases] == ["a2", "a1"]


FAULTS = {
    "no-json": ("{", "Expecting property name"),
    "no-object": ("[]", "the content must be an object"),
    "nan": ('{"id": NaN}', "NaN is no JSON number"),
    "label-twice": (
        '{"label": "correct", "label": "hallucination"}',
        "the member 'label' stands there twice",
    ),
    "missing": (json.dumps({"id": "a1"}), "language is missing"),
    "unknown-member": (raw_case(lable="correct"), "lable: there is no such member"),
    "same-id": (raw_case(response="26"), "the id 'a1' is also that of {path}, line 1"),
    "same-texts": (raw_case(id="a3", response=" 25  metres"), "also those of {path}, line 1"),
    "kind": (raw_case(id="a3", kind="sums"), "kind must be one of abstention, "),
    "label": (raw_case(id="a3", label="Correct"), "label must be one of hallucination, correct, "),
    "language": (raw_case(id="a3", language="German"), "not 'German'"),
    "number-as-text": (raw_case(id=7), "id must be a string"),
    "blank-id": (raw_case(id=" "), "id must not be blank"),
    "no-why": (raw_case(id="a3", why=""), "why must not be blank"),
    "blank-response": (raw_case(id="a3", response="\u200b"), "response must not be blank"),
    "knowledge-as-text": (raw_case(id="a3", knowledge="A."), "null or an array of strings"),
    "knowledge-of-numbers": (raw_case(id="a3", knowledge=["A.", 3]), "an array of strings"),
    "no-knowledge": (raw_case(id="a3", knowledge=[]), "knowledge must not be an empty list"),
    "blank-knowledge": (raw_case(id="a3", knowledge=["A.", " "]), "knowledge[1] must not be blank"),
    "surrogate": (json.dumps(raw_case(id="a3", question="\ud800")), "holds a lone surrogate"),
}


@pytest.mark.parametrize(("row", "fault"), FAULTS.values(), ids=FAULTS)
def test_an_error_says_file_and_line(tmp_path: Path, row: dict[str, Any] | str, fault: str) -> None:
    path = write(tmp_path / "set.jsonl", raw_case(), WRONG, "", row)
    with pytest.raises(GoldenSetError) as caught:
        load_golden_set(path)
    assert str(caught.value).startswith(f"{path}, line 4: ")
    assert fault.format(path=path) in str(caught.value)


def test_ids_are_unique_over_all_files(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", raw_case(), WRONG)
    second = write(tmp_path / "b.jsonl", raw_case(response="26 metres"))
    fault = f"{second}, line 1: the id 'a1' is also that of {first}, line 1"
    with pytest.raises(GoldenSetError, match=re.escape(fault)):
        load_golden_set(tmp_path)


def test_a_set_has_both_classes(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", raw_case())
    with pytest.raises(GoldenSetError, match="no case of the class hallucination"):
        load_golden_set(path)


def test_an_empty_folder_is_no_set(tmp_path: Path) -> None:
    with pytest.raises(GoldenSetError, match="no case of the class correct or hallucination"):
        load_golden_set(tmp_path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"set\.jsonl cannot be read \(No such file"):
        load_golden_set(tmp_path / "set.jsonl")


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(GoldenSetError, match=r"set\.jsonl is not UTF-8 text"):
        load_golden_set(path)


def hash_of(path: Path, *rows: dict[str, Any]) -> str:
    return load_golden_set(write(path, *rows)).sha256


def test_the_hash_is_of_the_content(tmp_path: Path) -> None:
    """Worked out with sha256sum: two cases in the order of ids, members sorted, without "why"."""
    path = write(
        tmp_path / "set.jsonl",
        raw_case(knowledge=None, question=None, response="\u00e9"),
        raw_case(id="a0", knowledge=["K"], question="Q", response="R", label="hallucination"),
    )
    assert content_hash(load_golden_set(path).cases) == (
        "28f699f51bcb163638f1914cb60b791859965c71d209f2091300a8b0edc8460a"
    )
    assert load_golden_set(path).sha256 == (
        "28f699f51bcb163638f1914cb60b791859965c71d209f2091300a8b0edc8460a"
    )


def test_the_hash_ignores_order_and_reasons(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    expected = hash_of(path, raw_case(), WRONG)
    assert hash_of(path, WRONG, raw_case(why="In other words.")) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "a3"}, {"pair_id": "b"}, {"kind": "units"}, {"language": "de"}, {"question": None},
        {"knowledge": None}, {"knowledge": ["The pool is 25 metres", "long."]},
        {"response": "25 metres."},
    ],
    ids=str,
)  # fmt: skip
def test_the_hash_changes_with_any_other_member(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "set.jsonl"
    assert hash_of(path, raw_case(**changes), WRONG) != hash_of(path, raw_case(), WRONG)


def test_the_hash_changes_with_a_label(tmp_path: Path) -> None:
    third = raw_case(id="a3", response="25 m")
    path = tmp_path / "set.jsonl"
    relabelled = {**third, "label": "hallucination"}
    assert hash_of(path, raw_case(), WRONG, relabelled) != hash_of(path, raw_case(), WRONG, third)
