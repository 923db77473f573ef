"""What is asked: a seeded mix of requests, and what each one's answer must be.

Request ``i`` of a seed is always the same one, whatever was asked before it, so that two runs with
one seed ask the same questions. Its texts are made (``loadtest/texts.py``), its lengths drawn from
``LENGTHS``, its kind from ``SHARES``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from client.models import Evidence
from loadtest.texts import Length, passage


class Kind(StrEnum):
    """A kind of request."""

    SHORT_QA = "short_qa"
    LONG_KNOWLEDGE = "long_knowledge"
    DOCUMENTS = "documents"
    NO_KNOWLEDGE = "no_knowledge"
    SHORT_PATH = "short_path"
    BATCH = "batch"
    BAD_REQUEST = "bad_request"


SHARES: Mapping[Kind, float] = {
    Kind.SHORT_QA: 0.50,
    Kind.LONG_KNOWLEDGE: 0.10,
    Kind.DOCUMENTS: 0.10,
    Kind.NO_KNOWLEDGE: 0.08,
    Kind.SHORT_PATH: 0.12,
    Kind.BATCH: 0.05,
    Kind.BAD_REQUEST: 0.05,
}
"""Share of each kind in the requests; together 1."""

LENGTHS: Mapping[Kind, Length] = {
    Kind.SHORT_QA: Length(55, 0.4, 15, 200),
    Kind.LONG_KNOWLEDGE: Length(500, 0.5, 200, 1500),
    Kind.DOCUMENTS: Length(90, 0.5, 20, 400),
    Kind.SHORT_PATH: Length(55, 0.4, 15, 200),
    Kind.BATCH: Length(55, 0.4, 15, 200),
}
"""Words of the knowledge; for ``documents`` of each document."""

NUM_DOCUMENTS = (2, 6)
NUM_BATCH_ITEMS = (2, 8)
"""Least and most, each as likely."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a bad request must be answered with.

    Attributes:
        status: HTTP status.
        slug: Last part of the problem's type.
    """

    status: int
    slug: str


@dataclass(frozen=True, slots=True)
class ExpectedItem:
    """What one verdict must have.

    Attributes:
        evidence: Whether knowledge was sent.
        has_justification: False on the short path, where it must be null.
    """

    evidence: Evidence
    has_justification: bool = True


@dataclass(frozen=True, slots=True)
class Request:
    """One request and what is expected of its answer.

    Attributes:
        kind: Of the mix.
        path: Without a leading slash.
        body: As it is sent.
        items: One for each verdict that is asked for; empty for a bad request.
        refusal: Of a bad request; None for the others.
        content_type: As it is declared.
    """

    kind: Kind
    path: str
    body: bytes
    items: tuple[ExpectedItem, ...]
    refusal: Refusal | None = None
    content_type: str = "application/json"


class Workload:
    """The mix of one seed."""

    def __init__(self, seed: int, shares: Mapping[Kind, float] = SHARES) -> None:
        """Take the shares.

        Raises:
            ValueError: They are not a distribution.
        """
        if any(share < 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-9:
            raise ValueError("the shares of the kinds must be at least 0 and together 1")
        self._seed = seed
        self._kinds = list(shares)
        self._weights = list(shares.values())

    def request(self, index: int) -> Request:
        """Return request number ``index``, from 0."""
        rng = random.Random(f"request:{self._seed}:{index}")  # noqa: S311
        kind = rng.choices(self._kinds, self._weights)[0]
        if kind is Kind.BAD_REQUEST:
            return _bad_request(index, rng)
        if kind is Kind.BATCH:
            bodies = [
                _item(kind, 100 * index + place, rng)
                for place in range(rng.randint(*NUM_BATCH_ITEMS))
            ]
            expected = tuple(map(_expected, bodies))
            return Request(kind, "classify/batch", _json({"items": bodies}), expected)
        body = _item(kind, 100 * index, rng)
        return Request(kind, "classify", _json(body), (_expected(body),))


def _item(kind: Kind, number: int, rng: random.Random) -> dict[str, Any]:
    metres = rng.randint(15, 100)
    said = metres if rng.random() < 0.5 else metres + rng.choice((-10, -5, 5, 10, 25))
    item: dict[str, Any] = {
        "question": f"How long is pool {number}?",
        "response": rng.choice((f"{said} metres", f"Pool {number} is {said} metres long.")),
    }
    if kind is Kind.SHORT_PATH:
        item["justification"] = False
    if kind is Kind.NO_KNOWLEDGE:
        return item
    if kind is Kind.DOCUMENTS:
        item["knowledge"] = [
            passage(number + place, metres + place, LENGTHS[kind].draw(rng), rng)
            for place in range(rng.randint(*NUM_DOCUMENTS))
        ]
    else:
        item["knowledge"] = passage(number, metres, LENGTHS[kind].draw(rng), rng)
    return item


def _expected(body: Mapping[str, Any]) -> ExpectedItem:
    return ExpectedItem(
        "given" if "knowledge" in body else "none", bool(body.get("justification", True))
    )


def _bad_request(index: int, rng: random.Random) -> Request:
    good = _item(Kind.SHORT_QA, 100 * index, rng)
    invalid = Refusal(422, "invalid-request")
    bad: list[tuple[bytes, Refusal, str]] = [
        (_json(good)[:-2], Refusal(400, "malformed-body"), "application/json"),
        (_json(good), Refusal(415, "media-type"), "text/plain"),
        (_json({"question": good["question"]}), invalid, "application/json"),
        (_json({**good, "response": " "}), invalid, "application/json"),
        (_json({**good, "knowledge": 25}), invalid, "application/json"),
        (_json({**good, "answer": "a field that there is not"}), invalid, "application/json"),
        (_json({**good, "threshold": 2}), invalid, "application/json"),
    ]
    body, refusal, content_type = rng.choice(bad)
    return Request(Kind.BAD_REQUEST, "classify", body, (), refusal, content_type)


def _json(value: object) -> bytes:
    return json.dumps(value).encode("ascii")
