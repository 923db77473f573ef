"""Measuring a service on the golden set: passes, two of which ``baseline.json`` keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from client import DetectorClient
from evaluation.baseline import Baseline, Case, Figures, Speed
from evaluation.errors import EvaluationError
from evaluation.identity import ServiceIdentity, identify
from evaluation.kept_answers import KeptAnswers, KeptPass, Said
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
        said: In the rows' order.
        seconds: From the first request to the last answer.
        concurrency: Requests at once.
        is_resumed: It was interrupted and taken up again: its speed is not that of one pass.
    """

    said: tuple[Said, ...]
    seconds: float
    concurrency: int
    is_resumed: bool = False

    @property
    def outcomes(self) -> list[Outcome]:
        """What was said of each row."""
        return [said.outcome for said in self.said]

    @property
    def speed(self) -> Speed:
        """How fast it was."""
        latencies_ms = [said.latency_ms for said in self.said]
        p50_ms, p95_ms = np.percentile(latencies_ms, (50, 95))
        return Speed(
            concurrency=self.concurrency,
            p50_ms=round(float(p50_ms), 1),
            p95_ms=round(float(p95_ms), 1),
            cases_per_s=round(len(self.said) / self.seconds, 3),
        )


def run_pass(
    client: DetectorClient,
    rows: Sequence[GoldRow],
    service: ServiceIdentity,
    *,
    name: str,
    concurrency: int,
    kept: KeptAnswers | None = None,
    progress: Progress | None = None,
) -> Pass:
    """Ask the service once for every row that was not answered before.

    Args:
        client: Of the service.
        rows: What is judged, at least one.
        service: What it said that it is.
        name: Of the pass, among the kept answers.
        concurrency: Requests at once.
        kept: Answers of earlier runs, and where those of this one go.
        progress: Told of every answer.

    Raises:
        EvaluationError: A row was not served, or by other weights.
    """
    earlier = KeptPass() if kept is None else kept.find(name, rows)
    said, seconds = dict(earlier.said), earlier.seconds
    rest = [row for row in rows if row.id not in said]

    def take(row: GoldRow, answer: Answer) -> None:
        nonlocal seconds
        _check_weights(row, answer, service)
        said[row.id] = Said.of(answer)
        seconds = max(seconds, earlier.seconds + answer.seconds)
        if kept is not None:
            kept.add(name, row, said[row.id], seconds)
        if progress is not None:
            progress(len(said), len(rows))

    ask_rows(client, rest, concurrency=concurrency, take=take)
    return Pass(
        said=tuple(said[row.id] for row in rows),
        seconds=seconds,
        concurrency=concurrency,
        is_resumed=earlier.num_runs + bool(rest) > 1,
    )


def _check_weights(row: GoldRow, answer: Answer, service: ServiceIdentity) -> None:
    given = answer.classification
    if given is None:
        return
    model = (given.model.id, given.model.revision)
    if model != (service.model, service.revision):
        raise EvaluationError(
            f"row {row.id} was judged by {'@'.join(model)}, and /info says "
            f"{service.model}@{service.revision}: measure when one revision alone is served"
        )


def run_passes(
    client: DetectorClient,
    rows: Sequence[GoldRow],
    service: ServiceIdentity,
    *,
    passes: Mapping[str, int],
    kept: KeptAnswers | None = None,
    progress: Progress | None = None,
) -> list[Pass]:
    """Ask the service for every row, once in each pass.

    Args:
        client: Of the service.
        rows: What is judged, at least one.
        service: What it said that it is.
        passes: Name -> requests at once.
        kept: Answers of earlier runs, and where those of this one go.
        progress: Told of every answer, of all passes.

    Raises:
        EvaluationError: A row was not served, or the service changed meanwhile.
    """
    total = len(passes) * len(rows)

    def report(before: int) -> Progress | None:
        if progress is None:
            return None
        return lambda done, _: progress(before + done, total)

    measured = [
        run_pass(
            client,
            rows,
            service,
            name=name,
            concurrency=concurrency,
            kept=kept,
            progress=report(number * len(rows)),
        )
        for number, (name, concurrency) in enumerate(passes.items())
    ]
    if identify(client) != service:
        if kept is not None:
            kept.forget()
        raise EvaluationError(
            "the service changed during the measurement: measure again when one alone is served"
        )
    return measured


def bind_answers(
    service: ServiceIdentity, golden_sha256: str, passes: Mapping[str, int], **more: str | None
) -> dict[str, Any]:
    """Return all that an answer depends on besides its pass and row: see ``KeptAnswers.begin``.

    Args:
        service: What it said that it is.
        golden_sha256: Of the golden set's content.
        passes: Name -> requests at once.
        more: What else must be the same.
    """
    return {"service": service.to_json(), "golden": golden_sha256, "passes": dict(passes), **more}


def measure_baseline(
    client: DetectorClient,
    rows: Sequence[GoldenRow],
    golden_sha256: str,
    *,
    concurrency: int,
    kept: KeptAnswers | None = None,
    progress: Progress | None = None,
) -> Baseline:
    """Ask a service that is ready for every row, twice.

    Args:
        client: Of the service.
        rows: The golden set, at least one case.
        golden_sha256: Of the set's content.
        concurrency: Requests at once; the same in both passes.
        kept: Answers of earlier runs, and where those of this one go.
        progress: Told of every answer, of both passes.

    Raises:
        EvaluationError: A row was not served, or the service changed meanwhile.
    """
    if not rows:
        raise EvaluationError("the golden set has no case: give one that has")
    service = identify(client)
    passes = {"first": concurrency, "second": concurrency}
    if kept is not None:
        kept.begin(bind_answers(service, golden_sha256, passes), None)
    first, second = run_passes(client, rows, service, passes=passes, kept=kept, progress=progress)
    # Figures need no justification, and a baseline keeps only its hash.
    predictions = [
        to_prediction(row, outcome, None) for row, outcome in zip(rows, first.outcomes, strict=True)
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
        speed=Speed.none(concurrency) if first.is_resumed else first.speed,
    )
