"""Verdicts of a running service, as predictions: what users get, not what training measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol

from client import Classification, DetectorClient, DetectorError, UnreadableReply
from contract.example import Example
from contract.labels import Label
from evaluation.errors import EvaluationError
from evaluation.noise import Outcome
from evaluation.prediction import Prediction


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
        contract_version: Of the service.
        contract: Fingerprint of what the service asks and reads.
    """

    model: str
    revision: str
    contract_version: int
    contract: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered to one row.

    Attributes:
        classification: None where the model's reply was unreadable.
        latency_ms: From the request to the answer, waits and further tries included.
        seconds: From the beginning, when no row was asked, to the answer.
    """

    classification: Classification | None
    latency_ms: float
    seconds: float


def describe_service(url: str) -> Served:
    """Ask a service what it serves.

    Raises:
        EvaluationError: It does not say.
    """
    try:
        with DetectorClient(url) as client:
            info = client.info()
        model = info["model"]
        return Served(
            str(model["id"]),
            str(model["revision"]),
            int(info["contract_version"]),
            str(info["contract"]),
        )
    except (DetectorError, KeyError, TypeError, ValueError) as error:
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
    num_answered = 0

    def report(row: GoldRow, answer: Answer) -> None:
        nonlocal num_answered
        num_answered += 1
        if progress is not None:
            progress(num_answered, len(rows))

    with DetectorClient(url) as client:
        answers = ask_rows(
            client, rows, justification=justification, concurrency=concurrency, take=report
        )
    predictions = []
    for row, answer in zip(rows, answers, strict=True):
        given = answer.classification
        text = None if given is None else given.justification
        predictions.append(to_prediction(row, Outcome.of(given), text))
    return predictions


def ask_rows(
    client: DetectorClient,
    rows: Sequence[GoldRow],
    *,
    justification: bool = True,
    concurrency: int = 32,
    take: Callable[[GoldRow, Answer], None] | None = None,
) -> list[Answer]:
    """Ask a service for every row, and return its answers in the rows' order.

    Args:
        client: Of the service.
        rows: What is judged.
        justification: False for the short path.
        concurrency: Requests at once.
        take: Given each row with its answer as it comes, in this thread; what it raises ends all.

    Raises:
        EvaluationError: A row was refused or not served; the others are not waited for.
    """
    began_all = time.perf_counter()

    def ask(row: GoldRow) -> Answer:
        began = time.perf_counter()
        example = Example(row.knowledge, row.question, row.response)
        try:
            given = client.classify(example, justification=justification)
        except UnreadableReply:
            given = None
        ended = time.perf_counter()
        return Answer(given, 1000 * (ended - began), ended - began_all)

    answers: dict[int, Answer] = {}
    pool = ThreadPoolExecutor(concurrency)
    try:
        places = {pool.submit(ask, row): place for place, row in enumerate(rows)}
        for future in as_completed(places):
            place = places[future]
            try:
                answers[place] = future.result()
            except DetectorError as error:
                raise EvaluationError(
                    f"the service gave no verdict on row {rows[place].id}: {error}"
                ) from error
            if take is not None:
                take(rows[place], answers[place])
    finally:
        # After a fault, or on Ctrl-C, return at once: requests under way end by themselves.
        pool.shutdown(wait=False, cancel_futures=True)
    return [answers[place] for place in range(len(rows))]


def to_prediction(row: GoldRow, outcome: Outcome, justification: str | None) -> Prediction:
    """Return what was said of a row beside its gold class.

    Args:
        row: What was judged.
        outcome: What was said of it.
        justification: None where the model gave none, or it does not matter.
    """
    return Prediction(
        id=row.id,
        pair_id=row.pair_id,
        set_name=row.set_name,
        gold=row.label,
        verdict=outcome.verdict,
        probability=outcome.probability,
        justification=justification,
        response=row.response,
        knowledge=row.knowledge,
        question=row.question,
    )
