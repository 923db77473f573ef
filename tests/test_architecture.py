"""The tree is the architecture: who may import whom, and what may stand where.

An AST walk holds every module to the rules; subprocesses show that the contract needs nothing but
the standard library and that the service's API needs no model library.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Package -> what of ours it may import.
ARROWS = {
    "contract": {"contract"},
    "service": {"contract", "service"},
    "client": {"client", "contract"},
    "evaluation": {"client", "contract", "evaluation"},
    "loadtest": {"client", "contract", "evaluation", "loadtest"},
    "training": {"contract", "evaluation", "training"},
}
# Imported by nobody but themselves; the last three are what tests/ puts on the path.
LEAVES = {"deploy", "docker", "loadtest", "tests", "support", "golden_files", "conftest"}
OURS = {*ARROWS, *LEAVES}
HEAVY = {"torch", "transformers", "trl", "peft", "datasets", "vllm"}
# Subclasses of a library's trainer need it when they are defined. Only they themselves and
# functions import them, so that a command's help, or a test of anything else, does without.
MAY_IMPORT_MODELS = {
    "training/supervised_trainer.py": "is a Trainer of transformers",
    "training/verdict_trainer.py": "is a GRPOTrainer of TRL",
    "training/ppo_trainer.py": "is a verdict trainer with a critic, which is a torch module",
}
MAY_IMPORT_VLLM = {
    "service/engine/vllm.py": "the one engine that serves",
    "loadtest/bare_engine.py": "measures the engine without the service, in a process of its own",
}
ENGINE_MAY_IMPORT = (
    "service.engine",
    "service.errors",
    "service.settings",
    "service.weights",
)
LABELS = {"hallucination", "correct"}
MAY_WRITE_LABELS = {
    "contract/labels.py": "the label set",
    "service/openapi.py": "examples show an answer as it is on the wire",
}
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
MAX_LINES = 400


@dataclass(frozen=True)
class Import:
    """One imported name, dotted in full, such as ``service.errors`` or ``vllm.SamplingParams``.

    Attributes:
        name: Absolute, also where the source says ``from . import name``.
        line: Where it stands.
        is_deferred: It is inside a function or for type checkers only.
    """

    name: str
    line: int
    is_deferred: bool

    @property
    def top(self) -> str:
        """The package that it comes from."""
        return self.name.partition(".")[0]

    def is_within(self, module: str) -> bool:
        """Whether it is the module, or something in it."""
        return self.name == module or self.name.startswith(f"{module}.")


class ImportCollector(ast.NodeVisitor):
    """Collects imports in whatever form: statements, relative ones, ``import_module("...")``."""

    def __init__(self, path: str) -> None:
        """Start with the path of the module, which relative imports need."""
        self.package = PurePosixPath(path).parent.parts
        self.imports: list[Import] = []
        self.depth = 0

    def add(self, name: str, node: ast.stmt | ast.expr) -> None:
        self.imports.append(Import(name, node.lineno, self.depth > 0))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = list(self.package[: len(self.package) - node.level + 1]) if node.level else []
        for alias in node.names:
            self.add(".".join([*base, *filter(None, [node.module]), alias.name]), node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        if called in ("import_module", "__import__") and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                self.add(argument.value, node)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        is_for_types = ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        self.visit(node.test)
        self.depth += is_for_types
        for statement in node.body:
            self.visit(statement)
        self.depth -= is_for_types
        for statement in node.orelse:
            self.visit(statement)

    def visit_function(self, node: ast.AST) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_function


def imports_of(path: str, tree: ast.Module) -> list[Import]:
    """Return all imports of a module."""
    collector = ImportCollector(path)
    collector.visit(tree)
    return collector.imports


def faults(path: str, source: str) -> list[str]:
    """Return what a module breaks, each fault with its line where it has one.

    Args:
        path: From the root of the repository, with slashes.
        source: Its text.
    """
    tree = ast.parse(source)
    imports = imports_of(path, tree)
    return [
        *_arrow_faults(path, imports),
        *_library_faults(path, imports),
        *_service_faults(path, imports),
        *_label_faults(path, tree),
        *_name_faults(path),
    ]


def _arrow_faults(path: str, imports: list[Import]) -> Iterator[str]:
    package = path.partition("/")[0]
    for found in imports:
        if found.top == package:
            continue
        if package in ARROWS and found.top in OURS and found.top not in ARROWS[package]:
            yield f"line {found.line}: {package} must not import {found.top}"
        elif found.top in LEAVES and package not in LEAVES:
            yield f"line {found.line}: nothing imports {found.top}"
        elif package == "contract" and found.top not in sys.stdlib_module_names:
            yield f"line {found.line}: contract is standard library only, not {found.top}"


def _library_faults(path: str, imports: list[Import]) -> Iterator[str]:
    package = path.partition("/")[0]
    for found in imports:
        if found.top == "vllm" and path not in MAY_IMPORT_VLLM:
            yield f"line {found.line}: only {sorted(MAY_IMPORT_VLLM)} import vllm"
        if found.top in HEAVY and package in ("contract", "service", "client"):
            if not found.is_deferred:
                yield f"line {found.line}: import {found.top} inside the function that needs it"
        elif found.top in HEAVY and package == "evaluation":
            yield f"line {found.line}: evaluation does without {found.top}"
        elif package == "training" and path not in MAY_IMPORT_MODELS and _needs_models(found):
            yield f"line {found.line}: import {found.name} inside the function that needs it"


def _needs_models(found: Import) -> bool:
    trainers = (path.removesuffix(".py").replace("/", ".") for path in MAY_IMPORT_MODELS)
    return not found.is_deferred and (found.top in HEAVY or any(map(found.is_within, trainers)))


def _service_faults(path: str, imports: list[Import]) -> Iterator[str]:
    for found in imports:
        is_up = found.top == "service" and not any(map(found.is_within, ENGINE_MAY_IMPORT))
        if path.startswith("service/engine/") and is_up:
            yield f"line {found.line}: an engine knows nothing of {found.name}"
        if path == "service/detector.py" and found.top in ("fastapi", "starlette", "vllm"):
            yield f"line {found.line}: the detector knows nothing of {found.top}"
        for one, other in (("fake", "vllm"), ("vllm", "fake")):
            if path == f"service/engine/{one}.py" and found.is_within(f"service.engine.{other}"):
                yield f"line {found.line}: engines do not know each other"


def _label_faults(path: str, tree: ast.Module) -> Iterator[str]:
    if path.partition("/")[0] not in ("contract", "service", "client") or path in MAY_WRITE_LABELS:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in LABELS:
            yield f"line {node.lineno}: write Label.{node.value.upper()}, not {node.value!r}"


def _name_faults(path: str) -> Iterator[str]:
    for part in PurePosixPath(path).with_suffix("").parts:
        if part in VAGUE_NAMES:
            yield f"{part} says nothing about what is in it"


MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in sorted({*ARROWS, "deploy", "docker"})
    for path in (ROOT / package).rglob("*.py")
)


def test_the_walk_finds_the_modules() -> None:
    assert {"contract/labels.py", "service/app.py", "service/engine/vllm.py"} <= set(MODULES)


@pytest.mark.parametrize("path", MODULES)
def test_module_keeps_the_rules(path: str) -> None:
    assert faults(path, (ROOT / path).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", MODULES)
def test_module_is_short_enough_to_read(path: str) -> None:
    assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", sorted({*MAY_IMPORT_VLLM, *MAY_WRITE_LABELS, *MAY_IMPORT_MODELS}))
def test_every_exception_is_still_one(path: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    elsewhere = f"{path.partition('/')[0]}/elsewhere.py"
    assert faults(elsewhere, source)


def test_no_package_stands_under_tests() -> None:
    """An ``__init__.py`` there would shadow the package that its folder is named after."""
    assert list((ROOT / "tests").rglob("__init__.py")) == []


FAULTY = {
    "up": ("contract/x.py", "import service", "contract must not import service"),
    "contract-third-party": ("contract/x.py", "import pydantic", "not pydantic"),
    "deferred-too": ("contract/x.py", "def f():\n    import httpx", "line 2: contract is"),
    "sideways": ("service/x.py", "import client", "must not import client"),
    "training": ("service/x.py", "from training import x", "import training"),
    "service": ("training/x.py", "from service import x", "import service"),
    "client": ("training/x.py", "import client.sync", "must not import client"),
    "client-up": ("client/x.py", "import evaluation", "must not import evaluation"),
    "eval-up": ("evaluation/x.py", "import training", "must not import training"),
    "leaf": ("evaluation/x.py", "import loadtest", "must not import loadtest"),
    "loadtest": ("loadtest/x.py", "import service.app", "import service"),
    "tests": ("service/x.py", "import tests.x", "must not import tests"),
    "test-support": ("service/x.py", "import golden_files", "import golden_files"),
    "deploy": ("training/x.py", "import deploy.x", "must not import deploy"),
    "script": ("requirements/x.py", "import loadtest", "nothing imports loadtest"),
    "types": ("client/x.py", "if TYPE_CHECKING:\n    import service", "import service"),
    "import-module": ("client/x.py", "import_module('service.app')", "import service"),
    "importlib": ("client/x.py", "importlib.import_module('service')", "import service"),
    "dunder": ("client/x.py", "__import__('service')", "must not import service"),
    "vllm": ("service/x.py", "import vllm", "only ['loadtest/bare_engine.py'"),
    "vllm-deferred": ("training/x.py", "def f():\n    from vllm import LLM", "line 2: only"),
    "torch": ("service/x.py", "import torch", "import torch inside"),
    "class-body": ("service/x.py", "class A:\n    import trl", "line 2: import trl"),
    "try": ("client/x.py", "try:\n    from datasets import x\nfinally:\n    pass", "line 2"),
    "if": ("service/x.py", "if x:\n    import transformers.a", "transformers inside"),
    "else-of-type-checking": (
        "service/x.py",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import torch",
        "line 4: import torch",
    ),
    "vllm-at-top": ("service/engine/vllm.py", "import vllm", "import vllm inside"),
    "evaluation": ("evaluation/x.py", "def f():\n    import torch", "does without torch"),
    "evaluation-2": ("evaluation/x.py", "from peft import x", "does without peft"),
    "torch-in-training": ("training/x.py", "import torch", "import torch inside"),
    "trl-in-training": ("training/x.py", "from trl import x", "import trl.x inside"),
    "trainer": ("training/x.py", "from training.ppo_trainer import P", "ppo_trainer.P inside"),
    "trainer-relative": ("training/x.py", "from . import verdict_trainer", "trainer inside"),
    "vllm-in-a-trainer": ("training/ppo_trainer.py", "import vllm", "only ['loadtest"),
    "engine-up": ("service/engine/x.py", "from service import app", "nothing of service.app"),
    "relative": ("service/engine/x.py", "from ..detector import D", "service.detector.D"),
    "relative-package": ("service/engine/x.py", "from .. import routes", "service.routes"),
    "engines": ("service/engine/fake.py", "from .vllm import x", "do not know each other"),
    "detector": ("service/detector.py", "from fastapi import x", "nothing of fastapi"),
    "detector-2": ("service/detector.py", "def f():\n    import starlette", "of starlette"),
    "label": ("service/x.py", "y = 'correct'", "write Label.CORRECT"),
    "label-2": ("client/x.py", "y == 'hallucination'", "Label.HALLUCINATION"),
    "label-literal": ("service/x.py", "Literal['a', 'correct']", "line 1: write"),
    "vague-module": ("service/utils.py", "", "utils says nothing"),
    "vague-folder": ("service/common/x.py", "", "common says nothing"),
}


@pytest.mark.parametrize(("path", "source", "fault"), FAULTY.values(), ids=FAULTY)
def test_the_checker_finds_a_fault(path: str, source: str, fault: str) -> None:
    found = faults(path, source)
    assert len(found) >= 1
    assert any(fault in message for message in found), found


SOUND = {
    "own": ("contract/x.py", "import json, contract.labels\nfrom . import reply"),
    "down": ("service/x.py", "import fastapi\nfrom contract.labels import Label"),
    "torch-deferred": ("service/x.py", "def f():\n    import torch"),
    "torch-in-async": ("service/x.py", "async def f():\n    import torch"),
    "torch-for-types": ("service/x.py", "if TYPE_CHECKING:\n    import torch"),
    "training": ("training/x.py", "import numpy, evaluation.metrics, training.tries"),
    "training-deferred": ("training/x.py", "def f():\n    import torch, training.ppo_trainer"),
    "training-types": ("training/x.py", "if TYPE_CHECKING:\n    from peft import PeftModel"),
    "trainers": ("training/ppo_trainer.py", "import torch, training.verdict_trainer"),
    "evaluation": ("evaluation/x.py", "from client import DetectorClient"),
    "reports": ("loadtest/x.py", "from evaluation.page import render_page"),
    "service-as-a-process": ("loadtest/x.py", "run([python, '-m', 'service'])"),
    "engine": ("service/engine/vllm.py", "def f():\n    import vllm"),
    "base": ("service/engine/x.py", "from service.engine.base import Engine"),
    "names-that-only-begin-so": ("service/x.py", "import loadtesting, servicex"),
    "names-are-no-literals": ("service/x.py", "f(correct=1).hallucination"),
    "in-a-text": ("service/x.py", '"""A correct one."""\ny = "Class: correct"'),
    "labels-in-training": ("training/x.py", "y = 'correct'"),
}


@pytest.mark.parametrize(("path", "source"), SOUND.values(), ids=SOUND)
def test_the_checker_lets_the_rest_pass(path: str, source: str) -> None:
    assert faults(path, source) == []


IMPORT_ALL_OF_CONTRACT = """
import pkgutil, sys

