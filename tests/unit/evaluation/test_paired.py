"""Paired statistics against values worked out by hand, and against other implementations."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score
from support.made_pairs import pair_up

from evaluation.bootstrap import Estimate, Interval
from evaluation.metrics import accuracy, balanced_accuracy, f1
from evaluation.paired import (
    Discordance,
    PairedCase,
    adjust,
    change_intervals,
    excess_test,
    upper_bound,
)
from evaluation.power import power, smallest_drop
from evaluation.shift import kolmogorov_smirnov, stability_index


@pytest.mark.parametrize(
    ("lost", "gained", "p_value"),
    [
        (0, 0, 1.0),
        (1, 0, 1 / 2),
        (5, 0, 1 / 32),
        (8, 2, (45 + 10 + 1) / 1024),
        (2, 8, 1013 / 1024),
        (3, 3, (20 + 15 + 6 + 1) / 64),
    ],
)
def test_mcnemar_is_exact_and_one_sided(lost: int, gained: int, p_value: float) -> None:
    assert Discordance(lost, gained).p_lost == pytest.approx(p_value)
    assert Discordance(gained, lost).p_gained == pytest.approx(p_value)


def test_discordance_counts_either_direction() -> None:
    before, after = [True, True, True, False, False], [True, False, False, True, False]
    assert Discordance.of(before, after) == Discordance(lost=2, gained=1)
    with pytest.raises(ValueError, match="zip"):
        Discordance.of([True], [])


def test_holm_is_the_textbook_one() -> None:
    """Worked: sorted 0.001, 0.01, 0.02, 0.04 times 4, 3, 2, 1, and never falling."""
    assert adjust([0.02, 0.001, 0.04, 0.01]) == pytest.approx([0.04, 0.004, 0.04, 0.03])
    assert adjust([0.03, 0.02]) == pytest.approx([0.04, 0.04])
    assert adjust([0.9, 0.8]) == [1.0, 1.0]
    assert adjust([]) == []


def test_holm_rejects_what_the_step_down_procedure_rejects() -> None:
    generator = np.random.default_rng(3)
    for _ in range(200):
        p_values = generator.random(6) ** 3
        order = np.argsort(p_values)
        rejected: set[int] = set()
        for rank, place in enumerate(order):
            if p_values[place] > 0.05 / (6 - rank):
                break
            rejected.add(int(place))
        found = {place for place, p in enumerate(adjust(list(p_values))) if p <= 0.05}
        assert found == rejected


def test_the_upper_bound_of_a_share_is_exact() -> None:
    """With none of n the bound is 1 - alpha^(1/n); it holds what is below it with 1 - alpha."""
    assert upper_bound(0, 328, 0.05) == pytest.approx(1 - 0.05 ** (1 / 328))
    bound = upper_bound(3, 40, 0.05)
    below = sum(comb(40, k) * bound**k * (1 - bound) ** (40 - k) for k in range(4))
    assert below == pytest.approx(0.05)
    assert upper_bound(4, 4, 0.05) == 1.0


def test_an_excess_is_the_tail_of_the_binomial() -> None:
    assert excess_test(2, 3, 0.1) == pytest.approx(3 * 0.01 * 0.9 + 0.001)
    assert excess_test(0, 3, 0.1) == 1.0


def test_the_change_of_a_figure_is_that_of_scikit_learn() -> None:
    generator = np.random.default_rng(5)
    before = [bool(x) for x in generator.random(60) < 0.8]
    after = [bool(x) for x in generator.random(60) < 0.7]
    cases = pair_up(before, after)
    metrics = {"f1": f1, "ba": balanced_accuracy}
    found = change_intervals(cases, metrics, alpha=0.05, samples=50, seed=1)
    golds = [str(case.row.label) for case in cases]
    old, new = (
        [str((case.after if is_after else case.before).first.verdict) for case in cases]
        for is_after in (False, True)
    )
    positive = {"pos_label": "hallucination"}
    assert found["f1"] is not None
    assert found["f1"].value == pytest.approx(
        f1_score(golds, new, **positive) - f1_score(golds, old, **positive)
    )
    assert found["ba"] is not None
    assert found["ba"].value == pytest.approx(
        balanced_accuracy_score(golds, new) - balanced_accuracy_score(golds, old)
    )


def test_what_did_not_move_has_an_interval_of_no_width() -> None:
    cases = pair_up([True, False] * 10, [True, False] * 10)
    found = change_intervals(cases, {"f1": f1}, alpha=0.05, samples=20, seed=1)
    assert found["f1"] == Estimate(0.0, Interval(0.0, 0.0))


def test_the_interval_depends_on_the_seed_and_not_on_the_order() -> None:
    generator = np.random.default_rng(5)
    cases = pair_up(
        [bool(x) for x in generator.random(40) < 0.8], [bool(x) for x in generator.random(40) < 0.7]
    )

    def interval(cases: list[PairedCase], seed: int) -> object:
        return change_intervals(cases, {"f1": f1}, alpha=0.05, samples=200, seed=seed)

    assert interval(cases, 1) == interval(cases[::-1], 1)
    assert interval(cases, 1) != interval(cases, 2)
    with pytest.raises(ValueError, match="at least"):
        interval([], 1)


def test_the_width_is_that_of_theory_also_with_few_pairs_in_a_kind() -> None:
    """Accuracy is a mean over pairs: its variance is known. A plain bootstrap inside kinds of three
    pairs is too narrow by sqrt(2/3), which is 18 %."""
    generator = np.random.default_rng(7)
    num_pairs, num_kinds = 300, 100
    losses = generator.random(2 * num_pairs) < 0.1
    cases = pair_up([True] * len(losses), [bool(not lost) for lost in losses], num_kinds=num_kinds)
    estimate = change_intervals(cases, {"a": accuracy}, alpha=0.025, samples=4000, seed=1)["a"]
    by_pair = -losses.reshape(num_pairs, 2).mean(axis=1)
    kinds = np.arange(num_pairs) % num_kinds
    variance = sum(by_pair[kinds == kind].var(ddof=1) * 3 for kind in range(num_kinds))
    expected = 2 * 1.96 * np.sqrt(variance) / num_pairs
    assert estimate is not None
    assert estimate.interval.high - estimate.interval.low == pytest.approx(expected, rel=0.06)


def test_kinds_of_one_pair_vary_together() -> None:
    cases = pair_up([True] * 20, [True] * 10 + [False] * 10, num_kinds=10)
    found = change_intervals(cases, {"a": accuracy}, alpha=0.05, samples=200, seed=1)["a"]
    assert found is not None
    assert found.interval.low < found.value < found.interval.high


def test_the_stability_index_is_the_sum_over_the_bins() -> None:
    """Worked: shares 0.5, 0.5 became 0.25, 0.75: 0.25 ln 2 + 0.25 ln 1.5."""
    before, after = [0.05, 0.05, 0.95, 0.95], [0.05, 0.95, 0.95, 1.0]
    assert stability_index(before, after) == pytest.approx(0.25 * np.log(2) + 0.25 * np.log(1.5))
    assert stability_index(before, before) == 0.0
    assert stability_index(before, after) == pytest.approx(stability_index(after, before))
    with pytest.raises(ValueError, match="two samples"):
        stability_index([], after)


def test_an_empty_bin_counts_as_one_in_ten_thousand() -> None:
    expected = 2 * (1 - 1e-4) * np.log(1e4)
    assert stability_index([0.05] * 3, [0.55] * 3) == pytest.approx(expected)


def test_kolmogorov_smirnov_finds_a_shift_and_no_other() -> None:
    steady = list(np.linspace(0, 1, 300))
    assert kolmogorov_smirnov(steady, steady).p_value == 1.0
    moved = kolmogorov_smirnov(steady, [x**2 for x in steady])
    assert moved.distance == pytest.approx(0.25, abs=0.01)
    assert moved.p_value < 1e-6


def test_power_is_the_share_of_simulations_that_find_the_drop() -> None:
    generator = np.random.default_rng(11)
    num_cases, drop, noise, alpha = 200, 0.06, 0.02, 0.01
    moves = generator.multinomial(num_cases, [noise + drop, noise, 1 - 2 * noise - drop], size=2000)
    found = [Discordance(int(lost), int(gained)).p_lost <= alpha for lost, gained, _ in moves]
    assert power(drop, noise, num_cases, alpha) == pytest.approx(np.mean(found), abs=0.03)


def test_power_without_a_drop_is_below_alpha() -> None:
    assert 0 < power(0.0, 0.03, 328, 0.05) <= 0.05
    assert power(0.0, 0.0, 328, 0.05) == 0.0


def test_the_smallest_drop_is_found_four_times_in_five() -> None:
    drop = smallest_drop(0.01, 328, 0.05 / 8)
    assert drop is not None
    assert power(drop, 0.01, 328, 0.05 / 8) == pytest.approx(0.8, abs=1e-3)


def test_few_cases_can_show_no_drop() -> None:
    """Of four cases even four losses have p = 1/16."""
    assert smallest_drop(0.0, 4, 0.05) is None
    assert smallest_drop(0.5, 100, 0.05) is None
