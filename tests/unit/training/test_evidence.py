"""A justification shows what the knowledge holds, in its own words, and never the label."""

from __future__ import annotations

import doctest
import time
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.records import make_record

import training.evidence
from contract.errors import TextError
from contract.example import Example, normalise
from contract.labels import Label
from contract.reply import Verdict, parse
from evaluation.justifications import QuoteCheck, check_quotes
from evaluation.wording import wording
from training.evidence import (
    MAX_QUOTE_WORDS,
    NO_ANSWER,
    NO_KNOWLEDGE,
    NO_PASSAGE,
    closest_passage,
    gold_answers,
    justify,
    justify_record,
    write_reply,
)

POOL = "It is open. The pool is 25 m long. Ada Berg built it in 1925."
KEY = ("pools", "a")

# Words, numbers, and whatever could break a quote or a reply.
PIECES = st.sampled_from(
    [
        "pool", "Ada", "Berg", "1,500.5", "25", "m", "It's", "na\u00efve", "A.", "U.S.", "e.g.",
        '"', "\u201c", "\u201d", "'", "\u2019", "\u00ab", "\u00bb", "\u300c", "|", "||", '""',
        "\u6c60\u306f\u516c\u56ed\u3002", "\u6c60", "\ud55c\uad6d", "\u0e2a\u0e23\u0e30",
        "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0646\u0627\u0645\u0647\u200c", "\u30fb",
        "Class: correct", "Class:", "</response>", "<|im_end|>", "[INST]", "\n", "\n\n", "\t",
        "...", "!!!", "\u2026", ";", "?", "-", "\u2014", "_", "5\"", "$5", "\u00b2", "e\u0301",
        "\U0001f468\u200d\U0001f469", "\u200d", "The", "of", "and", "not",
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(PIECES, min_size=1, max_size=40).map(" ".join),
    st.lists(PIECES, min_size=1, max_size=12).map("".join),
    st.text(min_size=1, max_size=40),
)


def texts_of(example: Example) -> list[str]:
    return [*(example.knowledge or ()), example.question or "", example.response]


@settings(deadline=None, max_examples=300)
@given(st.lists(TEXTS, min_size=1, max_size=3), st.none() | TEXTS, TEXTS)
def test_a_passage_stands_in_the_knowledge_word_for_word(
    knowledge: list[str], question: str | None, response: str
) -> None:
    example = Example(tuple(knowledge), question, response)
    try:
        passage = closest_passage(normalise(example))
    except TextError:
        assume(False)
    text = justify(example)
    if passage is None:
        assert text == NO_PASSAGE
        return
    assert any(passage in known for known in normalise(example).knowledge or ())
    # One quote, and it is found where it was taken from.
    assert check_quotes(text, knowledge) == QuoteCheck(1, 1)


@settings(deadline=None, max_examples=300)
@given(st.none() | st.lists(TEXTS, min_size=1, max_size=2), TEXTS, st.none() | TEXTS)
def test_every_target_is_read_as_it_was_meant(
    knowledge: list[str] | None, response: str, answer: str | None
) -> None:
    example = Example(None if knowledge is None else tuple(knowledge), "Which?", response)
    try:
        text = justify(example, answer)
    except TextError:
        assume(False)
    for label in Label:
        assert parse(write_reply(text, label)) == Verdict(label, text)


@pytest.mark.parametrize(
    ("knowledge", "response", "quote"),
    [
        pytest.param(POOL, "The pool is 50 m long.", "The pool is 25 m long", id="nearest"),
        pytest.param(POOL, "Ada Berg built it in 1931.", "Ada Berg built it in 1925", id="names"),
        pytest.param(POOL, "Nothing of that", "It is open", id="none-shared"),
        pytest.param(
            POOL,
            "The pool is 25 m long. Carl Moe built it.",
            "Ada Berg built it in 1925",
            id="least-supported-sentence",
        ),
        pytest.param(
            'He said "stop now" and left. She stayed.',
            "He said: stop now!",
            "stop now",
            id="quote-inside",
        ),
        pytest.param(
            "\u6c60\u306f25m\u3067\u3059\u3002\u516c\u56ed\u306f\u5e83\u3044\u3002",
            "\u516c\u56ed\u306f\u72ed\u3044\u3002",
            "\u516c\u56ed\u306f\u5e83\u3044\u3002",
            id="chinese-and-japanese",
        ),
        pytest.param("A fee of 1,500.5 is due. Pay!", "1,500.5", "A fee of 1,500.5 is due", id="1"),
        pytest.param("Made in the U.S. It is old.", "the U.S.", "Made in the U.S", id="stop"),
        pytest.param("One\n\nTwo | three", "three", "three", id="lines-and-cells"),
    ],
)
def test_the_passage_is_the_one_to_compare_with(knowledge: str, response: str, quote: str) -> None:
    assert justify(Example((knowledge,), None, response)) == f'The knowledge says "{quote}".'


def test_the_question_says_which_passage_where_the_response_is_one_word() -> None:
    knowledge = "Ada runs the mill. Ben owns the farm. Cleo runs the farm shop."
    example = Example((knowledge,), "Who owns the farm?", "Dora")
    assert justify(example) == 'The knowledge says "Ben owns the farm".'


def test_all_texts_of_the_knowledge_are_searched() -> None:
    example = Example(("It is open.", "The pool is 25 m long."), None, "The pool is 50 m long.")
    assert justify(example) == 'The knowledge says "The pool is 25 m long".'


def test_a_long_passage_is_cut_around_what_counts_and_numbers_stay_whole() -> None:
    words = [f"w{i}" for i in range(60)]
    words[40:43] = ["costs", "1,500.5", "euros"]
    passage = closest_passage(Example((" ".join(words),), None, "It costs 1,400 euros."))
    assert passage is not None
    assert len(passage.split()) == MAX_QUOTE_WORDS == 24
    assert "costs 1,500.5 euros" in passage
    # The first of the windows that hold all of it.
    assert passage.split()[-1] == "euros"


def test_without_knowledge_nothing_is_quoted() -> None:
    assert justify(Example(None, "How long?", "25 m")) == NO_KNOWLEDGE


@pytest.mark.parametrize("knowledge", ["!!!", "\u2026", '"|"', "\U0001f600"], ids=ascii)
def test_knowledge_without_a_word_does_not_break_it(knowledge: str) -> None:
    """It was a crash: the best of no passages."""
    assert justify(Example((knowledge,), None, "It is open.")) == NO_PASSAGE


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("25 m", 'By the knowledge, the answer is "25 m".'),
        ("25 m.", 'By the knowledge, the answer is "25 m".'),
        ("Yes.", "By the knowledge, the answer is yes."),
        ("no", "By the knowledge, the answer is no."),
    ],
)
def test_a_short_answer_is_given_as_it_is(answer: str, text: str) -> None:
    assert justify(Example((POOL,), "How long?", "50 m"), answer) == text


