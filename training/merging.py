"""The weights of an export: the adapter merged in float32 and cast, or the adapter alone.

An adapter must be plain LoRA on linear layers: the service merges it by its own arithmetic and
refuses whatever else peft can do, so it is refused here, before anybody waits for it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.errors import ExportError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_TENSORS = "adapter_model.safetensors"

# Larger files are split: what goes over a network should not begin at zero after 50 GB.
_MAX_SHARD_SIZE = "5GB"
_PLAIN: dict[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "fan_in_fan_out": (False, None),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "modules_to_save": ([], None),
    # The named ways to begin (PiSSA, OLoRA, LoftQ) change the base weights too.
    "init_lora_weights": (True, False, None, "gaussian"),
}
_LAYER_TENSOR = re.compile(r"base_model\.model\.(?P<layer>.+)\.lora_(?P<half>[AB])\.weight")
# One tensor under two names in small models: an adapter on it does not survive merging.
_TIED = ("lm_head", "embed_tokens")


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content, 64 hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hash_adapter(adapter: Path) -> str:
    """Return what identifies trained weights: the SHA-256 of the adapter's tensors.

    Raises:
        ExportError: There is no adapter.
    """
    path = adapter / ADAPTER_TENSORS
    if not path.is_file():
        raise ExportError(
            f"there is no adapter in {adapter}: run the training stages first "
            "(`python -m training warmstart`, then `grpo`)"
        )
    return hash_file(path)


def check_plain(adapter: Path) -> None:
    """Accept an adapter that the service can merge.

    Raises:
        ExportError: It is no plain LoRA on linear layers; the message names what is not.
    """
    from safetensors import SafetensorError, safe_open

    config = read_adapter_config(adapter)
    for key, allowed in _PLAIN.items():
        if key in config and config[key] not in allowed:
            raise _refuse(adapter, f"{key} is {config[key]!r}")
    try:
        with safe_open(adapter / ADAPTER_TENSORS, framework="numpy") as tensors:
            names = list(tensors.keys())
    except (OSError, SafetensorError) as error:
        raise _refuse(adapter, f"{ADAPTER_TENSORS} cannot be read ({error})") from error
    halves: dict[str, set[str]] = {}
    for name in names:
        match = _LAYER_TENSOR.fullmatch(name)
        if match is None:
            raise _refuse(adapter, f"it holds {name}")
        halves.setdefault(match["layer"], set()).add(match["half"])
    for layer, found in halves.items():
        if found != {"A", "B"} or layer.rpartition(".")[2] in _TIED:
            raise _refuse(adapter, f"it holds {' and '.join(sorted(found))} of {layer}")
    if not halves:
        raise _refuse(adapter, "it holds no layer")


def read_adapter_config(adapter: Path) -> dict[str, Any]:
    """Return peft's configuration of an adapter.

    Raises:
        ExportError: It is missing or no JSON object.
    """
    path = adapter / ADAPTER_CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _refuse(adapter, f"{ADAPTER_CONFIG} cannot be read ({error})") from error
    if not isinstance(config, dict):
        raise _refuse(adapter, f"{ADAPTER_CONFIG} is no JSON object")
    return config


def _refuse(adapter: Path, reason: str) -> ExportError:
    return ExportError(
        f"the adapter in {adapter} cannot be exported: {reason}, and the service merges plain LoRA "
        "on linear layers only. Train it again with this project's configuration"
    )


def merge_and_cast(policy: PeftModel, dtype: str) -> PreTrainedModel:
    """Merge the adapter into float32 weights, once, then cast; the policy is used up.

    Args:
        policy: Base weights and adapter in float32.
        dtype: ``float32`` or ``bfloat16``.

    Raises:
        ExportError: The merged weights hold values that are no numbers.
    """
    import torch

    try:
        merged: PreTrainedModel = policy.merge_and_unload(safe_merge=True)
    except ValueError as error:
        raise ExportError(
            f"merging gives values that are no numbers ({error}): export the adapter of an "
            "earlier checkpoint"
        ) from error
    return merged.to(getattr(torch, dtype))


def save_merged(model: PreTrainedModel, folder: Path) -> None:
    """Write the weights, their configuration and how to generate with them.

    What the base model's own generation settings say of sampling or repetition is left out: it
    would shift the probabilities that the service reads. Where a reply ends is kept.
    """
    from transformers import GenerationConfig

    old = model.generation_config
    ends = _as_list(old.eos_token_id if old is not None else None)
    ends += [end for end in _as_list(model.config.eos_token_id) if end not in ends]
    model.generation_config = GenerationConfig(
        do_sample=False,
        bos_token_id=model.config.bos_token_id,
        eos_token_id=ends[0] if len(ends) == 1 else ends or None,
        pad_token_id=model.config.pad_token_id,
    )
    with os_errors():
        model.save_pretrained(folder, max_shard_size=_MAX_SHARD_SIZE)


def _as_list(value: int | list[int] | None) -> list[int]:
    return [] if value is None else [value] if isinstance(value, int) else list(value)


def save_adapter(
    adapter: Path, folder: Path, dtype: str, base_model: str, base_revision: str | None
) -> None:
    """Write peft's two files with the tensors cast, and the base under its public name.

    Args:
        adapter: As training left it.
        folder: Where to.
        dtype: ``float32`` or ``bfloat16``.
        base_model: Its name; never a folder of this machine.
        base_revision: Its commit on the Hub; None where there is none.
    """
    import torch
    from safetensors.torch import load_file, save_file

    config = read_adapter_config(adapter)
    config |= {"base_model_name_or_path": base_model, "revision": base_revision}
    config["inference_mode"] = True
    if isinstance(config.get("target_modules"), list):
        config["target_modules"] = sorted(config["target_modules"])
    tensors = load_file(adapter / ADAPTER_TENSORS)
    cast = {name: value.to(getattr(torch, dtype)).contiguous() for name, value in tensors.items()}
    with os_errors():
        save_file(cast, folder / ADAPTER_TENSORS, metadata={"format": "pt"})
    text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False)
    (folder / ADAPTER_CONFIG).write_text(text + "\n", encoding="utf-8")


@contextmanager
def os_errors() -> Iterator[None]:
    """Give back the error number that safetensors hides in its text, for a full disk mostly."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), str(error)) from error
