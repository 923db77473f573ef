"""Raw rows: one line of JSON for each request, kept as they are. Every figure comes from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadtest.checks import Judged, Outcome
from loadtest.errors import LoadTestError
from loadtest.workload import Kind


@dataclass(frozen=True, slots=True)
class Row:
    """One request. Times in seconds since the load began.

    Attributes:
        index: Its number in the workload.
        kind: Of the mix.
        intended_s: When it should have been sent; in a closed loop, when it was sent.
        sent_s: When it was.
        done_s: When its answer was whole, or known not to come.
        status: HTTP status; None where no answer came.
        judged: What became of it.
    """

    index: int
    kind: Kind
    intended_s: float
    sent_s: float
    done_s: float
    status: int | None
    judged: Judged

    @property
    def latency_s(self) -> float:
        """From the intended start: what a user waited."""
        return self.done_s - self.intended_s

    @property
    def latency_from_send_s(self) -> float:
        """From the send: what the service took."""
        return self.done_s - self.sent_s

    @property
    def lag_s(self) -> float:
        """By how much the generator was late."""
        return self.sent_s - self.intended_s

    def to_line(self) -> str:
        """Return it as one line of JSON, with its end."""
        value = asdict(self)
        judged = value.pop("judged")
        times = {name: round(value[name], 6) for name in ("intended_s", "sent_s", "done_s")}
        return json.dumps({**value, **times, **judged}) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Row:
        """Read what ``to_line`` gave.

        Raises:
            ValueError: It is no row.
        """
        value: dict[str, Any] = json.loads(line)
        try:
            own = {name: value.pop(name) for name in _OWN}
            judged = Judged(**{**value, "outcome": Outcome(value["outcome"])})
            return cls(**{**own, "kind": Kind(own["kind"])}, judged=judged)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"members are missing or unknown ({error})") from error


_OWN = ("index", "kind", "intended_s", "sent_s", "done_s", "status")


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file in the order of their intended starts.

    Raises:
        LoadTestError: It is not there, or holds something else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [Row.from_line(line) for line in lines]
    except (OSError, ValueError) as error:
        raise LoadTestError(f"{path} holds no rows of a load test ({error})") from error
    return sorted(rows, key=lambda row: (row.intended_s, row.index))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile of raw values, by linear interpolation (numpy's default method).

    Args:
        values: At least one, in any order.
        percent: In [0, 100].

    Example:
        >>> percentile([4.0, 1.0, 3.0, 2.0], 50)
        2.5
    """
    if not values:
        raise ValueError("there is no percentile of no values")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    if low == len(ordered) - 1:
        return ordered[low]
    share = place - low
    return ordered[low] * (1 - share) + ordered[low + 1] * share
