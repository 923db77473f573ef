"""From the bytes of a request to a checked value, or to an error that names every fault.

The framework's own reading is not used: it takes NaN and lone surrogates, falls over deep nesting,
stops at the first kind of fault and repeats the caller's text in its errors.
"""

from __future__ import annotations

import json
import re
from email.message import Message
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from service.errors import (
    BodyTooLargeError,
    ClientGoneError,
    Fault,
    InvalidRequestError,
    MalformedBodyError,
    MediaTypeError,
)
from service.schemas import TEXT_FAULTS, json_kind

ModelT = TypeVar("ModelT", bound=BaseModel)

# Strings first, so that brackets inside them do not count. Possessive, and the closing quote
# optional, so that a hostile body costs linear time.
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SHOWN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# A body of one megabyte can hold 300,000 faults; all of them would make an answer of 50.
_MAX_FAULTS = 100


async def read_json(request: Request, max_bytes: int, max_depth: int) -> Any:
    """Read and decode the body.

    Args:
        request: Whose body is not read yet.
        max_bytes: Bytes that it may have.
        max_depth: Levels of nesting that it may have.

    Raises:
        MediaTypeError: It is not declared as JSON.
        BodyTooLargeError: It has too many bytes.
        MalformedBodyError: It is not one JSON value in UTF-8.
        InvalidRequestError: It is nested too deeply.
        ClientGoneError: The client left while sending.
    """
    _check_media_type(request.headers.get("content-type"))
    return decode(await _read(request, max_bytes), max_depth)


def _check_media_type(content_type: str | None) -> None:
    header = Message()
    header["content-type"] = content_type or ""
    charset = header.get_param("charset", "utf-8")
    is_json = content_type is not None and header.get_content_type() == "application/json"
    if not is_json or str(charset).lower() not in ("utf-8", "utf8"):
        raise MediaTypeError(
            [Fault("body", "send Content-Type: application/json, the text in UTF-8")]
        )


async def _read(request: Request, max_bytes: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > max_bytes:
        _too_large(max_bytes)
    chunks = bytearray()
    try:
        async for chunk in request.stream():
            chunks += chunk
            if len(chunks) > max_bytes:
                _too_large(max_bytes)
    except ClientDisconnect as error:
        raise ClientGoneError("the client left while sending its request") from error
    return bytes(chunks)


def _too_large(max_bytes: int) -> NoReturn:
    raise BodyTooLargeError(
        [Fault("body", f"it is larger than the limit of {max_bytes} bytes: send less at once")]
    )


def decode(body: bytes, max_depth: int) -> Any:
    """Decode JSON strictly; see ``read_json`` for the errors."""
    if not body.strip():
        raise MalformedBodyError([Fault("body", "it is empty: send a JSON object")])
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedBodyError(
            [Fault("body", f"it is not UTF-8 text: the fault is at byte {error.start}")]
        ) from error
    _check_depth(text, max_depth)
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates
        )
    except json.JSONDecodeError as error:
        raise MalformedBodyError(
            [
                Fault(
                    "body",
                    f"it is not valid JSON: {_json_fault(error)} at line {error.lineno}, "
                    f"column {error.colno}",
                )
            ]
        ) from error
    except (ValueError, RecursionError) as error:
        raise MalformedBodyError(
            [Fault("body", "it holds a number with too many digits")]
        ) from error


def _json_fault(error: json.JSONDecodeError) -> str:
    # Python's messages are fixed texts, but for "Invalid \\escape: " which repeats the input.
    return error.msg.partition(":")[0].removesuffix(" at").lower()


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedBodyError(
        [Fault("body", f"it holds {name}, which is not JSON: send a finite number")]
    )


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise MalformedBodyError(
            [Fault("body", "a field stands twice in one object: send each field once")]
        )
    return value


def _check_depth(text: str, max_depth: int) -> None:
    depth = 0
    for match in _NESTING.finditer(text):
        mark = match.group()
        if mark in "[{":
            depth += 1
            if depth > max_depth:
                raise InvalidRequestError(
                    [Fault("body", f"it is nested deeper than the limit of {max_depth} levels")]
                )
        elif mark in "]}":
            depth -= 1


def validate(model: type[ModelT], value: Any, prefix: str = "") -> ModelT:
    """Check a decoded value against a wire model.

    Args:
        model: Of ``service/schemas.py``.
        value: Decoded JSON.
        prefix: Where the value stands, such as ``items[3].``.

    Raises:
        InvalidRequestError: Names every fault in one answer, up to a hundred.
    """
    if not isinstance(value, dict):
        where = prefix.rstrip(".") or "body"
        is_batch = isinstance(value, list) and not prefix
        hint = "; several go to POST /classify/batch" if is_batch else ""
        raise InvalidRequestError(
            [Fault(where, f"must be a JSON object, got {json_kind(value)}{hint}")]
        )
    # pydantic stops at a name that is not Unicode, which would hide every other fault.
    value = {name.encode("utf-8", "replace").decode(): item for name, item in value.items()}
    try:
        return model.model_validate(value)
    except ValidationError as error:
        faults = [
            Fault(prefix + _path(item["loc"], item["type"]) + place, message)
            for item in error.errors(include_url=False)
            for place, message in _messages(dict(item))
        ]
        faults = list(dict.fromkeys(faults))
        num_left = len(faults) - _MAX_FAULTS
        if num_left > 0:
            where = prefix.rstrip(".") or "body"
            faults[_MAX_FAULTS:] = [Fault(where, f"has more faults, {num_left} are not listed")]
        raise InvalidRequestError(faults) from error


def _path(location: tuple[int | str, ...], kind: str) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif kind == "extra_forbidden" and not _SHOWN_NAME.fullmatch(part):
            path += ".(unknown)" if path else "(unknown)"
        else:
            path += f".{part}" if path else part
    return path or "body"


def _messages(item: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (place within the field, message) for each fault that one error stands for."""
    if item["type"] == TEXT_FAULTS:
        faults: list[tuple[str, str]] = item["ctx"]["faults"]
        return faults
    return [("", _message(item["type"], item["input"]))]


def _message(kind: str, value: object) -> str:
    match kind:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return "is not a known field"
        case "bool_type":
            return f"must be true or false, got {json_kind(value)}"
        case "float_type" if json_kind(value) != "a number":
            return f"must be a number in [0, 1], got {json_kind(value)}"
        case "list_type":
            return f"must be an array, got {json_kind(value)}"
        case "greater_than_equal" | "less_than_equal" | "finite_number" | "float_type":
            return "must be in [0, 1]"
        case "too_short":
            return "must not be empty"
        case _:
            return "is not valid"
