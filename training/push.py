"""The push stage: an export becomes one commit of a repository on the Hugging Face Hub, and a tag.

    python -m training push training/configs/embedded.toml --dry-run

Only the files that ``export.json`` lists go up, after every check of ``release_checks``. The commit
makes the repository equal to the export: a shard of earlier weights that stayed beside the new ones
would be loaded with them. Addressed is ``HF_ENDPOINT``, with the token of ``hf auth login`` or
``HF_TOKEN``.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import httpx
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    constants,
    get_session,
)
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled
from huggingface_hub.hf_api import RepoSibling

from training.config import RunConfig
from training.errors import PushError
from training.exported import RECORD_NAME, ExportRecord, read_record, release_tag
from training.inputs import PUSH
from training.merging import hash_file
from training.release_checks import find_faults, find_warnings
from training.runs import RunFolder, write_json

logger = logging.getLogger(__name__)

PUSH_RECORD_NAME = "push.json"
"""In the run folder's ``push``: what was pushed where."""

_BRANCH = "main"
# The Hub's own; all else that the export lacks is of earlier weights.
_KEPT = (".gitattributes",)
# The client waits for ever by default. A commit of many files takes the Hub a while.
_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to upload.

    Attributes:
        path: Where it lies.
        size_bytes: Of its content.
        sha256: Of its content, 64 hex digits.
    """

    path: Path
    size_bytes: int
    sha256: str


def push(
    config: RunConfig, run: RunFolder, dry_run: bool = False, out: TextIO | None = None
) -> str | None:
    """Upload the run's export and return the commit's 40 hex digits; None after a dry run.

    Args:
        config: Of the run.
        run: Its folder, with a finished export.
        dry_run: Only check, and write what would go where; the Hub is not asked.
        out: Where that is written, and at the end the commit; standard output where None.

    Raises:
        PushError: A check failed, the tag exists, or the Hub refused; the message says what to do.
        ExportError: There is no export.
    """
    out = out or sys.stdout
    repo = config.export.repo
    if repo is None:
        raise PushError(
            "export.repo names no repository: set it in the configuration, or --set "
            "export.repo=org/name"
        )
    record = read_record(run.export)
    tag = release_tag(config.export, record.weights_sha256)
    files = _plan(run.export, record)
    endpoint = (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")
    if dry_run:
        _write_plan(out, config, f"{endpoint}/{repo}", tag, files)
    faults = find_faults(config, run, record)
    if faults:
        raise PushError("nothing is pushed:\n" + "\n".join(f"  - {fault}" for fault in faults))
    for warning in find_warnings(record):
        logger.warning("%s", warning)
    if dry_run:
        out.write("All checks passed; nothing was sent.\n")
        return None
    commit = _Upload(config, repo, endpoint, tag, files).run()
    write_json(
        run.path / PUSH / PUSH_RECORD_NAME,
        {
            "endpoint": endpoint,
            "repo": repo,
            "commit": commit,
            "tag": tag,
            "weights_sha256": record.weights_sha256,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
    )
    out.write(f"{repo} is at commit {commit}, tag {tag}\n")
    if record.kind == "merged":
        out.write(f"Serve it: DETECTOR_MODEL={repo}@{commit} make serve\n")
    return commit


def _plan(folder: Path, record: ExportRecord) -> list[PlannedFile]:
    planned = []
    for name in sorted({*record.files, RECORD_NAME}):
        path = folder / name
        if not path.is_file():
            continue  # told by the checks
        digest = record.files.get(name) or hash_file(path)
        planned.append(PlannedFile(path, path.stat().st_size, digest))
    return planned


def _write_plan(
    out: TextIO, config: RunConfig, url: str, tag: str, files: Sequence[PlannedFile]
) -> None:
    total_bytes = sum(file.size_bytes for file in files)
    kind = "private" if config.export.is_private else "public"
    out.write(f"{len(files)} files, {total_bytes} bytes -> {url} ({kind}, {tag})\n")
    for file in files:
        out.write(f"{file.size_bytes:>14} {file.sha256} {file.path.name}\n")


class _Upload:
    """One push to one repository."""

    def __init__(
        self,
        config: RunConfig,
        repo: str,
        endpoint: str,
        tag: str,
        files: Sequence[PlannedFile],
    ) -> None:
        self._export = config.export
        self._message = f"Run {config.name}: {config.export.kind} weights in {config.export.dtype}"
        self._repo = repo
        self._endpoint = endpoint
        self._tag = tag
        self._files = files
        self._api = HfApi(endpoint=endpoint)

    def run(self) -> str:
        get_session().timeout = httpx.Timeout(_TIMEOUT_S)
        tag = self._tag
        with self._errors("asking for the repository"):
            self._api.create_repo(self._repo, private=self._export.is_private, exist_ok=True)
            head = self._find_head()
            there = self._list(head) if head else []
        stale = self._find_stale(there)
        if stale:
            logger.info("%s: the commit removes %s", self._repo, ", ".join(stale))
        with self._errors("uploading"):
            commit = self._api.create_commit(
                self._repo,
                operations=[
                    *(CommitOperationDelete(name) for name in stale),
                    *(CommitOperationAdd(file.path.name, file.path) for file in self._files),
                ],
                commit_message=self._message,
                revision=_BRANCH,
                # Whoever commits in between makes this one fail instead of being overwritten.
                parent_commit=head,
            ).oid
        done = f"the files are there as commit {commit}; "
        with self._errors("checking what arrived", done):
            self._verify(commit)
        with self._errors(f"setting the tag {tag}", done + "push again to set the tag: "):
            self._api.create_tag(self._repo, tag=tag, revision=commit)
        return commit

    def _find_head(self) -> str | None:
        refs = self._api.list_repo_refs(self._repo)
        for ref in refs.tags:
            if ref.name == self._tag:
                raise PushError(
                    f"{self._repo} has the tag {self._tag} already, at commit "
                    f"{ref.target_commit}: a tag is never moved, somebody may serve it. Choose "
                    "another: export and push with --set export.tag=..."
                )
        return next((ref.target_commit for ref in refs.branches if ref.name == _BRANCH), None)

    def _list(self, commit: str) -> list[RepoSibling]:
        info = self._api.model_info(self._repo, revision=commit, files_metadata=True)
        if self._export.is_private and info.private is False:
            raise PushError(
                f"{self._repo} is public, and export.is_private is true: make it private on the "
                "Hub, or export and push with another export.repo, or export.is_private=false"
            )
        return list(info.siblings or ())

    def _find_stale(self, there: Sequence[RepoSibling]) -> list[str]:
        kept = {file.path.name for file in self._files} | {*_KEPT}
        return sorted(each.rfilename for each in there if each.rfilename not in kept)

    def _verify(self, commit: str) -> None:
        listed = {each.rfilename: each for each in self._list(commit)}
        for file in self._files:
            found = listed.get(file.path.name)
            is_whole = found is not None and found.size == file.size_bytes
            if found is not None and found.lfs is not None:
                is_whole = is_whole and found.lfs.sha256 == file.sha256
            if not is_whole:
                raise PushError(
                    f"commit {commit} of {self._repo} does not hold {file.path.name} as it was "
                    "sent: push again, and serve nothing from this commit"
                )

    @contextmanager
    def _errors(self, what: str, done: str = "") -> Iterator[None]:
        try:
            yield
        except HFValidationError as error:
            raise PushError(f"export.repo or export.tag is no name for the Hub: {error}") from error
        except OfflineModeIsEnabled as error:
            raise PushError("HF_HUB_OFFLINE is set: unset it to push") from error
        except (HfHubHTTPError, httpx.HTTPError, OSError, RuntimeError, ValueError) as error:
            raise PushError(f"{done}{what} failed: {self._explain(error)}") from error

    def _explain(self, error: BaseException) -> str:
        # The client wraps what went wrong with one file in an error of its own.
        each: BaseException | None = error
        while each is not None:
            if isinstance(each, HfHubHTTPError):
                return self._explain_status(each.response.status_code, str(each))
            if isinstance(each, httpx.TransportError):
                return (
                    f"the connection to {self._endpoint} broke ({type(each).__name__}): check the "
                    "network, any proxy and HF_ENDPOINT, and push again. Files that arrived are "
                    "not sent twice, and there is no commit without all of them"
                )
            each = each.__cause__
        return f"{error}: push again, or tell us if it stays so"

    def _explain_status(self, status: int, text: str) -> str:
        remedies = {
            401: "it knows no valid token: `hf auth login`, or set HF_TOKEN to a token that may "
            "write",
            402: "the account's storage is used up: free some, or push to another account",
            403: f"this token may not write to {self._repo}: take one with write access, of an "
            "account that is a member of the organisation",
            404: f"there is no {self._repo}, or this token may not see it: check export.repo and "
            "the token",
            409: "something of that name is there already, or another push is under way: look at "
            f"{self._endpoint}/{self._repo} and push again",
            412: "somebody else has committed meanwhile: look at it, and push again",
            413: 'a file is larger than it takes: export with export.dtype = "bfloat16"',
            429: "it counts too many requests: wait five minutes and push again",
            507: "the account's storage is used up: free some, or push to another account",
        }
        remedy = remedies.get(status)
        if remedy is None and status >= 500:
            remedy = "it is not well: push again later. Files that arrived are not sent twice"
        return f"{self._endpoint} answers {status}: {remedy or ' '.join(text.split())}"
