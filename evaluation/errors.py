"""What can be wrong with what an evaluation is given. Every message says what to do."""

from __future__ import annotations


class EvaluationError(Exception):
    """The predictions, or what goes with them, cannot be evaluated."""


class CalibrationError(EvaluationError):
    """Temperature or thresholds cannot be fitted on these rows."""


class BaselineError(EvaluationError):
    """A file is no baseline that this code reads."""


class GoldenSetError(EvaluationError):
    """A file is no golden set; the message names the file and the line."""
