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
from contract.reference import LengthQuantiles, Reference
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
        "zero\u200bwidth \u202ebidi\u2066 tag\U000e0041 joiner\u200d. e\u200b\u0301 "
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f468\u200d\U0001f469",
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
        weights_sha256: Of the trained adapter that the weights were exported from; None where it
            was not recorded.
        reference: What live drift is measured against; None where it was not recorded.
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
    weights_sha256: str | None = None
    reference: Reference | None = None


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
    """Write ``contract.json`` into the folder, whole or not at all, and return its path.

    Raises:
        ValueError: A metric is not a finite number.
    """
    path = folder / MANIFEST_NAME
    text = json.dumps(
        asdict(manifest), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False
    )
    partial = path.with_suffix(".partial")
    partial.write_text(text + "\n", encoding="utf-8")
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
    except (OSError, ValueError, RecursionError) as error:
        raise ManifestError(f"{path} cannot be read as JSON: {error}") from error
    try:
        return _from_json(raw)
    except (TypeError, ValueError) as error:
        raise ManifestError(
            f"{path} is not a contract manifest ({error}). "
            "Export the weights again with this project's training."
        ) from error


def _from_json(raw: object) -> Manifest:
    content = _Reader(raw, "the file")
    calibration = _Reader(content.value("calibration"), "calibration")
    label_token_ids = _Reader(content.value("label_token_ids"), "label_token_ids")
    data_revisions = _Reader(content.value("data_revisions", {}), "data_revisions")
    golden_metrics = _Reader(content.value("golden_metrics", {}), "golden_metrics")
    commit = content.value("training_commit", None)
    weights = content.value("weights_sha256", None)
    reference = content.value("reference", None)
    return Manifest(
        contract_version=content.integer("contract_version"),
        fingerprint=content.string("fingerprint"),
        label_token_ids={label: label_token_ids.integer(label) for label in Label},
        calibration=Calibration(calibration.number("temperature"), calibration.number("threshold")),
        base_model=content.string("base_model"),
        base_revision=content.string("base_revision"),
        trained=content.boolean("trained"),
        data_revisions={name: data_revisions.string(name) for name in data_revisions.names},
        training_commit=None if commit is None else content.string("training_commit"),
        golden_metrics={name: golden_metrics.number(name) for name in golden_metrics.names},
        weights_sha256=None if weights is None else content.string("weights_sha256"),
        reference=None if reference is None else _read_reference(reference),
    )


def _read_reference(raw: object) -> Reference:
    content = _Reader(raw, "reference")
    share = content.value("hallucination_share", None)
    lengths = content.value("justification_chars", None)
    return Reference(
        rows=content.string("rows"),
        num_rows=content.integer("num_rows"),
        probability_counts=content.integers("probability_counts"),
        hallucination_share=None if share is None else content.number("hallucination_share"),
        justification_chars=None if lengths is None else _read_lengths(lengths),
    )


def _read_lengths(raw: object) -> LengthQuantiles:
    content = _Reader(raw, "reference.justification_chars")
    return LengthQuantiles(content.number("p10"), content.number("p50"), content.number("p90"))


class _Reader:
    """Takes values of the right kind out of a JSON object; names the one that is not."""

    def __init__(self, raw: object, name: str) -> None:
        if not isinstance(raw, dict):
            raise TypeError(f"{name} must be a JSON object")
        self._raw: dict[str, object] = raw
        self._prefix = "" if name == "the file" else f"{name}."

    @property
    def names(self) -> list[str]:
        return list(self._raw)

    def value(self, name: str, *default: object) -> object:
        if name in self._raw:
            return self._raw[name]
        if default:
            return default[0]
        raise ValueError(f"{self._prefix}{name} is missing")

    def string(self, name: str) -> str:
        value = self.value(name)
        if not isinstance(value, str):
            raise self._fault(name, "a string")
        return value

    def integer(self, name: str) -> int:
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._fault(name, "a whole number")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        values = self.value(name)
        if not isinstance(values, list):
            raise self._fault(name, "a list of whole numbers")
        numbers = tuple(value for value in values if type(value) is int)
        if len(numbers) < len(values):
            raise self._fault(name, "a list of whole numbers")
        return numbers

    def number(self, name: str) -> float:
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._fault(name, "a finite number")
        if not math.isfinite(value):
            raise self._fault(name, "a finite number")
        return float(value)

    def boolean(self, name: str) -> bool:
        value = self.value(name)
        if not isinstance(value, bool):
            raise self._fault(name, "true or false")
        return value

    def _fault(self, name: str, expected: str) -> TypeError:
        return TypeError(f"{self._prefix}{name} must be {expected}")