def test_an_answer_of_several_lines_stays_on_one() -> None:
    """Its second line could be taken for a verdict: the taught reply was unreadable."""
    text = justify(Example((POOL,), "How long?", "50 m"), "25 m\nClass: correct")
    assert text == 'By the knowledge, the answer is "25 m Class : correct".'
    assert parse(write_reply(text, Label.CORRECT)) == Verdict(Label.CORRECT, text)


def test_an_answer_that_the_knowledge_lacks_is_not_given() -> None:
    assert justify(Example((POOL,), "How wide?", "9 m"), "9 m", is_answered=False) == NO_ANSWER


def test_the_answer_of_a_pair_is_its_short_right_response() -> None:
    rows = [
        make_record("a-0", response="Carl Moe", label=Label.HALLUCINATION),
        make_record("a-1", response="Ada Berg"),
        make_record("a-2", response="Ada"),
        make_record("b-0", response="one two three four five six seven eight nine ten eleven"),
        make_record("c-0", response='the "Lind"'),
        make_record("d-0", task="summarization"),
        make_record("e-0", question=None),
        make_record("f-0", knowledge=None),
        make_record("g-0", treatment="perturbed"),
    ]
    assert gold_answers(rows) == {KEY: "Ada Berg"}


@pytest.mark.parametrize("response", ["Ada Berg", "Carl Moe", "Ada Berg built it in Oslo."])
def test_the_justification_is_the_same_whatever_the_label(response: str) -> None:
    right = make_record("a-0", response=response, label=Label.CORRECT)
    wrong = replace(right, label=Label.HALLUCINATION)
    for answers in ({}, {KEY: "Ada Berg"}):
        text = justify_record(right, answers)
        assert justify_record(wrong, answers) == text
        # It argues for neither class.
        assert wording(text) is None


@pytest.mark.parametrize("label", Label)
def test_where_the_answer_was_cut_out_of_the_knowledge_none_is_taught(label: Label) -> None:
    row = make_record("a-0", response="I do not know.", label=label, treatment="abstention")
    assert justify_record(row, {KEY: "Dan Rue"}) == NO_ANSWER
    assert justify_record(row, {KEY: "Ada Berg."}) == 'By the knowledge, the answer is "Ada Berg".'


def test_the_short_path_is_the_verdict_line_alone() -> None:
    assert write_reply(None, Label.CORRECT) == "Class: correct"
    assert write_reply("So.", Label.HALLUCINATION) == "So.\nClass: hallucination"


SHAPES = {
    "one-word-again": "pool " * 20_000,
    "short-sentences": "pool. " * 16_000,
    "no-blanks": "a" * 100_000,
    "dots": "a." * 50_000,
    "chinese": "\u6c60\u3002" * 50_000,
    "other-words": " ".join(f"w{i}" for i in range(14_000)),
    "other-sentences": ". ".join(f"Pool w{i}" for i in range(8_000)),
    "marks": 'a"' * 50_000,
    "stops": "a" + "!" * 99_999,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hundred_thousand_characters_take_seconds(shape: str) -> None:
    """A passage was compared with every sentence: with long texts, hours."""
    text = SHAPES[shape]
    began = time.process_time()
    assert justify(Example((text,), None, text))
    assert time.process_time() - began < 5


def test_a_record_that_brings_its_justification_is_taught_that() -> None:
    record = make_record()
    answers = gold_answers([record])
    assert justify_record(record, answers) == 'By the knowledge, the answer is "Ada Berg".'
    own = replace(record, justification="It was Ada Berg in 1925.")
    assert justify_record(own, answers) == "It was Ada Berg in 1925."


def test_the_examples_of_the_module_hold() -> None:
    results = doctest.testmod(training.evidence)
    assert results.attempted > 0
    assert results.failed == 0
