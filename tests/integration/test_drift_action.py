"""The steps of the action ``drift-gate``, run by bash as a runner would, against a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from support.made_measurement import LENIENT, measure_baseline, read_report, say, write_golden
from support.stub_service import StubService, problem_json

from evaluation.drift_folder import REPORT_FILES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "actions" / "drift-gate"
ACTION = yaml.safe_load((FOLDER / "action.yml").read_text(encoding="utf-8"))
KEY = "open-sesame-0123"
# What the runner fills in besides inputs.
CONTEXT = {"runner.temp": "", "steps.python.outputs.python-path": sys.executable}


@pytest.fixture
def stub() -> Iterator[Any]:
    service = StubService()
    service.reply = lambda body: say(body["response"])
    yield service
    service.close()


@pytest.fixture
def workspace(tmp_path: Path, stub: Any) -> Path:
    """Return a repository that uses the action, and has packages of the project's names."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    golden = write_golden(folder / "golden.jsonl")
    assert measure_baseline(stub, golden, folder / "baseline.json") == 0
    for name in ("client", "evaluation"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('not this one')")
    stub.bodies.clear()
    stub.headers.clear()
    return folder


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(stub: Any, workspace: Path, tmp_path: Path) -> Run:
    """Run a step by its name, with inputs; the gate's environment is this interpreter's."""
    (tmp_path / "drift-gate-venv").symlink_to(sys.prefix)

    def run(name: str, **given: str) -> subprocess.CompletedProcess[str]:
        (step,) = [step for step in ACTION["runs"]["steps"] if step["name"] == name]
        inputs = {name: each.get("default", "") for name, each in ACTION["inputs"].items()}
        inputs |= {
            "url": stub.url,
            "baseline": "baseline.json",
            "golden-set": "golden.jsonl",
            "options": "\n".join(LENIENT),
        } | {name.replace("_", "-"): text for name, text in given.items()}
        values = CONTEXT | {"runner.temp": str(tmp_path)}
        values |= {f"inputs.{name}": text for name, text in inputs.items()}
        environ = {
            name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], text)
            for name, text in step["env"].items()
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=workspace,
            env={
                **os.environ,
                **environ,
                "GITHUB_ACTION_PATH": str(FOLDER),
                "GITHUB_ACTIONS": "true",
                "GITHUB_OUTPUT": str(tmp_path / "output"),
                "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            },
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def outputs(tmp_path: Path) -> dict[str, str]:
    lines = (tmp_path / "output").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


GATE = "Measure and compare"


def test_a_service_that_is_the_same_passes_with_its_key_told_to_nobody(
    run: Run, stub: Any, workspace: Path, tmp_path: Path
) -> None:
    done = run(GATE, api_key=KEY)
    assert done.returncode == 0, done.stderr
    assert outputs(tmp_path) == {"outcome": "same", "exit-code": "0"}
    assert {header["Authorization"] for header in stub.headers} == {f"Bearer {KEY}"}
    assert (tmp_path / "summary.md").read_text().startswith("# Drift gate: same\n")
    reports = [path.read_text() for path in (workspace / "drift-gate").iterdir()]
    assert len(reports) == 4
    for text in (done.stdout, done.stderr, (tmp_path / "summary.md").read_text(), *reports):
        assert KEY not in text


def test_inputs_reach_the_gate(run: Run, stub: Any, workspace: Path, tmp_path: Path) -> None:
    stub.info[2]["calibration"]["threshold"] = 0.4
    assert run(GATE, out="here").returncode == 2
    assert outputs(tmp_path) == {"outcome": "could not measure", "exit-code": "2"}
    assert "the calibration was" in read_report(workspace / "here")["reason"]
    options = "\n".join(word for word in LENIENT if word not in ("--margin", "0.9"))
    done = run(GATE, out="here", accept_change="true", margin="0.5", options=f"{options}\n\n")
    assert done.returncode == 0, done.stderr
    content = read_report(workspace / "here")
    assert content["limits"]["margin"] == 0.5
    assert content["limits"]["alpha"] == 0.0001
    assert "the calibration was" in content["changes"][0]


def test_drift_fails_the_step_and_is_told(run: Run, stub: Any, tmp_path: Path) -> None:
    wrong = [f"c{n:02}" for n in range(25)]
    stub.reply = lambda body: say(body["response"], *wrong)
    done = run(GATE)
    assert done.returncode == 1
    assert outputs(tmp_path) == {"outcome": "worse", "exit-code": "1"}
    assert done.stdout.startswith("::error::worse: failed: correctness")
    assert done.stdout.count("\n") == 1


def test_a_refused_key_is_an_error_in_every_report(
    run: Run, stub: Any, workspace: Path, tmp_path: Path
) -> None:
    stub.info = (401, {}, problem_json(401, "unauthorized", "send a key"))
    done = run(GATE)
    assert done.returncode == 2
    assert outputs(tmp_path) == {"outcome": "could not measure", "exit-code": "2"}
    assert done.stdout.startswith("::error::could not measure: the service does not say what it")
    suite = ElementTree.parse(workspace / "drift-gate" / "junit.xml").getroot()
    assert suite.attrib["errors"] == "1"
    assert "401 Unauthorized: send a key" in (tmp_path / "summary.md").read_text()


def test_a_gate_that_did_not_even_begin_is_no_drift(
    run: Run, workspace: Path, tmp_path: Path
) -> None:
    """Python's own exit code is 1, which says that there is drift."""
    (tmp_path / "drift-gate-venv").unlink()
    (tmp_path / "drift-gate-venv" / "bin").mkdir(parents=True)
    broken = tmp_path / "drift-gate-venv" / "bin" / "python"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert run(GATE).returncode == 2
    assert outputs(tmp_path) == {"outcome": "could not measure", "exit-code": "2"}


def test_no_input_is_run_or_taken_for_an_option(
    run: Run, stub: Any, workspace: Path, tmp_path: Path
) -> None:
    """An older report must not speak for a run that did not come to one."""
    folder = workspace / "drift-gate"
    folder.mkdir()
    for name in REPORT_FILES:
        (folder / name).write_text('{"outcome": "same"}')
    hostile = '0.1"; touch ran; $(touch ran) `touch ran` --accept-change'
    assert run(GATE, margin=hostile).returncode == 2
    assert outputs(tmp_path) == {"outcome": "could not measure", "exit-code": "2"}
    assert list(folder.iterdir()) == []
    assert run(GATE, url=hostile, golden_set=hostile, baseline=hostile).returncode == 2
    assert not (workspace / "ran").exists()
    assert stub.bodies == []


def test_the_key_is_hidden_where_there_is_one(run: Run) -> None:
    assert run("Hide the key", api_key=KEY).stdout == f"::add-mask::{KEY}\n"
    assert run("Hide the key").stdout == ""
