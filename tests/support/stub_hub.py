"""A Hugging Face Hub on this machine that can fail in every way that matters.

It speaks as much of the Hub's protocol as fetching a model needs: the listing of a revision, and
files with ranges; large files are redirected to another host name, as the Hub does. What pushing
one needs is in ``hub_uploads.py``; what was pushed is served like the rest.
"""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from support.hub_uploads import LARGE_SUFFIX, UploadRoutes, git_hash

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "fedcba9876543210fedcba9876543210fedcba98"


@dataclass
class Fault:
    """What goes wrong with the next requests.

    Attributes:
        where: ``list``, ``refs``, ``dataset`` or a file's name; for uploads ``create``, ``yaml``,
            ``preupload``, ``batch``, ``upload``, ``verify``, ``commit`` or ``tag``.
        times: Requests that it happens to.
        status: Answer with this status.
        headers: Of that answer.
        cut_after_bytes: Close the connection after so many bytes of the body.
        keep_bytes: Declare and send only so many bytes of the whole file.
        garble: Send other bytes, of the right number.
        stall_s: Wait before the body.
    """

    where: str
    times: int = 1_000_000
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_after_bytes: int | None = None
    keep_bytes: int | None = None
    garble: bool = False
    stall_s: float = 0.0


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    path: str
    range: str | None
    authorization: str | None


class StubHub:
    """One repository at a time is enough: ``acme/tiny``, with commits, branches and faults."""

    repo = "acme/tiny"

    def __init__(self, address: str, port: int) -> None:
        self.endpoint = f"http://{address}:{port}"
        self.cdn = f"http://localhost:{port}"
        self.commits: dict[str, dict[str, bytes]] = {}
        self.branches: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self.is_there = True
        self.is_private = True
        self.objects: dict[str, bytes] = {}
        self.messages: list[str] = []
        self.faults: list[Fault] = []
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        """The repository's page."""
        return f"{self.endpoint}/{self.repo}"

    def paths(self, part: str = "") -> list[str]:
        """Paths of the requests so far that hold the part."""
        return [request.path for request in self.requests if part in request.path]


