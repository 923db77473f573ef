"""What all tests of the service stand on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run the tests marked ``anyio`` on asyncio alone, as the service does."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DETECTOR_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def generated_docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where ``docs/generate.py`` has just written."""
    folder = tmp_path_factory.mktemp("docs")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("DETECTOR_")}
    subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--folder", folder], check=True, env=environ
    )
    return folder
