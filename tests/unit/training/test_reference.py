"""From an evaluation's predictions to ``contract.json`` to the service's drift metrics."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the training libraries")
pytest.importorskip("peft", reason="needs the training libraries")

from support.app_client import ITEM, fake_settings, running_app, value_of
from support.made_run import make_config, make_results, make_run, write_json
from support.tiny_model import write_tiny_model

from contract.calibration import Calibration, LabelLogprobs
from contract.labels import Label
from contract.manifest import read_manifest
from contract.reference import LengthQuantiles, Reference
from evaluation.prediction import Prediction
from evaluation.report import evaluate, to_json
from service.engine.base import Generation, Prompt
from service.engine.fake import FakeEngine
from service.settings import Settings
from service.weights import resolve_weights
from training.export import export
from training.merging import hash_adapter
from training.reference import find_reference
from training.results import Results
from training.runs import RunFolder

ADAPTER = Path(__file__).parents[3] / "service" / "adapter"
SERVED = Calibration(temperature=1.7, threshold=0.5)
# Row i of 20 is given i / 20: two in each bin, half of them hallucinations.
PROBABILITIES = [i / 20 for i in range(20)]
LENGTHS = {"p10": 12.0, "p50": 52.0, "p90": 90.0}


def predict() -> list[Prediction]:
    """Return 20 predictions of two sets, and one that could not be read."""
    rows = [
        Prediction(
            id=str(number),
            pair_id=str(number // 2),
            set_name="own" if number % 2 else "qa",
            gold=Label.HALLUCINATION if number % 2 else Label.CORRECT,
            verdict=Label.HALLUCINATION if probability >= 0.5 else Label.CORRECT,
            probability=probability,
            justification="So it is.",
            response="It is so.",
        )
        for number, probability in enumerate(PROBABILITIES)
    ]
    unreadable = Prediction("20", "10", "qa", Label.CORRECT, None, None, None, "It is so.")
    return [*rows, unreadable]


def make_report(weights_sha256: str, **provenance: Any) -> dict[str, Any]:
    """Return a real evaluation's JSON, with the lengths of justifications."""
    known = {"model": "m", "revision": "r", "data_revisions": {}, "command": "c"}
    known |= {"weights_sha256": weights_sha256, "temperature": SERVED.temperature, **provenance}
    raw = to_json(evaluate(predict(), None, [], known, bootstrap_samples=5))
    raw = json.loads(json.dumps(raw))
    assert raw["slices"][0]["name"] == "overall"
    raw["slices"][0]["justification_chars"] = LENGTHS
    return raw


EXPECTED = Reference(
    rows="the test part of own, qa",
    num_rows=20,
    probability_counts=(2,) * 10,
    hallucination_share=0.5,
    justification_chars=LengthQuantiles(**LENGTHS),
)


