"""What a run found out about its weights, read for export: evaluation, calibration, origins.

Whatever leaves the machine passes ``hide_paths``: a report names the folders that it was made in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.calibration import Calibration
from contract.manifest import CONTRACT_VERSION, fingerprint
from evaluation.slices import LENGTH_MATCHED, OVERALL, SliceKind
from training.errors import ExportError

CALIBRATION_NAME = "calibration.json"
WEIGHTS_KEY = "weights_sha256"
"""Where an evaluation's provenance and a calibration say which adapter they are of."""

SHORT_PATH_SUFFIX = "-short-path"
"""Ends the names of reports on verdicts without a justification."""

_GOLDEN = ("precision", "recall", "f1", "balanced_accuracy", "unreadable_rate", "ece")
_PATH = re.compile(r"(?<![\w/:.~@-])~?/(?:[\w.@+-]+/)+([\w.@+-]+)/?|(?<![\w/:.~@-])~/([\w.@+-]+)/?")


@dataclass(frozen=True, slots=True)
class SliceResult:
    """One slice of an evaluation, as its JSON has it.

    Attributes:
        name: Such as ``overall``, a data set, ``length-matched``.
        kind: How its rows were chosen.
        num_rows: Predictions.
        values: Metric -> value; undefined ones are left out.
        lows: Metric -> lower end of the 95 % interval.
        highs: Metric -> upper end.
        best_shortcut: Name of the rule with the highest balanced accuracy.
        shortcut_balanced_accuracy: What that rule reaches, in [0, 1].
        shortcut_f1: The highest F1 that any rule reaches, in [0, 1].
    """

    name: str
    kind: str
    num_rows: int
    values: Mapping[str, float]
    lows: Mapping[str, float]
    highs: Mapping[str, float]
    best_shortcut: str
    shortcut_balanced_accuracy: float
    shortcut_f1: float

    @property
    def beats_shortcuts(self) -> bool:
        """Whether balanced accuracy is above that of every rule."""
        return self.values.get("balanced_accuracy", 0.0) > self.shortcut_balanced_accuracy


