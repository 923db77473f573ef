"""The baseline of the golden set, as far as it goes into an export.

``python -m evaluation baseline`` measures a running service, so there is none before the weights
were exported once and served: then it is written into the run's ``evaluation/``, and the next
export takes it along.
"""

from __future__ import annotations

import logging
from pathlib import Path

from contract.manifest import CONTRACT_VERSION, fingerprint
from evaluation.baseline import Baseline
from evaluation.errors import BaselineError
from training.errors import ExportError

logger = logging.getLogger(__name__)

BASELINE_NAME = "baseline.json"
"""In the run's ``evaluation/``, and in an export."""


def find_baseline(folder: Path, weights_sha256: str) -> Baseline | None:
    """Return the baseline of these very weights; None where there is none, with a warning.

    Args:
        folder: Of the run's reports.
        weights_sha256: From ``merging.hash_adapter``.

    Raises:
        ExportError: The file is there and is broken.
    """
    path = folder / BASELINE_NAME
    fault = f"{path} is missing"
    if path.is_file():
        try:
            baseline = Baseline.read(path)
        except BaselineError as error:
            raise ExportError(f"{error}, or delete it to export without") from error
        fault = _find_fault(baseline, weights_sha256)
        if not fault:
            return baseline
        fault = f"{path} {fault}"
    logger.warning(
        "%s: the export will have no baseline to compare a deployment with. To make one, serve "
        "this export, run `python -m evaluation baseline --url URL --out %s`, then export again",
        fault,
        path,
    )
    return None


def _find_fault(baseline: Baseline, weights_sha256: str) -> str:
    """Return why a baseline is of no use for these weights; nothing where it is."""
    service = baseline.service
    if service.weights_sha256 is None:
        return (
            f"was measured on {service.model}@{service.revision}, which does not say which adapter "
            "it was exported from"
        )
    if service.weights_sha256 != weights_sha256:
        return "is of other weights"
    if (service.contract_version, service.contract) != (CONTRACT_VERSION, fingerprint()):
        return "was measured under another contract"
    return ""
