"""The run folder: where everything lies, what is finished, and who may write.

Below ``runs/<name>/``: ``config.json``, ``configs.jsonl``, ``data/``, ``warmstart/``, a folder
named after the algorithm, ``evaluation/`` and ``export/``. A stage leaves ``STARTED`` when it
begins and ``DONE`` when all is written; both hold what it was made from, so that a change is
noticed.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from evaluation.files import write_whole
from training.checkpoints import latest_checkpoint, set_broken_checkpoints_aside
from training.config import RunConfig
from training.errors import CheckpointError, ModelError, StoppedRunError, TrainingError
from training.inputs import (
    DATA,
    EVALUATION,
    EXPORT,
    PUSH,
    WARMSTART,
    changed_inputs,
    stage_inputs,
)

logger = logging.getLogger(__name__)

STARTED = "STARTED"
DONE = "DONE"
STOPPED = "STOPPED"


class Saveable(Protocol):
    """A model that writes itself into a folder."""

    def save_pretrained(self, save_directory: str) -> object:
        """Write the weights and their configuration."""


@dataclass(frozen=True, slots=True)
class StageState:
    """What a stage's markers say.

    Attributes:
        is_started: It has begun, once.
        is_finished: It is complete, and was made from what it would be made from now.
        changes: What has changed since it was made, one ``key: old -> new`` each.
    """

    is_started: bool
    is_finished: bool
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder.

    Attributes:
        path: It, which need not exist yet.
    """

    path: Path

    def data(self, part: str) -> Path:
        """Return the file of a part of the data: ``train``, ``validation`` or ``test``."""
        return self.path / DATA / f"{part}.jsonl"

    @property
    def evaluation(self) -> Path:
        """The folder of the reports."""
        return self.path / EVALUATION

    @property
    def export(self) -> Path:
        """The folder that ``export`` writes into, where no other is asked for."""
        return self.path / EXPORT

    def stage(self, name: str) -> StageFolder:
        """Return a stage's folder: ``data``, ``warmstart``, an algorithm, ``evaluation``, ..."""
        return StageFolder(self, name)

    def last_adapter(self, config: RunConfig) -> Path:
        """Return the adapter of the last training stage that is finished.

        Raises:
            ModelError: None is.
        """
        for name in (config.rl.algorithm, WARMSTART):
            folder = self.path / name
            if (folder / DONE).is_file():
                return folder / "adapter"
        raise ModelError(
            f"{self.path} holds no trained adapter: run `python -m training warmstart` and "
            "`python -m training grpo` first"
        )

    @contextmanager
    def lock(self, purpose: str = "training") -> Iterator[None]:
        """Keep other processes out; the system frees it whatever happens.

        Raises:
            TrainingError: Another process holds it.
        """
        import fcntl

        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / f".{purpose}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise TrainingError(
                f"{self.path} cannot be written ({error.strerror}): name another with --runs-dir"
            ) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
                raise TrainingError(
                    f"process {holder or 'of another user'} works in {self.path} already "
                    f"({purpose}): wait for it, or choose another name with --set name=..."
                ) from None
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode("ascii"))
            yield
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class StageFolder:
    """One stage's folder and markers.

    Attributes:
        run: The run.
        name: Of the folder.
    """

    run: RunFolder
    name: str

    @property
    def path(self) -> Path:
        """The folder, which need not exist yet."""
        return self.run.path / self.name

    @property
    def adapter(self) -> Path:
        """The folder of the trained adapter."""
        return self.path / "adapter"

    def marker(self, name: str) -> Path:
        """Return the file of ``STARTED``, ``DONE`` or ``STOPPED``."""
        if self.name in (EXPORT, PUSH):
            # What lies in the export is uploaded.
            return self.run.path / f"{self.name}.{name}"
        return self.path / name

    def state(self, config: RunConfig) -> StageState:
        """Compare the markers with what the stage would be made from now.

        Raises:
            CheckpointError: A marker cannot be read.
        """
        mark = _read_mark(self.marker(DONE))
        is_done = mark is not None
        if mark is None:
            mark = _read_mark(self.marker(STARTED))
        if mark is None:
            return StageState(is_started=False, is_finished=False, changes=())
        changes = changed_inputs(mark["inputs"], stage_inputs(config, self.name, self.run.path))
        return StageState(
            is_started=True, is_finished=is_done and not changes, changes=tuple(changes)
        )

    def begin(self, config: RunConfig, resume: bool) -> Path | None:
        """Begin, or go on with, a training stage.

        Args:
            config: Of the run.
            resume: Go on from the last whole checkpoint, where there is one.

        Returns:
            The checkpoint to go on from; None to begin from the start.

        Raises:
            CheckpointError: It is finished, was begun with other inputs, or has a checkpoint and
                ``resume`` was not asked for. Nothing is deleted.
        """
        state = self.state(config)
        if state.is_finished:
            raise CheckpointError(f"{self.path} is finished: another run needs another name")
        self.check_unchanged(state)
        checkpoint = latest_checkpoint(self.path)
        if checkpoint is not None and not resume:
            raise CheckpointError(
                f"{self.path} was begun and is at {checkpoint.name}: add --resume to go on from "
                "there, or choose another name with --set name=..."
            )
        if checkpoint is None and resume and state.is_started:
            logger.info("%s has no whole checkpoint yet and begins from the start", self.path)
        set_broken_checkpoints_aside(self.path)
        self.marker(STOPPED).unlink(missing_ok=True)
        self.mark_started(config)
        return checkpoint

    def check_unchanged(self, state: StageState) -> None:
        """Refuse to mix two experiments in one folder.

        Raises:
            CheckpointError: Names what has changed.
        """
        if not state.changes:
            return
        shown = "".join(f"\n  {change}" for change in state.changes[:8])
        if len(state.changes) > 8:
            shown += f"\n  and {len(state.changes) - 8} more"
        raise CheckpointError(
            f"{self.path} was made from other inputs:{shown}\nNothing is deleted: choose another "
            "name with --set name=... (stages before this one can be copied there and are "
            "recognised), or take the change back"
        )

    def mark_started(self, config: RunConfig) -> None:
        """Write ``STARTED``; take back an old ``DONE``."""
        self.marker(DONE).unlink(missing_ok=True)
        self._mark(STARTED, config)

    def finish(self, config: RunConfig, model: Saveable | None = None) -> None:
        """Write the adapter, where there is one, and ``DONE`` last."""
        if model is not None:
            with whole_folder(self.adapter) as partial:
                model.save_pretrained(str(partial))
        self._mark(DONE, config)

    def forget(self) -> None:
        """Take the markers back, so that the stage is done anew."""
        for name in (DONE, STARTED, STOPPED):
            self.marker(name).unlink(missing_ok=True)

    def mark_stopped(self, error: StoppedRunError) -> None:
        """Write ``STOPPED``: why the run was ended and what to change."""
        write_json(self.marker(STOPPED), {"reason": error.reason, "knob": error.knob})

    def _mark(self, name: str, config: RunConfig) -> None:
        from training.provenance import find_commit

        write_json(
            self.marker(name),
            {
                "stage": self.name,
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "commit": find_commit(),
                "inputs": stage_inputs(config, self.name, self.run.path),
            },
        )


def _read_mark(path: Path) -> dict[str, Any] | None:
    try:
        mark = json.loads(path.read_text(encoding="utf-8"))
        inputs = mark["inputs"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}): choose another name with --set name=..."
        ) from error
    return {"inputs": inputs}


def write_json(path: Path, value: object) -> None:
    """Write a JSON file, whole or not at all; its folder is made where it is missing."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all; its folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Give a folder to write into, which takes its name once all is written.

    What stood under the name goes only then; after a fault the partial folder is removed.
    """
    partial = path.with_name(f"{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        for file in partial.rglob("*"):
            _sync(file)
        old = path.with_name(f"{path.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if path.exists():
            os.replace(path, old)
        os.replace(partial, path)
        _sync(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_disk_full(error: BaseException) -> bool:
    """Say whether a fault, or what caused it, is a full disk.

    torch and safetensors wrap the system's error in their own; only its words remain. Where a file
    is so small that its end alone does not fit, torch says of its place that it is another.
    """
    words = (
        "No space left on device",
        "os error 28",
        "Disk quota exceeded",
        "file write failed",
        "] . unexpected pos ",
    )
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, OSError) and each.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(word in str(each) for word in words):
            return True
        each = each.__cause__ or each.__context__
    return False
