"""From the setting ``model`` to a verified folder."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.stub_hub import COMMIT, safetensors_bytes, stub_hub, tiny_weights, write_files

from contract.calibration import Calibration
from contract.labels import Label
from contract.manifest import CONTRACT_VERSION, Manifest, fingerprint, write_manifest
from service.errors import WeightsError
from service.settings import Settings
from service.weights import Weights, hash_folder, resolve_weights

MANIFEST = Manifest(
    contract_version=CONTRACT_VERSION,
    fingerprint=fingerprint(),
    label_token_ids={Label.HALLUCINATION: 5, Label.CORRECT: 6},
    calibration=Calibration(temperature=1.5, threshold=0.4),
    base_model="acme/base",
    base_revision=COMMIT,
    trained=True,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_files(tmp_path / "tiny", tiny_weights())
    write_manifest(folder, MANIFEST)
    return folder


def resolve(model: str | Path, **changes: Any) -> Weights:
    return resolve_weights(Settings(model=str(model), **changes), lambda text: None)


def test_a_folder_is_taken_as_it_is(folder: Path) -> None:
    weights = resolve(folder)
    assert weights == Weights(folder, "tiny", hash_folder(folder), MANIFEST)
    assert len(weights.revision) == 16


def test_a_relative_folder_wins_over_a_repository_of_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(folder, folder.parent / "acme" / "tiny")
    monkeypatch.chdir(folder.parent)
    assert resolve("acme/tiny").model_id == "tiny"
    assert resolve("./tiny").manifest == MANIFEST


def test_a_commit_on_the_hub_is_fetched_and_verified(folder: Path, tmp_path: Path) -> None:
    contract = (folder / "contract.json").read_bytes()
    with stub_hub(tiny_weights(contract)) as hub:
        changes = {"hub_endpoint": hub.endpoint, "cache_dir": tmp_path / "cache"}
        weights = resolve(f"acme/tiny@{COMMIT}", **changes)
        assert (weights.model_id, weights.revision) == ("acme/tiny", COMMIT)
        assert weights.manifest == MANIFEST
        assert resolve("acme/tiny@main", **changes) == weights


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("acme/tiny", "pin one, such as acme/tiny@main"),
        ("tiny", "tiny is no model: name `embedded`, a folder"),
        ("acme/tiny@", "is no model"),
        ("a/b/c@main", "is no model"),
        ("/nowhere/weights", "/nowhere/weights does not exist: name a folder"),
        ("./nowhere", "nowhere does not exist"),
        (__file__, "is a file: name a folder of weights"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_with_what_would(model: str, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        resolve(model)


def cut(path: Path, num_bytes: int) -> None:
    os.truncate(path, path.stat().st_size - num_bytes)


INDEX = '{"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}'
FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no-config": (lambda f: (f / "config.json").unlink(), "has no config.json"),
    "no-tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "has no tokenizer.json"),
    "no-weights": (lambda f: (f / "model.safetensors").unlink(), r"has no \*.safetensors file"),
    "cut-tensors": (
        lambda f: cut(f / "model.safetensors", 7),
        r"model.safetensors is not whole: it has (\d+) of \d+ bytes. Copy or export",
    ),
    "cut-header": (
        lambda f: os.truncate(f / "model.safetensors", 30),
        "model.safetensors is cut off, or no safetensors file",
    ),
    "empty-file": (
        lambda f: os.truncate(f / "model.safetensors", 0),
        "model.safetensors is cut off, or no safetensors file",
    ),
    "pointer": (
        lambda f: (f / "model.safetensors").write_text("version https://git-lfs.github.com"),
        "no safetensors file",
    ),
    "bytes-too-many": (
        lambda f: (f / "model.safetensors").write_bytes(safetensors_bytes(3) + b"x"),
        "model.safetensors is not whole",
    ),
    "no-shard": (
        lambda f: (f / "model.safetensors.index.json").write_text(INDEX),
        "lacks model-00002-of-00002.safetensors, which model.safetensors.index.json names",
    ),
    "bad-index": (
        lambda f: (f / "model.safetensors.index.json").write_text("[]"),
        "model.safetensors.index.json is not an index",
    ),
    "no-contract": (
        lambda f: (f / "contract.json").unlink(),
        "has no contract.json.*DETECTOR_ALLOW_MISSING_CONTRACT=1",
    ),
    "bad-contract": (
        lambda f: (f / "contract.json").write_text("{}"),
        "contract.json is not a contract manifest",
    ),
    "other-contract": (
        lambda f: (f / "contract.json").write_text(
            (f / "contract.json").read_text().replace(fingerprint(), "0123456789abcdef")
        ),
        r"were trained under contract version 1 \(fingerprint 0123456789abcdef\).*Check out",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), FAULTS.values(), ids=FAULTS)
def test_a_folder_with_a_fault_is_refused(
    folder: Path, spoil: Callable[[Path], Any], message: str
) -> None:
    spoil(folder)
    with pytest.raises(WeightsError, match=message):
        resolve(folder)


def test_a_vocabulary_beside_its_configuration_is_a_tokenizer_too(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "vocab.json")
    (folder / "tokenizer_config.json").write_text("{}")
    assert resolve(folder).folder == folder


def test_every_shard_is_read(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(INDEX)
    (folder / "model-00002-of-00002.safetensors").write_bytes(safetensors_bytes(9))
    assert resolve(folder).manifest == MANIFEST


def test_weights_without_a_contract_need_leave(folder: Path) -> None:
    (folder / "contract.json").unlink()
    assert resolve(folder, allow_missing_contract=True).manifest is None


def test_a_foreign_contract_is_refused_even_with_leave(folder: Path) -> None:
    FAULTS["other-contract"][0](folder)
    with pytest.raises(WeightsError, match="Check out"):
        resolve(folder, allow_missing_contract=True)


def test_the_revision_of_a_folder_follows_its_content_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").write_bytes(safetensors_bytes(600_000, 0.5))
    before = hash_folder(folder)
    assert hash_folder(Path(shutil.copytree(folder, tmp_path / "copy"))) == before
    # Trained on: same names, shapes and sizes, other values.
    (folder / "model.safetensors").write_bytes(safetensors_bytes(600_000, 0.25))
    assert hash_folder(folder) != before
    (folder / "model.safetensors").write_bytes(safetensors_bytes(600_000, 0.5))
    assert hash_folder(folder) == before
    with (folder / "model.safetensors").open("r+b") as stream:  # the very last value
        stream.seek(-4, os.SEEK_END)
        stream.write(struct.pack("<f", 0.25))
    assert hash_folder(folder) != before
