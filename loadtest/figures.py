"""From raw rows to figures, and whether the rows are worth any.

Latencies are those of requests for verdicts that were answered as they should be: bad requests are
refused in a millisecond, refusals for want of room too, and either would make a service look fast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loadtest.checks import Outcome
from loadtest.generator import Generated
from loadtest.plan import Loop, Plan
from loadtest.rows import Row, percentile
from loadtest.workload import Kind

MAX_LAG_S = 0.1
"""A generator whose 99th percentile of the lag is above this, and above a tenth of the median
latency, was too slow for the load: what it saw is not what was asked for."""
MAX_LAG_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles of raw values, in the values' unit. None where there are no values.

    Attributes:
        num: How many values.
        p50: Median.
        p95: 95th percentile.
        p99: 99th percentile.
        highest: The largest.
    """

    num: int
    p50: float | None
    p95: float | None
    p99: float | None
    highest: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Compute all of them."""
        if not values:
            return cls(0, None, None, None, None)
        p50, p95, p99 = (percentile(values, percent) for percent in (50, 95, 99))
        return cls(len(values), p50, p95, p99, max(values))


@dataclass(frozen=True, slots=True)
class Figures:
    """What a load showed, warm-up left out. Seconds, shares in [0, 1].

    Attributes:
        loop: Open or closed; a closed loop's latencies hide waiting.
        window_s: Seconds that were measured.
        num_requests: Sent in them, bad ones included.
        num_unsent: Of the schedule, not sent.
        outcomes: How many ended how.
        kinds: The same for each kind.
        reasons: Why requests failed or were refused, and how many.
        offered_per_s: Requests that should have been sent, a second.
        answered_per_s: Requests answered as they should be, a second; bad requests left out.
        verdicts_per_s: The same, each item of a batch counted.
        latency_s: From the intended start.
        latency_from_send_s: From the send.
        lag_s: From the intended start to the send, of all requests.
        queue_s: In the engine's queue, as ``Server-Timing`` says it.
        inference_s: Computing, from the same.
        error_rate: Share of all requests.
        shed_rate: Share of the requests for verdicts that were refused for want of room.
        goodput: Share of the requests for verdicts that were answered as they should be within
            ``goodput_within_s`` of their intended start.
        goodput_per_s: The same requests, a second.
        goodput_within_s: None: however long it took.
    """

    loop: Loop
    window_s: float
    num_requests: int
    num_unsent: int
    outcomes: Mapping[Outcome, int]
    kinds: Mapping[Kind, Mapping[Outcome, int]]
    reasons: Mapping[str, int]
    offered_per_s: float
    answered_per_s: float
    verdicts_per_s: float
    latency_s: Spread
    latency_from_send_s: Spread
    lag_s: Spread
    queue_s: Spread
    inference_s: Spread
    error_rate: float
    shed_rate: float
    goodput: float
    goodput_per_s: float
    goodput_within_s: float | None


def measured_rows(plan: Plan, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that count: those after the warm-up."""
    return [row for row in rows if row.intended_s >= plan.warm_up_s]


def compute_figures(
    plan: Plan, generated: Generated, goodput_within_s: float | None = None
) -> Figures:
    """Return the figures of a load.

    Args:
        plan: Of the load.
        generated: What came of it.
        goodput_within_s: Later answers are no goodput; None for no bound.
    """
    rows = measured_rows(plan, generated.rows)
    window_s = plan.duration_s - plan.warm_up_s
    asked = [row for row in rows if row.kind is not Kind.BAD_REQUEST]
    good = [row for row in asked if row.judged.outcome is Outcome.OK]
    # What was finished in the window, whenever it began: a queue that only grows must not count.
    finished = [
        row
        for row in generated.rows
        if row.judged.outcome is Outcome.OK
        and row.kind is not Kind.BAD_REQUEST
        and plan.warm_up_s <= row.done_s < plan.duration_s
    ]
    in_time = [row for row in good if goodput_within_s is None or row.latency_s <= goodput_within_s]
    num_unsent = max(0, generated.num_scheduled - len(generated.rows))
    outcomes = _count(rows)
    return Figures(
        loop=plan.loop,
        window_s=window_s,
        num_requests=len(rows),
        num_unsent=num_unsent,
        outcomes=outcomes,
        kinds={kind: _count([row for row in rows if row.kind is kind]) for kind in Kind},
        reasons=dict(Counter(row.judged.reason for row in rows if row.judged.reason).most_common()),
        offered_per_s=(len(rows) + num_unsent) / window_s,
        answered_per_s=len(finished) / window_s,
        verdicts_per_s=sum(row.judged.num_verdicts for row in finished) / window_s,
        latency_s=Spread.of([row.latency_s for row in good]),
        latency_from_send_s=Spread.of([row.latency_from_send_s for row in good]),
        lag_s=Spread.of([row.lag_s for row in rows]),
        queue_s=_server_spread(good, lambda row: row.judged.queue_ms),
        inference_s=_server_spread(good, lambda row: row.judged.inference_ms),
        error_rate=_share(outcomes[Outcome.ERROR], len(rows)),
        shed_rate=_share(sum(row.judged.outcome is Outcome.SHED for row in asked), len(asked)),
        goodput=_share(len(in_time), len(asked) + num_unsent),
        goodput_per_s=len(in_time) / window_s,
        goodput_within_s=goodput_within_s,
    )


def why_not_measured(figures: Figures) -> str | None:
    """Return why the figures say nothing about the service; None where they do."""
    if not figures.num_requests:
        return "no request was sent after the warm-up: raise --rate or --duration"
    if not figures.latency_s.num:
        reasons = ", ".join(f"{num} x {reason}" for reason, num in figures.reasons.items())
        return f"no request for a verdict finished ({reasons or 'only bad requests were sent'})"
    if figures.num_unsent:
        return f"{figures.num_unsent} scheduled requests were never sent"
    lag_s, median_s = figures.lag_s.p99 or 0.0, figures.latency_s.p50 or 0.0
    allowed_s = max(MAX_LAG_S, MAX_LAG_SHARE * median_s)
    if lag_s > allowed_s:
        return (
            f"the generator fell behind: its 99th percentile of the lag is {1000 * lag_s:.0f} ms, "
            f"{1000 * allowed_s:.0f} ms are allowed. Give it a core of its own, or lower --rate"
        )
    return None


def _server_spread(rows: Sequence[Row], read_ms: Callable[[Row], float | None]) -> Spread:
    return Spread.of([ms / 1000 for row in rows if (ms := read_ms(row)) is not None])


def _count(rows: Sequence[Row]) -> dict[Outcome, int]:
    counted = Counter(row.judged.outcome for row in rows)
    return {outcome: counted[outcome] for outcome in Outcome}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
