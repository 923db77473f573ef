"""Verdicts of a running service, as predictions: what users get, not what training measured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from client import Classification, DetectorClient, DetectorError, UnreadableReply
from contract.example import Example
from contract.labels import Label
from evaluation.errors import EvaluationError
from evaluation.prediction import Prediction

logger = logging.getLogger(__name__)


class GoldRow(Protocol):
    """A labelled example with an id."""

    @property
    def id(self) -> str:
        """Unique among the rows."""

    @property
    def pair_id(self) -> str:
        """Shared by the responses to one question or text."""

    @property
    def set_name(self) -> str:
        """The data set."""

    @property
    def knowledge(self) -> tuple[str, ...] | None:
        """What the response should rest on."""

    @property
    def question(self) -> str | None:
        """What it answers."""

    @property
    def response(self) -> str:
        """What is judged."""

    @property
    def label(self) -> Label:
        """The gold class."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a service serves.

    Attributes:
        model: Its id.
        revision: Which weights.
    """

    model: str
    revision: str


def describe_service(url: str) -> Served:
    """Ask a service what it serves.

    Raises:
        EvaluationError: It does not say.
    """
    try:
        with DetectorClient(url) as client:
            model = client.info()["model"]
        return Served(str(model["id"]), str(model["revision"]))
    except (DetectorError, KeyError, TypeError) as error:
        raise EvaluationError(
            f"{url} does not say what it serves ({error}): is the service running there?"
        ) from error


def predict_remotely(
    url: str,
    rows: Sequence[GoldRow],
    *,
    justification: bool = True,
    concurrency: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> list[Prediction]:
    """Ask a service for every row, and return its verdicts in the rows' order.

    Args:
        url: Of the service.
        rows: What is judged.
        justification: False for the short path.
        concurrency: Requests at once.
        progress: Told how many are answered, of how many.

    Raises:
        EvaluationError: A row was refused or not served. Only an unreadable reply counts as a
            verdict that was not reached.
    """
    examples = [Example(row.knowledge, row.question, row.response) for row in rows]
    with DetectorClient(url) as client:
        answers = client.classify_many(
            examples, justification=justification, concurrency=concurrency, progress=progress
        )
    return [_to_prediction(row, answer) for row, answer in zip(rows, answers, strict=True)]


def _to_prediction(row: GoldRow, answer: Classification | DetectorError) -> Prediction:
    if isinstance(answer, UnreadableReply):
        verdict, probability, justification = None, None, None
    elif isinstance(answer, DetectorError):
        raise EvaluationError(f"the service gave no verdict on row {row.id}: {answer}") from answer
    else:
        verdict, probability = answer.label, answer.probability
        justification = answer.justification
    return Prediction(
        id=row.id,
        pair_id=row.pair_id,
        set_name=row.set_name,
        gold=row.label,
        verdict=verdict,
        probability=probability,
        justification=justification,
        response=row.response,
        knowledge=row.knowledge,
        question=row.question,
    )
