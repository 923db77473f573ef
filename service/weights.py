"""Where the weights come from: embedded | a folder | org/repo@revision -> a verified folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contract.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Weights:
    """A local folder of weights that is whole and fits the contract.

    Attributes:
        folder: Where it is.
        model_id: Name of the model, for answers: ``embedded``, the folder's name, or ``org/repo``.
        revision: 40 hex digits of the Hub's commit; for the embedded model and for folders, a hash
            of the content.
        manifest: Of the weights; None only where the settings allow weights without one.
    """

    folder: Path
    model_id: str
    revision: str
    manifest: Manifest | None
