"""The latest verdicts as numbers, and how far they are from the reference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import log
from typing import Any

import httpx
import pytest
from support.app_client import ITEM, fake_settings, running_app, samples_of, value_of
from support.made_weights import REFERENCE, make_weights

from contract.calibration import classify
from contract.reference import LengthQuantiles, Reference
from service.detector import Classification, Evidence, VerdictPath
from service.window import (
    Drift,
    VerdictWindow,
    WindowCollector,
    WindowFacts,
    measure_drift,
)

DRIFT = {
    "detector_drift_psi",
    "detector_drift_expected_psi",
    "detector_drift_hallucination_share_change",
    "detector_drift_justification_chars_ratio",
}


def make_verdict(
    probability: float, justification: str | None = "So.", path: VerdictPath = VerdictPath.FULL
) -> Classification:
    return Classification(
        label=classify(probability, 0.5),
        justification=justification,
        probability=probability,
        threshold=0.5,
        label_mass=1.0,
        evidence=Evidence.GIVEN,
        path=path,
        num_input_tokens=1,
        num_output_tokens=1,
        num_cached_tokens=0,
        queue_s=0.0,
        inference_s=0.0,
    )


def fill(window: VerdictWindow | WindowCollector, probabilities: Sequence[float]) -> None:
    for probability in probabilities:
        window.add(make_verdict(probability))


def test_an_empty_window_has_nothing_to_say() -> None:
    window = VerdictWindow(10)
    assert window.describe() is None
    assert len(window) == 0


def test_a_window_describes_its_verdicts() -> None:
    window = VerdictWindow(10)
    for probability, text in ((0.05, "So it is."), (0.5, "S"), (0.95, None), (1.0, "\u00e9\u00e8")):
        window.add(make_verdict(probability, text))
    facts = window.describe()
    assert facts is not None
    assert facts.num_verdicts == 4
    assert facts.probability_counts == (1, 0, 0, 0, 0, 1, 0, 0, 0, 2)
    assert facts.hallucination_share == 0.75
    assert facts.mean_probability == pytest.approx(0.625)
    # Lengths 0, 1, 2, 9: interpolated at 0.3, 1.5 and 2.7 of three steps.
    chars = facts.justification_chars
    assert (chars.p10, chars.p50, chars.p90) == pytest.approx((0.3, 1.5, 6.9))


def test_a_window_forgets_the_oldest() -> None:
    window = VerdictWindow(3)
    fill(window, [0.9, 0.9, 0.1, 0.1, 0.1])
    facts = window.describe()
    assert facts is not None
    assert (facts.num_verdicts, facts.hallucination_share) == (3, 0.0)


def test_verdicts_come_while_others_are_read() -> None:
    """Reading a deque that another thread adds to ends in a RuntimeError."""
    window = VerdictWindow(20_000)
    fill(window, [0.25] * 20_000)
    with ThreadPoolExecutor(2) as pool:
        writer = pool.submit(fill, window, [0.25] * 50_000)
        found = [window.describe() for _ in range(10)]
        writer.result()
    assert {facts.num_verdicts for facts in found if facts is not None} == {20_000}
    assert len(window) == 20_000


def test_drift_is_measured_against_the_reference() -> None:
    """Worked: half of ten even bins became empty, the others twice as full."""
    facts = WindowFacts(100, (0,) * 5 + (20,) * 5, 1.0, 0.75, LengthQuantiles(0, 52, 80))
    empty, full = (0.1 - 0.0001) * log(1000), 0.1 * log(2)
    assert measure_drift(facts, REFERENCE) == Drift(
        psi=pytest.approx(5 * empty + 5 * full),
        expected_psi=pytest.approx(9 * (0.001 + 0.01)),
        hallucination_share_change=0.5,
        justification_chars_ratio=0.5,
    )


@pytest.mark.parametrize(
    ("change", "member"),
    [
        ({"hallucination_share": None}, "hallucination_share_change"),
        ({"justification_chars": None}, "justification_chars_ratio"),
        ({"justification_chars": LengthQuantiles(0, 0, 5)}, "justification_chars_ratio"),
    ],
    ids=["no-share", "no-lengths", "median-0"],
)
def test_what_the_reference_lacks_has_no_drift(change: dict[str, Any], member: str) -> None:
    facts = WindowFacts(10, (1,) * 10, 0.5, 0.5, LengthQuantiles(1, 2, 3))
    drift = measure_drift(facts, replace(REFERENCE, **change))
    assert getattr(drift, member) is None
    assert drift.psi == pytest.approx(0)


def collected(window: WindowCollector) -> dict[str, dict[str, float]]:
    """Return name -> value of its one label, empty without one -> value."""
    return {
        metric.name: {"".join(each.labels.values()): each.value for each in metric.samples}
        for metric in window.collect()
        if metric.samples
    }


@pytest.mark.parametrize(
    ("num_verdicts", "max_verdicts", "min_verdicts", "is_measured"),
    [(19, 100, 20, False), (20, 100, 20, True), (29, 30, 200, False), (30, 30, 200, True)],
    ids=["too-few", "enough", "not-full", "full"],
)
def test_drift_shows_from_enough_verdicts_on(
    num_verdicts: int, max_verdicts: int, min_verdicts: int, is_measured: bool
) -> None:
    window = WindowCollector(max_verdicts)
    window.compare_with(REFERENCE, min_verdicts)
    fill(window, [0.5] * num_verdicts)
    assert DRIFT & set(collected(window)) == (DRIFT if is_measured else set())


def test_without_a_reference_there_is_no_drift_and_no_zero() -> None:
    window = WindowCollector(10)
    window.compare_with(None, 1)
    assert set(collected(window)) == {"detector_window_verdicts"}
    fill(window, [0.5] * 10)
    names = set(collected(window))
    assert not [name for name in names if name.startswith(("detector_drift", "detector_ref"))]
    assert collected(window)["detector_window_hallucination_share"] == {"full": 1.0}


def test_paths_are_kept_apart_and_only_readable_replies_are_compared() -> None:
    window = WindowCollector(10)
    window.compare_with(REFERENCE, 4)
    for path, probability in ((VerdictPath.SHORT, 0.95), (VerdictPath.REREAD, 0.05)):
        for _ in range(10):
            window.add(make_verdict(probability, None, path))
    assert not DRIFT & set(collected(window))
    fill(window, [0.05, 0.35, 0.65, 0.95])
    found = collected(window)
    assert found["detector_window_verdicts"] == {"full": 4, "reread": 10, "short": 10}
    assert found["detector_window_hallucination_share"] == {"full": 0.5, "reread": 0, "short": 1}
    assert found["detector_window_mean_probability"]["short"] == pytest.approx(0.95)
    assert found["detector_window_probability_bin_share"] == {
        "0.0": 0.25, "0.1": 0, "0.2": 0, "0.3": 0.25, "0.4": 0,
        "0.5": 0, "0.6": 0.25, "0.7": 0, "0.8": 0, "0.9": 0.25,
    }  # fmt: skip
    assert found["detector_drift_hallucination_share_change"] == {"": 0.0}
    assert found["detector_window_justification_chars"] == {"10": 3, "50": 3, "90": 3}
    assert found["detector_reference_justification_chars"] == {"10": 50, "50": 104, "90": 200}
    assert found["detector_reference_verdicts"] == {"": 1000}


async def judge_some(client: httpx.AsyncClient, num: int, **values: Any) -> None:
    bodies = [{**ITEM, "question": f"Question {i}?", **values} for i in range(num)]
    answers = await asyncio.gather(*(client.post("/classify", json=body) for body in bodies))
    assert {answer.status_code for answer in answers} == {200}


@pytest.mark.anyio
async def test_the_service_measures_its_verdicts_against_the_reference_of_its_weights() -> None:
    """Worked: the fake engine's verdicts are even, its justification always has 104 characters."""
    settings = fake_settings(window_verdicts=100, window_min_verdicts=50)
    async with running_app(settings, weights=make_weights()) as (client, _):
        await judge_some(client, 60, justification=False)
        await judge_some(client, 49)
        assert await samples_of(client, "detector_drift_psi") == []
        await judge_some(client, 60)
        assert await value_of(client, "detector_window_verdicts", path="full") == 100
        assert 0 < await value_of(client, "detector_drift_psi") < 0.4
        expected = await value_of(client, "detector_drift_expected_psi")
        assert expected == pytest.approx(9 * (1 / 1000 + 1 / 100))
        assert abs(await value_of(client, "detector_drift_hallucination_share_change")) < 0.2
        assert await value_of(client, "detector_drift_justification_chars_ratio") == 1.0
        info = (await client.get("/info")).json()
    assert info["window"]["verdicts"] == {"full": 100, "reread": 0, "short": 60}
    assert info["reference"] == {
        "rows": "the test part of qa",
        "num_rows": 1000,
        "probability_counts": [100] * 10,
        "hallucination_share": 0.5,
        "justification_chars": {"p10": 50.0, "p50": 104.0, "p90": 200.0},
    }


@pytest.mark.anyio
@pytest.mark.parametrize(
    "reference", [None, Reference("qa", 1, (1, *[0] * 9))], ids=["none", "of-probabilities-alone"]
)
async def test_an_older_contract_leaves_out_what_it_does_not_know(
    reference: Reference | None,
) -> None:
    settings = fake_settings(window_verdicts=10)
    async with running_app(settings, weights=make_weights(reference)) as (client, _):
        await judge_some(client, 10)
        for name in sorted(DRIFT - {"detector_drift_psi", "detector_drift_expected_psi"}):
            assert await samples_of(client, name) == []
        num_measured = len(await samples_of(client, "detector_drift_psi"))
        assert num_measured == (0 if reference is None else 1)
        shown = (await client.get("/info")).json()["reference"]
    assert shown == (
        None
        if reference is None
        else {
            "rows": "qa",
            "num_rows": 1,
            "probability_counts": [1, *[0] * 9],
            "hallucination_share": None,
            "justification_chars": None,
        }
    )
