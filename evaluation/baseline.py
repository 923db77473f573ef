"""``baseline.json``: what a service said of every golden case, twice, and what it is itself.

A later measurement is compared with it case by case. The second pass shows how far the same
service differs from itself. ``python -m evaluation baseline`` makes the file
(``evaluation/measuring.py``); nothing here asks a service.

The file has one line for each case, and no time stamp: two of them can be read as a diff. Of the
second pass a case holds only what differs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.calibration import expected_calibration_error
from evaluation.errors import BaselineError
from evaluation.files import write_whole
from evaluation.identity import ServiceIdentity
from evaluation.json_fields import Fields, parse_object
from evaluation.metrics import confuse
from evaluation.noise import Noise, Outcome
from evaluation.prediction import Prediction

FORMAT = 1
"""Raise it with every change of the file that older code would misread."""

MAX_CONCURRENCY = 1000
"""Requests at once: as many as ``--concurrency`` takes."""

_AGAIN = "make it again with `python -m evaluation baseline`"
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Case:
    """What was said of one golden case.

    Attributes:
        id: Of the case.
        first: In the first pass, which every figure is made from.
        second: In the second pass, for the noise alone.
    """

    id: str
    first: Outcome
    second: Outcome

    def to_json(self) -> dict[str, Any]:
        """Return the first outcome, and of the second one what differs."""
        first, second = self.first.to_json(), self.second.to_json()
        changes = {name: value for name, value in second.items() if value != first[name]}
        return {"id": self.id, **first, **({"second": changes} if changes else {})}

    @classmethod
    def from_json(cls, fields: Fields) -> Case:
        """Read what ``to_json`` gave.

        Raises:
            ValueError: A member is missing or of the wrong kind.
        """
        first = second = Outcome.from_json(fields)
        if fields.has("second"):
            second = Outcome.from_json(fields.fields("second").over(first.to_json()))
        return cls(fields.text("id"), first, second)


@dataclass(frozen=True, slots=True)
class Figures:
    """How good the verdicts on some cases are; figures have six digits and are in [0, 1].

    Attributes:
        num_cases: Judged.
        balanced_accuracy: See ``metrics.balanced_accuracy``.
        f1: See ``metrics.f1``.
        recall: Of the hallucinations; None where there is none.
        correct_recall: Of the correct responses; None where there is none.
        ece: Expected calibration error; None where no case has a probability.
        unreadable_rate: Share of replies that were not read, which count as wrong above.
    """

    num_cases: int
    balanced_accuracy: float
    f1: float
    recall: float | None
    correct_recall: float | None
    ece: float | None
    unreadable_rate: float

    @classmethod
    def of(cls, predictions: Sequence[Prediction]) -> Figures:
        """Measure predictions, at least one."""
        counts = confuse(predictions)
        known = [(p.probability, p.gold) for p in predictions if p.probability is not None]
        ece = None
        if known:
            ece = expected_calibration_error([p for p, _ in known], [gold for _, gold in known])
        return cls(
            num_cases=len(predictions),
            balanced_accuracy=round(counts.balanced_accuracy, _DIGITS),
            f1=round(counts.f1, _DIGITS),
            recall=round(counts.recall, _DIGITS) if counts.tp + counts.fn else None,
            correct_recall=round(counts.correct_recall, _DIGITS) if counts.tn + counts.fp else None,
            ece=None if ece is None else round(ece, _DIGITS),
            unreadable_rate=round(counts.unreadable_rate, _DIGITS),
        )

    @classmethod
    def from_json(cls, fields: Fields) -> Figures:
        """Read the members as ``asdict`` gives them.

        Raises:
            ValueError: A member is missing or of the wrong kind.
        """
        return cls(
            num_cases=fields.count("num_cases"),
            balanced_accuracy=fields.number("balanced_accuracy", 1),
            f1=fields.number("f1", 1),
            recall=fields.number_or_none("recall", 1),
            correct_recall=fields.number_or_none("correct_recall", 1),
            ece=fields.number_or_none("ece", 1),
            unreadable_rate=fields.number("unreadable_rate", 1),
        )


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one pass was, seen from the client; all figures are 0 where there are none.

    Attributes:
        concurrency: Requests at once.
        p50_ms: Median latency of a case.
        p95_ms: 95th percentile of the latency.
        cases_per_s: Throughput over the pass.
    """

    concurrency: int
    p50_ms: float
    p95_ms: float
    cases_per_s: float

    @classmethod
    def none(cls, concurrency: int) -> Speed:
        """Return no speed: of a pass that was interrupted and taken up again."""
        return cls(concurrency, 0.0, 0.0, 0.0)

    @property
    def is_known(self) -> bool:
        """Whether there are figures."""
        return self.cases_per_s > 0

    @classmethod
    def from_json(cls, fields: Fields) -> Speed:
        """Read the members as ``asdict`` gives them.

        Raises:
            ValueError: A member is missing or of the wrong kind.
        """
        concurrency = fields.count("concurrency")
        if not 1 <= concurrency <= MAX_CONCURRENCY:
            raise ValueError(f"{fields.place('concurrency')} must be in [1, {MAX_CONCURRENCY}]")
        return cls(
            concurrency=concurrency,
            p50_ms=fields.number("p50_ms"),
            p95_ms=fields.number("p95_ms"),
            cases_per_s=fields.number("cases_per_s"),
        )


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a service said of the golden set.

    Attributes:
        service: What it is.
        golden_sha256: Of the golden set's content.
        cases: In the golden set's order; ids are unique.
        overall: Of all cases, first pass.
        by_kind: Kind of case -> figures, first pass.
        speed: Of the first pass; the second may find its prompts in the engine's cache. None
            (``Speed.none``) where that pass was interrupted and taken up again.
    """

    service: ServiceIdentity
    golden_sha256: str
    cases: tuple[Case, ...]
    overall: Figures
    by_kind: Mapping[str, Figures]
    speed: Speed

    def __post_init__(self) -> None:
        """Refuse what no measurement gives.

        Raises:
            ValueError: There is no case, one occurs twice, or the figures are of other cases.
        """
        if not self.cases:
            raise ValueError("cases must not be empty")
        twice = [name for name, number in Counter(c.id for c in self.cases).items() if number > 1]
        if twice:
            raise ValueError(f"case {twice[0]!r} occurs twice")
        num_in_kinds = sum(figures.num_cases for figures in self.by_kind.values())
        if not self.overall.num_cases == num_in_kinds == len(self.cases):
            raise ValueError(
                f"there are {len(self.cases)} cases, and the figures are of "
                f"{self.overall.num_cases} (by kind: {num_in_kinds})"
            )

    @property
    def num_cases(self) -> int:
        """Cases of the golden set, all of which are here."""
        return len(self.cases)

    @property
    def noise(self) -> Noise:
        """What the two passes differ in."""
        return Noise.of([(case.first, case.second) for case in self.cases])

    def to_json(self) -> str:
        """Return the file's text: the same for the same content."""
        head = {
            "format": FORMAT,
            "service": self.service.to_json(),
            "golden": {"sha256": self.golden_sha256, "num_cases": self.num_cases},
            "noise": self.noise.to_json(),
            "speed": asdict(self.speed),
            "overall": asdict(self.overall),
            "by_kind": {kind: asdict(self.by_kind[kind]) for kind in sorted(self.by_kind)},
        }
        begin = _dump(head, indent=2).removesuffix("\n}")
        lines = ",\n".join(f"    {_dump(case.to_json())}" for case in self.cases)
        return f'{begin},\n  "cases": [\n{lines}\n  ]\n}}\n'

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all.

        Raises:
            OSError: It cannot be written.
        """
        write_whole(path, self.to_json().encode("utf-8"))

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read a file.

        Raises:
            BaselineError: It is missing, broken, or of another format; the message names the file,
                the member, and the remedy.
        """
        try:
            fields = parse_object(path.read_text(encoding="utf-8"))
            found = fields.count("format")
        except FileNotFoundError as error:
            raise BaselineError(f"there is no {path}: {_AGAIN}") from error
        except OSError as error:
            raise BaselineError(f"{path} cannot be read ({error.strerror}): {_AGAIN}") from error
        except ValueError as error:
            raise BaselineError(f"{path} is no baseline ({error}): {_AGAIN}") from error
        if found != FORMAT:
            raise BaselineError(
                f"{path} is of format {found}, this code reads format {FORMAT}: {_AGAIN}, or check "
                "out the commit that made it"
            )
        try:
            return cls._from_fields(fields)
        except ValueError as error:
            raise BaselineError(f"{path} is broken: {error}. Repair it, or {_AGAIN}") from error

    @classmethod
    def _from_fields(cls, fields: Fields) -> Baseline:
        golden, kinds = fields.fields("golden"), fields.fields("by_kind")
        baseline = cls(
            service=ServiceIdentity.from_json(fields.fields("service")),
            golden_sha256=golden.text("sha256"),
            cases=_read_cases(fields.items("cases")),
            overall=Figures.from_json(fields.fields("overall")),
            by_kind={kind: Figures.from_json(kinds.fields(kind)) for kind in kinds.names},
            speed=Speed.from_json(fields.fields("speed")),
        )
        num_cases = golden.count("num_cases")
        if num_cases != baseline.num_cases:
            raise ValueError(f"golden.num_cases is {num_cases}, cases has {baseline.num_cases}")
        if Noise.from_json(fields.fields("noise")) != baseline.noise:
            raise ValueError(f"noise is not what the cases give, which is {baseline.noise}")
        return baseline


def _read_cases(items: Iterable[Fields]) -> tuple[Case, ...]:
    cases = []
    for fields in items:
        try:
            cases.append(Case.from_json(fields))
        except ValueError as error:
            name = fields.text("id") if fields.has("id") else None
            raise ValueError(f"{error} (case {name!r})" if name else f"{error}") from error
    return tuple(cases)


def _dump(value: object, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