@contextmanager
def stub_hub(files: Mapping[str, bytes]) -> Iterator[StubHub]:
    """Serve the files as the commit ``COMMIT`` and the branch ``main``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    hub = StubHub("127.0.0.1", server.server_port)
    hub.commits[COMMIT] = dict(files)
    hub.branches["main"] = COMMIT
    server.hub = hub  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def empty_hub() -> Iterator[StubHub]:
    """Serve nothing: the repository is still to be made."""
    with stub_hub({}) as hub:
        hub.is_there = False
        hub.commits, hub.branches = {}, {}
        yield hub


class _Handler(UploadRoutes):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the tests' output clean."""

    def note_request(self) -> StubHub:
        hub: StubHub = self.server.hub  # type: ignore[attr-defined]
        self.close_connection = True
        path = unquote(urlsplit(self.path).path)
        headers = self.headers
        hub.requests.append(Request(path, headers.get("Range"), headers.get("Authorization")))
        return hub

    def do_GET(self) -> None:
        hub = self.note_request()
        parts = hub.requests[-1].path.strip("/").split("/")
        with suppress(ConnectionError):  # the client may have gone
            if parts[:2] == ["api", "models"] and parts[4:] == ["refs"]:
                self._send_refs(hub)
            elif parts[:2] == ["api", "models"]:
                self._list(hub, "/".join(parts[2:4]), "/".join(parts[5:]) or "main")
            elif parts[0] == "cdn":
                self._send_file(hub, parts[1], parts[2])
            elif "datasets" in parts[:2]:
                self._refuse_data()
            elif parts[2] == "resolve":
                self._resolve(hub, parts[3], parts[4])

    def do_HEAD(self) -> None:
        self.note_request()
        with suppress(ConnectionError):
            self._refuse_data()

    def _refuse_data(self) -> None:
        """There is no data set here; a fault says how it is refused."""
        fault = self.find_fault("dataset") or Fault(
            "dataset", status=401, headers={"X-Error-Code": "RepoNotFound"}
        )
        self.answer(fault.status, b"", fault.headers)

    def _list(self, hub: StubHub, repo: str, revision: str) -> None:
        fault = self.find_fault("list")
        if fault and fault.stall_s:
            time.sleep(fault.stall_s)
        commit = (hub.branches | hub.tags).get(revision, revision)
        if fault and fault.status:
            self.answer(fault.status, b"{}", fault.headers)
        elif repo != hub.repo or not hub.is_there:
            self.answer(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif commit not in hub.commits:
            self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        else:
            siblings = [_sibling(name, data) for name, data in hub.commits[commit].items()]
            body = {"id": repo, "sha": commit, "private": hub.is_private, "siblings": siblings}
            self.answer(200, json.dumps(body).encode(), {})

    def _send_refs(self, hub: StubHub) -> None:
        fault = self.find_fault("refs")
        if fault and fault.status:
            self.answer(fault.status, b"{}", fault.headers)
            return

        def refs(kind: str, names: Mapping[str, str]) -> list[dict[str, str]]:
            return [
                {"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": commit}
                for name, commit in names.items()
            ]

        body = {"branches": refs("heads", hub.branches), "tags": refs("tags", hub.tags)}
        self.answer(200, json.dumps({**body, "converts": []}).encode(), {})

    def _resolve(self, hub: StubHub, commit: str, name: str) -> None:
        if name.endswith(LARGE_SUFFIX):
            self.answer(302, b"", {"Location": f"{hub.cdn}/cdn/{commit}/{name}"})
        else:
            self._send_file(hub, commit, name)

    def _send_file(self, hub: StubHub, commit: str, name: str) -> None:
        fault = self.find_fault(name) or Fault(name)
        if fault.status:
            self.answer(fault.status, b"{}", fault.headers)
            return
        data = hub.commits[commit][name][: fault.keep_bytes]
        if fault.garble:
            data = b"x" * len(data)
        start = int((self.headers.get("Range") or "bytes=0-")[len("bytes=") : -1])
        if start and start >= len(data):
            self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        time.sleep(fault.stall_s)
        headers = {"ETag": f'"{hashlib.sha1(data, usedforsecurity=False).hexdigest()}"'}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.answer(206 if start else 200, data[start:], headers, fault.cut_after_bytes)

    def answer(
        self, status: int, body: bytes, headers: Mapping[str, str], cut: int | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:cut])

    def find_fault(self, where: str) -> Fault | None:
        hub: StubHub = self.server.hub  # type: ignore[attr-defined]
        for fault in hub.faults:
            if fault.where == where and fault.times > 0:
                fault.times -= 1
                return fault
        return None


def _sibling(name: str, data: bytes) -> dict[str, Any]:
    sibling: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": git_hash(data)}
    if name.endswith(LARGE_SUFFIX):
        sha256 = hashlib.sha256(data).hexdigest()
        sibling["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 130}
    return sibling


def safetensors_bytes(num_values: int, value: float = 0.5) -> bytes:
    """A whole safetensors file that holds one tensor of float32."""
    data = struct.pack("<f", value) * num_values
    tensor = {"dtype": "F32", "shape": [num_values], "data_offsets": [0, len(data)]}
    header = json.dumps({"weight": tensor}).encode()
    return struct.pack("<Q", len(header)) + header + data


def tiny_weights(contract: bytes | None = None) -> dict[str, bytes]:
    """Files of a folder of weights that passes every check but is no model."""
    files = {
        "config.json": b'{"model_type": "llama"}',
        "tokenizer.json": b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}',
        "model.safetensors": safetensors_bytes(50_000),
    }
    return files if contract is None else {**files, "contract.json": contract}


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write the files into the folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder
