"""Weights whose contract holds a reference, for tests that need no tensor."""

from __future__ import annotations

from pathlib import Path

from contract.calibration import Calibration
from contract.labels import Label
from contract.manifest import CONTRACT_VERSION, Manifest, fingerprint
from contract.reference import LengthQuantiles, Reference
from service.weights import Weights

REFERENCE = Reference(
    rows="the test part of qa",
    num_rows=1000,
    probability_counts=(100,) * 10,
    hallucination_share=0.5,
    justification_chars=LengthQuantiles(50, 104, 200),
)
"""As even as the fake engine's verdicts, whose justifications have 104 characters."""


def make_weights(reference: Reference | None = REFERENCE) -> Weights:
    """Return weights of this contract that carry the reference."""
    manifest = Manifest(
        contract_version=CONTRACT_VERSION,
        fingerprint=fingerprint(),
        label_token_ids={Label.HALLUCINATION: 1, Label.CORRECT: 2},
        calibration=Calibration(),
        base_model="acme/base",
        base_revision="main",
        trained=True,
        reference=reference,
    )
    return Weights(Path(), "tiny", "0123", manifest)
