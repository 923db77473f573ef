"""What live drift is measured against: the verdicts that an evaluation of the weights was made of.

Taken from the report itself, so that ``contract.json`` says nothing that it does not.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from contract.calibration import Calibration
from contract.reference import NUM_BINS, LengthQuantiles, Reference
from evaluation.slices import OVERALL, SliceKind
from training.results import Results

logger = logging.getLogger(__name__)

# Of what the report writes with all its digits.
_SAME = 1e-9


def find_reference(results: Results | None, calibration: Calibration) -> Reference | None:
    """Return the reference of weights that are served with a calibration.

    None where there is no evaluation, or where its probabilities are not those that the service
    will give: another temperature, or a report without probabilities. The log then says why.

    Args:
        results: Evaluation of the weights, with justifications.
        calibration: As ``contract.json`` will have it.
    """
    if results is None:
        return None
    reason = _find_obstacle(results, calibration)
    if reason is None:
        try:
            return _read(results.raw, calibration)
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            reason = f"its report cannot be read ({error!r})"
    logger.warning(
        "the export carries no reference for live drift: %s. Run `python -m training evaluate`, "
        "then export again",
        reason,
    )
    return None


def _find_obstacle(results: Results, calibration: Calibration) -> str | None:
    temperature = results.raw["provenance"].get("temperature")
    if temperature is None:
        return "the evaluation does not say at which temperature it was made"
    if not math.isclose(temperature, calibration.temperature, rel_tol=_SAME):
        return (
            f"the evaluation was made at temperature {temperature:.6g}, the weights are served at "
            f"{calibration.temperature:.6g}"
        )
    return None


def _read(raw: Mapping[str, Any], calibration: Calibration) -> Reference:
    """Return what the report has.

    Raises:
        KeyError, TypeError, ValueError, StopIteration: It has no verdicts with a probability.
    """
    slices = raw["slices"]
    overall = next(part for part in slices if part["name"] == OVERALL)
    names = sorted(part["name"] for part in slices if part["kind"] == SliceKind.SET)
    lengths = overall.get("justification_chars")
    counts = [0] * NUM_BINS
    for found in overall["reliability"]:
        counts[round(NUM_BINS * found["low"])] = found["num_rows"]
    if not sum(counts):
        raise ValueError("no verdict has a probability")
    return Reference(
        rows=f"the test part of {', '.join(names)}",
        num_rows=sum(counts),
        probability_counts=tuple(counts),
        hallucination_share=_share_above(counts, calibration.threshold),
        justification_chars=None if lengths is None else LengthQuantiles(**lengths),
    )


def _share_above(counts: Sequence[int], threshold: float) -> float | None:
    """Return the share of the bins from the threshold on; None where it cuts through one."""
    place = NUM_BINS * threshold
    if not math.isclose(place, round(place), abs_tol=_SAME):
        return None
    return sum(counts[round(place) :]) / sum(counts)
