"""Typed HTTP client of the service: sync, async, and for files (``python -m client --help``).

Every call returns a checked ``Classification`` or raises a ``DetectorError``; an answer that is
not what the API promises is never read as a verdict. Retries are built in.

Usage:
    from client import DetectorClient, DetectorError, Example

    with DetectorClient("http://127.0.0.1:8000") as detector:
        detector.wait_ready(timeout_s=120)
        example = Example(("The pool is 25 metres long.",), "How long is it?", "50 metres.")
        verdict = detector.classify(example)
        print(verdict.label, verdict.probability, verdict.justification)
        for outcome in detector.classify_many([example] * 100, concurrency=16):
            print("failed" if isinstance(outcome, DetectorError) else outcome.label)

``AsyncDetectorClient`` has the same methods, awaited. Not here: anything of the model, the prompt
or the service's code; the client imports ``contract`` only.
"""

from client.async_client import AsyncDetectorClient
from client.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    DeadlineExhausted,
    DetectorError,
    Fault,
    InvalidRequest,
    Overloaded,
    ProblemError,
    ProtocolError,
    ServiceFailed,
    Unauthorized,
    UnreadableReply,
)
from client.models import Classification, Model, Timings, Usage
from client.sync_client import DetectorClient
from contract.example import Example
from contract.labels import Label

__all__ = [
    "AsyncDetectorClient",
    "Classification",
    "ConnectionFailed",
    "DeadlineExceeded",
    "DeadlineExhausted",
    "DetectorClient",
    "DetectorError",
    "Example",
    "Fault",
    "InvalidRequest",
    "Label",
    "Model",
    "Overloaded",
    "ProblemError",
    "ProtocolError",
    "ServiceFailed",
    "Timings",
    "Unauthorized",
    "UnreadableReply",
    "Usage",
]
