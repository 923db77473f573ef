"""What all tests of the service stand on."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run the tests marked ``anyio`` on asyncio alone, as the service does."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DETECTOR_")]:
        monkeypatch.delenv(name)
