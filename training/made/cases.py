"""What a maker of pairs returns, and the mirror that keeps responses from telling their class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from training.evidence import MAX_QUOTE_WORDS, NO_ANSWER
from training.made.forms import Shown
from training.made.scenes import Scene, Spot, Tongue, bare_name, capitalise

_QUOTE = re.compile(r'"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Row:
    """One response.

    Attributes:
        knowledge: The documents.
        question: None for a claim or a summary.
        response: What is judged.
        is_right: Whether the knowledge supports all of it and it answers the question.
        justification: What the knowledge holds about it, the same for a right and a wrong response.
    """

    knowledge: tuple[str, ...]
    question: str | None
    response: str
    is_right: bool
    justification: str


@dataclass(frozen=True, slots=True)
class Case:
    """A pair: its rows, as many right as wrong.

    Attributes:
        kind: What it teaches, such as ``units``.
        task: ``qa``, ``summarization``, ``dialogue`` or ``general``.
        rows: Two or four.
    """

    kind: str
    task: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One half of a mirrored pair.

    Attributes:
        knowledge: The documents.
        question: None for a claim or a summary.
        right: Its right response, which is wrong on the other side.
        justification: What the knowledge holds.
    """

    knowledge: tuple[str, ...]
    question: str | None
    right: str
    justification: str

    def row(self, response: str, is_right: bool) -> Row:
        """Return a row of this side."""
        return Row(self.knowledge, self.question, response, is_right, self.justification)


def mirror(kind: str, task: str, one: Side, other: Side) -> Case:
    """Return both right responses on both sides: each text is right once and wrong once."""
    rows = (
        one.row(one.right, True),
        one.row(other.right, False),
        other.row(other.right, True),
        other.row(one.right, False),
    )
    return Case(kind, task, rows)


def quote(text: str) -> str:
    """Return a passage in quotation marks, cut to what a justification may hold."""
    words = text.split(" ")
    return f'"{" ".join(words[:MAX_QUOTE_WORDS]).rstrip(". 。")}"'


def quote_as_it_stands(justification: str, knowledge: Sequence[str]) -> str:
    """Return a justification whose quotes begin as they do in the knowledge.

    Example:
        >>> quote_as_it_stands('It is "a comet".', ["A comet is the target."])
        'It is "A comet".'
    """

    def fit(match: re.Match[str]) -> str:
        said = match.group(1)
        stands = any(said in text for text in knowledge)
        return f'"{said if stands else capitalise(said)}"'

    return _QUOTE.sub(fit, justification)


def justify_answer(answer: str) -> str:
    """Return what is taught where the knowledge holds the answer word for word."""
    return f"By the knowledge, the answer is {quote(answer)}."


def justify_fact(scene: Scene, shown: Shown, *spots: Spot) -> str:
    """Return what the knowledge says about facts: its sentences, or its fields."""
    told = [shown.sentences.get(spot) for spot in spots]
    if any(spot in scene.hidden for spot in spots):
        return NO_ANSWER
    if len(told) <= 2 and all(text is not None and len(text.split(" ")) < 20 for text in told):
        return f"The knowledge says {' and '.join(quote(str(text)) for text in told)}."
    parts = [
        f"{scene.attributes[k].label} of {bare_name(scene.entities[i])} "
        f"is {quote(scene.value((i, k)).text)}"
        for i, k in spots
    ]
    return f"By the knowledge, the {', the '.join(parts)}."


def end(text: str, tongue: Tongue, rng: Random) -> str:
    """Return a response with a capital, and with a full stop or without by a coin."""
    text = capitalise(text).rstrip(tongue.stop)
    return text + (tongue.stop if rng.random() < 0.5 else "")


def voice(value: str, statement: str, tongue: Tongue, rng: Random) -> str:
    """Return an answer in one of the shapes that answers have: bare, around it a carrier, told.

    Args:
        value: The bare answer.
        statement: A sentence that gives it.
        tongue: Its language.
        rng: Draws the shape.
    """
    shape = rng.random()
    if shape < 0.4:
        return end(value, tongue, rng)
    if shape < 0.75:
        return end(statement, tongue, rng)
    return end(rng.choice(tongue.carriers).replace("{v}", value), tongue, rng)


def pick_two(scene: Scene, attribute: int, rng: Random) -> tuple[int, int]:
    """Return two entities whose values of an attribute differ."""
    entities = rng.sample(range(len(scene.entities)), len(scene.entities))
    first = entities[0]
    for other in entities[1:]:
        if scene.value((first, attribute)) != scene.value((other, attribute)):
            return first, other
    raise ValueError(f"all entities have one {scene.attributes[attribute].label}")


def join(sentences: Sequence[str], tongue: Tongue) -> str:
    """Return statements as one text."""
    blank = "" if tongue.code == "zh" else " "
    return blank.join(capitalise(each).rstrip(tongue.stop) + tongue.stop for each in sentences)
