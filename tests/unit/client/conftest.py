"""A verdict as it is on the wire, and a service that answers as it is told."""

import copy

import pytest
from support.stub_service import ANSWER, StubService, problem_json


@pytest.fixture
def answer():
    """Return a fresh answer of ``POST /classify``."""
    return copy.deepcopy(ANSWER)


@pytest.fixture
def make_problem():
    """Return the maker of problems."""
    return problem_json


@pytest.fixture
def stub():
    """Run a stub service on a free port."""
    service = StubService()
    yield service
    service.close()
