"""Weights from the Hugging Face Hub: ``org/repo`` at a revision -> a whole folder in the cache.

In the cache, ``hub/org--repo`` holds a folder for each commit, beside it ``<commit>.json`` (names,
sizes and hashes of its files), and in ``refs`` the commit that a branch or tag last stood for. A
file gets its name only once its size and hash are right, so a folder in which every listed name
has its size is whole, and needs no network to say so.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

from huggingface_hub import constants

from service.cache import Progress, cache_errors, only_writer, require_room
from service.errors import WeightsError
from service.hub_client import (
    COMMIT,
    HubClient,
    Meter,
    RemoteFile,
    TransientError,
    partial_path,
    size_bytes,
)
from service.settings import Settings

logger = logging.getLogger(__name__)


def fetch_snapshot(
    repo: str,
    revision: str,
    settings: Settings,
    progress: Progress,
    *,
    sleep: Callable[[float], None] = time.sleep,
    timeout_s: float = 30.0,
) -> tuple[Path, str]:
    """Return a whole local copy of a commit, and the commit's 40 hex digits.

    A commit that the cache holds is returned without a request. A branch or tag is asked for; while
    the Hub cannot be reached, the commit that it last stood for is taken, with a warning.

    Args:
        repo: ``org/repo``.
        revision: 40 hex digits, a branch or a tag.
        settings: The cache folder, the Hub's address and token, the number of tries.
        progress: Told of bytes, and of each new try.
        sleep: Waits before a new try.
        timeout_s: For a connection, and for each wait for bytes.

    Raises:
        WeightsError: Says what to do.
    """
    store = settings.cache_dir / "hub" / repo.replace("/", "--")
    is_commit = COMMIT.fullmatch(revision) is not None
    known = revision if is_commit else _read_ref(store, revision)
    cached = known if known and _is_whole(store, known) else None
    if cached and is_commit:
        return store / cached, cached
    client = HubClient(repo, settings, progress, sleep, timeout_s)
    try:
        commit, files = _list_files(client, store, revision, settings, cached)
    except TransientError as error:
        if cached is None:
            raise WeightsError(
                f"{client.endpoint} cannot be reached ({error}): check the network, any proxy and "
                "DETECTOR_HUB_ENDPOINT, or serve `embedded` or a folder of weights"
            ) from error
        logger.warning("%s; taking %s@%s as %s, from the cache", error, repo, revision, cached)
        return store / cached, cached
    if not is_commit:
        logger.info("%s@%s is commit %s", repo, revision, commit)
    with cache_errors(store, sum(file.size_bytes for file in files)):
        if commit != cached:
            _fetch(client, store, commit, files, progress)
        if not is_commit and commit != known:
            _write(store / "refs" / quote(revision, safe=""), commit)
    return store / commit, commit


def _list_files(
    client: HubClient, store: Path, revision: str, settings: Settings, cached: str | None
) -> tuple[str, tuple[RemoteFile, ...]]:
    if settings.offline or constants.HF_HUB_OFFLINE:
        if cached is None:
            raise WeightsError(
                f"{client.repo}@{revision} is not whole in the cache ({store}), and "
                "DETECTOR_OFFLINE or HF_HUB_OFFLINE is set: start once without it, or serve a "
                "folder of weights"
            )
        raise TransientError("offline")
    if COMMIT.fullmatch(revision):
        files = _read_listing(store, revision)
        if files is not None:
            return revision, files
    # With a copy at hand, an outage must not hold up the start for long.
    return client.list_files(revision, 1 if cached else client.attempts)


def _fetch(
    client: HubClient, store: Path, commit: str, files: Sequence[RemoteFile], progress: Progress
) -> None:
    folder = store / commit
    folder.mkdir(parents=True, exist_ok=True)
    waiting = f"waiting for another process, which fetches {client.repo}"
    with only_writer(store, progress, waiting):
        _write(store / f"{commit}.json", json.dumps([asdict(file) for file in files], indent=1))
        missing = [file for file in files if not _has(folder, file)]
        total_bytes = sum(file.size_bytes for file in files)
        done_bytes = total_bytes - sum(file.size_bytes for file in missing)
        begun_bytes = sum(size_bytes(partial_path(folder / file.name)) for file in missing)
        require_room(folder, total_bytes - done_bytes - begun_bytes)
        meter = Meter(f"fetching {client.repo}", total_bytes, progress)
        for file in missing:

            def report(file_bytes: int, before_bytes: int = done_bytes) -> None:
                meter.report(before_bytes + file_bytes)

            try:
                client.download(commit, file, folder / file.name, report)
            except TransientError as error:
                raise WeightsError(
                    f"{client.repo}: {file.name} could not be fetched in {client.attempts} tries "
                    f"({error}). What is good so far is kept in {folder}: start again to go on "
                    "from there"
                ) from error
            done_bytes += file.size_bytes


def _has(folder: Path, file: RemoteFile) -> bool:
    path = folder / file.name
    return path.is_file() and path.stat().st_size == file.size_bytes


def _is_whole(store: Path, commit: str) -> bool:
    files = _read_listing(store, commit)
    return files is not None and all(_has(store / commit, file) for file in files)


def _read_listing(store: Path, commit: str) -> tuple[RemoteFile, ...] | None:
    try:
        rows = json.loads((store / f"{commit}.json").read_text(encoding="utf-8"))
        return tuple(RemoteFile(**row) for row in rows)
    except (OSError, ValueError, TypeError):
        return None


def _read_ref(store: Path, revision: str) -> str | None:
    try:
        commit = (store / "refs" / quote(revision, safe="")).read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    return commit if COMMIT.fullmatch(commit) else None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
