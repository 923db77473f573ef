"""Requests to one repository on the Hugging Face Hub, tried again where that can help.

The Hub's client lists the files and holds the connections. The bytes are streamed here and not by
its ``snapshot_download``: version 1.33 deletes an interrupted file instead of resuming it in the
next start, and its Xet transfer keeps files of its own outside our cache folder.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
from huggingface_hub import HfApi, constants, get_session, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.hf_api import RepoSibling

from service.cache import Progress, sync
from service.errors import WeightsError
from service.settings import Settings

T = TypeVar("T")

COMMIT = re.compile(r"[0-9a-f]{40}")
"""A commit's full name; anything else is a branch or a tag."""

_SUFFIXES = (".safetensors", ".json", ".txt", ".jinja", ".model")
_RETRIED_REFUSALS = {408, 429}
_MAX_BACKOFF_S = 30.0
_MAX_RETRY_AFTER_S = 300.0  # the Hub counts requests in windows of five minutes


class TransientError(Exception):
    """A fault that another try can mend.

    Args:
        reason: What went wrong.
        retry_after_s: Seconds that the Hub asked to wait.
    """

    def __init__(self, reason: str, retry_after_s: float = 0.0) -> None:
        """Keep the reason and the wait."""
        super().__init__(reason)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a commit, as the Hub lists it.

    Attributes:
        name: In the repository's top folder.
        size_bytes: Of its content.
        sha256: Of its content, for files in large-file storage.
        blob_id: Git's hash, for the others.
    """

    name: str
    size_bytes: int
    sha256: str | None
    blob_id: str | None


class HubClient:
    """One repository, with the address, token and number of tries of the settings."""

    def __init__(
        self,
        repo: str,
        settings: Settings,
        progress: Progress,
        sleep: Callable[[float], None],
        timeout_s: float,
    ) -> None:
        """Ask nothing yet.

        Args:
            repo: ``org/repo``.
            settings: Where, as whom and how often to ask.
            progress: Told of each new try.
            sleep: Waits before a new try.
            timeout_s: For a connection, and for each wait for bytes.
        """
        # Else the client looks up which tool it runs under, and writes that to the home folder.
        constants.HF_HUB_DISABLE_TELEMETRY = True
        self.repo = repo
        self.endpoint = (settings.hub_endpoint or constants.ENDPOINT).rstrip("/")
        self.attempts = settings.hub_attempts
        self._token = settings.hub_token.get_secret_value() if settings.hub_token else ""
        self._progress = progress
        self._sleep = sleep
        self._timeout_s = timeout_s

    def list_files(self, revision: str, attempts: int) -> tuple[str, tuple[RemoteFile, ...]]:
        """Return the commit that the revision stands for, and those of its files that are served.

        Raises:
            TransientError: The Hub did not answer, in all tries.
            WeightsError: It refused, or there is nothing to serve.
        """
        # False, not None: the client would look for a token in the home folder.
        api = HfApi(endpoint=self.endpoint, token=self._token or False)

        def ask() -> tuple[str, tuple[RemoteFile, ...]]:
            try:
                info = api.model_info(
                    self.repo, revision=revision, files_metadata=True, timeout=self._timeout_s
                )
                files = tuple(_to_file(sibling) for sibling in info.siblings or ())
                if info.sha is None or not COMMIT.fullmatch(info.sha):
                    raise ValueError("it names no commit")
            except HFValidationError as error:
                raise WeightsError(f"{self.repo} is not a repository's name: {error}") from error
            except (ValueError, TypeError, KeyError, httpx.InvalidURL) as error:
                raise WeightsError(
                    f"{self.endpoint} does not answer as the Hub does ({error}): check "
                    "DETECTOR_HUB_ENDPOINT and any proxy"
                ) from error
            return info.sha, files

        commit, files = self._try(ask, f"asking for {self.repo}@{revision}", revision, attempts)
        # Top folder only: what lies deeper is not served, and no name can lead out of the cache.
        files = tuple(f for f in files if f.name.endswith(_SUFFIXES) and "/" not in f.name)
        if not any(file.name.endswith(".safetensors") for file in files):
            raise WeightsError(
                f"{self.repo}@{revision} has no *.safetensors file in its top folder, and no other "
                "format is served: choose a repository or revision that has one"
            )
        return commit, files

    def download(
        self, commit: str, file: RemoteFile, target: Path, report: Callable[[int], None]
    ) -> None:
        """Fetch one file; go on where an earlier try, or an earlier start, was cut off.

        Args:
            commit: 40 hex digits.
            file: What to fetch.
            target: Where to; it appears only once size and hash are right.
            report: Told how many bytes of the file are there.

        Raises:
            TransientError: It did not come, in all tries; what has come is kept.
            WeightsError: The Hub refused.
        """
        url = hf_hub_url(self.repo, file.name, revision=commit, endpoint=self.endpoint)
        partial = partial_path(target)

        def fetch() -> None:
            if size_bytes(partial) < file.size_bytes or not partial.exists():
                self._stream(url, commit, partial, report)
            have_bytes = size_bytes(partial)
            if have_bytes < file.size_bytes:
                raise TransientError(f"{have_bytes} of {file.size_bytes} bytes came")
            if have_bytes > file.size_bytes or not _has_hash(partial, file):
                partial.unlink()
                raise TransientError("what came is not what the Hub lists; the bad copy is removed")
            sync(partial)
            os.replace(partial, target)

        self._try(fetch, f"fetching {file.name}", commit, self.attempts)

    def _stream(self, url: str, commit: str, partial: Path, report: Callable[[int], None]) -> None:
        offset = size_bytes(partial)
        # Not compressed: an offset then counts the same bytes on both sides.
        headers = {"Accept-Encoding": "identity"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if offset:
            headers["Range"] = f"bytes={offset}-"
        with get_session().stream("GET", url, headers=headers, timeout=self._timeout_s) as response:
            if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                partial.unlink()
                raise TransientError("the Hub's copy is shorter than it lists")
            if response.is_error:
                raise self._explain(response, commit)
            resumes = response.status_code == httpx.codes.PARTIAL_CONTENT
            with partial.open("ab" if resumes else "wb") as stream:
                for chunk in response.iter_bytes():
                    stream.write(chunk)
                    report(stream.tell())

    def _try(self, action: Callable[[], T], what: str, revision: str, attempts: int) -> T:
        attempt = 1
        while True:
            try:
                return self._once(action, revision)
            except TransientError as error:
                if attempt == attempts:
                    raise
                backoff_s = min(_MAX_BACKOFF_S, 2.0 ** (attempt - 1)) * random.uniform(0.5, 1)  # noqa: S311
                wait_s = max(backoff_s, min(error.retry_after_s, _MAX_RETRY_AFTER_S))
                attempt += 1
                text = f"{what}: {error}; try {attempt} of {attempts} in {wait_s:.1f} s"
            # In steps, so that the callback can end a long wait.
            while wait_s > 0:
                self._progress(text)
                self._sleep(min(1.0, wait_s))
                wait_s -= 1.0

    def _once(self, action: Callable[[], T], revision: str) -> T:
        try:
            return action()
        except httpx.RequestError as error:
            raise TransientError(f"{type(error).__name__}: {error}") from error
        except HfHubHTTPError as error:
            raise self._explain(error.response, revision) from error

    def _explain(self, response: httpx.Response, revision: str) -> Exception:
        status, code = response.status_code, response.headers.get("X-Error-Code")
        if status in _RETRIED_REFUSALS or status >= 500:
            retry_after = response.headers.get("Retry-After", "")
            wait_s = float(retry_after) if retry_after.isdigit() else 0.0
            return TransientError(f"the Hub answered {status}", wait_s)
        repo = self.repo
        if code == "GatedRepo":
            return WeightsError(
                f"{repo} is gated: accept its terms at {self.endpoint}/{repo}, and set "
                "DETECTOR_HUB_TOKEN to a token of the account that did"
            )
        if code == "RevisionNotFound":
            return WeightsError(f"{repo} has no revision {revision}: name a commit, branch or tag")
        if status == httpx.codes.UNAUTHORIZED and self._token and code != "RepoNotFound":
            return WeightsError(
                "the Hub does not accept the token in DETECTOR_HUB_TOKEN: make a new one at "
                f"{self.endpoint}/settings/tokens"
            )
        if status == httpx.codes.FORBIDDEN:
            return WeightsError(
                f"the Hub does not let this account read {repo}: give the token in "
                "DETECTOR_HUB_TOKEN read access to it"
            )
        if status in (httpx.codes.NOT_FOUND, httpx.codes.UNAUTHORIZED):
            return WeightsError(
                f"the Hub has no repository {repo}, or it is private: check the name, and set "
                "DETECTOR_HUB_TOKEN if it is private"
            )
        return WeightsError(f"the Hub refused to give {repo}@{revision}: status {status}")


class Meter:
    """Tells how far a fetch is, at most once a second."""

    def __init__(self, what: str, total_bytes: int, progress: Progress) -> None:
        """Tell nothing yet."""
        self._what = what
        self._total_bytes = total_bytes
        self._progress = progress
        self._last_s = float("-inf")

    def report(self, done_bytes: int) -> None:
        """Take note of the bytes that are there."""
        now_s = time.monotonic()
        if now_s - self._last_s >= 1.0:
            self._last_s = now_s
            self._progress(
                f"{self._what}: {done_bytes / 1e6:.1f} of {self._total_bytes / 1e6:.1f} MB"
            )


def partial_path(target: Path) -> Path:
    """Return where a file grows until it is whole."""
    return target.with_name(target.name + ".partial")


def size_bytes(path: Path) -> int:
    """Return the file's size, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def _to_file(sibling: RepoSibling) -> RemoteFile:
    if sibling.size is None:
        raise ValueError("it lists a file without its size")
    lfs = sibling.lfs
    if lfs is None:
        return RemoteFile(sibling.rfilename, sibling.size, None, sibling.blob_id)
    return RemoteFile(sibling.rfilename, sibling.size, lfs.sha256, None)


def _has_hash(path: Path, file: RemoteFile) -> bool:
    if file.sha256 is not None:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
    if file.blob_id is not None:
        # Git's own hash of a file; files outside large-file storage have at most 10 MB.
        content = path.read_bytes()
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        return blob.hexdigest() == file.blob_id
    return True
