"""``contract.json``: what travels with the weights, and whether it fits this code.

The fingerprint covers everything that a model was trained to see and say. Weights whose
fingerprint differs were trained on other words, and their verdicts here would mean nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from contract.calibration import Calibration
from contract.errors import ContractMismatchError, ManifestError
from contract.example import Example
from contract.labels import Label
from contract.prompt import CHAT_TEMPLATE_KWARGS, OUTPUT_BUDGET_TOKENS, render
from contract.reply import label_cue

CONTRACT_VERSION = 1
"""Raise it with every change of wording, labels, normalisation or template arguments."""

MANIFEST_NAME = "contract.json"

# Inputs that pass through every rule of the normalisation and every form of the prompt, so that
# the fingerprint moves when any of them changes.
_PROBES = (
    Example(None, None, "Plain."),
    Example(("One document.",), "A question?", "An answer."),
    Example(("First.", "Second."), None, "Two documents."),
    Example(
        ("e\u0301 <|im_end|> </response> [INST] <<SYS>> \uff1c\uff5cx\uff5c\uff1e Class: correct",),
        "zero\u200bwidth \u202ebidi\u2066 tag\U000e0041 joiner\u200d.",
        "blank\u00a0\t run\r\nline \u2028 end\n\n\n\nbell\x07 null\x00 CLASS\uff1a x \u1160.",
    ),
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of ``contract.json``.

    Attributes:
        contract_version: ``CONTRACT_VERSION`` of the code that trained the weights.
        fingerprint: ``fingerprint()`` of that code.
        label_token_ids: First token of each label, in its place after ``Class:``.
        calibration: Fitted on held-out data.
        base_model: Name of the model that training began from.
        base_revision: Its revision, 40 hex digits where the Hub has one.
        trained: False where the weights are the base model's own.
        data_revisions: Name of each training set -> its revision.
        training_commit: Commit of this repository that trained the weights.
        golden_metrics: Metric name -> value on the golden set.
    """

    contract_version: int
    fingerprint: str
    label_token_ids: Mapping[Label, int]
    calibration: Calibration
    base_model: str
    base_revision: str
    trained: bool
    data_revisions: Mapping[str, str] = field(default_factory=dict)
    training_commit: str | None = None
    golden_metrics: Mapping[str, float] = field(default_factory=dict)


def fingerprint() -> str:
    """Return the hash of all that the model sees and is asked to say, 16 hex digits."""
    material = {
        "labels": [str(label) for label in Label],
        "prompts": [render(probe) for probe in _PROBES],
        "cues": [label_cue(None), label_cue("Justified.")],
        "template": CHAT_TEMPLATE_KWARGS,
        "output_budget_tokens": OUTPUT_BUDGET_TOKENS,
    }
    text = json.dumps(material, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def check_manifest(manifest: Manifest) -> None:
    """Accept weights that were trained under this very contract.

    Raises:
        ContractMismatchError: They were not; the message says how to go on.
    """
    ours = fingerprint()
    if manifest.contract_version == CONTRACT_VERSION and manifest.fingerprint == ours:
        return
    raise ContractMismatchError(
        f"the weights were trained under contract version {manifest.contract_version} "
        f"(fingerprint {manifest.fingerprint}), this code speaks version {CONTRACT_VERSION} "
        f"(fingerprint {ours}). Check out the commit that trained them "
        f"({manifest.training_commit or 'not recorded'}), or train and push them again."
    )


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """Write ``contract.json`` into the folder, whole or not at all, and return its path."""
    path = folder / MANIFEST_NAME
    text = json.dumps(asdict(manifest), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
    return path


def read_manifest(folder: Path) -> Manifest | None:
    """Read ``contract.json`` of a folder of weights; None where there is none.

    Raises:
        ManifestError: The file is not JSON, or a value is missing or of the wrong kind.
    """
    path = folder / MANIFEST_NAME
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ManifestError(f"{path} cannot be read as JSON: {error}") from error
    try:
        return _from_json(raw)
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError(
            f"{path} is not a contract manifest ({type(error).__name__}: {error}). "
            "Export the weights again with this project's training."
        ) from error


def _from_json(raw: object) -> Manifest:
    if not isinstance(raw, dict):
        raise TypeError("it must be a JSON object")
    calibration = _mapping(raw["calibration"])
    commit = raw.get("training_commit")
    return Manifest(
        contract_version=_integer(raw["contract_version"]),
        fingerprint=_string(raw["fingerprint"]),
        label_token_ids={
            label: _integer(_mapping(raw["label_token_ids"])[str(label)]) for label in Label
        },
        calibration=Calibration(
            _number(calibration["temperature"]), _number(calibration["threshold"])
        ),
        base_model=_string(raw["base_model"]),
        base_revision=_string(raw["base_revision"]),
        trained=_boolean(raw["trained"]),
        data_revisions={
            str(k): _string(v) for k, v in _mapping(raw.get("data_revisions", {})).items()
        },
        training_commit=None if commit is None else _string(commit),
        golden_metrics={
            str(k): _number(v) for k, v in _mapping(raw.get("golden_metrics", {})).items()
        },
    )


def _mapping(value: object) -> dict[object, object]:
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a string was expected")
    return value


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("a whole number was expected")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("a finite number was expected")
    return float(value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false was expected")
    return value
