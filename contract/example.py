"""An example, and the one normalisation that training, scoring and serving share.

The normalisation takes away what must not decide a verdict (blanks, invisible characters, how a
letter is composed) and disarms what could be read as structure rather than as text: chat-template
tokens, the tags that fence the fields, and forged verdict lines. It changes no visible word, only
puts a blank inside such a sequence: ``<|im_end|>`` becomes ``< |im_end| >``, ``Class: correct``
becomes ``Class : correct``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from contract.errors import BlankTextError, InvalidTextError

# Characters that show nothing and could hide text or instructions: soft hyphen, grapheme joiner,
# Arabic letter mark, Khmer inherent vowels, Mongolian vowel separator, zero-width space,
# directional marks, embeddings and isolates, word joiner and the other invisible operators, byte
# order mark, interlinear annotation, shorthand and musical controls, tags and the variation
# selectors beyond the 16th.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Invisible too, but Persian, Indic and Mongolian scripts and emoji need them: zero-width joiners
# and variation selectors. Between ASCII characters they only hide a sequence.
_JOINERS = "\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f"
# Letters by category, yet blank to the eye (Hangul fillers, Braille blank), and the joiners alone.
_BLANK_LETTERS = f"\u115f\u1160\u2800\u3164\uffa0{_JOINERS}"

# Line ends in the sense of Unicode become "\n"; other control characters become a blank.
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_REMOVED = re.compile(f"[{_INVISIBLE}]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\ufffe\uffff]")
_IDLE_JOINERS = re.compile(rf"(?<![^\s\x00-\x7f])[{_JOINERS}]+(?![^\s\x00-\x7f])")
_BLANKS = re.compile(r"[^\S\n]+")
_BLANK_AROUND_LINE_END = re.compile(r" ?\n ?")
_EMPTY_LINES = re.compile(r"\n{3,}")
_NOT_VISIBLE = re.compile(rf"[\s{_BLANK_LETTERS}]+")

# "<" or "[" before what could name a token or a tag: <|im_start|>, </response>, <s>, <think>,
# [INST], <<SYS>>. Fullwidth bars serve as token delimiters in some vocabularies; the compatibility
# forms of the brackets and of the slash read like the real ones.
_OPENING = re.compile(
    r"([<\ufe64\uff1c])(?=[<\ufe64\uff1c/\uff0f|\uff5c!_A-Za-z\uff21-\uff3a\uff41-\uff5a\u2581])"
)
_CLOSING = re.compile(r"([|\uff5c])(?=[>\ufe65\uff1e])")
_INSTRUCTION_TAG = re.compile(r"(\[)(?=/?[A-Z_]+\])")
# "Class:" as the reply writes it, in any case, with any colon of Unicode and in Markdown emphasis.
_VERDICT_MARK = re.compile(r"(?i)((?<![^\W_])class[*_`]{0,3}) ?([:\u2236\ua789\ufe13\ufe55\uff1a])")
# CPython orders the marks on one letter in quadratic time: 100,000 of them would hold a server for
# seconds. 30 is the limit of Unicode's stream-safe text (UAX 15), beyond what any language writes.
_MARK_PILE = re.compile(rb"[^\x00]{31}")
_DECOMPOSE_TO_MARKS = "\u0f73\u0f75\u0f81"
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Example:
    """One response to judge.

    Attributes:
        knowledge: The documents that the response should rest on, at least one; None to judge
            from what the model knows.
        question: The question that the response answers, if there is one.
        response: The text to judge.
    """

    knowledge: tuple[str, ...] | None
    question: str | None
    response: str


def normalise_text(text: str, field: str) -> str:
    """Return the text as the model sees it. Applying it twice changes nothing more.

    Args:
        text: Any text.
        field: Its name, for the error.

    Raises:
        InvalidTextError: It holds a lone surrogate, or more than 30 combining marks in a row.
        BlankTextError: Nothing visible is in it.
    """
    if _SURROGATE.search(text):
        raise InvalidTextError(
            field, "holds a lone surrogate, which is not valid Unicode text: send valid UTF-8"
        )
    # NFC comes second: a letter and its accent may meet only once what stood between them is gone.
    text = _compose(_REMOVED.sub("", text), field)
    text = _CONTROL.sub(" ", _LINE_END.sub("\n", text))
    text = _IDLE_JOINERS.sub("", text)
    text = _BLANK_AROUND_LINE_END.sub("\n", _BLANKS.sub(" ", text))
    text = _EMPTY_LINES.sub("\n\n", text).strip()
    if not _NOT_VISIBLE.sub("", text):
        raise BlankTextError(field, "must not be blank; an optional field can be left out")
    text = _INSTRUCTION_TAG.sub(r"\1 ", _OPENING.sub(r"\1 ", text))
    text = _CLOSING.sub(r"\1 ", text)
    return _VERDICT_MARK.sub(r"\1 \2", text)


def _compose(text: str, field: str) -> str:
    if text.isascii():
        return text
    if not _is_piled(text):
        text = unicodedata.normalize("NFC", text)
        if not _is_piled(text):
            return text
    raise InvalidTextError(field, "holds more than 30 combining marks in a row")


def _is_piled(text: str) -> bool:
    classes = bytes(unicodedata.combining(c) or c in _DECOMPOSE_TO_MARKS for c in text)
    return _MARK_PILE.search(classes) is not None


def normalise(example: Example) -> Example:
    """Return the example with every text normalised.

    Raises:
        TextError: A text is blank or invalid. The first such field is named.
    """
    knowledge = example.knowledge
    if knowledge is not None:
        if not knowledge:
            raise BlankTextError("knowledge", "must not be an empty list: leave the field out")
        names = _knowledge_fields(knowledge)
        knowledge = tuple(
            normalise_text(text, name) for text, name in zip(knowledge, names, strict=True)
        )
    question = example.question
    if question is not None:
        question = normalise_text(question, "question")
    return Example(knowledge, question, normalise_text(example.response, "response"))


def _knowledge_fields(knowledge: tuple[str, ...]) -> Iterable[str]:
    if len(knowledge) == 1:
        return ["knowledge"]
    return [f"knowledge[{i}]" for i in range(len(knowledge))]
