"""The cache folder on disk: one writer at a time, room checked first, faults told as a remedy.

What both sources of weights share; it knows nothing of models.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from service.errors import WeightsError

Progress = Callable[[str], None]
"""Told what is going on, in words, about once a second; what it raises ends the work."""

# EFBIG is what a file-size limit gives, EDQUOT a user's quota: a full disk by other names.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


@contextmanager
def cache_errors(folder: Path, needed_bytes: int) -> Iterator[None]:
    """Turn a full disk and a folder that cannot be written into errors with a remedy.

    Args:
        folder: What is written to.
        needed_bytes: What the work inside writes at most.

    Raises:
        WeightsError: One of the two happened.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise _full_disk(folder, needed_bytes) from error
        if error.errno in _NOT_WRITABLE:
            raise WeightsError(
                f"cannot write to {folder} ({error}): point DETECTOR_CACHE_DIR to a folder that "
                "this user may write to"
            ) from error
        raise


def require_room(folder: Path, needed_bytes: int) -> None:
    """Fail before the work, not in its middle, where the disk cannot hold the result.

    Raises:
        WeightsError: Names the folder and the bytes.
    """
    if shutil.disk_usage(folder).free < needed_bytes:
        raise _full_disk(folder, needed_bytes)


@contextmanager
def only_writer(folder: Path, progress: Progress, waiting: str) -> Iterator[None]:
    """Hold the folder's lock; a process that dies lets go of it.

    Args:
        folder: Exists.
        progress: Told while another process holds the lock.
        waiting: What it is told.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock")
    timeout_s = 0.0
    while True:
        try:
            lock.acquire(timeout=timeout_s)
            break
        except Timeout:
            progress(waiting)
            timeout_s = 1.0
    try:
        yield
    finally:
        lock.release()


def sync(path: Path) -> None:
    """Force a file's content, or a folder's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _full_disk(folder: Path, needed_bytes: int) -> WeightsError:
    return WeightsError(
        f"the disk that holds {folder} is full: {needed_bytes} bytes are needed. Free some space, "
        "or point DETECTOR_CACHE_DIR to a larger disk"
    )
