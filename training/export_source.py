"""What is exported, and all that is known of it: adapter, base, contract, results."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contract.manifest import CONTRACT_VERSION, Manifest, fingerprint, read_manifest
from evaluation.baseline import Baseline
from training.baselines import find_baseline
from training.config import RunConfig
from training.inputs import DATA
from training.merging import check_plain, hash_adapter, hash_file
from training.models import TINY, Codec, base_folder, load_policy, load_tokenizer
from training.results import (
    Results,
    find_results,
    read_calibration,
    read_data_revisions,
    read_training_commit,
)
from training.runs import DONE, RunFolder

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class _Origin:
    """The base model under its public name, never a path of this machine."""

    name: str
    revision: str


@dataclass(frozen=True, slots=True)
class ExportSource:
    """A trained adapter with its base.

    Attributes:
        config: Of the run.
        base: Folder of the base weights.
        adapter: Folder of the trained adapter.
        weights_sha256: From ``hash_adapter``.
        manifest: As ``contract.json`` will say it.
        results: Evaluation of these weights; None where there is none.
        baseline: Of these weights, on the golden set; None where there is none.
        codec: Of the base.
    """

    config: RunConfig
    base: Path
    adapter: Path
    weights_sha256: str
    manifest: Manifest
    results: Results | None
    baseline: Baseline | None
    codec: Codec

    def load(self, adapter: Path) -> PreTrainedModel:
        """Return the base and an adapter in float32."""
        config = self.config.model.model_copy(update={"dtype": "float32"})
        return load_policy(config, self.base, adapter, self.config.seed).eval()


def gather(config: RunConfig, run: RunFolder) -> ExportSource:
    """Find everything that an export needs, before any of it is computed.

    Raises:
        ExportError: Something is missing, is of other weights, or cannot be served.
        ModelError: No stage has trained an adapter, or the base model cannot be had.
    """
    adapter = run.last_adapter(config)
    weights_sha256 = hash_adapter(adapter)
    check_plain(adapter)
    calibration = read_calibration(run.evaluation, weights_sha256)
    results = find_results(run.evaluation, weights_sha256)
    baseline = find_baseline(run.evaluation, weights_sha256)
    data_revisions = read_data_revisions(run.path / DATA / "manifest.json")
    base = base_folder(config.model)
    codec = Codec(load_tokenizer(base))
    origin = _identify_base(config, base)
    manifest = Manifest(
        contract_version=CONTRACT_VERSION,
        fingerprint=fingerprint(),
        label_token_ids=codec.label_token_ids,
        calibration=calibration,
        base_model=origin.name,
        base_revision=origin.revision,
        trained=True,
        data_revisions=data_revisions,
        training_commit=read_training_commit(adapter.parent / DONE),
        golden_metrics={} if results is None else results.golden_metrics(),
        weights_sha256=weights_sha256,
    )
    return ExportSource(config, base, adapter, weights_sha256, manifest, results, baseline, codec)


def _identify_base(config: RunConfig, base: Path) -> _Origin:
    if config.model.name == TINY:
        return _Origin(TINY, f"seed-{config.seed}")
    if config.model.is_on_hub and not Path(config.model.name).is_dir():
        return _Origin(config.model.name, str(config.model.revision))
    manifest = read_manifest(base)
    if manifest is not None:
        return _Origin(manifest.base_model, manifest.base_revision)
    digests = " ".join(hash_file(path) for path in sorted(base.glob("*.safetensors")))
    digest = hashlib.sha256(digests.encode()).hexdigest()
    return _Origin(base.resolve().name, f"sha256:{digest}")
