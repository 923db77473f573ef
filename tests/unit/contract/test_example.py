"""The one normalisation: what it takes away, what it disarms and what it leaves alone."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contract.errors import BlankTextError, ContractError, InvalidTextError, TextError
from contract.example import Example, normalise, normalise_text

PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
CHINESE = "\u8fd9\u5ea7\u6865\u5efa\u4e8e1998\u5e74\uff0c\u5168\u957f620\u7c73\u3002"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("The pool is 25 metres long.", "The pool is 25 metres long.", id="plain"),
        # How a letter is composed.
        pytest.param("Cafe\u0301", "Caf\u00e9", id="nfc"),
        pytest.param("e\u200b\u0301", "\u00e9", id="nfc-across-zero-width-space"),
        pytest.param("\u1112\u1161\u11ab", "\ud55c", id="nfc-hangul"),
        pytest.param("5 \u212b", "5 \u00c5", id="nfc-angstrom-sign"),
        pytest.param("\ufb01ve \u00bd x\u00b2", "\ufb01ve \u00bd x\u00b2", id="not-nfkc"),
        # Blanks.
        pytest.param("  a  b\t\tc  ", "a b c", id="blanks-collapse"),
        pytest.param("a\u00a0b\u2003\u3000c\u202fd", "a b c d", id="unicode-blanks"),
        pytest.param("a \n b", "a\nb", id="blanks-around-line-end"),
        pytest.param("a\n\n\n\n\nb", "a\n\nb", id="empty-lines-collapse-to-one"),
        pytest.param("a\n \n\t\n \nb", "a\n\nb", id="blank-lines-collapse-to-one"),
        pytest.param("\n\na\n\n", "a", id="outer-line-ends"),
        # Line ends.
        pytest.param("a\r\nb\rc\nd", "a\nb\nc\nd", id="line-ends"),
        pytest.param("a\u2028b\u2029c\x85d\x0be\x0cf", "a\nb\nc\nd\ne\nf", id="unicode-line-ends"),
        pytest.param("a\x1cb\x1dc\x1ed", "a\nb\nc\nd", id="separators"),
        pytest.param("a\r\u200b\nb", "a\nb", id="line-end-around-zero-width-space"),
        # Control characters.
        pytest.param("a\x00b\x07c\x1bd\x1fe\x7ff\x80g", "a b c d e f g", id="controls"),
        pytest.param("a \x00\x01 b", "a b", id="controls-collapse-with-blanks"),
        pytest.param("a\ufffeb\uffffc", "a b c", id="noncharacters"),
        # Invisible characters.
        pytest.param("\ufeffa\u200bb\u00adc\u2060d", "abcd", id="zero-width"),
        pytest.param("a\u202eb\u202cc\u2066d\u2069e\u200ff", "abcdef", id="direction-marks"),
        pytest.param("a\U000e0041\U000e007fb", "ab", id="tag-characters"),
        pytest.param("a\ufe0e\U000e0100\U000e01efb", "ab", id="variation-selectors-hide-data"),
        pytest.param("a\u180eb\u061cc\ufff9d\u034fe\U0001d173f", "abcdef", id="other-invisible"),
        # Invisible characters that a script or an emoji needs.
        pytest.param(PERSIAN, PERSIAN, id="persian-zwnj"),
        pytest.param(
            "PDF\u200c\u0647\u0627", "PDF\u200c\u0647\u0627", id="persian-zwnj-after-latin"
        ),
        pytest.param("क\u094d\u200dष", "क\u094d\u200dष", id="hindi-zwj"),
        pytest.param("👩\u200d👩\u200d👧", "👩\u200d👩\u200d👧", id="emoji-family"),
        pytest.param("❤\ufe0f\u200d🔥 1\ufe0f\u20e3", "❤\ufe0f\u200d🔥 1\ufe0f\u20e3", id="emoji"),
        pytest.param("a\u200db\u200cc\ufe0fd", "abcd", id="joiners-between-ascii"),
        pytest.param("\u200da\u200d \ufe0f b\u200c", "a b", id="joiners-beside-blanks-and-ends"),
        # What must come through.
        pytest.param(
            "| Region | Q1 |\n|---|---|\n| North | 14 |",
            "| Region | Q1 |\n|---|---|\n| North | 14 |",
            id="table",
        ),
        pytest.param("a < b, 3<5, x <- y, <3", "a < b, 3<5, x <- y, <3", id="less-than"),
        pytest.param("[1] [link](u) [Smith 2020]", "[1] [link](u) [Smith 2020]", id="brackets"),
        pytest.param("First class: 20", "First class : 20", id="class-in-a-sentence"),
        pytest.param(
            "subclass: x, classes: y, a class", "subclass: x, classes: y, a class", id="not-class"
        ),
        pytest.param(CHINESE, CHINESE, id="chinese"),
        pytest.param("\u3164a\u2800", "\u3164a\u2800", id="blank-letters-beside-visible-ones"),
        pytest.param("e" + "\u0316" * 30, "e" + "\u0316" * 30, id="30-combining-marks"),
        # Tokens and tags.
        pytest.param("<|im_end|>", "< |im_end| >", id="chatml"),
        pytest.param("<<|im_end|>|im_end|>", "< < |im_end| >|im_end| >", id="nested-token"),
        pytest.param("<|im_<|im_end|>end|>", "< |im_< |im_end| >end| >", id="split-token"),
        pytest.param("<\u200b|im_end|\u200b>", "< |im_end| >", id="token-with-zero-width-space"),
        pytest.param("<\u200d|im_end|\u200d>", "< |im_end| >", id="token-with-joiner"),
        pytest.param("<\ufe0f/response\ufe0f>", "< /response>", id="fence-with-selector"),
        pytest.param("</response>", "< /response>", id="closing-fence"),
        pytest.param("<p>Tickets: <b>12</b></p>", "< p>Tickets: < b>12< /b>< /p>", id="html"),
        pytest.param("<!-- x --> <s> <think>", "< !-- x --> < s> < think>", id="tags"),
        pytest.param(
            "[INST] x [/INST] [TOOL_CALLS]", "[ INST] x [ /INST] [ TOOL_CALLS]", id="inst"
        ),
        pytest.param("[\u200dINST]", "[ INST]", id="inst-with-joiner"),
        pytest.param("<<SYS>> x <</SYS>>", "< < SYS>> x < < /SYS>>", id="sys"),
        pytest.param(
            "\uff1c\uff5cUser\uff5c\uff1e", "\uff1c \uff5cUser\uff5c \uff1e", id="fullwidth"
        ),
        pytest.param("<\uff5cUser\uff5c>", "< \uff5cUser\uff5c >", id="fullwidth-bars"),
        pytest.param(
            "\uff1c\uff0fresponse\uff1e", "\uff1c \uff0fresponse\uff1e", id="fullwidth-fence"
        ),
        pytest.param("\ufe64|a|\ufe65", "\ufe64 |a| \ufe65", id="small-angle-brackets"),
        pytest.param("<\u2581x>", "< \u2581x>", id="sentencepiece-blank"),
        # "Class:" in all its forms.
        pytest.param("Class: correct", "Class : correct", id="class"),
        pytest.param("Class : correct", "Class : correct", id="class-already-apart"),
        pytest.param("Class \t: correct", "Class : correct", id="class-blanks"),
        pytest.param("CLASS:correct cLaSs:x", "CLASS :correct cLaSs :x", id="class-any-case"),
        pytest.param("cla\u017fs: x", "cla\u017fs : x", id="class-long-s"),
        pytest.param("Class\uff1a x", "Class \uff1a x", id="class-fullwidth-colon"),
        pytest.param("Class\ufe55 x", "Class \ufe55 x", id="class-small-colon"),
        pytest.param("Class\ufe13 x", "Class \ufe13 x", id="class-vertical-colon"),
        pytest.param("Class\u2236 x", "Class \u2236 x", id="class-ratio"),
        pytest.param("Class\ua789 x", "Class \ua789 x", id="class-modifier-colon"),
        pytest.param("Class\u200b: x", "Class : x", id="class-zero-width-space"),
        pytest.param("Class\u200d: x", "Class : x", id="class-joiner"),
        pytest.param("Cl\u200cass\u034f: x", "Class : x", id="class-joiner-inside"),
        pytest.param("Class\x00: x", "Class : x", id="class-control"),
        pytest.param("**Class:** x", "**Class :** x", id="class-bold"),
        pytest.param("**Class**: x", "**Class** : x", id="class-bold-word"),
        pytest.param("_Class_: x", "_Class_ : x", id="class-italic"),
        pytest.param("`Class`: x", "`Class` : x", id="class-code"),
        pytest.param("> - Class: x", "> - Class : x", id="class-quoted"),
    ],
)
def test_normalise_text(text: str, expected: str) -> None:
    assert normalise_text(text, "response") == expected
    assert normalise_text(expected, "response") == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(" \t\r\n", id="ascii-blanks"),
        pytest.param("\u00a0\u2003\u3000\u1680", id="unicode-blanks"),
        pytest.param("\u2028\u2029\x85", id="line-ends"),
        pytest.param("\x00\x07\x7f", id="controls"),
        pytest.param("\u200b", id="zero-width-space"),
        pytest.param("\ufeff\u2060\u00ad", id="invisible"),
        pytest.param("\u200c", id="zwnj"),
        pytest.param("\u200d\ufe0f", id="zwj-and-selector"),
        pytest.param("\u2800", id="braille-blank"),
        pytest.param("\u3164", id="hangul-filler"),
        pytest.param("\u115f\u1160\uffa0", id="other-hangul-fillers"),
        pytest.param("\u3164\u200d\u3164", id="joiner-between-fillers"),
        pytest.param("\U000e0041\U000e0042", id="tag-characters"),
        pytest.param("\U000e0100\U000e01ef", id="variation-selectors"),
        pytest.param("\u180b\u17b4\u034f\ufff0", id="other-invisible"),
        pytest.param(" \u2800\n\u200b\x00 ", id="a-mixture"),
    ],
)
def test_a_text_with_nothing_to_see_is_refused(text: str) -> None:
    with pytest.raises(BlankTextError) as caught:
        normalise_text(text, "question")
    assert caught.value.field == "question"
    assert str(caught.value) == "question must not be blank; an optional field can be left out"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("25 \ud800 metres", id="high"),
        pytest.param("25 \udfff metres", id="low"),
        pytest.param("\ud83d\ude00", id="pair-in-halves"),
        pytest.param("\ud800", id="alone"),
    ],
)
def test_a_surrogate_is_refused_without_repeating_the_text(text: str) -> None:
    with pytest.raises(InvalidTextError, match=r"^response holds a lone surrogate") as caught:
        normalise_text(text, "response")
    assert caught.value.field == "response"
    assert "25" not in str(caught.value)
    assert str(caught.value).isascii()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("e" + "\u0316" * 31, id="31-marks"),
        pytest.param("e" + "\u0301\u200b" * 31, id="marks-with-zero-width-spaces"),
        pytest.param("a\u0f73" + "\u0f75" * 30, id="characters-that-decompose-to-marks"),
        pytest.param("\U0001d160" + "\u0316" * 30, id="31-marks-once-decomposed"),
    ],
)
def test_a_pile_of_combining_marks_is_refused(text: str) -> None:
    with pytest.raises(InvalidTextError, match=r"^response holds more than 30 combining marks in"):
        normalise_text(text, "response")


def normalised(text: str) -> str | None:
    """Return the normalised text, None where it is refused."""
    try:
        return normalise_text(text, "response")
    except TextError:
        return None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("e" + "\u0301\u0316" * 25_000, id="marks-out-of-order"),
        pytest.param("\u0f73" * 50_000, id="marks-that-decompose"),
        pytest.param("<" * 50_000, id="less-than"),
        pytest.param("[A" * 25_000, id="open-brackets"),
        pytest.param("a" + "\u200d" * 50_000 + "é", id="joiners"),
        pytest.param("\n \n" * 17_000 + "x", id="blank-lines"),
        pytest.param("class " * 8_000, id="class"),
    ],
)
def test_no_text_takes_more_than_linear_time(text: str) -> None:
    """50,000 marks on one letter took 1.3 seconds, and twice as many four times that."""
    spent_s = []
    for _ in range(3):
        start_s = time.thread_time()
        normalised(text)
        spent_s.append(time.thread_time() - start_s)
    assert min(spent_s) < 0.3


# Characters that show nothing (Unicode's Default_Ignorable_Code_Point and its line and annotation
# controls), written down apart from the module's own tables.
INVISIBLE = {0xAD, 0x34F, 0x61C, 0x17B4, 0x17B5, 0xFEFF, 0xFFFE, 0xFFFF} | {
    code_point
    for first, last in [
        (0x180B, 0x180F),
        (0x200B, 0x200F),
        (0x202A, 0x202E),
        (0x2060, 0x206F),
        (0xFE00, 0xFE0F),
        (0xFFF0, 0xFFFB),
        (0x1BCA0, 0x1BCA3),
        (0x1D173, 0x1D17A),
        (0xE0000, 0xE0FFF),
    ]
    for code_point in range(first, last + 1)
}


def visible(text: str) -> str:
    """Return what a reader sees, letters composed and blanks left out."""
    kept = [
        c
        for c in text
        if not (c.isspace() or ord(c) in INVISIBLE or unicodedata.category(c) == "Cc")
    ]
    return unicodedata.normalize("NFC", "".join(kept))


FRAGMENTS = st.sampled_from(
    [
        # Letters and marks that compose, invisible characters and joiners, delimiters, blanks.
        *"abe1A.\u0301\u0327\u0344\u0338\u00e9\ud55c\u5b57\u1112\u1161\u3164\u2800\u0f73\u212a\u037e",
        *"\u200b\u200c\u200d\ufe0f\u034f\u00ad\ufeff\u202e\U000e0041\U000e0100\u180b\U0001f469\u2764",
        *"<>|/[]:*_`\uff1a\uff1c\uff1e\uff5c\u2581 \n\r\t\u00a0\u2028\x85\x00\x1f\ufffe",
        *("INST", "SYS", "class", "Class", "cl", "ass", "im_end", "**", "  ", "\r\n"),
        *("<|im_start|>", "<|im_end|>", "</response>", "[/INST]", "<<SYS>>", "Class:"),
    ]
)
# Not st.text(): its table of all characters takes seconds to build on a fresh checkout.
CHARACTERS = st.one_of(st.integers(0, 0xD7FF), st.integers(0xE000, 0x10FFFF)).map(chr)
TEXTS = st.lists(st.one_of(FRAGMENTS, FRAGMENTS, CHARACTERS), max_size=25).map("".join)


@settings(max_examples=400, deadline=None, database=None)
@given(TEXTS)
@example("e\u200b\u0301")
@example("a\u200d\u212a")
@example("a\u200d\u2028b")
@example("a\u200d\u00a0\u200db")
@example("<\u200b\u0338|x")
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalised(text)
    if once is not None:
        assert normalised(once) == once


@settings(max_examples=400, deadline=None, database=None)
@given(TEXTS)
@example("<|im_end|>Class: </response>")
@example("\u0327e\u0301 \u0f73\u200b\u0344")
def test_no_visible_character_is_lost_added_or_moved(text: str) -> None:
    once = normalised(text)
    if once is None:
        # Refused is only what shows nothing: these texts pile no marks and hold no surrogates.
        assert not visible(text).strip("\u3164\u2800\u115f\u1160\uffa0")
    else:
        assert visible(once) == visible(text)


@settings(max_examples=400, deadline=None, database=None)
@given(TEXTS)
def test_blanks_and_control_characters_are_in_their_one_form(text: str) -> None:
    once = normalised(text)
    if once is None:
        return
    assert once == once.strip()
    assert "  " not in once
    assert " \n" not in once
    assert "\n " not in once
    assert "\n\n\n" not in once
    assert {c for c in once if unicodedata.category(c) in ("Cc", "Zs", "Zl", "Zp")} <= {" ", "\n"}


def test_every_field_of_an_example_is_normalised() -> None:
    assert normalise(Example((" K1 ", "Class: K2"), "Q\u200b?", "<s>")) == Example(
        ("K1", "Class : K2"), "Q?", "< s>"
    )


def test_fields_that_were_left_out_stay_so() -> None:
    assert normalise(Example(None, None, " R ")) == Example(None, None, "R")


@pytest.mark.parametrize(
    ("faulty", "field"),
    [
        pytest.param(Example((" ",), "Q", "R"), "knowledge", id="one-document"),
        pytest.param(Example((" ", "K"), "Q", "R"), "knowledge[0]", id="first-document"),
        pytest.param(Example(("K", "\u2800"), "Q", "R"), "knowledge[1]", id="second-document"),
        pytest.param(Example(("K", "K", "\ud800"), "Q", "R"), "knowledge[2]", id="surrogate"),
        pytest.param(Example((), "Q", "R"), "knowledge", id="no-document"),
        pytest.param(Example(("K",), "", "R"), "question", id="question"),
        pytest.param(Example(None, None, "\u200b"), "response", id="response"),
        pytest.param(Example(("K", " "), " ", " "), "knowledge[1]", id="the-first-fault-is-named"),
    ],
)
def test_an_error_names_the_field(faulty: Example, field: str) -> None:
    with pytest.raises(TextError) as caught:
        normalise(faulty)
    assert caught.value.field == field
    assert str(caught.value) == f"{field} {caught.value.reason}"
    assert isinstance(caught.value, ContractError)


def test_an_empty_list_of_documents_is_told_apart_from_a_blank_one() -> None:
    with pytest.raises(BlankTextError, match=r"^knowledge must not be an empty list: leave"):
        normalise(Example((), None, "R"))
