"""Measuring a service on the golden set: passes, two of which ``baseline.json`` keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from client import DetectorClient
from evaluation.baseline import Baseline, Case, Figures, Speed
from evaluation.errors import EvaluationError
from evaluation.identity import ServiceIdentity, identify
from evaluation.noise import Outcome
from evaluation.prediction import Prediction
from evaluation.remote import Answer, GoldRow, ask_rows, to_prediction

Progress = Callable[[int, int], None]
"""Told how many requests are answered, of how many."""


class GoldenRow(GoldRow, Protocol):
    """A row of the golden set."""

    @property
    def kind(self) -> str:
        """What the case tries, such as ``negation``."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the rows.

    Attributes:
        answers: In the rows' order.
        seconds: From the first request to the last answer.
        concurrency: Requests at once.
    """

    answers: tuple[Answer, ...]
    seconds: float
    concurrency: int

    @property
    def outcomes(self) -> list[Outcome]:
        """What was said of each row."""
        return [Outcome.of(answer.classification) for answer in self.answers]

    @property
    def speed(self) -> Speed:
        """How fast it was."""
        latencies_ms = [answer.latency_ms for answer in self.answers]
        p50_ms, p95_ms = np.percentile(latencies_ms, (50, 95))
        return Speed(
            concurrency=self.concurrency,
            p50_ms=round(float(p50_ms), 1),
            p95_ms=round(float(p95_ms), 1),
            cases_per_s=round(len(self.answers) / self.seconds, 3),
        )


def run_pass(
    client: DetectorClient,
    rows: Sequence[GoldRow],
    service: ServiceIdentity,
    *,
    concurrency: int,
    progress: Progress | None = None,
) -> Pass:
    """Ask the service for every row once.

    Args:
        client: Of the service.
        rows: What is judged, at least one.
        service: What it said that it is.
        concurrency: Requests at once.
        progress: Told of every answer.

    Raises:
        EvaluationError: A row was not served, or by other weights.
    """
    began = time.perf_counter()
    answers = ask_rows(client, rows, concurrency=concurrency, progress=progress)
    seconds = time.perf_counter() - began
    for row, answer in zip(rows, answers, strict=True):
        given = answer.classification
        if given is None:
            continue
        model = (given.model.id, given.model.revision)
        if model != (service.model, service.revision):
            raise EvaluationError(
                f"row {row.id} was judged by {'@'.join(model)}, and /info says "
                f"{service.model}@{service.revision}: measure when one revision alone is served"
            )
    return Pass(tuple(answers), seconds, concurrency)


def run_passes(
    client: DetectorClient,
    rows: Sequence[GoldRow],
    service: ServiceIdentity,
    *,
    concurrencies: Sequence[int],
    progress: Progress | None = None,
) -> list[Pass]:
    """Ask the service for every row, once for each concurrency.

    Args:
        client: Of the service.
        rows: What is judged, at least one.
        service: What it said that it is.
        concurrencies: Requests at once, of each pass.
        progress: Told of every answer, of all passes.

    Raises:
        EvaluationError: A row was not served, or the service changed meanwhile.
    """
    total = len(concurrencies) * len(rows)

    def report(before: int) -> Progress | None:
        if progress is None:
            return None
        return lambda done, _: progress(before + done, total)

    passes = [
        run_pass(
            client, rows, service, concurrency=concurrency, progress=report(number * len(rows))
        )
        for number, concurrency in enumerate(concurrencies)
    ]
    if identify(client) != service:
        raise EvaluationError(
            "the service changed during the measurement: measure again when one alone is served"
        )
    return passes


def measure_baseline(
    client: DetectorClient,
    rows: Sequence[GoldenRow],
    golden_sha256: str,
    *,
    concurrency: int,
    progress: Progress | None = None,
) -> Baseline:
    """Ask a service that is ready for every row, twice.

    Args:
        client: Of the service.
        rows: The golden set, at least one case.
        golden_sha256: Of the set's content.
        concurrency: Requests at once; the same in both passes.
        progress: Told of every answer, of both passes.

    Raises:
        EvaluationError: A row was not served, or the service changed meanwhile.
    """
    if not rows:
        raise EvaluationError("the golden set has no case: give one that has")
    service = identify(client)
    first, second = run_passes(
        client, rows, service, concurrencies=(concurrency, concurrency), progress=progress
    )
    predictions = [
        to_prediction(row, answer.classification)
        for row, answer in zip(rows, first.answers, strict=True)
    ]
    by_kind: dict[str, list[Prediction]] = {}
    for row, prediction in zip(rows, predictions, strict=True):
        by_kind.setdefault(str(row.kind), []).append(prediction)
    outcomes = zip(rows, first.outcomes, second.outcomes, strict=True)
    return Baseline(
        service=service,
        golden_sha256=golden_sha256,
        cases=tuple(Case(row.id, before, after) for row, before, after in outcomes),
        overall=Figures.of(predictions),
        by_kind={kind: Figures.of(own) for kind, own in by_kind.items()},
        speed=first.speed,
    )
