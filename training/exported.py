"""``export.json``: what an exported folder holds, and that it was compared with what was trained.

``export`` writes it last; ``push`` uploads the files that it lists and no others, and only while
each still has its hash.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from contract.manifest import CONTRACT_VERSION
from training.comparison import Comparison
from training.config import ExportConfig
from training.errors import ExportError
from training.merging import hash_file
from training.runs import write_json

RECORD_NAME = "export.json"
CARD_NAME = "README.md"
RESULTS_NAME = "evaluation.json"
TRAINING_CONFIG_NAME = "training_config.json"


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """The content of ``export.json``.

    Attributes:
        kind: ``merged`` or ``adapter``.
        dtype: Number format of the tensors.
        weights_sha256: Hash of the trained adapter that the export was made from.
        comparison: How its answers differ from the trained weights'.
        files: Name -> SHA-256 of every other file.
    """

    kind: str
    dtype: str
    weights_sha256: str
    comparison: Comparison
    files: Mapping[str, str]


def write_record(
    folder: Path, kind: str, dtype: str, weights_sha256: str, comparison: Comparison
) -> ExportRecord:
    """Hash every file of the folder and write the record."""
    files = {path.name: hash_file(path) for path in sorted(folder.iterdir()) if path.is_file()}
    files.pop(RECORD_NAME, None)
    record = ExportRecord(kind, dtype, weights_sha256, comparison, files)
    write_json(folder / RECORD_NAME, asdict(record))
    return record


def read_record(folder: Path) -> ExportRecord:
    """Read the record of an exported folder.

    Raises:
        ExportError: There is none, or it is not whole.
    """
    path = folder / RECORD_NAME
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        comparison = Comparison(**raw.pop("comparison"))
        record = ExportRecord(comparison=comparison, **raw)
        names = [str(name) for name in record.files]
    except FileNotFoundError as error:
        raise ExportError(
            f"{folder} holds no finished export ({RECORD_NAME} is missing): run "
            "`python -m training export` first"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExportError(
            f"{path} cannot be read ({error}): run `python -m training export` again"
        ) from error
    if any(Path(name).name != name for name in names):
        raise ExportError(f"{path} names files outside its folder: export again")
    return record


def release_tag(config: ExportConfig, weights_sha256: str) -> str:
    """Return the tag that ``push`` sets: ``export.tag``, or one that names contract and weights.

    Example:
        >>> release_tag(ExportConfig(), "0123456789abcdef")
        'v1-01234567'
    """
    return config.tag or f"v{CONTRACT_VERSION}-{weights_sha256[:8]}"


def find_changed_files(folder: Path, record: ExportRecord) -> Iterator[str]:
    """Yield what differs from the record: files that are missing or have other content."""
    for name, digest in record.files.items():
        path = folder / name
        if not path.is_file():
            yield f"{name} is missing"
        elif hash_file(path) != digest:
            yield f"{name} was changed after the export"
