"""The export stage: trained weights with all that the service checks, compared before they count.

    python -m training export training/configs/embedded.toml

``merged`` is a folder that the service loads; ``adapter`` is what goes into ``service/adapter``.
Either way it is written into a partial folder, loaded again from there, asked the same prompts as
the trained weights, and takes its name only if the answers agree.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import math
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contract.manifest import CONTRACT_VERSION, Manifest, fingerprint, read_manifest, write_manifest
from training.comparison import Answer, Comparison, ask_probes, compare_answers
from training.config import RunConfig
from training.errors import ExportError
from training.exported import (
    CARD_NAME,
    RECORD_NAME,
    RESULTS_NAME,
    TRAINING_CONFIG_NAME,
    write_record,
)
from training.inputs import DATA
from training.merging import (
    ADAPTER_TENSORS,
    check_plain,
    hash_adapter,
    hash_file,
    merge_and_cast,
    save_adapter,
    save_merged,
)
from training.model_card import card
from training.models import EMBEDDED, TINY, Codec, base_folder, load_policy, load_tokenizer
from training.provenance import find_versions
from training.results import (
    Results,
    find_results,
    hide_paths,
    read_calibration,
    read_data_revisions,
    read_training_commit,
)
from training.runs import (
    DONE,
    STARTED,
    RunFolder,
    is_disk_full,
    whole_folder,
    write_json,
    write_text,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

MAX_EMBEDDED_BYTES = 25_000_000
"""An adapter of the embedded model is committed with the code, so it must stay small."""

# Copied as they are: a tokenizer that is loaded and saved again need not give the same tokens.
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
)
_DOCUMENT_BYTES = 4_000_000  # card, reports, configuration: far less in fact
_ITEM_BYTES = {"float32": 4, "bfloat16": 2}
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class _Origin:
    """The base model under its public name, never a path of this machine."""

    name: str
    revision: str


@dataclass(frozen=True, slots=True)
class _Source:
    """What is exported, and what is known of it."""

    config: RunConfig
    base: Path
    adapter: Path
    weights_sha256: str
    manifest: Manifest
    results: Results | None
    codec: Codec

    def load(self, adapter: Path) -> PreTrainedModel:
        """Return the base and an adapter in float32, on the GPU where there is one."""
        import torch

        config = self.config.model.model_copy(update={"dtype": "float32"})
        policy = load_policy(config, self.base, adapter, self.config.seed)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return policy.to(device).eval()


def export(config: RunConfig, run: RunFolder, target: Path | None = None) -> Path:
    """Export the run's last adapter and return the folder.

    Args:
        config: Of the run.
        run: Its folder, trained and evaluated.
        target: Where to; the run's own ``export`` where None. An earlier export there is replaced.

    Raises:
        ExportError: Something is missing, the disk is full, the target is no export, or the
            exported weights do not answer as the trained ones.
        ModelError: No stage has trained an adapter, or the base model cannot be had.
    """
    target = target or run.export
    _check_target(target)
    source = _gather(config, run)
    if source.results is None:
        logger.warning(
            "%s holds no evaluation of these weights: the card will have no results, and `push` "
            "will refuse. Run `python -m training evaluate`, then export again",
            run.evaluation,
        )
    logger.info("asking the trained weights for their answers")
    policy = source.load(source.adapter)
    before = ask_probes(policy, source.codec)
    needed_bytes = _estimate_bytes(source, policy)
    with _disk_errors(target, needed_bytes), whole_folder(target) as partial:
        if shutil.disk_usage(partial).free < needed_bytes:
            raise OSError(errno.ENOSPC, "too little room")
        if config.export.kind == "merged":
            _write_merged(source, policy, partial)
        else:
            _write_adapter(source, partial)
        del policy
        comparison = _compare(source, before, partial)
        _write_documents(source, comparison, partial)
        write_record(
            partial, config.export.kind, config.export.dtype, source.weights_sha256, comparison
        )
        _check_size(config, partial)
    logger.info(
        "%s: %s weights in %s; of %d answers %.0f %% are the same text, %.0f %% the same class",
        target,
        config.export.kind,
        config.export.dtype,
        comparison.num_prompts,
        100 * comparison.equal_reply_share,
        100 * comparison.label_agreement,
    )
    return target


def _check_target(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise ExportError(f"{target} is a file: name a folder")
    if (target / RECORD_NAME).is_file():
        return
    if any(path.name not in (STARTED, DONE) for path in target.iterdir()):
        raise ExportError(
            f"{target} holds something that is no export, and it would be replaced: name a folder "
            "that does not exist yet"
        )


def _gather(config: RunConfig, run: RunFolder) -> _Source:
    adapter = run.last_adapter(config)
    weights_sha256 = hash_adapter(adapter)
    check_plain(adapter)
    calibration = read_calibration(run.evaluation, weights_sha256)
    results = find_results(run.evaluation, weights_sha256)
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
    )
    return _Source(config, base, adapter, weights_sha256, manifest, results, codec)


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


def _estimate_bytes(source: _Source, policy: PreTrainedModel) -> int:
    item_bytes = _ITEM_BYTES[source.config.export.dtype]
    if source.config.export.kind == "adapter":
        # Trained in float32, so no export of it is larger.
        return (source.adapter / ADAPTER_TENSORS).stat().st_size + _DOCUMENT_BYTES
    # Tied weights are one tensor, and are written once.
    sizes = {parameter.data_ptr(): int(parameter.numel()) for parameter in policy.parameters()}
    tokenizer = sum((source.base / name).stat().st_size for name in _tokenizer_names(source.base))
    return sum(sizes.values()) * item_bytes + tokenizer + _DOCUMENT_BYTES


def _tokenizer_names(base: Path) -> list[str]:
    return [name for name in _TOKENIZER_FILES if (base / name).is_file()]


@contextmanager
def _disk_errors(target: Path, needed_bytes: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise ExportError(
                f"the disk that holds {target} is full: {needed_bytes} bytes are needed. Free some "
                "space (older checkpoint-N folders), or name another folder with --target. "
                "Nothing half-written is left"
            ) from error
        if error.errno in _NOT_WRITABLE:
            raise ExportError(
                f"{target} cannot be written ({error}): name another folder with --target"
            ) from error
        raise


def _write_merged(source: _Source, policy: PreTrainedModel, folder: Path) -> None:
    logger.info("merging the adapter in float32 and writing the weights")
    save_merged(merge_and_cast(policy, source.config.export.dtype), folder)
    for name in _tokenizer_names(source.base):
        shutil.copyfile(source.base / name, folder / name)


def _write_adapter(source: _Source, folder: Path) -> None:
    revision = source.manifest.base_revision
    save_adapter(
        source.adapter,
        folder,
        source.config.export.dtype,
        source.manifest.base_model,
        revision if _COMMIT.fullmatch(revision) else None,
    )
    check_plain(folder)


def _compare(source: _Source, before: list[Answer], folder: Path) -> Comparison:
    logger.info("loading what was written, and asking again")
    if source.config.export.kind == "adapter":
        answers = ask_probes(source.load(folder), source.codec)
    else:
        import torch
        from transformers import AutoModelForCausalLM

        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").to(device).eval()
        found = str(model.dtype).removeprefix("torch.")
        if found != source.config.export.dtype:
            raise ExportError(
                f"the weights came out as {found}, not {source.config.export.dtype}: this version "
                "of transformers saves otherwise than the locked one; install from requirements/"
            )
        codec = Codec(load_tokenizer(folder))
        if codec.label_token_ids != source.codec.label_token_ids:
            raise ExportError("the exported tokenizer gives other label tokens: export again")
        answers = ask_probes(model, codec)
    return compare_answers(before, answers, source.config.export.dtype)


def _write_documents(source: _Source, comparison: Comparison, folder: Path) -> None:
    write_manifest(folder, source.manifest)
    write_json(folder / TRAINING_CONFIG_NAME, _public_config(source))
    if source.results is not None:
        write_json(folder / RESULTS_NAME, source.results.raw)
    write_text(folder / CARD_NAME, card(source.config, source.manifest, source.results, comparison))


def _public_config(source: _Source) -> dict[str, object]:
    """Return the configuration without what tells of this machine or its network."""
    config = source.config.model_dump(mode="json")
    config["model"]["name"] = source.manifest.base_model
    config["rl"]["vllm_server_url"] = None
    for each in config["data"]["sets"]:
        each["file"] = each["file"] and Path(each["file"]).name
    return {
        "config": hide_paths(config),
        "commit": source.manifest.training_commit,
        "contract": {"version": CONTRACT_VERSION, "fingerprint": source.manifest.fingerprint},
        "data_revisions": dict(source.manifest.data_revisions),
        "libraries": find_versions(),
    }


def _check_size(config: RunConfig, folder: Path) -> None:
    total_bytes = sum(path.stat().st_size for path in folder.iterdir())
    is_shipped = config.model.name == EMBEDDED and config.export.kind == "adapter"
    if is_shipped and total_bytes > MAX_EMBEDDED_BYTES:
        half = math.ceil(total_bytes / MAX_EMBEDDED_BYTES)
        raise ExportError(
            f"the adapter has {total_bytes} bytes, at most {MAX_EMBEDDED_BYTES} are committed with "
            'the code: export with export.dtype = "bfloat16", or train with model.rank = '
            f"{max(1, config.model.rank // (half + 1))}"
        )
