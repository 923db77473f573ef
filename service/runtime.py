"""The parts of one running service, as the handlers see them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from service.engine.base import Engine
from service.judge import Judge
from service.lifecycle import Lifecycle
from service.problems import INTERNAL, problem_type, to_problem
from service.settings import Settings
from service.telemetry import Metrics

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Runtime:
    """Made once, by ``create_app``."""

    settings: Settings
    engine: Engine
    metrics: Metrics
    lifecycle: Lifecycle
    judge: Judge

    def report(self, error: Exception, request_id: str) -> dict[str, Any]:
        """Count an item that ended without a verdict and return its problem."""
        self.metrics.count_problem(problem_type(error).slug)
        return describe(error, request_id)


def describe(error: Exception, request_id: str) -> dict[str, Any]:
    """Return the problem of an error; an unexpected one is logged with its traceback."""
    if problem_type(error) is INTERNAL:
        logger.error("%s: unexpected error", request_id, exc_info=error)
    return to_problem(error, request_id)