class OnlyStandardLibrary:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top != "contract" and top not in sys.stdlib_module_names:
            raise ImportError(f"{name} is not in the standard library")

sys.meta_path.insert(0, OnlyStandardLibrary())
sys.path.insert(0, sys.argv[1])
import contract
for module in pkgutil.walk_packages(contract.__path__, "contract."):
    __import__(module.name)
    print(module.name)
"""


def import_contract(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-B", "-c", IMPORT_ALL_OF_CONTRACT, str(root)],
        check=False,
        capture_output=True,
        text=True,
    )


def test_the_contract_imports_with_the_standard_library_alone() -> None:
    done = import_contract(ROOT)
    assert done.stderr == ""
    assert set(done.stdout.split()) == {
        f"contract.{path.stem}" for path in (ROOT / "contract").glob("*.py")
    } - {"contract.__init__"}


def test_a_contract_that_needs_more_does_not_import(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "contract", tmp_path / "contract")
    (tmp_path / "contract" / "extra.py").write_text("import pytest\n", encoding="utf-8")
    done = import_contract(tmp_path)
    assert done.returncode == 1
    assert "pytest is not in the standard library" in done.stderr


IMPORT_APP = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocked())
import service.app
print(sorted(set(sys.modules) & {blocked}), service.app.create_app.__name__)
"""


@pytest.mark.parametrize(
    ("blocked", "stdout", "error"),
    [
        pytest.param(HEAVY, "[] create_app\n", "", id="model-libraries"),
        pytest.param({"fastapi"}, "", "fastapi is blocked", id="the-block-works"),
    ],
)
def test_the_api_imports_without_the_model_libraries(
    blocked: set[str], stdout: str, error: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", IMPORT_APP.format(blocked=blocked)],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout == stdout, done.stderr
    assert error in done.stderr
