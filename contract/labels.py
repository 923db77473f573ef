"""The label set: the only place where the two class names are written."""

from __future__ import annotations

from enum import StrEnum


class Label(StrEnum):
    """The class of a response: the value is the word on the wire and in the reply."""

    HALLUCINATION = "hallucination"
    CORRECT = "correct"
