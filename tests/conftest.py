"""Options and fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hallucination-detector")
    group.addoption(
        "--data-dir",
        type=Path,
        default=ROOT.parent / "shared" / "data",
        help="folder of evaluation data that the project does not carry (default: %(default)s)",
    )
    group.addoption("--gpu", action="store_true", help="run the tests that need a GPU too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("gpu"):
        return
    skip = pytest.mark.skip(reason="needs a GPU: run with --gpu on a machine that has one")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    """The folder of evaluation data."""
    folder: Path = request.config.getoption("data_dir")
    if not folder.is_dir():
        pytest.skip(f"no evaluation data in {folder}: name its folder with --data-dir")
    return folder
