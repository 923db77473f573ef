"""Predictions in one line each; and requests that nobody waits for any more."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from contract.labels import Label
from evaluation.prediction import Prediction


class Predict(Protocol):
    def __call__(
        self,
        id: str,
        gold: Label,
        verdict: Label | None,
        probability: float | None = None,
        *,
        pair_id: str | None = None,
        set_name: str = "set",
        justification: str | None = None,
        response: str = "An answer.",
        knowledge: tuple[str, ...] | None = None,
        question: str | None = None,
    ) -> Prediction: ...


@pytest.fixture
def drop_sockets_here() -> Iterator[Callable[[], None]]:
    """Let requests end, and their sockets go, in the test that they are of, not in a later one.

    A measurement that fails returns at once; a request that was connecting then drops its socket.
    A test may call it, too.
    """

    def drop() -> None:
        for thread in threading.enumerate():
            if thread.name.startswith("ThreadPoolExecutor"):
                thread.join(10)
        gc.collect()

    yield drop
    drop()


@pytest.fixture(scope="session")
def predict() -> Predict:
    """Make a prediction; its pair is its own unless it is named."""

    def make(
        id: str,
        gold: Label,
        verdict: Label | None,
        probability: float | None = None,
        *,
        pair_id: str | None = None,
        set_name: str = "set",
        justification: str | None = None,
        response: str = "An answer.",
        knowledge: tuple[str, ...] | None = None,
        question: str | None = None,
    ) -> Prediction:
        return Prediction(
            id, pair_id or id, set_name, gold, verdict, probability, justification, response,
            knowledge, question,
        )  # fmt: skip

    return make
