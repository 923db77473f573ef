"""The OpenAPI document: what each route takes and gives, with an example for every status."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service import errors
from service.errors import Fault, ServiceError
from service.problems import (
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

_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds after which a retry has a chance.",
        "schema": {"type": "integer", "minimum": 1},
    }
}


def _problem_responses(*names: str) -> dict[int | str, dict[str, Any]]:
    """Return the documented problem answers, grouped by status."""
    responses: dict[int | str, dict[str, Any]] = {}
    for name in names:
        kind = problem_type(_FAULTS[name])
        _add_example(responses, kind, name, to_problem(_FAULTS[name], _ID))
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
        answer["headers"] = _RETRY_AFTER


def _ok(model: Any, example: Any) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model, "content": {"application/json": {"example": example}}}}


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
    "dead",
)  # fmt: skip

CLASSIFY: dict[str, Any] = {
    "responses": _ok(ClassifyResponse, _VERDICT) | _problem_responses(*_CALL_FAULTS),
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
    "responses": {200: {"model": Info}} | _problem_responses("unauthorized", "loading", "dead")
}
METRICS: dict[str, Any] = {
    "response_model": None,
    "responses": {
        200: {
            "description": "Prometheus' text format",
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
