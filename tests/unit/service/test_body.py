"""From bytes to a checked request: every fault is named, none is a 5xx, none repeats a text."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from support.app_client import ITEM, PROVOKED, fake_settings, running_app

from service.body import decode, read_json, validate
from service.errors import (
    BodyTooLargeError,
    ClientGoneError,
    Fault,
    InvalidRequestError,
    MalformedBodyError,
    MediaTypeError,
    RequestError,
)
from service.schemas import ClassifyRequest

CASES = {
    case["id"]: case["body"]
    for case in map(
        json.loads,
        (Path(__file__).parents[2] / "cases" / "bad_requests.jsonl")
        .read_text(encoding="utf-8")
        .splitlines(),
    )
}

# Case -> status and the faults of the answer, (field, message).
ANSWERS: dict[str, tuple[int, list[tuple[str, str]]]] = {
    "br01": (400, [("body", "it is empty: send a JSON object")]),
    "br02": (400, [("body", "it is not valid JSON: expecting value at line 1, column 1")]),
    "br03": (
        400,
        [("body", "it is not valid JSON: unterminated string starting at line 1, column 58")],
    ),
    "br04": (
        400,
        [
            (
                "body",
                "it is not valid JSON: expecting property name enclosed in double quotes at "
                "line 1, column 2",
            )
        ],
    ),
    "br06": (422, [("body", "must be a JSON object, got null")]),
    "br07": (
        422,
        [("body", "must be a JSON object, got an array; several go to POST /classify/batch")],
    ),
    "br08": (422, [("response", "is required")]),
    "br09": (422, [("response", "is required")]),
    "br11": (422, [("response", "must be a string, got null")]),
    "br12": (422, [("response", "must be a string, got a number")]),
    "br14": (422, [("response", "must not be blank; an optional field can be left out")]),
    "br16": (422, [("knowledge", "must not be blank; an optional field can be left out")]),
    "br18": (422, [("knowledge", "must be a string, got an object")]),
    "br21": (
        422,
        [
            (
                "response",
                "holds a lone surrogate, which is not valid Unicode text: send valid UTF-8",
            )
        ],
    ),
    "br24": (400, [("body", "it is not valid JSON: expecting value at line 1, column 1")]),
    "br25": (
        422,
        [
            ("response", "is required"),
            ("model", "is not a known field"),
            ("messages", "is not a known field"),
        ],
    ),
}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with running_app(fake_settings()) as (client, _):
        yield client


async def post(
    client: httpx.AsyncClient, content: bytes, content_type: str = "application/json"
) -> httpx.Response:
    return await client.post("/classify", content=content, headers={"content-type": content_type})


def faults_of(answer: httpx.Response) -> list[tuple[str, str]]:
    return [(fault["field"], fault["message"]) for fault in answer.json()["errors"]]


def check(value: Any, prefix: str = "") -> list[Fault]:
    with pytest.raises(InvalidRequestError) as caught:
        validate(ClassifyRequest, value, prefix)
    return list(caught.value.faults)


def refuse(body: bytes, max_depth: int = 16) -> RequestError:
    with pytest.raises(RequestError) as caught:
        decode(body, max_depth)
    assert str(caught.value).startswith("body: ")
    return caught.value


def test_every_case_has_an_expected_answer() -> None:
    assert set(CASES) == {*ANSWERS, "br23"}


@pytest.mark.anyio
@pytest.mark.parametrize("case", ANSWERS)
async def test_a_bad_request_is_refused_with_all_its_faults(
    case: str, client: httpx.AsyncClient
) -> None:
    status, faults = ANSWERS[case]
    answer = await post(client, CASES[case].encode())
    assert (answer.status_code, faults_of(answer)) == (status, faults)
    for place, message in faults:
        assert f"{place}: {message}" in answer.json()["detail"]


@pytest.mark.anyio
async def test_a_form_is_refused_by_its_media_type(client: httpx.AsyncClient) -> None:
    answer = await post(client, CASES["br24"].encode(), "application/x-www-form-urlencoded")
    assert answer.status_code == 415
    assert faults_of(answer) == [("body", "send Content-Type: application/json, the text in UTF-8")]


@pytest.mark.anyio
async def test_few_characters_of_many_tokens_are_too_long(client: httpx.AsyncClient) -> None:
    answer = await post(client, CASES["br23"].encode())
    body = answer.json()
    assert answer.status_code == 422
    assert body["type"].endswith(":input-too-long")
    assert body["limit_tokens"] == 3984
    assert body["num_tokens"] > 15_000
    assert f"{body['num_tokens']} tokens" in body["detail"]
    assert "3984 tokens" in body["detail"]


@pytest.mark.parametrize(
    ("content_type", "is_taken"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ('APPLICATION/JSON; Charset="UTF-8"', True),
        ("application/json; charset=utf8; x=1", True),
        ("application/json; charset=latin-1", False),
        ("application/json; charset=utf-16", False),
        ("application/json; charset*=utf-7''x", False),
        ("application/problem+json", False),
        ("application/jsonx", False),
        ("text/plain", False),
        ("multipart/form-data; boundary=x", False),
        ("", False),
        (";;;", False),
        ("\xff\xfe", False),
    ],
)
@pytest.mark.anyio
async def test_only_json_in_utf8_is_taken(content_type: str, is_taken: bool) -> None:
    request = make_request([b"{}"], {"content-type": content_type})
    if is_taken:
        assert await read_json(request, 100, 16) == {}
    else:
        with pytest.raises(MediaTypeError):
            await read_json(request, 100, 16)


@pytest.mark.anyio
async def test_a_body_without_a_media_type_is_refused() -> None:
    with pytest.raises(MediaTypeError):
        await read_json(make_request([b"{}"], {}), 100, 16)


def make_request(chunks: list[bytes], headers: dict[str, str], *, leaves: bool = False) -> Request:
    """Return a request that comes in chunks, perhaps from a client that leaves before its end."""
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks
    ]
    messages.append({"type": "http.disconnect"} if leaves else {"type": "http.request"})

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": raw, "messages": messages}
    return Request(scope, receive)


JSON_TYPE = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "length", ["11", "99999999999999999999999999", "0000000000000000000000000"]
)
@pytest.mark.anyio
async def test_a_body_declared_too_large_is_refused_before_it_is_read(length: str) -> None:
    request = make_request([b"0123456789", b"x"], {**JSON_TYPE, "content-length": length})
    with pytest.raises(BodyTooLargeError, match="limit of 10 bytes"):
        await read_json(request, 10, 16)
    num_unread = len(request.scope["messages"])
    # A length of zeros is a lie that shows only in what comes.
    assert num_unread == (1 if length.startswith("0") else 3)


@pytest.mark.parametrize("length", [None, "3", "-1", "x", "\xb2"])
@pytest.mark.anyio
async def test_a_stream_is_refused_at_the_limit_whatever_was_declared(length: str | None) -> None:
    headers = JSON_TYPE if length is None else {**JSON_TYPE, "content-length": length}
    request = make_request([b" " * 4] * 1000, headers)
    with pytest.raises(BodyTooLargeError, match="limit of 10 bytes"):
        await read_json(request, 10, 16)
    assert len(request.scope["messages"]) == 1001 - 3


@pytest.mark.anyio
async def test_a_body_of_exactly_the_limit_is_taken() -> None:
    request = make_request([b'{"a": ', b"123}"], {**JSON_TYPE, "content-length": "10"})
    assert await read_json(request, 10, 16) == {"a": 123}


@pytest.mark.anyio
async def test_a_client_that_leaves_while_sending_is_gone() -> None:
    with pytest.raises(ClientGoneError):
        await read_json(make_request([b'{"a'], JSON_TYPE, leaves=True), 100, 16)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "it is empty"),
        (b" \r\n\t", "it is empty"),
        (b'{"a": NaN}', "it holds NaN, which is not JSON"),
        (b'{"a": [Infinity]}', "it holds Infinity, which is not JSON"),
        (b"-Infinity", "it holds -Infinity, which is not JSON"),
        (b"{} {}", "extra data at line 1, column 4"),
        (b"{}\n\nx", "extra data at line 3, column 1"),
        (b"{}\x00", "extra data at line 1, column 3"),
        (b'{"a": 1, "b": 2, "a": 1}', "a field stands twice"),
        (b'{"a": 1, "\\u0061": 2}', "a field stands twice"),
        (b'{"x": [{"a": 1, "a": 2}]}', "a field stands twice"),
        (b"\xef\xbb\xbf{}", "unexpected utf-8 bom"),
        (b'{"a": "\xff"}', "it is not UTF-8 text: the fault is at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "it is not UTF-8 text: the fault is at byte 7"),
        (b'{"a": "\xc0\xaf"}', "it is not UTF-8 text: the fault is at byte 7"),
        ('{"a": 1}'.encode("utf-16"), "it is not UTF-8 text: the fault is at byte 0"),
        ('{"a": 1}'.encode("utf-16-le"), "at line 1, column 2"),
        (b'{"a": "\n"}', "invalid control character at line 1, column 8"),
        (b'{"a": "\\x"}', "invalid \\escape at line 1, column 8"),
        (b'{"a": "\\u12"}', "invalid \\uxxxx escape at line 1, column 9"),
        (b'{"a": 01}', "at line 1, column 8"),
        (b'{"a": 1,}', "at line 1, column 9"),
        (b"{'a': 1}", "at line 1, column 2"),
        (b'{"a": ' + b"1" * 5000 + b"}", "it holds a number with too many digits"),
        (b'// note\n{"a": 1}', "at line 1, column 1"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(body: bytes, message: str) -> None:
    error = refuse(body)
    assert isinstance(error, MalformedBodyError)
    assert message in str(error)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b' {"a": [1, 2.5, null, true, "x"]} \n', {"a": [1, 2.5, None, True, "x"]}),
        (b'"text"', "text"),
        (b"1e400", float("inf")),
        ('{"ä": "\U0001f600"}'.encode(), {"ä": "\U0001f600"}),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        (b'{"a": "\\ud800"}', {"a": "\ud800"}),
        (b'{"a": "[[[[[[{{{{"}', {"a": "[[[[[[{{{{"}),
        (b'{"a": "\\"[[[[[["}', {"a": '"[[[[[['}),
        (b'{"a": "\\\\", "b": [[[1]]]}', {"a": "\\", "b": [[[1]]]}),
        (b"[[[[1]]], [[[2]]], [[[3]]]]", [[[[1]]], [[[2]]], [[[3]]]]),
    ],
)
def test_json_is_decoded(body: bytes, value: Any) -> None:
    assert decode(body, max_depth=4) == value


@pytest.mark.parametrize(
    "body",
    [
        b"[[[[[1]]]]]",
        b'{"a": {"b": {"c": {"d": {}}}}}',
        b'["\\\\", [[[[1]]]]]',
        b'["\\"", [[[["]"]]]]]',
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=lambda body: body[:20].decode(),
)
def test_nesting_has_a_limit(body: bytes) -> None:
    error = refuse(body, max_depth=4)
    assert isinstance(error, InvalidRequestError)
    assert str(error) == "body: it is nested deeper than the limit of 4 levels"


MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    "body",
    [
        b'"' + b"\\" * MEGABYTE,
        b'"' + b'\\"' * (MEGABYTE // 2),
        b'"' * MEGABYTE,
        b'"\\' * (MEGABYTE // 2),
        b"]" * MEGABYTE,
        b'{"response": "' + b"\\u0301\\u0327" * (MEGABYTE // 12) + b'"}',
        b'{"response": "' + "a\u0301\u0327".encode() * (MEGABYTE // 5) + b'"}',
        b'{"response": "a' + "\u0301\u0327".encode() * (MEGABYTE // 4) + b'"}',
        b'{"response": "a' + "\u0301\u200b\u0327\u200b".encode() * (MEGABYTE // 10) + b'"}',
        b'{"response": "a' + "\u0f73".encode() * (MEGABYTE // 3) + b'"}',
        b'{"response": "' + b" x" * (MEGABYTE // 2) + b'"}',
        b'{"response": "' + b"\\n " * (MEGABYTE // 3) + b'"}',
        b'{"response": "' + b"[A" * (MEGABYTE // 2) + b'"}',
        b'{"response": "' + b"class " * (MEGABYTE // 6) + b'"}',
        b'{"response": "' + "\u200d".encode() * (MEGABYTE // 3) + b'"}',
        b'{"response": "a", "knowledge": [' + b'"",' * (MEGABYTE // 3) + b'""]}',
        b'{"response": "a", "knowledge": [' + b'"b",' * (MEGABYTE // 4) + b'"b"]}',
        b'{"response": "a", "threshold": 0.' + b"1" * MEGABYTE + b"}",
        b"{" + b",".join(b'"k%d": 1' % i for i in range(MEGABYTE // 12)) + b"}",
    ],
    ids=lambda body: body[:45].decode("ascii", "backslashreplace"),
)
def test_a_hostile_body_costs_no_more_than_linear_time(body: bytes) -> None:
    """600 kB of accents on one letter took 47 s of the event loop: NFC sorts them one by one."""
    message = ""
    began = time.perf_counter()
    try:
        validate(ClassifyRequest, decode(body, 16))
    except RequestError as error:
        message = str(error)
    assert len(message) < 20_000
    assert time.perf_counter() - began < 5


def test_a_whole_request_is_taken_as_it_is() -> None:
    value = {
        "response": "r",
        "question": "q",
        "knowledge": ["a", "b"],
        "justification": False,
        "threshold": 0.25,
    }
    request = validate(ClassifyRequest, value)
    assert request.model_dump() == value
    example = request.to_example()
    assert (example.response, example.question, example.knowledge) == ("r", "q", ("a", "b"))


def test_optional_fields_may_be_left_out_or_null() -> None:
    request = validate(ClassifyRequest, {"response": "r", "question": None, "knowledge": None})
    assert (request.question, request.knowledge) == (None, None)
    assert (request.justification, request.threshold) == (True, None)
    assert request.to_example().knowledge is None


def test_one_text_is_one_document() -> None:
    request = validate(ClassifyRequest, {"response": "r", "knowledge": "k"})
    assert request.to_example().knowledge == ("k",)


BLANK = "must not be blank; an optional field can be left out"
SURROGATE = "holds a lone surrogate, which is not valid Unicode text: send valid UTF-8"
MARKS = "holds more than 30 combining marks in a row"


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"response": None}, "response", "must be a string, got null"),
        ({"response": True}, "response", "must be a string, got a boolean"),
        ({"response": 10**4000}, "response", "must be a string, got a number"),
        ({"response": 1.5}, "response", "must be a string, got a number"),
        ({"response": ["a"]}, "response", "must be a string, got an array"),
        ({"response": {}}, "response", "must be a string, got an object"),
        ({"response": ""}, "response", BLANK),
        ({"response": " \t\n\r"}, "response", BLANK),
        ({"response": "\u00a0\u2003\u3000\u2028\x85"}, "response", BLANK),
        ({"response": "\u200b\ufeff\u2060\u00ad"}, "response", BLANK),
        ({"response": "\u200d\ufe0f"}, "response", BLANK),
        ({"response": "\u3164\u2800\u115f"}, "response", BLANK),
        ({"response": "\x00\x07"}, "response", BLANK),
        ({"response": "\U000e0041\U000e0042"}, "response", BLANK),
        ({"question": ""}, "question", BLANK),
        ({"question": "\u2003"}, "question", BLANK),
        ({"question": 5}, "question", "must be a string, got a number"),
        ({"knowledge": "\u00a0"}, "knowledge", BLANK),
        ({"knowledge": 7}, "knowledge", "must be a string, got a number"),
        ({"knowledge": True}, "knowledge", "must be a string, got a boolean"),
        ({"knowledge": []}, "knowledge", "must not be an empty list: leave the field out"),
        ({"knowledge": ["a", "\u3000"]}, "knowledge[1]", BLANK),
        ({"knowledge": ["a", None]}, "knowledge[1]", "must be a string, got null"),
        ({"knowledge": [["a"]]}, "knowledge[0]", "must be a string, got an array"),
        ({"knowledge": ["a", "\udfff"]}, "knowledge[1]", SURROGATE),
        ({"knowledge": ["a"] * 10_001}, "knowledge", "has 10001 documents, the limit is 10000"),
        ({"response": "x\ud800"}, "response", SURROGATE),
        ({"question": "\udc00\ud800"}, "question", SURROGATE),
        ({"response": "a" + "\u0301" * 31}, "response", MARKS),
        ({"response": "a" + "\u0301\u200b\u00ad" * 31}, "response", MARKS),
        ({"response": "a" + "\u0f73" * 31}, "response", MARKS),
        ({"justification": None}, "justification", "must be true or false, got null"),
        ({"justification": 1}, "justification", "must be true or false, got a number"),
        ({"justification": "false"}, "justification", "must be true or false, got a string"),
        ({"threshold": -0.1}, "threshold", "must be in [0, 1]"),
        ({"threshold": 1.1}, "threshold", "must be in [0, 1]"),
        ({"threshold": float("inf")}, "threshold", "must be in [0, 1]"),
        ({"threshold": 10**4000}, "threshold", "must be in [0, 1]"),
        ({"threshold": True}, "threshold", "must be a number in [0, 1], got a boolean"),
        ({"threshold": "0.5"}, "threshold", "must be a number in [0, 1], got a string"),
        ({"threshold": []}, "threshold", "must be a number in [0, 1], got an array"),
        ({"Response": "a"}, "Response", "is not a known field"),
        ({"class": "correct"}, "class", "is not a known field"),
        ({"top.k-1_x": 1}, "top.k-1_x", "is not a known field"),
        ({"a b": 1}, "(unknown)", "is not a known field"),
        ({"": 1}, "(unknown)", "is not a known field"),
        ({"<b>": 1}, "(unknown)", "is not a known field"),
        ({"ключ": 1}, "(unknown)", "is not a known field"),
        ({"x" * 65: 1}, "(unknown)", "is not a known field"),
        ({"x\n": 1}, "(unknown)", "is not a known field"),
        ({"k\ud800": 1}, "(unknown)", "is not a known field"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_fault_is_named_with_its_field(fields: dict[str, Any], field: str, message: str) -> None:
    assert check({"response": "a", **fields}) == [Fault(field, message)]


@pytest.mark.parametrize(
    "fields",
    [
        {"threshold": 0},
        {"threshold": 1},
        {"threshold": 0.0},
        {"response": "x\u200d"},
        {"response": "0"},
        {"response": "e\u0301" * 1000},
        {"response": "a" + "\u0301" * 30},
        {"response": "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 100},
        {"response": "\u2500" * 100 + "\u2026" * 100},
        {"response": "\u0e01\u0e33\u0e35\u0e48 \u0915\u094d\u0937\u093f \u05e9\u05c1\u05b8"},
        {"knowledge": ["a"] * 10_000},
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_is_unusual_but_sound_is_taken(fields: dict[str, Any]) -> None:
    assert validate(ClassifyRequest, {"response": "a", **fields})


def test_all_faults_come_in_one_answer() -> None:
    value = {
        "question": 1,
        "knowledge": ["", "fine", 2, "\ud800"],
        "justification": "no",
        "threshold": 2,
        "verdict": "x",
        "k\ud800": "x",
    }
    assert set(check(value)) == {
        Fault("response", "is required"),
        Fault("question", "must be a string, got a number"),
        Fault("knowledge[0]", BLANK),
        Fault("knowledge[2]", "must be a string, got a number"),
        Fault("knowledge[3]", SURROGATE),
        Fault("justification", "must be true or false, got a string"),
        Fault("threshold", "must be in [0, 1]"),
        Fault("verdict", "is not a known field"),
        Fault("(unknown)", "is not a known field"),
    }


def test_a_prefix_stands_before_every_field() -> None:
    faults = check({"knowledge": ["a", ""], "x": 1}, "items[3].")
    assert [fault.field for fault in faults] == [
        "items[3].response",
        "items[3].knowledge[1]",
        "items[3].x",
    ]
    [fault] = check([], "items[3].")
    assert fault == Fault("items[3]", "must be a JSON object, got an array")


def test_a_flood_of_faults_is_cut_with_their_number() -> None:
    """One megabyte of blank documents was answered with fifty."""
    faults = check({"response": "a", **{f"k{i}": 1 for i in range(150)}})
    assert len(faults) == 101
    assert faults[0] == Fault("k0", "is not a known field")
    assert faults[99] == Fault("k99", "is not a known field")
    assert faults[100] == Fault("body", "has more faults, 50 are not listed")
    assert len(check({f"k{i}": 1 for i in range(99)})) == 100


CANARY = "kanarie vogel"


@pytest.mark.parametrize(
    "content",
    [
        f"{CANARY}",
        f'{{"response": "{CANARY}',
        f'{{"response": "{CANARY}\\q"}}',
        f'{{"response": "{CANARY}", "response": "{CANARY}"}}',
        f'{{"response": "{CANARY}", "threshold": NaN}}',
        f'{{"response": "{CANARY}"}} {CANARY}',
        f'["{CANARY}"]',
        f'"{CANARY}"',
        f'{{"{CANARY}": "{CANARY}"}}',
        f'{{"response": ["{CANARY}"], "question": {{"{CANARY}": 1}}}}',
        f'{{"response": "{CANARY} \\ud800", "question": "{CANARY}\\udfff"}}',
        f'{{"response": "{CANARY}", "knowledge": ["{CANARY}", {{"{CANARY}": 1}}]}}',
        f'{{"response": "{CANARY}", "justification": "{CANARY}", "threshold": "{CANARY}"}}',
        f'{{"response": "{CANARY}", "threshold": 7, "knowledge": "{CANARY}"}}',
        f'{{"response": "{CANARY}", "knowledge": "{f"{CANARY} " * 5000}"}}',
        f'{{"response": {"[" * 50}"{CANARY}"{"]" * 50}}}',
    ],
    ids=lambda content: content[:60],
)
@pytest.mark.anyio
async def test_no_refusal_repeats_the_text(content: str, client: httpx.AsyncClient) -> None:
    single = await post(client, content.encode())
    items = f'{{"items": [{content}]}}'
    batch = await client.post(
        "/classify/batch", content=items, headers={"content-type": "application/json"}
    )
    assert 400 <= single.status_code < 500
    for answer in (single, batch):
        assert CANARY not in answer.text
        assert CANARY not in str(answer.headers)


@pytest.mark.parametrize("fault", PROVOKED.values(), ids=PROVOKED)
@pytest.mark.anyio
async def test_no_fault_repeats_the_text(fault: Any) -> None:
    text = fault.content.decode()
    for value in ITEM.values():
        text = text.replace(value, f"{CANARY} {value}")
    settings = fake_settings(**fault.settings)
    async with running_app(settings, fault.engine(settings)) as (client, _):
        headers = {"content-type": "application/json", **fault.headers}
        headers |= {"authorization": f"Bearer {CANARY}", "x-request-id": CANARY}
        for _ in range(fault.num_before + 1):
            answer = await client.post("/classify", content=text, headers=headers)
    assert answer.status_code == fault.status
    assert CANARY not in answer.text
    assert CANARY not in str(answer.headers)


@pytest.mark.parametrize("path", [f"/{CANARY}", f"/classify/{CANARY}", f"/livez/?q={CANARY}"])
@pytest.mark.anyio
async def test_an_unknown_path_is_not_repeated(path: str, client: httpx.AsyncClient) -> None:
    answer = await client.get(path, headers={"x-request-id": CANARY})
    assert answer.status_code == 404
    assert "kanarie" not in answer.text + str(answer.headers)