@dataclass(frozen=True, slots=True)
class Results:
    """An evaluation of the weights.

    Attributes:
        raw: The report, paths hidden.
        slices: In the report's order.
    """

    raw: Mapping[str, Any]
    slices: tuple[SliceResult, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Results:
        """Read a report.

        Raises:
            ValueError: It is none.
        """
        try:
            return cls(hide_paths(raw), tuple(_to_slice(part) for part in raw["slices"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it is no evaluation: {error!r}") from error

    @property
    def weights_sha256(self) -> object:
        """Which adapter was judged."""
        return self.raw["provenance"].get(WEIGHTS_KEY)

    def find(self, name: str) -> SliceResult | None:
        """Return the slice of that name, None where there is none."""
        return next((part for part in self.slices if part.name == name), None)

    @property
    def overall(self) -> SliceResult | None:
        """All rows together."""
        return self.find(OVERALL)

    @property
    def length_matched(self) -> SliceResult | None:
        """Rows whose pair has responses of one length, so that length says nothing."""
        return self.find(LENGTH_MATCHED)

    def golden_metrics(self) -> dict[str, float]:
        """Return ``slice/metric`` -> value, what later weights are compared with."""
        return {
            f"{part.name}/{name}": part.values[name]
            for part in self.slices
            if part.kind != SliceKind.MACRO
            for name in _GOLDEN
            if name in part.values
        }


def _to_slice(raw: Mapping[str, Any]) -> SliceResult:
    metrics = {name: each for name, each in raw["metrics"].items() if each is not None}
    return SliceResult(
        name=str(raw["name"]),
        kind=str(raw["kind"]),
        num_rows=int(raw["num_rows"]),
        values={name: float(each["value"]) for name, each in metrics.items()},
        lows={name: float(each["low"]) for name, each in metrics.items()},
        highs={name: float(each["high"]) for name, each in metrics.items()},
        best_shortcut=str(raw["best_shortcut"]),
        shortcut_balanced_accuracy=max(each["balanced_accuracy"] for each in raw["shortcuts"]),
        shortcut_f1=max(each["f1"] for each in raw["shortcuts"]),
    )


def find_results(folder: Path, weights_sha256: str) -> Results | None:
    """Return the newest evaluation of these very weights; None where there is none.

    A report on verdicts without a justification is passed over: the service gives one by default.

    Args:
        folder: Of the run's reports.
        weights_sha256: From ``merging.hash_adapter``.
    """
    found = []
    for path in folder.glob("*.json"):
        if path.stem.endswith(SHORT_PATH_SUFFIX):
            continue
        try:
            results = Results.of(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            continue
        if results.weights_sha256 == weights_sha256:
            found.append((path.stat().st_mtime_ns, path.name, results))
    return max(found, key=lambda each: each[:2])[2] if found else None


def read_calibration(folder: Path, weights_sha256: str) -> Calibration:
    """Read what ``evaluate`` fitted.

    Raises:
        ExportError: It is missing, is no calibration, or is of other weights.
    """
    path = folder / CALIBRATION_NAME
    remedy = "run `python -m training evaluate` first"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        calibration = Calibration(float(raw["temperature"]), float(raw["threshold"]))
        owner = raw.get(WEIGHTS_KEY, weights_sha256)
    except FileNotFoundError as error:
        raise ExportError(f"{path} is missing: {remedy}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExportError(f"{path} is no calibration ({error}): {remedy}") from error
    if owner != weights_sha256:
        raise ExportError(f"{path} was fitted on other weights: {remedy}")
    return calibration


def read_data_revisions(manifest: Path) -> dict[str, str]:
    """Return set name -> revision, from what ``prepare`` wrote.

    Raises:
        ExportError: It is missing or is no manifest.
    """
    try:
        sets = json.loads(manifest.read_text(encoding="utf-8"))["sets"]
        return {str(name): str(each["revision"]) for name, each in sets.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExportError(
            f"{manifest} does not tell what the weights were trained on ({error!r}): run "
            "`python -m training prepare` first"
        ) from error


def read_training_commit(marker: Path) -> str | None:
    """Return the commit that a training stage ran from; None where it was not recorded.

    Args:
        marker: The stage's ``DONE``.

    Raises:
        ExportError: The stage ran under another contract than this code's.
    """
    try:
        mark = json.loads(marker.read_text(encoding="utf-8"))
        commit, contract = mark.get("commit"), mark.get("inputs", {}).get("contract")
    except (OSError, ValueError, AttributeError):
        return None
    # As ``training/inputs.py`` writes it.
    ours = f"version {CONTRACT_VERSION}, {fingerprint()}"
    if contract not in (None, ours):
        raise ExportError(
            f"the adapter was trained under contract {contract}, this code speaks {ours}: check "
            f"out the commit that trained it ({commit or 'not recorded'}), or train again"
        )
    return commit if isinstance(commit, str) else None


def find_paths(text: str) -> list[str]:
    """Return the absolute paths in a text, which ``hide_paths`` would cut down.

    Example:
        >>> find_paths('{"file": "/data/own.csv", "url": "https://example.org/a/b"}')
        ['/data/own.csv']
    """
    return [match[0] for match in _PATH.finditer(text)]


def hide_paths(value: Any) -> Any:
    """Return JSON values with every absolute path cut down to its last name.

    Example:
        >>> hide_paths({"command": "evaluate /data/runs/a --data-dir=~/sets", "url": "http://x/y/z"})
        {'command': 'evaluate a --data-dir=sets', 'url': 'http://x/y/z'}
    """
    if isinstance(value, str):
        return _PATH.sub(lambda match: match[1] or match[2], value)
    if isinstance(value, Mapping):
        return {key: hide_paths(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [hide_paths(each) for each in value]
    return value
