"""A recipe from the Hub: the real client in a process of its own, against a Hub on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest

from evaluation.golden_set import content_hash, load_golden_set
from evaluation.recipes import find_recipe, load_recipe, make_case, short_hash

ROOT = Path(__file__).resolve().parents[3]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILE = f"/datasets/acme/made/resolve/{COMMIT}/qa/all.parquet"
COLUMNS = {"knowledge": "k", "question": "q", "right": "r", "wrong": "w"}


def make_parquet(path: Path, num_rows: int, first: str = "0 metres") -> bytes:
    """Rows whose every text says their number, but for the first right response."""
    numbers = range(num_rows)
    table = pyarrow.table(
        {
            "k": [f"Pool {i} is {i} metres long." for i in numbers],
            "q": [f"How long is pool {i}?" for i in numbers],
            "r": [first, *(f"{i} metres" for i in numbers[1:])],
            "w": [f"It is {i + 50} metres." for i in numbers],
            "other": list(numbers),
        }
    )
    parquet.write_table(table, path)
    return path.read_bytes()


class Hub:
    """Serves one file of a data set, as far as the client asks; notes the paths."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.paths: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                """Keep the tests' output clean."""

            def answer(self) -> bytes:
                hub.paths.append(f"{self.command} {self.path}")
                body = hub.files.get(self.path)
                self.send_response(404 if body is None else 200)
                if body is None:
                    self.send_header("X-Error-Code", "RevisionNotFound")
                else:
                    digest = hashlib.sha256(body).hexdigest()
                    self.send_header("ETag", f'"{digest}"')
                    self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                return body or b""

            def do_HEAD(self) -> None:
                self.answer()

            def do_GET(self) -> None:
                self.wfile.write(self.answer())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    yield server
    server.close()


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Rows 2 and 0 of the set, in that order."""
    rows = [
        {
            "knowledge": f"Pool {i} is {i} metres long.",
            "question": f"How long is pool {i}?",
            "right": f"{i} metres",
            "wrong": f"It is {i + 50} metres.",
        }
        for i in range(3)
    ]
    lines = [("2", "correct", "It is {right}."), ("0", "hallucination", "{wrong}")]
    raw: dict[str, Any] = {
        "format": 1,
        "dataset": {"title": "Made", "url": "u", "licence": "CC0", "language": "en"},
        "selection": "All.",
        "sources": {
            "hub": {"repo": "acme/made", "revision": COMMIT, "config": "qa", "split": "data",
                    "file": "qa/all.parquet", "columns": COLUMNS},
        },
        "pair": "made-{row}",
        "treatments": {"kept": "as it is"},
        "counts": {"hallucination": 1, "correct": 1},
        "sha256": "",
        "cases": [
            {"id": f"made-{row}", "row": row, "treatment": "kept", "label": label,
             "response": response, "sha256": ""}
            for row, label, response in lines
        ],
    }  # fmt: skip
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(raw))
    head = load_recipe(path)
    made = [make_case(head, case, rows[int(case.row)]) for case in head.cases]
    for line, case in zip(raw["cases"], made, strict=True):
        line["sha256"] = short_hash(case)
    raw["sha256"] = content_hash(made)
    path.write_text(json.dumps(raw))
    return path


def materialise(hub: Hub, recipe: Path, out: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HF_") and not name.lower().endswith("_proxy")
    }
    return subprocess.run(
        [sys.executable, "-m", "evaluation", "materialise", str(recipe), "--out", str(out)],
        cwd=ROOT,
        env=environment
        | {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(recipe.parent / "hf"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_rows_come_from_the_pinned_commit(hub: Hub, recipe: Path, tmp_path: Path) -> None:
    hub.files[FILE] = make_parquet(tmp_path / "rows.parquet", 3)
    out = tmp_path / "golden.jsonl"
    done = materialise(hub, recipe, out)
    assert done.returncode == 0, done.stderr
    golden = load_golden_set(out)
    assert golden.sha256 == load_recipe(recipe).sha256
    assert [case.response for case in golden.cases] == ["It is 2 metres.", "It is 50 metres."]
    assert golden.cases[0].knowledge == ("Pool 2 is 2 metres long.",)
    assert f"GET {FILE}" in hub.paths


@pytest.mark.parametrize(
    ("num_rows", "first", "message"),
    [
        (2, "0 metres", f"acme/made@{COMMIT} lacks 1 of the 2 rows of the recipe: 2. It has to be"),
        (None, "", "cannot be had from the Hub: "),
    ],
    ids=["fewer-rows", "no-such-commit"],
)
def test_what_the_hub_lacks_is_named_and_nothing_is_written(
    hub: Hub, recipe: Path, tmp_path: Path, num_rows: int | None, first: str, message: str
) -> None:
    if num_rows is not None:
        hub.files[FILE] = make_parquet(tmp_path / "rows.parquet", num_rows, first)
    out = tmp_path / "out" / "golden.jsonl"
    done = materialise(hub, recipe, out)
    assert done.returncode == 2
    assert "could not materialise: " in done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(out.parent.iterdir()) == []


def test_columns_that_are_others_are_named(hub: Hub, recipe: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"k": ["x"], "text": ["y"]}), path)
    hub.files[FILE] = path.read_bytes()
    done = materialise(hub, recipe, tmp_path / "golden.jsonl")
    assert done.returncode == 2
    assert "has no column q, r, w; it has k, text" in done.stderr


def test_the_own_recipes_name_the_commit_that_training_names() -> None:
    """One revision of HaluEval for all: golden set and training rows have the same numbers."""
    config = (ROOT / "training/configs/qwen3-4b/qa-paired.toml").read_text(encoding="utf-8")
    for name in ("halueval-qa-treated", "halueval-qa-length-matched"):
        source = load_recipe(find_recipe(name)).sources.hub
        assert source is not None
        named = (
            f'repo = "{source.repo}"\nconfig = "{source.config}"\nsplit = "{source.split}"\n'
            f'revision = "{source.revision}"\n'
        )
        assert named in config
