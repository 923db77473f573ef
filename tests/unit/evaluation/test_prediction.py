"""One verdict beside its gold class."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from contract.labels import Label
from evaluation.prediction import Prediction


@pytest.mark.parametrize("probability", [-0.01, 1.01, math.nan, math.inf])
def test_a_probability_outside_0_to_1_is_refused(
    predict: Callable[..., Prediction], probability: float
) -> None:
    with pytest.raises(ValueError, match=r"set/7: the probability must be in \[0, 1\]"):
        predict("7", Label.CORRECT, Label.CORRECT, probability)


def test_it_is_a_labelled_row_by_its_gold_class(predict: Callable[..., Prediction]) -> None:
    assert predict("1", Label.HALLUCINATION, Label.CORRECT).label is Label.HALLUCINATION


def test_a_justification_may_quote_all_inputs(predict: Callable[..., Prediction]) -> None:
    full = predict("1", Label.CORRECT, None, response="r", knowledge=("a", "b"), question="q")
    bare = predict("1", Label.CORRECT, None, response="r")
    assert full.texts == ("a", "b", "q", "r")
    assert bare.texts == ("r",)
