"""A broken answer never becomes a verdict."""

import math

import pytest

from client.errors import ProtocolError
from client.models import Classification, Timings
from contract.labels import Label


def test_a_whole_answer_is_read(answer):
    verdict = Classification.from_json(answer)
    assert verdict.label is Label.HALLUCINATION
    assert (verdict.probability, verdict.threshold, verdict.evidence) == (0.97, 0.5, "given")
    assert verdict.timings == Timings(0.2, 412.0, 414.8)
    assert verdict.model.contract == "4567ef01"
    assert verdict.usage.cached_tokens == 128


def test_an_answer_goes_back_to_json_unchanged(answer):
    assert Classification.from_json(answer).to_json() == answer


def test_unknown_members_and_nulls_that_the_api_has_are_accepted(answer):
    answer |= {"new": 1, "justification": None}
    answer["model"] |= {"contract": None}
    verdict = Classification.from_json(answer)
    assert (verdict.justification, verdict.model.contract) == (None, None)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("class", "maybe"),
        ("class", "Hallucination"),
        ("class", None),
        ("justification", 3),
        ("probability", math.nan),
        ("probability", -0.1),
        ("probability", 1.1),
        ("probability", "0.97"),
        ("probability", True),
        ("probability", 10**400),
        ("threshold", None),
        ("label_mass", 2),
        ("evidence", "some"),
        ("model", []),
        ("model.id", None),
        ("model.trained", 1),
        ("usage.input_tokens", 1.5),
        ("usage.output_tokens", -1),
        ("usage.cached_tokens", False),
        ("timings_ms.queue", math.inf),
        ("timings_ms.total", -1),
        ("request_id", 7),
    ],
)
def test_a_wrong_value_is_refused(answer, path, value):
    *parents, name = path.split(".")
    place = answer[parents[0]] if parents else answer
    place[name] = value
    with pytest.raises(ProtocolError):
        Classification.from_json(answer)


@pytest.mark.parametrize("name", ["class", "justification", "probability", "model", "request_id"])
def test_a_missing_member_is_refused(answer, name):
    del answer[name]
    with pytest.raises(ProtocolError, match=name):
        Classification.from_json(answer)


@pytest.mark.parametrize("value", [None, [], "correct", 1])
def test_what_is_no_object_is_refused(value):
    with pytest.raises(ProtocolError, match="not a JSON object"):
        Classification.from_json(value)


def test_a_class_against_its_probability_is_refused(answer):
    answer["class"] = "correct"
    with pytest.raises(ProtocolError, match="does not follow"):
        Classification.from_json(answer)


def test_a_probability_rounded_onto_the_threshold_is_accepted(answer):
    # 0.4999996 is correct, and on the wire it is 0.5.
    answer |= {"class": "correct", "probability": 0.5}
    assert Classification.from_json(answer).label is Label.CORRECT
