"""Where the weights come from: embedded | a folder | org/repo@revision -> a verified folder."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.errors import ManifestError
from contract.manifest import MANIFEST_NAME, Manifest, check_manifest, read_manifest
from service.cache import Progress
from service.embedded import prepare_embedded
from service.errors import WeightsError
from service.settings import Settings

EMBEDDED = "embedded"
"""What the settings call the model that comes with the service."""

_REPOSITORY = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^\s@]+))?")
_INDEX_NAME = "model.safetensors.index.json"
_VOCABULARIES = ("vocab.json", "vocab.txt", "tokenizer.model")
_MAX_HEADER_BYTES = 100 * 1000**2  # the limit of the format's own reader
_WHOLE_BELOW_BYTES = 1024**2
_SAMPLES = 64
_SAMPLE_BYTES = 4096


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


def resolve_weights(settings: Settings, progress: Progress) -> Weights:
    """Find, fetch or prepare the weights of ``settings.model``, and verify them. Blocking.

    Args:
        settings: What to serve, and from where.
        progress: Told what is going on; what it raises ends the work.

    Raises:
        WeightsError: They cannot be had, are not whole, or are not the contract's.
    """
    model = settings.model
    path = Path(model).expanduser()
    name = _REPOSITORY.fullmatch(model)
    try:
        if model == EMBEDDED:
            folder = prepare_embedded(settings.cache_dir, progress)
            _verify_folder(folder, "Delete the folder and start again: it will be prepared anew")
            return _checked(folder, EMBEDDED, folder.name, settings)
        if path.exists() or model.startswith(("/", "./", "../", "~")):
            _verify_folder(path, "Copy or export the weights again")
            return _checked(path, path.resolve().name, hash_folder(path), settings)
        if name is None:
            raise WeightsError(
                f"{model} is no model: name `embedded`, a folder of weights that exists, or "
                "org/repo@revision on the Hugging Face Hub"
            )
        repo, revision = name.groups()
        if revision is None:
            raise WeightsError(
                f"{model} is neither a folder nor a revision on the Hub: pin one, such as "
                f"{model}@main (the commit that it stands for is logged, and better still)"
            )
        # Only here: the Hub's client takes a while to import.
        from service.hub import fetch_snapshot

        folder, commit = fetch_snapshot(repo, revision, settings, progress)
        # A file that was cut down in the cache has been fetched again by now.
        _verify_folder(folder, f"Name another revision, or delete {folder} to fetch it again")
        return _checked(folder, repo, commit, settings)
    except OSError as error:
        raise WeightsError(f"cannot read the weights of {model}: {error}") from error


def _checked(folder: Path, model_id: str, revision: str, settings: Settings) -> Weights:
    try:
        manifest = read_manifest(folder)
        if manifest is not None:
            check_manifest(manifest)
    except ManifestError as error:
        raise WeightsError(str(error)) from error
    if manifest is None and not settings.allow_missing_contract:
        raise WeightsError(
            f"{folder} has no {MANIFEST_NAME}, so nobody trained these weights for this service. "
            "Serve weights that its training exported, or set DETECTOR_ALLOW_MISSING_CONTRACT=1 to "
            "serve them all the same; every answer then says so"
        )
    return Weights(folder, model_id, revision, manifest)


def _verify_folder(folder: Path, remedy: str) -> None:
    """Check that every file an engine needs is there, and that no weights are cut off.

    Raises:
        WeightsError: Names the file, and the remedy.
    """
    if not folder.is_dir():
        state = "is a file" if folder.exists() else "does not exist"
        raise WeightsError(f"{folder} {state}: name a folder of weights")
    if not (folder / "config.json").is_file():
        raise WeightsError(f"{folder} has no config.json, so it is no folder of weights. {remedy}")
    has_vocabulary = any((folder / name).is_file() for name in _VOCABULARIES)
    if not (folder / "tokenizer.json").is_file() and not (
        has_vocabulary and (folder / "tokenizer_config.json").is_file()
    ):
        raise WeightsError(f"{folder} has no tokenizer.json. {remedy}")
    for shard in _read_index(folder / _INDEX_NAME, remedy):
        if not (folder / shard).is_file():
            raise WeightsError(f"{folder} lacks {shard}, which {_INDEX_NAME} names. {remedy}")
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise WeightsError(
            f"{folder} has no *.safetensors file, and no other format is served. {remedy}"
        )
    for path in paths:
        _verify_safetensors(path, remedy)


def _read_index(path: Path, remedy: str) -> list[str]:
    if not path.is_file():
        return []
    try:
        return sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise WeightsError(f"{path} is not an index of safetensors files. {remedy}") from error


def _verify_safetensors(path: Path, remedy: str) -> None:
    size_bytes = path.stat().st_size
    try:
        whole_bytes = _declared_bytes(path)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error) as error:
        raise WeightsError(f"{path} is cut off, or no safetensors file. {remedy}") from error
    if size_bytes != whole_bytes:
        raise WeightsError(
            f"{path} is not whole: it has {size_bytes} of {whole_bytes} bytes. {remedy}"
        )


def _declared_bytes(path: Path) -> int:
    """Return the size that the header tells; the tensors are not read.

    The format: 8 bytes of header length, little-endian, a JSON header, the tensors' bytes.
    """
    with path.open("rb") as stream:
        (header_bytes,) = struct.unpack("<Q", stream.read(8))
        if header_bytes > _MAX_HEADER_BYTES:
            raise ValueError("no header has this length")
        header: dict[str, dict[str, Any]] = json.loads(stream.read(header_bytes))
    ends = [int(row["data_offsets"][1]) for name, row in header.items() if name != "__metadata__"]
    return 8 + int(header_bytes) + max(ends, default=0)


def hash_folder(folder: Path) -> str:
    """Return a revision for a folder of weights, 16 hex digits, without reading all of it.

    Hashed are each file's name and size, the whole content of files below 1 MiB, and of larger ones
    64 samples of 4 KiB, evenly spread from the first byte to the last: a header (names and shapes)
    and, in weights that were trained on, some of every few layers. It tells versions apart; it is
    no proof against someone who changes bytes between the samples.
    """
    hashed = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        size_bytes = path.stat().st_size
        hashed.update(f"{path.name}\0{size_bytes}\0".encode())
        with path.open("rb") as stream:
            if size_bytes < _WHOLE_BELOW_BYTES:
                hashed.update(stream.read())
                continue
            for i in range(_SAMPLES):
                stream.seek(i * (size_bytes - _SAMPLE_BYTES) // (_SAMPLES - 1))
                hashed.update(stream.read(_SAMPLE_BYTES))
    return hashed.hexdigest()[:16]
