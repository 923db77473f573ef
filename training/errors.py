"""What can go wrong in training. Every message says what to do."""

from __future__ import annotations


class TrainingError(Exception):
    """A stage cannot go on. The command line prints the message, without a traceback."""


class ConfigError(TrainingError):
    """A configuration file, or a ``--set`` on the command line, is wrong."""


class DataError(TrainingError):
    """A data set is missing, has wrong columns or labels, or breaks the split by pair."""


class ModelError(TrainingError):
    """A model folder or an adapter cannot be used here."""


class CheckpointError(TrainingError):
    """A checkpoint is incomplete, or belongs to another contract, model or configuration."""


class StoppedRunError(TrainingError):
    """A run was ended because it learned nothing any more.

    Attributes:
        reason: What was seen, with numbers.
        knob: The setting to change.
    """

    def __init__(self, reason: str, knob: str) -> None:
        """Say why and what to turn."""
        super().__init__(f"{reason}. What to change: {knob}")
        self.reason = reason
        self.knob = knob


class ExportError(TrainingError):
    """The weights to be exported are not those that were trained."""


class PushError(TrainingError):
    """The Hub refused, or a check before the upload failed."""
