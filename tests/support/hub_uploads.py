"""The half of the stub hub that takes: a new repository, large files, commits, tags.

Endpoints and answers are those that huggingface_hub 1.33 uses where Xet is off: plain large-file
storage with one PUT a file. A fault's status refuses before anything is done; its
``cut_after_bytes`` does the work and then loses the answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from support.stub_hub import Fault, StubHub

LARGE_SUFFIX = ".safetensors"
"""Files with it go to large-file storage."""

FIRST_COMMIT = "1" * 40
"""Of a repository that has just been made; it holds what the Hub puts there."""


def git_hash(data: bytes) -> str:
    """Git's hash of a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class UploadRoutes(BaseHTTPRequestHandler):
    """Mixed into the stub hub's handler, which answers, finds faults and notes requests."""

    def do_POST(self) -> None:
        hub = self.note_request()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = unquote(urlsplit(self.path).path)
        of_model = f"/api/models/{hub.repo}"
        routes = {
            "/api/repos/create": ("create", self._create),
            "/api/validate-yaml": ("yaml", self._accept),
            f"{of_model}/preupload/main": ("preupload", self._preupload),
            f"/{hub.repo}.git/info/lfs/objects/batch": ("batch", self._batch),
            "/verify": ("verify", self._verify),
            f"{of_model}/commit/main": ("commit", self._commit),
        }
        is_tag = path.startswith(f"{of_model}/tag/")
        route = ("tag", self._tag) if is_tag else routes.get(path)
        if route is None:
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        else:
            where, act = route
            self._act(where, lambda: act(hub, body))

    def do_PUT(self) -> None:
        hub = self.note_request()
        data = self._read_body()
        oid = self.path.rpartition("/")[2]

        def store() -> tuple[int, Any]:
            if hashlib.sha256(data).hexdigest() != oid:
                return 400, {"error": "other bytes than were announced"}
            hub.objects[oid] = data
            return 200, {}

        self._act("upload", store)

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"]))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _act(self, where: str, act: Callable[[], tuple[int, Any]]) -> None:
        fault = self.find_fault(where)
        if fault and fault.status:
            self.answer(fault.status, b"{}", fault.headers)
            return
        status, content = act()
        if not (fault and fault.cut_after_bytes is not None):
            headers = {} if status < 400 else {"X-Error-Message": content["error"]}
            self.answer(status, json.dumps(content).encode(), headers)

    def _accept(self, hub: StubHub, body: bytes) -> tuple[int, Any]:
        return 200, {}

    def _create(self, hub: StubHub, body: bytes) -> tuple[int, Any]:
        asked = json.loads(body)
        if hub.is_there:
            return 409, {"error": "You already created this model repo", "url": hub.url}
        if f"{asked['organization']}/{asked['name']}" != hub.repo:
            return 403, {"error": "You don't have the rights to create a model there"}
        hub.is_there = True
        hub.is_private = asked.get("visibility") == "private"
        hub.commits = {FIRST_COMMIT: {".gitattributes": b"*.safetensors filter=lfs\n"}}
        hub.branches = {"main": FIRST_COMMIT}
        return 200, {"url": hub.url, "name": hub.repo}

    def _preupload(self, hub: StubHub, body: bytes) -> tuple[int, Any]:
        held = hub.commits[hub.branches["main"]]
        files = []
        for file in json.loads(body)["files"]:
            path, is_large = file["path"], file["path"].endswith(LARGE_SUFFIX)
            oid = None
            if path in held:
                data = held[path]
                oid = hashlib.sha256(data).hexdigest() if is_large else git_hash(data)
            mode = "lfs" if is_large else "regular"
            files.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return 200, {"files": files}

    def _batch(self, hub: StubHub, body: bytes) -> tuple[int, Any]:
        objects: list[dict[str, Any]] = []
        for asked in json.loads(body)["objects"]:
            entry = {"oid": asked["oid"], "size": asked["size"]}
            if asked["oid"] not in hub.objects:
                entry["actions"] = {
                    "upload": {"href": f"{hub.cdn}/upload/{asked['oid']}"},
                    "verify": {"href": f"{hub.endpoint}/verify"},
                }
            objects.append(entry)
        return 200, {"transfer": "basic", "objects": objects}

    def _verify(self, hub: StubHub, body: bytes) -> tuple[int, Any]:
        asked = json.loads(body)
        is_whole = len(hub.objects.get(asked["oid"], b"")) == asked["size"]
        return (200, {}) if is_whole else (404, {"error": "not stored"})

    def _commit(self, hub: StubHub, body: bytes) -> tuple[int, Any]:
        rows = [json.loads(line) for line in body.splitlines()]
        header = rows[0]["value"]
        parent = hub.branches["main"]
        if header.get("parentCommit", parent) != parent:
            return 412, {"error": "a commit has happened since"}
        files = dict(hub.commits[parent])
        for row in rows[1:]:
            value = row["value"]
            if row["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif row["key"] == "lfsFile":
                if value["oid"] not in hub.objects:
                    return 400, {"error": f"{value['path']} was not uploaded"}
                files[value["path"]] = hub.objects[value["oid"]]
            else:
                del files[value["path"]]
        commit = hashlib.sha1(parent.encode() + body, usedforsecurity=False).hexdigest()
        hub.commits[commit] = files
        hub.branches["main"] = commit
        hub.messages.append(header["summary"])
        return 200, {"commitUrl": f"{hub.url}/commit/{commit}", "commitOid": commit}

    def _tag(self, hub: StubHub, body: bytes) -> tuple[int, Any]:
        tag = json.loads(body)["tag"]
        if tag in hub.tags:
            return 409, {"error": "Tag reference exists already"}
        revision = unquote(self.path).rpartition("/")[2]
        hub.tags[tag] = hub.branches.get(revision, revision)
        return 200, {}

    def note_request(self) -> StubHub:
        """Keep the request for the test, and return the hub."""
        raise NotImplementedError

    def find_fault(self, where: str) -> Fault | None:
        """Return the fault that this request meets."""
        raise NotImplementedError

    def answer(
        self, status: int, body: bytes, headers: Mapping[str, str], cut: int | None = None
    ) -> None:
        """Send an answer."""
        raise NotImplementedError
