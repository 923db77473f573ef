"""What can be seen of the service: logs, metrics and traces. Never a user's text, only lengths."""

from __future__ import annotations

import logging
import re
import sys
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from contract.labels import Label
from service.detector import VerdictPath
from service.problems import INTERNAL, PROBLEMS
from service.window import WindowCollector

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from service.detector import Classification
    from service.settings import Settings

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")

# From the short path on a GPU to the default deadline on a busy CPU.
_SECONDS_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 30, 60,
)  # fmt: skip

_SHED = ("overloaded", "rate-limited")


def request_id_from(header: str | None) -> str:
    """Return the caller's request id where it is harmless, else a new one."""
    if header is not None and _REQUEST_ID.fullmatch(header):
        return header
    return uuid.uuid4().hex


def configure_logging(level: str, as_json: bool) -> None:
    """Send all logs to stderr, one line each. Called once, by the entry point."""
    handler = logging.StreamHandler(sys.stderr)
    if as_json:
        from pythonjsonlogger.core import RESERVED_ATTRS
        from pythonjsonlogger.json import JsonFormatter

        handler.setFormatter(
            JsonFormatter(
                "{asctime}{levelname}{name}{message}",
                style="{",
                rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
                # What the text format shows; here every field has a name of its own.
                reserved_attrs=[*RESERVED_ATTRS, "fields"],
            )
        )
    else:
        handler.setFormatter(_TextFormatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("uvicorn.access", "uvicorn.error", "httpx", "httpcore", "filelock", "vllm"):
        logging.getLogger(name).setLevel(logging.WARNING)


class _TextFormatter(logging.Formatter):
    """Adds a request's fields behind its message, as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            text += "".join(f" {key}={value}" for key, value in fields.items())
        return text


class Metrics:
    """All metrics of one service process, on a registry of their own.

    vLLM's metrics stand on the client library's default registry; ``/metrics`` shows both.
    """

    def __init__(self, window_verdicts: int) -> None:
        """Define the metrics.

        Args:
            window_verdicts: Latest verdicts of each path that shares, means and drift are taken
                over.
        """
        # One time stamp beside every sample, which nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.window = WindowCollector(window_verdicts)
        self.registry.register(self.window)
        self._define_traffic()
        self._define_state()
        self._begin_at_zero()

    def _define_traffic(self) -> None:
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=_SECONDS_BUCKETS)
        self.requests = counter("detector_http_requests", "HTTP requests", ["route", "status"])
        self.items = counter(
            "detector_items",
            "Responses to judge, by outcome; class is empty where no verdict was reached",
            ["outcome", "class"],
        )
        self.request_seconds = histogram(
            "detector_request_seconds", "Whole HTTP request", ["route"]
        )
        self.queue_seconds = histogram("detector_queue_seconds", "Wait in the engine")
        self.inference_seconds = histogram("detector_inference_seconds", "Computation")
        self.input_tokens = counter("detector_input_tokens", "Prompt tokens of verdicts")
        self.cached_tokens = counter(
            "detector_cached_tokens", "Prompt tokens whose computation was reused"
        )
        self.output_tokens = counter("detector_output_tokens", "Tokens generated")
        self.shed = counter("detector_shed", "Items refused", ["reason"])
        self.unreadable = counter(
            "detector_unreadable", "Items that ended without a readable verdict"
        )
        self.reread = counter(
            "detector_reread", "Replies that were not readable, the label then asked alone"
        )

    def _define_state(self) -> None:
        gauge = partial(Gauge, registry=self.registry)
        self.in_flight = gauge("detector_in_flight_items", "Accepted, not yet answered")
        self.queued_tokens = gauge("detector_queued_tokens", "Input tokens of those")
        self.engine_running = gauge("detector_engine_running", "Computing in the engine")
        self.engine_waiting = gauge("detector_engine_waiting", "Waiting in the engine")
        self.ready = gauge("detector_ready", "1 while requests are taken")
        self.cold_start_seconds = gauge(
            "detector_cold_start_seconds", "From process start to ready", ["phase"]
        )
        self.info = gauge(
            "detector_info", "What is served", ["model", "revision", "contract", "engine"]
        )

    def _begin_at_zero(self) -> None:
        """Show counts before their first event: from nothing to 1 is no rise."""
        for label in Label:
            self.items.labels("ok", label)
        for kind in (*PROBLEMS.values(), INTERNAL):
            self.items.labels(kind.slug, "")
        for reason in _SHED:
            self.shed.labels(reason)

    def count_verdict(self, verdict: Classification) -> None:
        """Count an item that ended with a verdict."""
        self.items.labels("ok", verdict.label).inc()
        self.queue_seconds.observe(verdict.queue_s)
        self.inference_seconds.observe(verdict.inference_s)
        self.input_tokens.inc(verdict.num_input_tokens)
        self.cached_tokens.inc(verdict.num_cached_tokens)
        self.output_tokens.inc(verdict.num_output_tokens)
        if verdict.path is VerdictPath.REREAD:
            self.reread.inc()
        self.window.add(verdict)

    def count_problem(self, slug: str) -> None:
        """Count an item that ended without a verdict.

        Args:
            slug: Of the problem type.
        """
        self.items.labels(slug, "").inc()
        if slug == "unreadable-reply":
            self.unreadable.inc()
        if slug in _SHED:
            self.shed.labels(slug).inc()


def make_tracer_provider(settings: Settings) -> TracerProvider | None:
    """Return what makes spans and exports them over OTLP, or None where no endpoint is set."""
    if settings.otlp_endpoint is None:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "hallucination-detector"}))
    endpoint = settings.otlp_endpoint.rstrip("/")
    if not endpoint.endswith("/v1/traces"):
        endpoint += "/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return provider


def request_fields(scope_state: dict[str, Any]) -> dict[str, Any]:
    """Return what the handlers left for the request's log line."""
    fields = scope_state.get("log")
    return fields if isinstance(fields, dict) else {}
