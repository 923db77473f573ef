"""What is watched while a stage trains: its rollouts, its times, and whether it still learns.

A stage gives its rollouts to a ``Monitor``, which writes ``metrics.jsonl`` and says when to end a
run that no longer learns. ``training.trainer_watch`` ties one to a transformers trainer; a loop of
our own calls the same methods in the same order: ``begin``, then for each step ``begin_step``,
``observe``, ``end_step``, ``log``, ``raise_if_stopped``, and ``save`` at a checkpoint.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from training.errors import CheckpointError, StoppedRunError
from training.group_statistics import Rollout, StepStatistics, add_up, summarise
from training.metrics_file import METRICS_NAME, MetricsFile, Row
from training.runs import write_json
from training.starvation import StopRules

if TYPE_CHECKING:
    from training.config import StopConfig

STATE_NAME = "monitor.json"
"""In a checkpoint: what the stop rules have counted."""

Gather = Callable[[list[Rollout]], list[Rollout]]

logger = logging.getLogger(__name__)


class Phase(StrEnum):
    """A part of a step that is timed; what is left of the step is the update."""

    ROLLOUT = "rollout"
    SCORE = "score"


class Monitor:
    """Gathers what a stage does between two logged steps."""

    def __init__(
        self, folder: Path, stops: StopConfig, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Take a stage's folder, where the metrics go; nothing is touched before ``begin``.

        Args:
            folder: Of the stage.
            stops: When to end the run.
            clock: Seconds since any moment; it never goes back.
        """
        self._folder = folder
        self._clock = clock
        self._gather: Gather = list
        self._rules = StopRules(stops)
        self._metrics: MetricsFile | None = None
        self._rollouts: list[Rollout] = []
        self._steps: list[StepStatistics] = []
        self._seconds: list[dict[str, float]] = []
        self._began_s: float | None = None
        self._phases = dict.fromkeys(Phase, 0.0)
        self.stopped: StoppedRunError | None = None

    def begin(
        self,
        step: int = 0,
        checkpoint: Path | None = None,
        is_main_process: bool = True,
        gather: Gather = list,
    ) -> None:
        """Start at a step, with the rows and the counts up to it.

        Args:
            step: That of the checkpoint, 0 for a new run.
            checkpoint: Folder to go on from.
            is_main_process: Only that one writes.
            gather: Returns the rollouts of all processes, to each of them the same: they stop
                together or not at all.

        Raises:
            CheckpointError: What the checkpoint holds of the stop rules cannot be used.
            TrainingError: The metrics cannot be written, or the file holds something else.
        """
        self._gather = gather
        if checkpoint is not None:
            self._restore(checkpoint / STATE_NAME)
        if is_main_process:
            self.close()
            self._metrics = MetricsFile(self._folder / METRICS_NAME, step)

    def _restore(self, path: Path) -> None:
        try:
            state = json.loads(path.read_bytes())
        except FileNotFoundError:
            logger.warning("%s is missing: the stop rules count from 0", path)
            return
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{path} cannot be read ({error}): delete it, and the stop rules count from 0"
            ) from error
        self._rules.restore(state if isinstance(state, dict) else {})

    def begin_step(self) -> None:
        """Start the clock of a step; what was not of a step is forgotten."""
        self._rollouts.clear()
        self._phases = dict.fromkeys(Phase, 0.0)
        self._began_s = self._clock()

    @contextmanager
    def timed(self, phase: Phase) -> Iterator[None]:
        """Add the time of a block to a phase of the step; blocks must not lie in each other."""
        start_s = self._clock()
        try:
            yield
        finally:
            self._phases[phase] += self._clock() - start_s

    def observe(self, rollouts: Iterable[Rollout]) -> None:
        """Take the scored replies of a step; those between two steps are an evaluation's."""
        if self._began_s is not None:
            self._rollouts.extend(rollouts)

    def end_step(self) -> None:
        """Close a step. Whether it was the last one stands in ``stopped``."""
        if self._began_s is None:
            return
        step_s, self._began_s = self._clock() - self._began_s, None
        seconds = {f"{phase}_s": value for phase, value in self._phases.items()}
        update_s = max(0.0, step_s - math.fsum(seconds.values()))
        self._seconds.append({**seconds, "update_s": update_s, "step_s": step_s})
        self._steps.append(summarise(self._gather(self._rollouts)))
        self._rollouts.clear()
        try:
            self._rules.update(self._steps[-1])
        except StoppedRunError as error:
            self.stopped = error

    def log(self, step: int, values: Mapping[str, float | None]) -> Row:
        """Write a row: the values, the statistics of the steps since the last one, and their times.

        Times are the mean of a step. With several processes, they are those of the main one.
        """
        row: Row = dict(values)
        row.update(add_up(self._steps).metrics())
        for name in self._seconds[0] if self._seconds else ():
            row[name] = math.fsum(each[name] for each in self._seconds) / len(self._seconds)
        self._steps.clear()
        self._seconds.clear()
        self._write(step, row)
        return row

    def log_validation(self, step: int, values: Mapping[str, float | None]) -> None:
        """Add what an evaluation found to the row of a step, each name after ``validation_``."""
        self._write(step, {f"validation_{name}": value for name, value in values.items()})

    def _write(self, step: int, row: Row) -> None:
        if self._metrics is not None:
            self._metrics.log(step, row)

    def save(self, checkpoint: Path) -> None:
        """Put the counts of the stop rules into a checkpoint."""
        if self._metrics is not None:
            write_json(checkpoint / STATE_NAME, self._rules.state())

    def raise_if_stopped(self) -> None:
        """End the run.

        Raises:
            StoppedRunError: A limit was passed for long enough.
        """
        if self.stopped is not None:
            raise self.stopped

    def close(self) -> None:
        """Close the file."""
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None

    def __enter__(self) -> Monitor:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()
