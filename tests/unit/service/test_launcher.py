"""The engine's environment: what is chosen, what is said, what stays as the user set it."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.launcher import (
    LaunchPlan,
    detect_device,
    find_tcmalloc,
    launch,
    make_plan,
    usable_cores,
)
from service.settings import Settings

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="libraries are preloaded on Linux only"
)


class Machine:
    """A machine of which the test says what is installed."""

    def __init__(self, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._libraries: dict[str, str] = {}
        self._prefix = prefix
        (prefix / "lib").mkdir()
        monkeypatch.setattr(ctypes.util, "find_library", self._libraries.get)
        monkeypatch.setattr(sys, "prefix", str(prefix))

    def install_tcmalloc(self, name: str = "tcmalloc_minimal") -> None:
        self._libraries[name] = f"lib{name}.so.4"

    def install_iomp(self) -> str:
        path = self._prefix / "lib" / "libiomp5.so"
        path.touch()
        return str(path)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def plan(device: str = "cpu", environ: dict[str, str] | None = None, **values: Any) -> LaunchPlan:
    return make_plan(Settings(cache_dir=Path("/cache"), **values), device, environ or {})


def notes_on(subject: str, made: LaunchPlan) -> list[str]:
    return [note for note in made.notes if note.startswith(f"{subject}: ")]


def test_everything_is_written_below_the_cache_folder(machine: Machine) -> None:
    environ = plan().environ
    assert environ["VLLM_CACHE_ROOT"] == "/cache/vllm"
    assert environ["VLLM_CONFIG_ROOT"] == "/cache/vllm"
    assert environ["TORCHINDUCTOR_CACHE_DIR"] == "/cache/torch"
    assert environ["TRITON_CACHE_DIR"] == "/cache/triton"
    assert environ["HF_HOME"] == "/cache/huggingface"


def test_nobody_is_told_of_the_use(machine: Machine) -> None:
    environ = plan().environ
    assert environ["VLLM_NO_USAGE_STATS"] == "1"
    assert environ["HF_HUB_DISABLE_TELEMETRY"] == "1"


@pytest.mark.parametrize(("level", "engine_level"), [("info", "ERROR"), ("debug", "WARNING")])
def test_the_engine_talks_more_when_debugging(
    level: str, engine_level: str, machine: Machine
) -> None:
    assert plan(log_level=level).environ["VLLM_LOGGING_LEVEL"] == engine_level


def test_what_the_user_has_set_stays(machine: Machine) -> None:
    machine.install_tcmalloc()
    machine.install_iomp()
    environ = {
        "OMP_NUM_THREADS": "3",
        "HF_HOME": "/mine",
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "LD_PRELOAD": "/lib/libjemalloc.so:/lib/libgomp.so.1",
    }
    made = plan(environ=environ)
    assert not set(made.environ) & set(environ)
    assert made.notes[:1] == ["threads: 3, from OMP_NUM_THREADS"]
    assert not notes_on("preload", made)


def test_the_number_of_threads_is_a_setting(machine: Machine) -> None:
    made = plan(environ={"OMP_NUM_THREADS": "3"}, cpu_threads=5)
    assert made.environ["OMP_NUM_THREADS"] == "5"
    assert notes_on("threads", made) == ["threads: 5 (cpu_threads)"]


def test_every_core_computes_by_default(machine: Machine) -> None:
    made = plan()
    cores = usable_cores()
    assert 1 <= cores <= (os.cpu_count() or 1)
    assert made.environ["OMP_NUM_THREADS"] == str(cores)
    assert notes_on("threads", made) == [f"threads: {cores} (every core this process may use)"]


def test_a_process_bound_to_one_core_has_one_thread(machine: Machine) -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
        assert plan().environ["OMP_NUM_THREADS"] == "1"
    finally:
        os.sched_setaffinity(0, before)


def test_the_fast_libraries_are_preloaded_where_they_are(machine: Machine) -> None:
    machine.install_tcmalloc()
    iomp = machine.install_iomp()
    made = plan()
    assert made.environ["LD_PRELOAD"] == f"libtcmalloc_minimal.so.4:{iomp}"
    assert notes_on("preload", made) == [
        "preload: libtcmalloc_minimal.so.4, libiomp5.so (faster memory and threads)"
    ]
    assert "MALLOC_TRIM_THRESHOLD_" not in made.environ


def test_they_come_behind_what_the_user_preloads(machine: Machine) -> None:
    machine.install_tcmalloc("tcmalloc")
    made = plan(environ={"LD_PRELOAD": "/lib/other.so"})
    assert made.environ["LD_PRELOAD"] == "/lib/other.so:libtcmalloc.so.4"


def test_missing_libraries_are_hints(machine: Machine) -> None:
    made = plan()
    assert notes_on("preload", made) == [
        "preload: tcmalloc not found, so memory is slower; on Debian and Ubuntu: apt-get install "
        "libtcmalloc-minimal4",
        "preload: libiomp5 not found, torch's own OpenMP is used",
    ]
    assert "LD_PRELOAD" not in made.environ
    assert made.environ["MALLOC_TRIM_THRESHOLD_"] == "1073741824"
    assert made.environ["MALLOC_MMAP_THRESHOLD_"] == "1073741824"


def test_a_threshold_of_the_user_stays_without_tcmalloc(machine: Machine) -> None:
    made = plan(environ={"MALLOC_TRIM_THRESHOLD_": "5"})
    assert "MALLOC_TRIM_THRESHOLD_" not in made.environ
    assert made.environ["MALLOC_MMAP_THRESHOLD_"] == "1073741824"


def test_a_missing_compiler_is_a_hint(machine: Machine) -> None:
    made = plan(environ={"CXX": "no-such-compiler"})
    assert made.environ["TORCHDYNAMO_DISABLE"] == "1"
    [note] = notes_on("compiler", made)
    assert "apt-get install g++ python3-dev" in note


def test_an_accelerator_needs_none_of_it(machine: Machine) -> None:
    made = plan("cuda")
    assert made.notes == []
    assert not {"OMP_NUM_THREADS", "LD_PRELOAD", "TORCHDYNAMO_DISABLE"} & set(made.environ)
    assert made.environ["HF_HOME"] == "/cache/huggingface"


def test_tcmalloc_is_found_under_either_name(machine: Machine) -> None:
    assert find_tcmalloc() is None
    machine.install_tcmalloc("tcmalloc")
    assert find_tcmalloc() == "libtcmalloc.so.4"
    machine.install_tcmalloc("tcmalloc_minimal")
    assert find_tcmalloc() == "libtcmalloc_minimal.so.4"


def test_the_device_follows_the_installed_build_of_vllm() -> None:
    """A CPU build on a machine with a GPU was taken for a GPU's."""
    assert detect_device() == "cpu"


def test_a_process_runs_itself_again_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    marker = "_HALLUCINATION_DETECTOR_LAUNCHED"
    monkeypatch.setenv(marker, "1")
    launch(Settings(), "cpu")
    assert marker not in os.environ


PROGRAM = """
import os, sys
from service.launcher import launch
from service.settings import Settings

launch(Settings(cache_dir="/cache"), "cuda")
print(os.environ["HF_HOME"], os.environ["VLLM_LOGGING_LEVEL"], os.environ["MINE"], sys.argv[1:])
"""


def test_the_second_run_has_the_planned_environment_and_the_same_arguments() -> None:
    environ = {"PATH": os.environ["PATH"], "MINE": "kept", "VLLM_LOGGING_LEVEL": "DEBUG"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--port", "0"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "/cache/huggingface DEBUG kept ['--port', '0']\n"
