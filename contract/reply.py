"""How a model's reply is read: ``parse(text)`` returns a verdict or raises, never guesses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from contract.errors import UnreadableReplyError
from contract.labels import Label

REPLY_MARK = "Class:"
"""What stands before the label on the last line of a reply."""

_VERDICT_LINES = {f"{REPLY_MARK} {label}": label for label in Label}
# A line that begins with "class:" in any case, with any colon of Unicode, whatever signs (Markdown,
# quotes, list numbers) stand before and between. Every line end of Unicode begins a line.
_LINE_END = r"\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_SIGN = rf"(?:[^\w{_LINE_END}]|[\d_])"
_LOOKS_LIKE_VERDICT = re.compile(
    rf"(?i)(?:\A|(?<=[{_LINE_END}])){_SIGN}*+class{_SIGN}{{0,8}}?[:\u2236\ua789\ufe13\ufe55\uff1a]"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reply that was read.

    Attributes:
        label: The class on the last line.
        justification: The text before it; it holds a letter or a digit.
    """

    label: Label
    justification: str


def parse(text: str) -> Verdict:
    r"""Read a whole reply.

    Accepted is only: a justification, then one last line, exactly ``Class: <label>``. Blanks at
    either end do not count.

    Raises:
        UnreadableReplyError: The last line is no verdict, a second verdict line stands before it,
            or there is no justification.

    Example:
        >>> parse("The knowledge says 25 metres.\nClass: correct")
        Verdict(label=<Label.CORRECT: 'correct'>, justification='The knowledge says 25 metres.')
    """
    before, _, last_line = text.strip().rpartition("\n")
    label = _VERDICT_LINES.get(last_line.strip())
    if label is None:
        raise UnreadableReplyError("the last line is not a verdict")
    if _LOOKS_LIKE_VERDICT.search(before):
        raise UnreadableReplyError("a second verdict line stands before the last one")
    justification = before.strip()
    if not any(map(str.isalnum, justification)):
        raise UnreadableReplyError("there is no justification before the verdict")
    return Verdict(label, justification)


def split_justification(text: str) -> str:
    """Return what stands before the first thing that looks like a verdict, possibly nothing.

    It is what an unreadable reply is read again after.
    """
    mark = _LOOKS_LIKE_VERDICT.search(text)
    return (text[: mark.start()] if mark else text).strip()


def label_cue(justification: str | None) -> str:
    """Return the text after which the next token is the label's first token.

    Args:
        justification: The reply so far; None or empty to ask for the label at once.
    """
    return f"{justification}\n{REPLY_MARK}" if justification else REPLY_MARK
