"""One load on one service, from the check that it is ready to the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from client import DetectorClient, DetectorError
from evaluation.errors import EvaluationError
from evaluation.identity import ServiceIdentity, identify
from loadtest.errors import LoadTestError
from loadtest.figures import Figures, compute_figures, why_not_measured
from loadtest.generator import generate
from loadtest.plan import Plan
from loadtest.rows import Row
from loadtest.server_metrics import MetricsWatch, Sample

USER_AGENT = "hallucination-detector-loadtest-watch"


@dataclass(frozen=True, slots=True)
class Target:
    """The service under load.

    Attributes:
        url: Its address.
        api_key: None for none; shown nowhere.
    """

    url: str
    api_key: str | None

    def client(self) -> DetectorClient:
        """Return a client of it.

        Raises:
            LoadTestError: The address or the key cannot be used.
        """
        try:
            return DetectorClient(
                self.url, api_key=self.api_key, max_attempts=2, user_agent=USER_AGENT
            )
        except ValueError as error:
            raise LoadTestError(f"--url or the API key cannot be used: {error}") from error


@dataclass(frozen=True, slots=True)
class Run:
    """A load that came to its end.

    Attributes:
        plan: What was to be sent.
        rows: What was.
        figures: From the rows.
        samples: Of the service's ``/metrics``.
        began_monotonic_s: What the rows' times count from, on the samples' clock.
        metrics_fault: Why there are too few samples; None where there are not.
        why_not_measured: None where the figures say something about the service.
    """

    plan: Plan
    rows: Sequence[Row]
    figures: Figures
    samples: Sequence[Sample]
    began_monotonic_s: float
    metrics_fault: str | None
    why_not_measured: str | None


def wait_ready(target: Target, timeout_s: float) -> ServiceIdentity:
    """Wait until the service takes requests; return what it says that it is.

    Raises:
        LoadTestError: It is not ready in time, cannot be reached, or refuses the key.
    """
    try:
        with target.client() as client:
            client.wait_ready(timeout_s)
            return identify(client)
    except (DetectorError, EvaluationError) as error:
        raise LoadTestError(f"{target.url} cannot be put under load: {error}") from error


def measure(
    target: Target,
    plan: Plan,
    folder: Path,
    service: ServiceIdentity,
    goodput_within_s: float | None,
    say: Callable[[str], None],
) -> Run:
    """Put a service under load.

    Args:
        target: Ready.
        plan: Of the load.
        folder: For raw rows and logs; it must be there.
        service: What it said that it is before.
        goodput_within_s: Later answers are no goodput; None for no bound.
        say: Told every so often how far it is.

    Raises:
        LoadTestError: The generator failed, or another service answers by now.
    """
    with MetricsWatch(target.url, target.api_key, USER_AGENT) as watch:
        generated = generate(plan, target.url, target.api_key, folder, say)
    figures = compute_figures(plan, generated, goodput_within_s)
    _refuse_another(target, service)
    return Run(
        plan=plan,
        rows=generated.rows,
        figures=figures,
        samples=watch.samples,
        began_monotonic_s=generated.began_monotonic_s,
        metrics_fault=watch.fault,
        why_not_measured=why_not_measured(figures),
    )


def _refuse_another(target: Target, service: ServiceIdentity) -> None:
    """Find out that the figures are of two services.

    Raises:
        LoadTestError: They are. A service that does not answer any more is no other one: its
            requests have failed, and are counted.
    """
    try:
        with target.client() as client:
            now = identify(client)
    except EvaluationError:
        return
    if now != service:
        raise LoadTestError(
            f"{target.url} serves something else than when the load began: the figures are of two "
            "services. Run it again while nothing is deployed"
        )