class SteadyEngine(FakeEngine):
    """Gives every response a probability that the temperature of the export makes 0.75."""

    async def generate(self, prompt: Prompt, max_tokens: int, request_id: str) -> Generation:
        generation = await super().generate(prompt, max_tokens, request_id)
        return replace(generation, label_logprobs=LabelLogprobs(-0.1, -0.1 - 1.7 * log(3)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A trained run of a tiny model, evaluated at the temperature that it is served at."""
    folder = tmp_path_factory.mktemp("reference")
    base = write_tiny_model(folder / "tiny-base")
    run = make_run(folder / "made", base, make_config(base))
    calibration = {"temperature": SERVED.temperature, "threshold": SERVED.threshold}
    write_json(run.evaluation / "calibration.json", calibration)
    weights_sha256 = hash_adapter(run.path / "grpo" / "adapter")
    write_json(run.evaluation / "adapter.json", make_report(weights_sha256))
    return run


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_was_predicted_is_what_the_service_measures_drift_against(
    run: RunFolder, tmp_path: Path
) -> None:
    base = run.path.parent / "tiny-base"
    folder = export(make_config(base, dtype="float32"), run, tmp_path / "merged")
    weights = resolve_weights(Settings(model=str(folder)), lambda text: None)
    assert weights.manifest is not None
    assert weights.manifest.reference == EXPECTED
    settings = fake_settings(window_verdicts=10)
    engine = SteadyEngine(settings)
    async with running_app(settings, engine, weights=weights) as (client, _):
        for _ in range(10):
            assert (await client.post("/classify", json=ITEM)).json()["probability"] == 0.75
        psi = await value_of(client, "detector_drift_psi")
        change = await value_of(client, "detector_drift_hallucination_share_change")
        ratio = await value_of(client, "detector_drift_justification_chars_ratio")
        assert await value_of(client, "detector_window_probability_bin_share", bin="0.7") == 1
        assert await value_of(client, "detector_reference_verdicts") == 20
    # One bin went from a tenth to all, nine to nothing.
    assert psi == pytest.approx(0.9 * log(10) + 9 * 0.0999 * log(1000))
    assert change == 0.5
    # The fake engine's justification has 104 characters.
    assert ratio == 2.0


def find(raw: dict[str, Any], calibration: Calibration = SERVED) -> Reference | None:
    return find_reference(Results.of(raw), calibration)


def test_the_reference_of_the_embedded_model_is_its_evaluation() -> None:
    """The counts are those of the committed report's reliability table."""
    raw = json.loads((ADAPTER / "evaluation.json").read_text(encoding="utf-8"))
    manifest = read_manifest(ADAPTER)
    assert manifest is not None
    found = find(raw, manifest.calibration)
    assert found is not None
    [overall] = [part for part in raw["slices"] if part["name"] == "overall"]
    assert found.num_rows == overall["num_rows"] - overall["confusion"]["unreadable"]
    assert found.probability_counts == tuple(row["num_rows"] for row in overall["reliability"])
    share = overall["metrics"]["predicted_hallucination_share"]["value"]
    assert found.hallucination_share == pytest.approx(share)


def test_bins_without_a_row_are_counted_as_empty() -> None:
    raw = make_report("00")
    reliability = raw["slices"][0]["reliability"]
    raw["slices"][0]["reliability"] = [row for row in reliability if row["low"] in (0.0, 0.3, 0.9)]
    found = find(raw)
    assert found is not None
    assert found.probability_counts == (2, 0, 0, 2, 0, 0, 0, 0, 0, 2)
    assert found.num_rows == 6


@pytest.mark.parametrize(
    ("threshold", "share"), [(0.5, 0.5), (0.3, 0.7), (0.7, 0.3), (1.0, 0.0), (0.45, None)]
)
def test_the_share_is_that_at_the_threshold_of_the_weights(
    threshold: float, share: float | None
) -> None:
    found = find(make_report("00"), Calibration(1.7, threshold))
    assert found is not None
    assert found.hallucination_share == share


def test_a_report_from_before_lengths_were_measured_gives_the_rest() -> None:
    raw = make_report("00")
    del raw["slices"][0]["justification_chars"]
    found = find(raw)
    assert found is not None
    assert (found.justification_chars, found.num_rows) == (None, 20)


def test_without_an_evaluation_there_is_no_reference(caplog: pytest.LogCaptureFixture) -> None:
    assert find_reference(None, SERVED) is None
    assert caplog.text == ""


NONE_OF_IT = [
    pytest.param(make_report("00", temperature=1.0), "at temperature 1, ", id="temperature"),
    pytest.param(make_report("00", temperature=None), "does not say at which", id="unknown"),
    pytest.param(
        make_results("00") | {"provenance": {"temperature": 1.7}}, "cannot be read", id="old"
    ),
]


@pytest.mark.parametrize(("raw", "reason"), NONE_OF_IT)
def test_probabilities_that_the_service_will_not_give_are_no_reference(
    raw: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert find(raw) is None
    assert reason in caplog.text
    assert "Run `python -m training evaluate`, then export again" in caplog.text


def test_verdicts_without_probabilities_are_no_reference(caplog: pytest.LogCaptureFixture) -> None:
    raw = make_report("00")
    raw["slices"][0]["reliability"] = []
    assert find(raw) is None
    assert "no verdict has a probability" in caplog.text
