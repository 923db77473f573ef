"""The stages in their order: what each needs, when it is skipped, and who keeps its markers."""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from training.config import RunConfig
from training.errors import CheckpointError, ConfigError, StoppedRunError, TrainingError
from training.inputs import DATA, EVALUATION, EXPORT, PUSH, WARMSTART
from training.runs import RunFolder

logger = logging.getLogger(__name__)


class Stage(StrEnum):
    """A stage, in the order of a run; the value is its command."""

    PREPARE = "prepare"
    WARMSTART = "warmstart"
    GRPO = "grpo"
    EVALUATE = "evaluate"
    EXPORT = "export"
    PUSH = "push"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Job:
    """One command.

    Attributes:
        config: Of the run.
        run: Its folder.
        data_dir: Where sets of kind ``folder`` lie.
        is_resume: Go on from the last whole checkpoint.
        what: What ``evaluate`` judges; the run's own last adapter where None.
        target: Where ``export`` writes; its own folder where None.
        is_dry_run: ``push`` prints what would go.
        command: How the command was given, for ``config.json``.
    """

    config: RunConfig
    run: RunFolder
    data_dir: Path | None = None
    is_resume: bool = False
    what: str | None = None
    target: Path | None = None
    is_dry_run: bool = False
    command: str = ""


Actions = Mapping[Stage, Callable[[Job], None]]
"""What each stage does."""


def run_stage(stage: Stage, job: Job, actions: Actions | None = None) -> None:
    """Do one stage.

    Args:
        stage: Which.
        job: The command.
        actions: Others than the project's own.

    Raises:
        TrainingError: It cannot be done; the message says what to do.
        StoppedRunError: It was ended because it learned nothing any more.
    """
    with ExitStack() as stack:
        if stage in (Stage.PREPARE, Stage.WARMSTART, Stage.GRPO):
            stack.enter_context(job.run.lock())
        reason = _find_reason_to_leave_out(stage, job)
        if reason is not None:
            logger.info("%s: nothing to do, %s", stage, reason)
            return
        if stage in (Stage.WARMSTART, Stage.GRPO) and _is_finished(stage, job):
            logger.info("%s: finished already, nothing to do", stage)
            return
        _do(stage, job, actions or ACTIONS)


def run_all(job: Job, actions: Actions | None = None) -> None:
    """Do all stages in their order; finished ones are passed over.

    Args:
        job: The command.
        actions: Others than the project's own.

    Raises:
        TrainingError: One cannot be done; the message says what to do.
        StoppedRunError: One was ended because it learned nothing any more.
    """
    with job.run.lock():
        for stage in Stage:
            reason = _find_reason_to_leave_out(stage, job)
            if reason is None and _is_finished(stage, job):
                reason = "it is finished"
            if reason is not None:
                logger.info("%s: passed over, %s", stage, reason)
                continue
            _do(stage, job, actions or ACTIONS)
            free_memory()


def free_memory() -> None:
    """Give back what a stage leaves behind, so that the next one finds room for a model of its own.

    Models and trainers refer to each other in circles, and torch keeps the memory of a GPU.
    """
    gc.collect()
    # Imported by the stage, or there is nothing to free.
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _do(stage: Stage, job: Job, actions: Actions) -> None:
    from training.provenance import write_resolved

    _check_before(stage, job)
    if stage is not Stage.REPORT:
        write_resolved(job.run.path, job.config, {"command": job.command})
    logger.info("%s: begins", stage)
    started = time.monotonic()
    actions[stage](job)
    logger.info("%s: done in %.0f s", stage, time.monotonic() - started)


def _folder(stage: Stage, config: RunConfig) -> str | None:
    """Return the name of the stage's folder, None for the report, which is made anew always."""
    names: dict[Stage, str | None] = {
        Stage.PREPARE: DATA,
        Stage.WARMSTART: WARMSTART,
        Stage.GRPO: config.rl.algorithm,
        Stage.EVALUATE: EVALUATION,
        Stage.EXPORT: EXPORT,
        Stage.PUSH: PUSH,
        Stage.REPORT: None,
    }
    return names[stage]


