"""The latest verdicts, kept as numbers, and live drift: how far they are from the reference.

The reference came with the weights (``contract/reference.py``). It is of replies that could be
read, so only those are compared with it; verdicts of the other paths have windows of their own. No
text is kept, only its length.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from contract.labels import Label
from contract.reference import (
    NUM_BINS,
    LengthQuantiles,
    Reference,
    count_bins,
    expected_index,
    stability_index,
)
from service.detector import Classification, VerdictPath

_PERCENTILES = ("10", "50", "90")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is kept of a verdict."""

    is_hallucination: bool
    probability: float
    justification_chars: int


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """What the verdicts of a window are like.

    Attributes:
        num_verdicts: In the window; at least 1.
        probability_counts: How many have their P(hallucination) in each bin, ``[NUM_BINS]``.
        hallucination_share: Of the class, as it was answered, in [0, 1].
        mean_probability: Of a hallucination, in [0, 1].
        justification_chars: How long the justifications are; 0 where there is none.
    """

    num_verdicts: int
    probability_counts: tuple[int, ...]
    hallucination_share: float
    mean_probability: float
    justification_chars: LengthQuantiles


@dataclass(frozen=True, slots=True)
class Drift:
    """How far the verdicts of a window are from the reference.

    Attributes:
        psi: Population stability index of the probabilities, from 0.
        expected_psi: What sampling alone gives on average; see ``expected_index``.
        hallucination_share_change: The window's share of the class minus the reference's, in
            [-1, 1]; None where the reference has none.
        justification_chars_ratio: Median length of the window over that of the reference; None
            where the reference has none, or 0.
    """

    psi: float
    expected_psi: float
    hallucination_share_change: float | None
    justification_chars_ratio: float | None


