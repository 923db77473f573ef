"""What must hold of an export before it leaves: each fault is one line that says what to do.

All of it is looked up on this machine; the Hub is not asked.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from contract.errors import ManifestError
from contract.manifest import MANIFEST_NAME, check_manifest, read_manifest
from training.baselines import BASELINE_NAME
from training.comparison import FULL_PRECISION, MIN_LABEL_AGREEMENT
from training.config import RunConfig
from training.exported import CARD_NAME, RESULTS_NAME, ExportRecord, find_changed_files
from training.merging import ADAPTER_CONFIG, ADAPTER_TENSORS, hash_adapter
from training.model_card import SECTIONS
from training.results import Results, SliceResult, find_paths
from training.runs import RunFolder

MAX_UNREADABLE_RATE = 0.02
"""Share of replies without a verdict above which weights are not pushed."""

CHANCE = 0.5
"""Balanced accuracy of a constant answer."""

_AGAIN = "run `python -m training export` again"
_NEEDED = {
    "merged": ("config.json", "generation_config.json", "tokenizer.json", MANIFEST_NAME),
    "adapter": (ADAPTER_CONFIG, ADAPTER_TENSORS, MANIFEST_NAME),
}
_DOCUMENTS = (".json", ".md")
# A vocabulary holds pieces of anybody's paths: there, only this machine's own folders count.
_VOCABULARIES = ("tokenizer.json", "vocab.json", "added_tokens.json")
_TOKEN = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\bsk-[A-Za-z0-9_-]{20,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bAKIA[A-Z0-9]{16}\b"
)
_MAX_TEXT_BYTES = 64_000_000


def find_faults(config: RunConfig, run: RunFolder, record: ExportRecord) -> list[str]:
    """Return why the run's export must not be pushed; nothing where it may.

    Args:
        config: Of the run.
        run: Its folder.
        record: Of the export in it.
    """
    folder = run.export
    return [
        *_check_files(config, folder, record),
        *_check_origin(config, run, record),
        *_check_contract(folder),
        *_check_comparison(record),
        *_check_results(folder, record),
        *_check_card(folder),
        *_check_leaks(run, record),
    ]


def find_warnings(record: ExportRecord) -> list[str]:
    """Return what an export should have and may be pushed without.

    Args:
        record: Of the export.
    """
    if BASELINE_NAME in record.files:
        return []
    return [
        f"the export has no {BASELINE_NAME}, so nobody can compare a deployment with it: serve it, "
        f"run `python -m evaluation baseline` with --out evaluation/{BASELINE_NAME} in the run's "
        "folder, then export again"
    ]


def _check_files(config: RunConfig, folder: Path, record: ExportRecord) -> Iterator[str]:
    for fault in find_changed_files(folder, record):
        yield f"{fault}: {_AGAIN}"
    asked = (config.export.kind, config.export.dtype)
    if (record.kind, record.dtype) != asked:
        yield (
            f"the export is {record.kind} in {record.dtype}, the configuration says {asked[0]} in "
            f"{asked[1]}: {_AGAIN}"
        )
    names = set(record.files)
    missing = [name for name in _NEEDED.get(record.kind, ()) if name not in names]
    if record.kind == "merged" and not any(name.endswith(".safetensors") for name in names):
        missing.append("*.safetensors")
    if missing:
        yield f"the export lacks {', '.join(missing)}: {_AGAIN}"


def _check_origin(config: RunConfig, run: RunFolder, record: ExportRecord) -> Iterator[str]:
    if hash_adapter(run.last_adapter(config)) != record.weights_sha256:
        yield f"the weights were trained on after the export: evaluate, then {_AGAIN}"


def _check_contract(folder: Path) -> Iterator[str]:
    try:
        manifest = read_manifest(folder)
        if manifest is None:
            yield f"{MANIFEST_NAME} is missing: {_AGAIN}"
            return
        check_manifest(manifest)
        if not manifest.trained:
            yield f"{MANIFEST_NAME} says that nobody trained these weights: {_AGAIN}"
    except ManifestError as error:
        yield str(error)


def _check_comparison(record: ExportRecord) -> Iterator[str]:
    found = record.comparison
    is_full = found.dtype == FULL_PRECISION
    share = found.equal_reply_share if is_full else found.label_agreement
    if share < (1.0 if is_full else MIN_LABEL_AGREEMENT):
        yield f"the exported weights did not answer as the trained ones ({share:.1%}): {_AGAIN}"


def _check_results(folder: Path, record: ExportRecord) -> Iterator[str]:
    remedy = "run `python -m training evaluate`, then `export`"
    try:
        results = Results.of(json.loads((folder / RESULTS_NAME).read_text(encoding="utf-8")))
    except FileNotFoundError:
        yield f"these weights were not evaluated: {remedy}"
        return
    except (OSError, ValueError) as error:
        yield f"{RESULTS_NAME} cannot be read ({error}): {remedy}"
        return
    if results.weights_sha256 != record.weights_sha256:
        yield f"{RESULTS_NAME} is of other weights: {remedy}"
    overall = results.overall
    if overall is None:
        yield f"{RESULTS_NAME} has no overall figures: {remedy}"
        return
    unreadable = overall.values.get("unreadable_rate", 1.0)
    if unreadable > MAX_UNREADABLE_RATE:
        yield (
            f"{unreadable:.1%} of the replies are unreadable, at most {MAX_UNREADABLE_RATE:.0%} "
            "may be: a longer warm start (warmstart.epochs), or a lower rewards.unreadable"
        )
    if overall.values.get("balanced_accuracy", 0.0) <= CHANCE:
        yield "overall balanced accuracy is no better than a constant answer: train longer"
    yield from _check_against_rules(results.length_matched or overall)


def _check_against_rules(part: SliceResult) -> Iterator[str]:
    if part.beats_shortcuts:
        return
    own = part.values.get("balanced_accuracy", 0.0)
    yield (
        f"on {part.name} rows balanced accuracy is {own:.3f}, and the rule {part.best_shortcut!r} "
        f"reaches {part.shortcut_balanced_accuracy:.3f} without reading: train with "
        "data.treatment on, or longer, and report these weights in docs instead of pushing them"
    )


def _check_card(folder: Path) -> Iterator[str]:
    try:
        text = (folder / CARD_NAME).read_text(encoding="utf-8")
    except OSError as error:
        yield f"{CARD_NAME} cannot be read ({error}): {_AGAIN}"
        return
    begin, _, rest = text.partition("\n---\n")
    if not begin.startswith("---\n") or "\nlicense: " not in begin:
        yield f"{CARD_NAME} has no front matter with a licence: {_AGAIN}"
    headings = re.findall(r"(?m)^## (.+)$", rest)
    missing = [title for title in SECTIONS if title not in headings]
    if missing:
        yield f"{CARD_NAME} lacks {', '.join(missing)}: {_AGAIN}"


def _check_leaks(run: RunFolder, record: ExportRecord) -> Iterator[str]:
    own = [run.path.resolve(), Path.home(), Path.cwd(), Path(tempfile.gettempdir())]
    # Not /tmp or /root: short enough to be a word of a vocabulary.
    own_texts = [f"{path}/" for path in own if len(path.parts) > 2]
    for name in record.files:
        text = _read_text(run.export / name)
        if _TOKEN.search(text):
            yield f"{name} holds what looks like an access token: revoke it, then {_AGAIN}"
        found = [path for path in own_texts if path in text]
        if name.endswith(_DOCUMENTS) and name not in _VOCABULARIES:
            found += find_paths(text)
        if found:
            yield f"{name} names a folder of this machine ({found[0]}): {_AGAIN}"


def _read_text(path: Path) -> str:
    """Return a file's text; of weights, only the header, which names things too."""
    try:
        with path.open("rb") as stream:
            if path.suffix == ".safetensors":
                length = int.from_bytes(stream.read(8), "little")
                return stream.read(min(length, _MAX_TEXT_BYTES)).decode("utf-8", "replace")
            return stream.read(_MAX_TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""  # that it is missing is told elsewhere
