"""What the service says of itself while it is under load: its ``/metrics``, once a second."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Self

import httpx

from client.wire import http_options

_EVERY_S = 1.0
_TIMEOUT_S = 5.0
_SAMPLE = re.compile(r"^(detector_\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sample:
    """The service at one moment. Counters count since its start.

    Attributes:
        at_s: On the system's monotonic clock.
        in_flight: Items accepted and not yet answered.
        waiting: Of those, waiting in the engine.
        shed: Items refused for want of room.
        num_verdicts: Reached so far.
        queue_s: Seconds that they waited in the engine, added up.
        inference_s: Seconds that they were computed for, added up.
    """

    at_s: float
    in_flight: float
    waiting: float
    shed: float
    num_verdicts: float
    queue_s: float
    inference_s: float


@dataclass(frozen=True, slots=True)
class Interval:
    """What happened between two samples.

    Attributes:
        start_s: On the system's monotonic clock.
        end_s: The same.
        shed_per_s: Items refused, a second.
        verdicts_per_s: Reached, a second.
        queue_s: Mean wait of a verdict in the engine; None where none was reached.
        inference_s: Mean computation; None where none was reached.
    """

    start_s: float
    end_s: float
    shed_per_s: float
    verdicts_per_s: float
    queue_s: float | None
    inference_s: float | None


def parse_metrics(text: str, at_s: float) -> Sample:
    """Read ``/metrics``; a metric with labels is added up over them, one that is missing is 0."""
    totals: dict[str, float] = {}
    for name, value in _SAMPLE.findall(text):
        totals[name] = totals.get(name, 0.0) + float(value)
    return _sample(totals, at_s)


def _sample(totals: Mapping[str, float], at_s: float) -> Sample:
    def total(name: str) -> float:
        return totals.get(f"detector_{name}", 0.0)

    return Sample(
        at_s=at_s,
        in_flight=total("in_flight_items"),
        waiting=total("engine_waiting"),
        shed=total("shed_total"),
        num_verdicts=total("queue_seconds_count"),
        queue_s=total("queue_seconds_sum"),
        inference_s=total("inference_seconds_sum"),
    )


def intervals(samples: Sequence[Sample]) -> list[Interval]:
    """Return what happened between neighbouring samples; a restart of the service is left out."""
    found = []
    for old, new in pairwise(samples):
        seconds, num = new.at_s - old.at_s, new.num_verdicts - old.num_verdicts
        if num < 0 or new.shed < old.shed or seconds <= 0:
            continue
        found.append(
            Interval(
                start_s=old.at_s,
                end_s=new.at_s,
                shed_per_s=(new.shed - old.shed) / seconds,
                verdicts_per_s=num / seconds,
                queue_s=(new.queue_s - old.queue_s) / num if num else None,
                inference_s=(new.inference_s - old.inference_s) / num if num else None,
            )
        )
    return found


class MetricsWatch:
    """Samples ``/metrics`` in a thread while its block runs.

    Attributes:
        samples: In their order.
        fault: Why there may be too few; None where every question was answered.
    """

    def __init__(self, url: str, api_key: str | None, user_agent: str) -> None:
        """Ask nothing yet.

        Raises:
            ValueError: The address or the key cannot be used.
        """
        self._http = httpx.Client(timeout=_TIMEOUT_S, **http_options(url, api_key, user_agent))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.samples: list[Sample] = []
        self.fault: str | None = None

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take the last sample and end."""
        self._ended.set()
        self._thread.join()
        self._http.close()

    def _watch(self) -> None:
        while True:
            is_last = self._ended.is_set()
            try:
                answer = self._http.get("metrics")
                if answer.status_code != httpx.codes.OK:
                    self.fault = f"/metrics was answered with {answer.status_code}"
                    return
                self.samples.append(parse_metrics(answer.text, time.monotonic()))
            except (httpx.HTTPError, ValueError) as error:
                self.fault = f"/metrics could not be read ({type(error).__name__})"
            if is_last:
                return
            self._ended.wait(_EVERY_S)
