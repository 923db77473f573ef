"""The export stage: trained weights with all that the service checks, compared before they count.

    python -m training export training/configs/embedded.toml

``merged`` is a folder that the service loads; ``adapter`` is what goes into ``service/adapter``.
Either way it is written into a partial folder, loaded again from there, asked the same prompts as
the trained weights, and takes its name only if the answers agree.
"""

from __future__ import annotations

import errno
import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from contract.manifest import CONTRACT_VERSION, write_manifest
from training.baselines import BASELINE_NAME
from training.comparison import Answer, Comparison, ask_probes, compare_answers
from training.config import RunConfig
from training.errors import ExportError
from training.export_source import ExportSource, gather
from training.exported import (
    CARD_NAME,
    RECORD_NAME,
    RESULTS_NAME,
    TRAINING_CONFIG_NAME,
    write_record,
)
from training.merging import (
    ADAPTER_TENSORS,
    check_plain,
    merge_and_cast,
    save_adapter,
    save_merged,
)
from training.model_card import card
from training.models import EMBEDDED, Codec, load_tokenizer, pick_device
from training.provenance import find_versions
from training.reference import find_reference
from training.results import hide_paths
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
    source = gather(config, run)
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
        check_size(config, partial)
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


def _estimate_bytes(source: ExportSource, policy: PreTrainedModel) -> int:
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


def _write_merged(source: ExportSource, policy: PreTrainedModel, folder: Path) -> None:
    logger.info("merging the adapter in float32 and writing the weights")
    save_merged(merge_and_cast(policy, source.config.export.dtype), folder)
    for name in _tokenizer_names(source.base):
        shutil.copyfile(source.base / name, folder / name)


def _write_adapter(source: ExportSource, folder: Path) -> None:
    revision = source.manifest.base_revision
    save_adapter(
        source.adapter,
        folder,
        source.config.export.dtype,
        source.manifest.base_model,
        revision if _COMMIT.fullmatch(revision) else None,
    )
    check_plain(folder)


def _compare(source: ExportSource, before: list[Answer], folder: Path) -> Comparison:
    logger.info("loading what was written, and asking again")
    if source.config.export.kind == "adapter":
        answers = ask_probes(source.load(folder), source.codec)
    else:
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").to(pick_device()).eval()
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


def _write_documents(source: ExportSource, comparison: Comparison, folder: Path) -> None:
    reference = find_reference(source.results, source.manifest.calibration)
    write_manifest(folder, replace(source.manifest, reference=reference))
    if source.baseline is not None:
        source.baseline.write(folder / BASELINE_NAME)
    write_json(folder / TRAINING_CONFIG_NAME, _public_config(source))
    if source.results is not None:
        write_json(folder / RESULTS_NAME, source.results.raw)
    text = card(source.config, source.manifest, source.results, comparison, source.baseline)
    write_text(folder / CARD_NAME, text)


def _public_config(source: ExportSource) -> dict[str, object]:
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


def check_size(config: RunConfig, folder: Path) -> None:
    """Accept an export that may be committed, where it is one that is.

    Raises:
        ExportError: It is an adapter of the embedded model, above ``MAX_EMBEDDED_BYTES``.
    """
    total_bytes = sum(path.stat().st_size for path in folder.iterdir())
    is_shipped = config.model.name == EMBEDDED and config.export.kind == "adapter"
    if is_shipped and total_bytes > MAX_EMBEDDED_BYTES:
        fitting_rank = max(1, config.model.rank * MAX_EMBEDDED_BYTES // total_bytes)
        raise ExportError(
            f"the adapter has {total_bytes} bytes, at most {MAX_EMBEDDED_BYTES} are committed with "
            'the code: export with export.dtype = "bfloat16", or train with model.rank = '
            f"{fitting_rank} at most"
        )
