"""Predictions in one line each."""

from __future__ import annotations

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
