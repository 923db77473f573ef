"""The OpenAPI document: what each route takes and gives, with an example for every status."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse

from service import errors
from service.errors import Fault, ServiceError
from service.problems import (
    INTERNAL,
    METHOD_NOT_ALLOWED,
    PROBLEM_MEDIA_TYPE,
    ProblemType,
    problem_body,
    problem_type,
    to_problem,
)
from service.schemas import (
    BatchRequest,
    BatchResponse,
    ClassifyRequest,
    ClassifyResponse,
    Info,
    Liveness,
    Problem,
    Readiness,
)

DESCRIPTION = """\
Tells whether a response is a hallucination: whether the knowledge that it should rest on supports
everything it says. Every error is `application/problem+json` (RFC 9457) with a `request_id`; none
repeats your text, and none is a verdict."""

_ID = "5f2b6c1e8a7d4f0e9b3a2c1d0e4f5a6b"

_VERDICT: dict[str, Any] = {
    "class": "hallucination",
    "justification": 'The knowledge says "25 metres long", not 50 metres.',
    "probability": 0.973114,
    "threshold": 0.5,
    "label_mass": 0.999412,
    "evidence": "given",
    "model": {
        "id": "embedded",
        "revision": "0123456789abcdef",
        "contract": "0123456789abcdef",
        "engine": "vllm",
        "trained": True,
    },
    "usage": {"input_tokens": 187, "output_tokens": 21, "cached_tokens": 128},
    "timings_ms": {"queue": 0.2, "inference": 412.0, "total": 414.8},
    "request_id": _ID,
}

_FAULTS: dict[str, ServiceError] = {
    "malformed": errors.MalformedBodyError(
        [Fault("body", "it is not valid JSON: expecting value at line 1, column 14")]
    ),
    "unauthorized": errors.UnauthorizedError("send a valid API key as Authorization: Bearer <key>"),
    "too_large": errors.BodyTooLargeError(
        [Fault("body", "it is larger than the limit of 1048576 bytes: send less at once")]
    ),
    "media_type": errors.MediaTypeError(
        [Fault("body", "send Content-Type: application/json, the text in UTF-8")]
    ),
    "invalid": errors.InvalidRequestError(
        [
            Fault("response", "must be a string, got a number"),
            Fault("knowledge", "must not be blank; an optional field can be left out"),
            Fault("messages", "is not a known field"),
        ]
    ),
    "too_long": errors.InputTooLongError(5321, 3984),
    "rate_limited": errors.RateLimitedError("this caller may send 60 items a minute", 12),
    "engine_fault": errors.EngineFaultError("the inference engine failed on this request"),
    "unreadable": errors.UnreadableVerdictError(
        "the model gave no readable verdict; the same request would end the same way"
    ),
    "overloaded": errors.OverloadedError(
        "128 items are being judged, as many as this service takes at once", 9
    ),
    "loading": errors.NotReadyError("the service is starting: load: importing vLLM", 5),
    "dead": errors.EngineDeadError("the inference engine has died", 30),
    "deadline": errors.DeadlineError("no verdict within 60 s; the work on it was stopped"),
}

_INFO: dict[str, Any] = {
    "model": _VERDICT["model"],
    "base_model": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "weights_sha256": "89abcdef" * 8,
    "contract_version": 1,
    "contract": "0123456789abcdef",
    "calibration": {"temperature": 1.0, "threshold": 0.5},
    "label_token_ids": {"hallucination": 1234, "correct": 2345},
    "golden_metrics": {"f1": 0.91},
    "reference": {
        "rows": "the test part of halueval_qa",
        "num_rows": 1000,
        "probability_counts": [310, 90, 40, 30, 30, 30, 40, 50, 110, 270],
        "hallucination_share": 0.5,
        "justification_chars": {"p10": 31.0, "p50": 62.0, "p90": 118.0},
    },
    "window": {
        "max_verdicts": 1000,
        "min_verdicts": 200,
        "verdicts": {"full": 412, "reread": 1, "short": 30},
    },
    "engine": {"name": "vllm", "version": "0.31.0", "device": "cuda", "dtype": "bfloat16"},
    "hardware": {"processor": "AMD EPYC 7R13", "num_cores": 8, "accelerator": "NVIDIA L4"},
    "limits": {
        "input_tokens": 3984,
        "output_tokens": 96,
        "body_bytes": 1048576,
        "json_depth": 16,
        "batch_items": 64,
        "in_flight_items": 128,
        "queued_tokens": 65536,
        "items_per_minute": None,
        "request_timeout_s": 60.0,
    },
    "cold_start_s": {"download": 2.1, "load": 24.3, "warm_up": 1.2, "total": 27.6},
}


def _header(description: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"description": description, "required": True, "schema": schema or {"type": "string"}}


_REQUEST_ID = {"X-Request-ID": _header("Yours where you sent a harmless one, else a new one.")}
_SERVER_TIMING = {"Server-Timing": _header("Milliseconds: queue, inference, total.")}
_STATUS_HEADERS = {
    401: {"WWW-Authenticate": _header("The scheme: Bearer.")},
    405: {"Allow": _header("The methods that the path takes.")},
}
_RETRY_AFTER = {
    "Retry-After": _header(
        "Seconds after which a retry has a chance.", {"type": "integer", "minimum": 1}
    )
}


def _problem_responses(*names: str) -> dict[int | str, dict[str, Any]]:
    """Return the documented problem answers, grouped by status."""
    responses: dict[int | str, dict[str, Any]] = {}
    for name in names:
        kind = problem_type(_FAULTS[name])
        _add_example(responses, kind, name, to_problem(_FAULTS[name], _ID))
    _add_example(responses, INTERNAL, "internal", to_problem(RuntimeError(), _ID))
    _add_example(
        responses,
        METHOD_NOT_ALLOWED,
        "method",
        problem_body(METHOD_NOT_ALLOWED, "the methods are listed in /docs", _ID),
    )
    return responses


def _add_example(
    responses: dict[int | str, dict[str, Any]], kind: ProblemType, name: str, body: dict[str, Any]
) -> None:
    answer = responses.setdefault(
        kind.status,
        {
            "description": kind.title,
            "headers": _REQUEST_ID | _STATUS_HEADERS.get(kind.status, {}),
            "content": {
                PROBLEM_MEDIA_TYPE: {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                    "examples": {},
                }
            },
        },
    )
    answer["content"][PROBLEM_MEDIA_TYPE]["examples"][name] = {"value": body}
    if "retry_after_s" in body:
        answer["headers"] |= _RETRY_AFTER


def _ok(
    model: Any, example: Any, headers: dict[str, Any] | None = None
) -> dict[int | str, dict[str, Any]]:
    return {
        200: {
            "model": model,
            "headers": _REQUEST_ID | (headers or {}),
            "content": {"application/json": {"example": example}},
        }
    }


def _body(model: Any) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_CALL_FAULTS = (
    "malformed", "unauthorized", "too_large", "media_type", "invalid", "too_long", "rate_limited",
    "engine_fault", "unreadable", "overloaded", "loading", "dead", "deadline",
)  # fmt: skip
_BATCH_FAULTS = (
    "malformed", "unauthorized", "too_large", "media_type", "invalid", "engine_fault", "loading",
    "dead", "deadline",
)  # fmt: skip

CLASSIFY: dict[str, Any] = {
    "responses": _ok(ClassifyResponse, _VERDICT, _SERVER_TIMING)
    | _problem_responses(*_CALL_FAULTS),
    "openapi_extra": _body(ClassifyRequest),
}
BATCH: dict[str, Any] = {
    "responses": _ok(
        BatchResponse,
        {
            "results": [
                {"result": {**_VERDICT, "request_id": f"{_ID}.0"}},
                {"problem": to_problem(_FAULTS["too_long"], f"{_ID}.1")},
            ],
            "request_id": _ID,
        },
    )
    | _problem_responses(*_BATCH_FAULTS),
    "openapi_extra": _body(BatchRequest),
}
LIVEZ: dict[str, Any] = {
    "responses": _ok(Liveness, {"status": "live"}) | _problem_responses("unauthorized", "dead")
}
READYZ: dict[str, Any] = {
    "responses": _ok(Readiness, {"status": "ready"})
    | _problem_responses("unauthorized", "loading", "dead")
}
INFO: dict[str, Any] = {
    "responses": _ok(Info, _INFO) | _problem_responses("unauthorized", "loading", "dead")
}
METRICS: dict[str, Any] = {
    "response_model": None,
    "response_class": PlainTextResponse,
    "responses": {
        200: {
            "description": "Prometheus' text format",
            "headers": _REQUEST_ID,
            "content": {"text/plain": {"example": "detector_ready 1.0\n"}},
        }
    }
    | _problem_responses("unauthorized"),
}


def install_openapi(app: FastAPI) -> None:
    """Make ``app.openapi()`` return the document with the schemas that no route names itself."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
            )
            components = document.setdefault("components", {})
            schemas = components.setdefault("schemas", {})
            for model in (ClassifyRequest, Problem):
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas.update(schema.pop("$defs", {}))
                schemas[model.__name__] = schema
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{}, {"key": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