def _find_reason_to_leave_out(stage: Stage, job: Job) -> str | None:
    config = job.config
    if stage is Stage.WARMSTART and config.warmstart.kind == "none":
        return 'warmstart.kind is "none"'
    if stage is Stage.GRPO and config.rl.algorithm == "none":
        return 'rl.algorithm is "none"'
    if stage is Stage.PUSH and config.export.repo is None and not job.is_dry_run:
        return "export.repo names no repository"
    return None


def _is_finished(stage: Stage, job: Job) -> bool:
    folder = _folder(stage, job.config)
    return folder is not None and job.run.stage(folder).state(job.config).is_finished


def _check_before(stage: Stage, job: Job) -> None:
    """Refuse a stage whose predecessors are missing, unfinished or of another configuration."""
    needed = {
        Stage.PREPARE: (),
        Stage.WARMSTART: (Stage.PREPARE,),
        Stage.GRPO: (Stage.PREPARE, Stage.WARMSTART),
        Stage.EVALUATE: (Stage.PREPARE,),
        Stage.EXPORT: (Stage.PREPARE, Stage.WARMSTART, Stage.GRPO),
        Stage.PUSH: (Stage.EXPORT,),
        Stage.REPORT: (),
    }
    for earlier in needed[stage]:
        folder = _folder(earlier, job.config)
        if folder is None or _find_reason_to_leave_out(earlier, job) is not None:
            continue
        place = job.run.stage(folder)
        state = place.state(job.config)
        if not state.is_finished:
            place.check_unchanged(state)
            raise CheckpointError(
                f"{place.path} is not finished: run `python -m training {earlier}` first"
                + (" (with --resume, it was begun)" if state.is_started else "")
            )


def _prepare(job: Job) -> None:
    from training.prepare import prepare

    sets = [each.name for each in job.config.data.sets if each.kind == "folder"]
    if sets and job.data_dir is None:
        raise ConfigError(f"{', '.join(sets)}: a file of --data-dir, which is not given")
    place = job.run.stage(DATA)
    trained = (WARMSTART, job.config.rl.algorithm)
    is_in_use = any(job.run.stage(name).state(job.config).is_started for name in trained)
    if place.state(job.config).changes and not is_in_use:
        logger.info("prepare: the configuration has changed, so the data are made anew")
        place.forget()
    prepare(job.config, job.run, job.data_dir or Path())
    if not _is_finished(Stage.PREPARE, job):
        place.finish(job.config)


def _warmstart(job: Job) -> None:
    from training.warmstart import warmstart

    _train(WARMSTART, job, warmstart)


def _grpo(job: Job) -> None:
    from training.grpo import train

    _train(job.config.rl.algorithm, job, train)


def _train(folder: str, job: Job, action: Callable[[RunConfig, RunFolder, bool], None]) -> None:
    """Run a stage that keeps its own markers, as it alone knows its checkpoints."""
    place = job.run.stage(folder)
    try:
        action(job.config, job.run, job.is_resume)
    except StoppedRunError as error:
        place.mark_stopped(error)
        raise
    if not place.state(job.config).is_finished:
        raise TrainingError(f"{place.path} holds no DONE though its stage has ended: report this")


def _evaluate(job: Job) -> None:
    from training.evaluate import evaluate_stage

    with job.run.lock("evaluation"):
        if job.what is not None:
            evaluate_stage(job.config, job.run, job.what, job.command)
            return
        place = job.run.stage(EVALUATION)
        place.mark_started(job.config)
        evaluate_stage(job.config, job.run, None, job.command)
        place.finish(job.config)


def _export(job: Job) -> None:
    from training.export import export

    with job.run.lock("export"):
        export(job.config, job.run, job.target)
        if job.target is None:
            job.run.stage(EXPORT).finish(job.config)


def _push(job: Job) -> None:
    from training.push import push

    with job.run.lock("export"):
        push(job.config, job.run, job.is_dry_run)
        if not job.is_dry_run:
            job.run.stage(PUSH).finish(job.config)


def _report(job: Job) -> None:
    from training.report import report

    report(job.run)


ACTIONS: Actions = {
    Stage.PREPARE: _prepare,
    Stage.WARMSTART: _warmstart,
    Stage.GRPO: _grpo,
    Stage.EVALUATE: _evaluate,
    Stage.EXPORT: _export,
    Stage.PUSH: _push,
    Stage.REPORT: _report,
}
