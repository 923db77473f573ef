"""Two sides of a comparison: a baseline or a service, and a service, on the same golden set.

``python -m evaluation drift`` and ``compare`` bring them together; ``evaluation/gate.py`` judges.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from client import DetectorClient
from contract.labels import Label
from evaluation.baseline import Baseline, Case, Speed
from evaluation.errors import EvaluationError
from evaluation.forged import asked_verdict
from evaluation.gate import Speeds
from evaluation.golden_set import Kind
from evaluation.identity import ServiceIdentity
from evaluation.kept_answers import KeptAnswers
from evaluation.measuring import GoldenRow, Progress, bind_answers, run_passes
from evaluation.noise import Outcome
from evaluation.paired import PairedCase


@dataclass(frozen=True, slots=True)
class Side:
    """What one service said of the golden set, twice.

    Attributes:
        name: How reports call it.
        service: What it is.
        cases: By id.
        speed: Of the pass that verdicts are from.
        alone: Of the pass with one request at a time; None where a baseline has none.
        justifications: By id, None where the model gave none; None in all where only their hashes
            are known. After an interruption only those that a changed verdict needs.
        is_resumed: The pass that ``speed`` is of was interrupted and taken up again.
    """

    name: str
    service: ServiceIdentity
    cases: Mapping[str, Case]
    speed: Speed
    alone: Speed | None = None
    justifications: Mapping[str, str | None] | None = None
    is_resumed: bool = False

    @classmethod
    def of_baseline(cls, baseline: Baseline) -> Side:
        """Return what a file holds."""
        cases = {case.id: case for case in baseline.cases}
        return cls("baseline", baseline.service, cases, baseline.speed)


def measure_side(
    client: DetectorClient,
    rows: Sequence[GoldenRow],
    service: ServiceIdentity,
    name: str,
    *,
    concurrency: int,
    golden_sha256: str,
    before: Side | None = None,
    kept: KeptAnswers | None = None,
    progress: Progress | None = None,
) -> Side:
    """Ask a service that is ready for every row, at concurrency and then alone.

    The pass at concurrency comes first, since it is compared with the first pass of a baseline: in
    a second one prompts are found in the engine's cache, and a slower service would seem as fast.

    Args:
        client: Of the service.
        rows: The golden set, at least one case.
        service: What it said that it is.
        name: How reports call it.
        concurrency: Requests at once.
        golden_sha256: Of the golden set's content.
        before: What it will be compared with; None where that is measured later.
        kept: Answers of earlier runs, and where those of this one go.
        progress: Told of every answer, of both passes.

    Raises:
        EvaluationError: A row was not served, or the service changed meanwhile.
    """
    passes = {"together": concurrency, "alone": 1}
    if kept is not None:
        compared = None if before is None else _hash_verdicts(before)
        made_from = bind_answers(service, golden_sha256, passes, compared_with=compared)
        kept.begin(made_from, lambda id, outcome: before is None or _is_flip(before, id, outcome))
    together, alone = run_passes(client, rows, service, passes=passes, kept=kept, progress=progress)
    outcomes = zip(rows, together.outcomes, alone.outcomes, strict=True)
    return Side(
        name=name,
        service=service,
        cases={row.id: Case(row.id, first, second) for row, first, second in outcomes},
        speed=together.speed,
        alone=alone.speed,
        justifications={
            row.id: said.justification for row, said in zip(rows, together.said, strict=True)
        },
        is_resumed=together.is_resumed,
    )


def _is_flip(before: Side, id: str, outcome: Outcome) -> bool:
    return id in before.cases and before.cases[id].first.verdict is not outcome.verdict


def _hash_verdicts(side: Side) -> str:
    verdicts = {id: case.first.to_json()["verdict"] for id, case in side.cases.items()}
    return hashlib.sha256(json.dumps(verdicts, sort_keys=True).encode("ascii")).hexdigest()


def find_changes(before: ServiceIdentity, after: ServiceIdentity) -> list[str]:
    """Return why two services are not to say the same, in words; nothing where they are."""
    changes = []
    if not before.has_weights_of(after):
        changes.append(
            f"the model was {before.model}@{before.revision} and is {after.model}@{after.revision}"
        )
    if before.contract != after.contract:
        changes.append(f"the contract was {before.contract} and is {after.contract}")
    old, new = before.calibration, after.calibration
    if old != new:
        changes.append(f"the calibration was {old} and is {new}")
    return changes


def compare_with(baseline: Baseline, service: ServiceIdentity, golden_sha256: str) -> list[str]:
    """Return in what a service, or the golden set, is not that of a baseline, in words."""
    changes = find_changes(baseline.service, service)
    if baseline.golden_sha256 != golden_sha256:
        changes.append(
            f"the golden set was {baseline.golden_sha256[:12]} and is {golden_sha256[:12]}"
        )
    return changes


def refuse_changes(changes: Sequence[str]) -> None:
    """Refuse to compare what was not meant to differ.

    Raises:
        EvaluationError: There are changes; the message names each.
    """
    if changes:
        raise EvaluationError(
            f"the baseline is of something else: {'; '.join(changes)}. Give the baseline of this "
            "one, or --accept-change to compare all the same"
        )


def pair_cases(rows: Sequence[GoldenRow], before: Side, after: Side) -> list[PairedCase]:
    """Return the rows that both sides judged, with what they said.

    Raises:
        EvaluationError: There is none.
    """
    cases = [
        PairedCase(row, before.cases[row.id], after.cases[row.id], find_forged(row))
        for row in rows
        if row.id in before.cases and row.id in after.cases
    ]
    if not cases:
        raise EvaluationError(
            "the baseline has no case of this golden set: make it again with "
            "`python -m evaluation baseline`"
        )
    return cases


class KnownRow(Protocol):
    """A golden row, as far as forged verdicts go."""

    @property
    def kind(self) -> str:
        """What it tries."""

    @property
    def label(self) -> Label:
        """The gold class."""

    @property
    def knowledge(self) -> tuple[str, ...] | None:
        """What the response should rest on."""

    @property
    def response(self) -> str:
        """What is judged."""


def find_forged(row: KnownRow) -> Label | None:
    """Return the verdict that a hostile case asks for, where it is wrong."""
    asked = asked_verdict(row) if row.kind == Kind.HOSTILE else None
    return None if asked is row.label else asked


def pair_speeds(before: Side, after: Side) -> Speeds:
    """Return both speeds, and why they cannot be compared where they cannot."""
    old, new = before.service, after.service
    resumed = [side.name for side in (before, after) if side.is_resumed]
    why_not = None
    if (old.hardware, old.device) != (new.hardware, new.device):
        why_not = f"the hardware was {old.hardware} and is {new.hardware}"
    elif before.speed.concurrency != after.speed.concurrency:
        why_not = f"it was measured with {before.speed.concurrency} at once"
    elif resumed:
        why_not = f"the measurement of {' and '.join(resumed)} was interrupted and taken up again"
    return Speeds(before.speed, after.speed, why_not)
