"""From log-probabilities to a probability and a class; the numbers are worked out by hand."""

from __future__ import annotations

import math

import pytest

from contract.calibration import Calibration, LabelLogprobs, classify
from contract.labels import Label

LN2 = 0.6931471805599453
LN3 = 1.0986122886681098
LN4 = 1.3862943611198906
LN5 = 1.6094379124341003


@pytest.mark.parametrize(
    ("hallucination", "correct", "temperature", "probability"),
    [
        # Odds 3 to 1 -> 3/4, and the other way round 1/4.
        pytest.param(-LN4, -LN4 - LN3, 1.0, 0.75, id="odds-3-to-1"),
        pytest.param(-LN4 - LN3, -LN4, 1.0, 0.25, id="odds-1-to-3"),
        pytest.param(-LN5, -LN5 - LN4, 1.0, 0.8, id="odds-4-to-1"),
        # Temperature 2 takes the square root of the odds (4 -> 2), 1/2 their square (4 -> 16).
        pytest.param(-LN5, -LN5 - LN4, 2.0, 2 / 3, id="hot"),
        pytest.param(-LN5, -LN5 - LN4, 0.5, 16 / 17, id="cold"),
        pytest.param(-LN5 - LN4, -LN5, 2.0, 1 / 3, id="hot-other-way"),
        pytest.param(-0.7, -0.7, 1.0, 0.5, id="equal"),
        pytest.param(-0.7, -0.7, 0.01, 0.5, id="equal-cold"),
        pytest.param(-9999.0, -9999.0, 1.0, 0.5, id="equal-and-tiny"),
        pytest.param(0.0, -9999.0, 1.0, 1.0, id="certain"),
        pytest.param(-9999.0, 0.0, 1.0, 0.0, id="certain-other-way"),
        pytest.param(0.0, -9999.0, 1e-9, 1.0, id="certain-and-cold"),
        pytest.param(-9999.0, 0.0, 1e-9, 0.0, id="certain-and-cold-other-way"),
        pytest.param(0.0, -math.inf, 1.0, 1.0, id="other-label-impossible"),
        pytest.param(-math.inf, 0.0, 1.0, 0.0, id="label-impossible"),
    ],
)
def test_probability(
    hallucination: float, correct: float, temperature: float, probability: float
) -> None:
    calibration = Calibration(temperature=temperature)
    got = calibration.probability(LabelLogprobs(hallucination, correct))
    assert got == pytest.approx(probability, abs=1e-12)


def test_probability_does_not_depend_on_the_mass_of_the_labels() -> None:
    likely = Calibration().probability(LabelLogprobs(-LN2, -LN2 - LN3))
    unlikely = Calibration().probability(LabelLogprobs(-LN2 - 20, -LN2 - LN3 - 20))
    assert likely == pytest.approx(0.75)
    assert unlikely == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("hallucination", "correct", "mass"),
    [
        pytest.param(-LN2, -LN4, 0.75, id="half-and-quarter"),
        pytest.param(-LN2, -LN2, 1.0, id="all"),
        pytest.param(0.0, 0.0, 1.0, id="rounding-never-passes-one"),
        pytest.param(-9999.0, -9999.0, 0.0, id="none"),
        pytest.param(-math.inf, -LN4, 0.25, id="one-impossible"),
    ],
)
def test_mass(hallucination: float, correct: float, mass: float) -> None:
    assert LabelLogprobs(hallucination, correct).mass == pytest.approx(mass, abs=1e-12)
    assert LabelLogprobs(hallucination, correct).mass <= 1.0


@pytest.mark.parametrize(
    ("hallucination", "correct", "label"),
    [
        pytest.param(-0.1, -3.0, Label.HALLUCINATION, id="hallucination"),
        pytest.param(-3.0, -0.1, Label.CORRECT, id="correct"),
        pytest.param(-0.7, -0.7, Label.HALLUCINATION, id="tie"),
    ],
)
def test_chosen_label(hallucination: float, correct: float, label: Label) -> None:
    assert LabelLogprobs(hallucination, correct).chosen is label


@pytest.mark.parametrize(
    ("probability", "threshold", "label"),
    [
        pytest.param(0.5, 0.5, Label.HALLUCINATION, id="on-the-threshold"),
        pytest.param(math.nextafter(0.5, 0), 0.5, Label.CORRECT, id="just-below"),
        pytest.param(0.8, 0.9, Label.CORRECT, id="strict-threshold"),
        pytest.param(0.2, 0.1, Label.HALLUCINATION, id="lax-threshold"),
        pytest.param(0.0, 0.0, Label.HALLUCINATION, id="threshold-0-takes-all"),
        pytest.param(math.nextafter(1.0, 0), 1.0, Label.CORRECT, id="threshold-1-takes-certainty"),
        pytest.param(1.0, 1.0, Label.HALLUCINATION, id="certain-at-threshold-1"),
    ],
)
def test_classify(probability: float, threshold: float, label: Label) -> None:
    assert classify(probability, threshold) is label


@pytest.mark.parametrize(
    "temperature", [0.0, -1.0, math.inf, -math.inf, math.nan], ids=["0", "-1", "inf", "-inf", "nan"]
)
def test_a_temperature_that_means_nothing_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature must be a finite number above 0"):
        Calibration(temperature=temperature)


@pytest.mark.parametrize(
    "threshold", [-0.01, 1.01, math.inf, math.nan], ids=["below", "above", "inf", "nan"]
)
def test_a_threshold_that_is_no_probability_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match=r"threshold must be in \[0, 1\]"):
        Calibration(threshold=threshold)


def test_the_default_leaves_the_model_its_own_odds() -> None:
    assert Calibration() == Calibration(temperature=1.0, threshold=0.5)