class VerdictWindow:
    """The latest verdicts of one path. Adding one takes the same time however many there are."""

    def __init__(self, max_verdicts: int) -> None:
        """Begin with none; the oldest is forgotten once there are ``max_verdicts``."""
        self._seen: deque[_Seen] = deque(maxlen=max_verdicts)
        # A deque must not grow while it is read, and a scrape may come from another thread.
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many verdicts there are."""
        return len(self._seen)

    def add(self, verdict: Classification) -> None:
        """Take a verdict in."""
        seen = _Seen(
            verdict.label is Label.HALLUCINATION,
            verdict.probability,
            len(verdict.justification or ""),
        )
        with self._lock:
            self._seen.append(seen)

    def describe(self) -> WindowFacts | None:
        """Return what the verdicts are like; None where there is none."""
        with self._lock:
            seen = list(self._seen)
        if not seen:
            return None
        return WindowFacts(
            num_verdicts=len(seen),
            probability_counts=count_bins(each.probability for each in seen),
            hallucination_share=sum(each.is_hallucination for each in seen) / len(seen),
            mean_probability=fsum(each.probability for each in seen) / len(seen),
            justification_chars=LengthQuantiles.of(each.justification_chars for each in seen),
        )


def measure_drift(facts: WindowFacts, reference: Reference) -> Drift:
    """Return how far the verdicts of the full path are from the reference."""
    share, lengths = reference.hallucination_share, reference.justification_chars
    return Drift(
        psi=stability_index(reference.probability_counts, facts.probability_counts),
        expected_psi=expected_index(reference.num_rows, facts.num_verdicts),
        hallucination_share_change=None if share is None else facts.hallucination_share - share,
        justification_chars_ratio=(
            facts.justification_chars.p50 / lengths.p50 if lengths and lengths.p50 else None
        ),
    )


class WindowCollector(Collector):
    """The windows of all paths as metrics, computed when they are asked for.

    What cannot be known is left out, never 0: a share of no verdicts, drift without a reference or
    from too few verdicts.
    """

    def __init__(self, max_verdicts: int) -> None:
        """Begin with no verdict and no reference.

        Args:
            max_verdicts: Of each path's window.
        """
        self.max_verdicts = max_verdicts
        self.windows = {path: VerdictWindow(max_verdicts) for path in VerdictPath}
        self._reference: Reference | None = None
        self._min_verdicts = max_verdicts

    def compare_with(self, reference: Reference | None, min_verdicts: int) -> None:
        """Measure drift against a reference from now on.

        Args:
            reference: Of the weights; None where they carry none.
            min_verdicts: That the window must hold; a full one is always enough.
        """
        self._reference = reference
        self._min_verdicts = min(min_verdicts, self.max_verdicts)

    def add(self, verdict: Classification) -> None:
        """Take a verdict into the window of its path."""
        self.windows[verdict.path].add(verdict)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        facts = {path: window.describe() for path, window in self.windows.items()}
        yield from _describe_windows(facts)
        full, reference = facts[VerdictPath.FULL], self._reference
        if full is not None:
            yield from _describe_verdicts(
                "window",
                "verdicts in the window, replies that could be read",
                full.probability_counts,
                full.justification_chars,
            )
        if reference is None:
            return
        yield _gauge("reference_verdicts", "Verdicts of the reference", reference.num_rows)
        if reference.hallucination_share is not None:
            yield _gauge(
                "reference_hallucination_share",
                "Of the class in the reference",
                reference.hallucination_share,
            )
        yield from _describe_verdicts(
            "reference",
            "verdicts of the reference",
            reference.probability_counts,
            reference.justification_chars,
        )
        if full is not None and full.num_verdicts >= self._min_verdicts:
            yield from _describe_drift(measure_drift(full, reference))


def _gauge(name: str, text: str, value: float | None = None, label: str = "") -> GaugeMetricFamily:
    return GaugeMetricFamily(f"detector_{name}", text, value, labels=[label] if label else None)


def _describe_windows(facts: Mapping[VerdictPath, WindowFacts | None]) -> Iterator[Metric]:
    count = _gauge("window_verdicts", "Verdicts in the window", label="path")
    share = _gauge("window_hallucination_share", "Of the class in the window", label="path")
    mean = _gauge("window_mean_probability", "Of a hallucination, in the window", label="path")
    for path, each in facts.items():
        count.add_metric([path], 0 if each is None else each.num_verdicts)
        if each is not None:
            share.add_metric([path], each.hallucination_share)
            mean.add_metric([path], each.mean_probability)
    yield from (count, share, mean)


def _describe_verdicts(
    prefix: str, what: str, counts: Sequence[int], lengths: LengthQuantiles | None
) -> Iterator[Metric]:
    shares = _gauge(
        f"{prefix}_probability_bin_share",
        f"Share of the {what}, by the lower end of their P(hallucination)",
        label="bin",
    )
    for place, count in enumerate(counts):
        shares.add_metric([f"{place / NUM_BINS:.1f}"], count / sum(counts))
    yield shares
    if lengths is not None:
        chars = _gauge(
            f"{prefix}_justification_chars",
            f"Characters of a justification, of the {what}",
            label="percentile",
        )
        values: Iterable[float] = (lengths.p10, lengths.p50, lengths.p90)
        for percentile, value in zip(_PERCENTILES, values, strict=True):
            chars.add_metric([percentile], value)
        yield chars


def _describe_drift(drift: Drift) -> Iterator[Metric]:
    yield _gauge(
        "drift_psi", "Stability index of the window's probabilities to the reference's", drift.psi
    )
    yield _gauge(
        "drift_expected_psi", "What sampling alone gives that on average", drift.expected_psi
    )
    if drift.hallucination_share_change is not None:
        yield _gauge(
            "drift_hallucination_share_change",
            "Share of the class in the window minus the reference's",
            drift.hallucination_share_change,
        )
    if drift.justification_chars_ratio is not None:
        yield _gauge(
            "drift_justification_chars_ratio",
            "Median length of a justification in the window over the reference's",
            drift.justification_chars_ratio,
        )
