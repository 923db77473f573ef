"""The reference of live drift: its bins, its lengths, and the stability index between counts."""

from __future__ import annotations

import doctest
import math
from random import Random
from statistics import fmean

import pytest

from contract import reference
from contract.reference import (
    LengthQuantiles,
    Reference,
    count_bins,
    expected_index,
    stability_index,
)

COUNTS = (124, 124, 60, 66, 87, 58, 100, 104, 168, 76)
"""Of the evaluation of the embedded model, 967 verdicts."""


def test_the_examples_hold() -> None:
    results = doctest.testmod(reference)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize(
    ("probability", "place"), [(0.0, 0), (0.099999, 0), (0.1, 1), (0.3, 3), (0.7, 7), (1.0, 9)]
)
def test_a_bin_holds_its_lower_end_and_the_last_one_both(probability: float, place: int) -> None:
    counts = count_bins([probability])
    assert (counts[place], sum(counts)) == (1, 1)


@pytest.mark.parametrize("probability", [-0.001, 1.001, math.nan, math.inf])
def test_what_is_no_probability_is_in_no_bin(probability: float) -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
        count_bins([0.5, probability])


def test_equal_shares_have_no_distance_whatever_their_number() -> None:
    assert stability_index([1, 2, 3], [10, 20, 30]) == pytest.approx(0)


def test_the_index_is_the_same_in_both_directions() -> None:
    """Worked: shares 0.2 and 0.8 became 0.5 and 0.5: 0.3 ln 2.5 + (-0.3) ln 0.625 = 0.3 ln 4."""
    assert stability_index([2, 8], [5, 5]) == pytest.approx(0.3 * math.log(4))
    assert stability_index([5, 5], [2, 8]) == pytest.approx(0.3 * math.log(4))


def test_an_empty_bin_counts_as_one_in_ten_thousand() -> None:
    """Worked: 0.5 and 0.5 became 1 and 0.0001: 0.5 ln 2 + 0.4999 ln 5000."""
    expected = 0.5 * math.log(2) + 0.4999 * math.log(5000)
    assert stability_index([5, 5], [5, 0]) == pytest.approx(expected)


@pytest.mark.parametrize(("before", "after"), [([0, 0], [1, 1]), ([1, 1], [0, 0]), ([], [])])
def test_no_sample_has_no_index(before: list[int], after: list[int]) -> None:
    with pytest.raises(ValueError, match="two samples"):
        stability_index(before, after)


def test_counts_of_other_bins_are_not_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        stability_index([1, 1], [1, 1, 1])


@pytest.mark.parametrize(("num_verdicts", "mean"), [(200, 0.0543), (1000, 0.0183)])
def test_sampling_alone_gives_the_index_that_is_expected(num_verdicts: int, mean: float) -> None:
    """9 (1 / 967 + 1 / n), and 3.1 times that in hardly one sample of a thousand."""
    rng = Random(1)

    def draw(num: int) -> list[int]:
        places = rng.choices(range(10), COUNTS, k=num)
        return [places.count(place) for place in range(10)]

    drawn = [stability_index(draw(967), draw(num_verdicts)) for _ in range(1000)]
    assert expected_index(967, num_verdicts) == pytest.approx(mean, abs=5e-5)
    assert fmean(drawn) == pytest.approx(mean, rel=0.1)
    assert sum(index > 3.1 * mean for index in drawn) <= 5


def test_quantiles_of_one_length_are_that_length() -> None:
    assert LengthQuantiles.of([7]) == LengthQuantiles(7, 7, 7)
    with pytest.raises(ValueError, match="at least one length"):
        LengthQuantiles.of([])


def test_quantiles_do_not_depend_on_the_order() -> None:
    lengths = list(range(101))
    Random(3).shuffle(lengths)
    assert LengthQuantiles.of(lengths) == LengthQuantiles(10, 50, 90)


@pytest.mark.parametrize("lengths", [(-1, 0, 0), (0, 2, 1), (0, 0, math.inf), (0, math.nan, 0)])
def test_what_is_no_length_is_refused(lengths: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="lengths must be finite"):
        LengthQuantiles(*lengths)


def test_a_reference_of_no_verdict_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Reference("none", 0, (0,) * 10)
