"""From the embedded model's GGUF file to a model folder in float32, in a process of its own.

``service/embedded.py`` runs it (``python -m service.conversion``) and reads its messages, one JSON
object a line: ``{"text": ..., "percent": ...}`` or ``{"error": ...}``. It is not for use by hand.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.cache import cache_errors
from service.errors import WeightsError
from service.lora import merge_lora

NEEDED_BYTES = 600 * 10**6
"""What is written: 135 million float32 and a tokenizer take 542 MB."""

# SmolLM2's own; the conversion from GGUF loses the digit rule and guesses the rest.
_PIPELINE: dict[str, Any] = {
    "normalizer": None,
    "pre_tokenizer": {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {
                "type": "ByteLevel",
                "add_prefix_space": False,
                "trim_offsets": True,
                "use_regex": True,
            },
        ],
    },
    "post_processor": None,
    "decoder": {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    },
}
_TOKENIZER_CONFIG: dict[str, Any] = {
    "tokenizer_class": "TokenizersBackend",
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|im_end|>",
    "unk_token": "<|endoftext|>",
    "add_prefix_space": False,
    "clean_up_tokenization_spaces": False,
    "model_max_length": 8192,
}


def convert(
    gguf: Path, folder: Path, adapter: Path | None, report: Callable[[str, int], None]
) -> None:
    """Write the model of a GGUF file into the folder, in float32, as transformers' own files.

    Args:
        gguf: SmolLM2-135M-Instruct.
        folder: Exists.
        adapter: To merge in.
        report: Told the step and how many per cent are done; the shares are measured.
    """
    report("loading transformers", 5)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    report("dequantising", 15)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    if adapter is not None:
        report("merging the adapter", 65)
        merge_lora(model.state_dict(), adapter)
    report("reading the tokenizer", 70)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    report("writing", 95)
    with os_errors():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _mend_tokenizer(folder)


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


def _mend_tokenizer(folder: Path) -> None:
    path = folder / "tokenizer.json"
    tokenizer = {**json.loads(path.read_text(encoding="utf-8")), **_PIPELINE}
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    text = json.dumps(_TOKENIZER_CONFIG, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def _main(gguf: str, folder: str, adapter: str) -> int:
    # Only our messages may go to the parent; whatever else is printed goes to stderr.
    messages = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def send(**message: Any) -> None:
        messages.write(json.dumps(message) + "\n")

    try:
        with cache_errors(Path(folder).parent, NEEDED_BYTES):
            convert(
                Path(gguf),
                Path(folder),
                Path(adapter) if adapter else None,
                lambda text, percent: send(text=text, percent=percent),
            )
    except WeightsError as error:
        send(error=str(error))
        return 1
    return 0


def _end_with_parent() -> None:
    """The parent holds the other end of stdin: it closes however the parent dies."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
