"""Raw rows over time: in stretches of equal length, and by the stages of the load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.checks import Outcome
from loadtest.figures import Spread
from loadtest.plan import Loop, Plan
from loadtest.rows import Row, percentile
from loadtest.workload import Kind

_MAX_BINS = 120
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True)
class Bin:
    """One stretch of time. Seconds since the load began; rates a second.

    Attributes:
        start_s: Its start.
        end_s: Its end.
        offered_per_s: Requests whose intended start lies in it.
        ok_per_s: Requests answered as they should be in it; so the next two.
        shed_per_s: Refused for want of room.
        errors_per_s: Failed.
        in_flight: Requests open on average, as the generator sees them.
        p50_s: Latency from the intended start, of the requests for verdicts that began in it and
            were answered as they should be; None where there are none. So the next.
        p95_s: 95th percentile.
    """

    start_s: float
    end_s: float
    offered_per_s: float
    ok_per_s: float
    shed_per_s: float
    errors_per_s: float
    in_flight: float
    p50_s: float | None
    p95_s: float | None


@dataclass(frozen=True, slots=True)
class StageFigures:
    """What became of the requests whose intended start lies in one stage. Shares in [0, 1].

    Attributes:
        start_s: Seconds since the load began.
        end_s: The same.
        offered_per_s: Requests a second.
        latency_s: From the intended start, of those for verdicts that were answered as they should
            be.
        shed_rate: Of the requests for verdicts.
        error_rate: Of all requests.
    """

    start_s: float
    end_s: float
    offered_per_s: float
    latency_s: Spread
    shed_rate: float
    error_rate: float


def split_by_stage(plan: Plan, rows: Sequence[Row]) -> list[StageFigures]:
    """Return the figures of each stage of an open loop, the warm-up left out."""
    found = []
    start_s = 0.0
    for stage in plan.stages:
        end_s = start_s + stage.duration_s
        if start_s >= plan.warm_up_s and plan.loop is Loop.OPEN:
            own = [row for row in rows if start_s <= row.intended_s < end_s]
            asked = [row for row in own if row.kind is not Kind.BAD_REQUEST]
            good = [row for row in asked if row.judged.outcome is Outcome.OK]
            shed = sum(row.judged.outcome is Outcome.SHED for row in asked)
            errors = sum(row.judged.outcome is Outcome.ERROR for row in own)
            found.append(
                StageFigures(
                    start_s=start_s,
                    end_s=end_s,
                    offered_per_s=len(own) / stage.duration_s,
                    latency_s=Spread.of([row.latency_s for row in good]),
                    shed_rate=shed / max(1, len(asked)),
                    error_rate=errors / max(1, len(own)),
                )
            )
        start_s = end_s
    return found


def make_series(rows: Sequence[Row]) -> list[Bin]:
    """Return the bins of a run, warm-up included.

    They are of a second each, or longer where they would be too many.
    """
    if not rows:
        return []
    end_s = max(row.done_s for row in rows)
    width_s = max(_LEAST_S, math.ceil(end_s / _MAX_BINS))
    begun: dict[int, list[Row]] = {}
    ended: dict[int, list[Row]] = {}
    for row in rows:
        begun.setdefault(int(row.intended_s // width_s), []).append(row)
        ended.setdefault(int(row.done_s // width_s), []).append(row)
    open_s = _open_seconds(rows, width_s)
    bins = []
    for number in range(math.floor(end_s / width_s) + 1):
        start_s, stop_s = number * width_s, (number + 1) * width_s
        outcomes = [row.judged.outcome for row in ended.get(number, [])]
        latencies_s = [
            row.latency_s
            for row in begun.get(number, [])
            if row.judged.outcome is Outcome.OK and row.kind is not Kind.BAD_REQUEST
        ]
        bins.append(
            Bin(
                start_s=start_s,
                end_s=stop_s,
                offered_per_s=len(begun.get(number, [])) / width_s,
                ok_per_s=outcomes.count(Outcome.OK) / width_s,
                shed_per_s=outcomes.count(Outcome.SHED) / width_s,
                errors_per_s=outcomes.count(Outcome.ERROR) / width_s,
                in_flight=open_s.get(number, 0.0) / width_s,
                p50_s=percentile(latencies_s, 50) if latencies_s else None,
                p95_s=percentile(latencies_s, 95) if latencies_s else None,
            )
        )
    return bins


def _open_seconds(rows: Sequence[Row], width_s: float) -> dict[int, float]:
    """Return bin -> seconds that requests were open in it, added up."""
    found: dict[int, float] = {}
    for row in rows:
        for number in range(int(row.sent_s // width_s), int(row.done_s // width_s) + 1):
            start_s, stop_s = number * width_s, (number + 1) * width_s
            overlap_s = min(row.done_s, stop_s) - max(row.sent_s, start_s)
            found[number] = found.get(number, 0.0) + overlap_s
    return found
