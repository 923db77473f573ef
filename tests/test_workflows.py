"""What `.github/` holds: linted as `make check` does, pinned, and of one piece with the project.

That the gate's steps do what they say is in ``tests/integration/test_drift_action.py``.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
LINT = ["--strict-exit", "--no-online", "--shellcheck"]
ACTION = ".github/actions/drift-gate/action.yml"
CI, STAGING = ".github/workflows/ci.yml", ".github/workflows/staging-gate.yml"
FILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / ".github").rglob("*.yml"))


def read(path: str) -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
    return content


def steps_of(path: str) -> Iterator[dict[str, Any]]:
    """Yield the steps of a workflow, of all its jobs, or of an action."""
    content = read(path)
    for job in content.get("jobs", {"action": content.get("runs", {})}).values():
        yield from job.get("steps", [])


def gates_of(path: str) -> list[dict[str, Any]]:
    return [step for step in steps_of(path) if step.get("uses") == f"./{Path(ACTION).parent}"]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / "jactionlint"), *LINT, str(BIN / "shellcheck")],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )


def test_the_walk_finds_the_files() -> None:
    assert {ACTION, CI, STAGING} <= set(FILES)


def test_make_check_lints_as_the_tests_do() -> None:
    command = f'"$(VENV)/bin/jactionlint" {" ".join(LINT)} "$(VENV)/bin/shellcheck"'
    target = re.search(r"(?m)^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text())
    assert target is not None
    assert f"\t{command}\n" in target[1]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a repository with a copy of `.github`."""
    (tmp_path / ".git").mkdir()
    shutil.copytree(ROOT / ".github", tmp_path / ".github")
    return tmp_path


def test_the_lint_passes(copy: Path) -> None:
    done = lint(copy)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


BROKEN = {
    "unknown-key": (CI, "timeout-minutes: 30", "timeout-minuts: 30", "workflow-syntax"),
    "no-permissions": (CI, "permissions:\n  contents: read\n", "", "missing-permissions"),
    "by-tag": (CI, "3d3c42e5aac5ba805825da76410c181273ba90b1", "v7", "unpinned-uses"),
    "no-such-input": (CI, 'wait: "600"', 'wait-s: "600"', "wait-s"),
    "input-left-out": (CI, "          url: http://127.0.0.1:8000\n", "", '"url"'),
    "shell": (CI, "tail -n 200 service.log", "tail -n 200 $LOG", "SC2086"),
    "injection": (
        STAGING,
        "- uses: ./.github/actions/drift-gate\n",
        "- run: echo ${{ inputs.url }}\n      - uses: ./.github/actions/drift-gate\n",
        "template-injection",
    ),
    "action-key": (ACTION, "default: drift-gate\n", "defualt: drift-gate\n", "defualt"),
    "action-input": (ACTION, "${{ inputs.margin }}", "${{ inputs.margins }}", "margins"),
    "action-shell": (ACTION, '>>"$GITHUB_OUTPUT"', ">>$GITHUB_OUTPUT", "SC2086"),
    "action-injection": (ACTION, '"--wait=$WAIT"', '"--wait=${{ inputs.wait }}"', "injection"),
}


@pytest.mark.parametrize(("path", "old", "new", "finding"), BROKEN.values(), ids=BROKEN)
def test_the_lint_finds_a_fault(copy: Path, path: str, old: str, new: str, finding: str) -> None:
    file = copy / path
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    done = lint(copy)
    assert done.returncode == 1
    assert finding in done.stdout


@pytest.mark.parametrize("path", FILES)
def test_actions_of_others_are_pinned_by_commit_with_their_version(path: str) -> None:
    for line in (ROOT / path).read_text(encoding="utf-8").splitlines():
        name = line.strip().removeprefix("- ")
        if name.startswith("uses:") and "uses: ./" not in name:
            assert re.fullmatch(r"uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", name)


def test_an_action_is_pinned_to_one_commit_everywhere() -> None:
    commits: dict[str, set[str]] = {}
    for path in FILES:
        for step in steps_of(path):
            name, _, commit = step.get("uses", "").partition("@")
            if commit:
                commits.setdefault(name, set()).add(commit)
    assert set(commits) >= {"actions/checkout", "actions/setup-python", "actions/upload-artifact"}
    assert all(len(own) == 1 for own in commits.values())


@pytest.mark.parametrize("path", [CI, STAGING])
def test_the_gate_is_given_inputs_that_it_has_and_those_that_it_needs(path: str) -> None:
    inputs = read(ACTION)["inputs"]
    needed = {name for name, each in inputs.items() if each.get("required")}
    (gate,) = [
        step for step in steps_of(path) if step.get("uses") == "./.github/actions/drift-gate"
    ]
    assert needed == {"url", "baseline"}
    assert needed <= set(gate["with"]) <= set(inputs)


def test_staging_hands_on_all_that_it_asks_for() -> None:
    # YAML 1.1 reads the key `on` as true.
    asked = read(STAGING)[True]["workflow_dispatch"]["inputs"]
    (gate,) = gates_of(STAGING)
    handed = {name: text for name, text in gate["with"].items() if name != "api-key"}
    assert handed == {name: f"${{{{ inputs.{name} }}}}" for name in asked}


def test_every_make_target_that_a_step_names_is_there() -> None:
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))
    named = {
        target
        for path in FILES
        for step in steps_of(path)
        for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))
    }
    assert {"check", "test", "serve"} <= named <= targets


def test_files_that_a_workflow_names_are_there() -> None:
    (gate,) = gates_of(CI)
    assert (ROOT / gate["with"]["baseline"]).is_file()
    default = read(STAGING)[True]["workflow_dispatch"]["inputs"]["baseline"]["default"]
    assert (ROOT / default).is_file()


@pytest.mark.parametrize("path", FILES)
def test_no_expression_stands_in_shell_and_no_secret_but_the_gates_key(path: str) -> None:
    for step in steps_of(path):
        assert "${{" not in step.get("run", "")
        for place in ("env", "with"):
            for name, value in step.get(place, {}).items():
                if "secrets." in str(value):
                    assert (place, name) == ("with", "api-key")


@pytest.mark.parametrize("path", [CI, STAGING])
def test_a_workflow_may_read_the_repository_alone_and_ends(path: str) -> None:
    content = read(path)
    assert content["permissions"] == {"contents": "read"}
    assert "group" in content["concurrency"]
    for job in content["jobs"].values():
        assert "permissions" not in job
        assert 0 < job["timeout-minutes"] <= 90


def test_the_gate_installs_what_it_imports_and_the_locks_pin_it() -> None:
    text = (ROOT / ACTION).with_name("requirements.txt").read_text(encoding="utf-8")
    wanted = {line for line in text.splitlines() if not line.startswith("#")}
    pinned = {
        line.partition("==")[0]
        for name in ("cpu", "training")
        for line in (ROOT / "requirements" / f"{name}.lock").read_text().splitlines()
    }
    assert wanted <= pinned
    # Other commands may need more, and import it when they run.
    begin = set(imports_of("evaluation/command_line.py", is_deferred_too=False))
    assert foreign_imports({*begin, "evaluation.drift_commands"}) == wanted


def foreign_imports(names: set[str]) -> set[str]:
    """Return the foreign packages that modules import, and what of ours they import imports."""
    found, seen, left = set(), set(), sorted(names)
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        path = f"{name.replace('.', '/')}.py"
        if (ROOT / name.replace(".", "/") / "__init__.py").is_file():
            path = f"{name.replace('.', '/')}/__init__.py"
        if (ROOT / path).is_file():
            left += imports_of(path, is_deferred_too=True)
        elif not (ROOT / name.partition(".")[0]).is_dir():
            found.add(name.partition(".")[0])
    return found - set(sys.stdlib_module_names)


def imports_of(path: str, *, is_deferred_too: bool) -> Iterator[str]:
    """Yield the modules, or things in them, that a module imports by their full names."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree) if is_deferred_too else tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
