"""``drift`` and ``compare`` of ``python -m evaluation``: measure, judge, report.

The statistics need SciPy and the pictures Matplotlib, which ``baseline`` does without.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from client import DetectorClient
from evaluation.baseline import Baseline
from evaluation.checks import Status
from evaluation.drift import (
    Side,
    compare_with,
    find_changes,
    measure_side,
    pair_cases,
    pair_speeds,
    refuse_changes,
)
from evaluation.drift_failure import TITLES
from evaluation.drift_files import to_markdown, write_reports
from evaluation.drift_folder import prepare_folder
from evaluation.drift_report import DriftReport
from evaluation.errors import EvaluationError
from evaluation.gate import judge
from evaluation.golden_set import GoldenSet, load_golden_set
from evaluation.identity import identify
from evaluation.kept_answers import KeptAnswers
from evaluation.limits import Limits
from evaluation.progress import Progress
from evaluation.step_summary import annotate_error, append_summary, without_users

_MAX_ATTEMPTS = 3
"""Of a request. With more, a service that refuses a third of them would seem to be well."""

Say = Callable[[str], None]
Connect = Callable[[str, str | None, int], DetectorClient]
"""From the address, the name of the key's variable and the attempts to a client that is ready."""


def run_drift(options: argparse.Namespace, connect: Connect, say: Say) -> int:
    """Compare a service with a baseline; return the exit code.

    Raises:
        EvaluationError: It could not be measured, or is not to be compared.
        DetectorError: The service cannot be reached.
    """
    limits, golden = _limits(options), load_golden_set(options.golden)
    baseline = Baseline.read(options.baseline)
    _check_cases(baseline, golden, options.baseline)
    prepare_folder(options.out)
    before = Side.of_baseline(baseline)
    concurrency = options.concurrency or baseline.speed.concurrency
    with _keep(options, "answers", say) as kept:
        with connect(options.url, options.api_key_env, _MAX_ATTEMPTS) as client:
            service = identify(client)
            changes = compare_with(baseline, service, golden.sha256)
            if not options.accept_change:
                refuse_changes(changes)
            with Progress() as progress:
                after = measure_side(
                    client,
                    golden.cases,
                    service,
                    "service",
                    concurrency=concurrency,
                    golden_sha256=golden.sha256,
                    before=before,
                    kept=kept,
                    progress=progress,
                )
        code = _finish(before, after, golden, limits, changes, options, say)
        kept.forget()
    return code


def run_compare(options: argparse.Namespace, connect: Connect, say: Say) -> int:
    """Compare two services, of which the first is the baseline; return the exit code.

    Raises:
        EvaluationError: One could not be measured.
        DetectorError: One cannot be reached.
    """
    limits, golden = _limits(options), load_golden_set(options.golden)
    prepare_folder(options.out)
    key_b = options.api_key_env if options.api_key_env_b is None else options.api_key_env_b
    sides: list[Side] = []
    with ExitStack() as stack:
        files = [stack.enter_context(_keep(options, f"answers-{name}", say)) for name in "ab"]
        # One after the other: on one machine they would slow each other down.
        for name, url, key, kept in zip(
            "ab", (options.a, options.b), (options.api_key_env, key_b), files, strict=True
        ):
            with connect(url, key, _MAX_ATTEMPTS) as client, Progress() as progress:
                say(f"measuring {name}: {without_users(url)}")
                side = measure_side(
                    client,
                    golden.cases,
                    identify(client),
                    name,
                    concurrency=options.concurrency or 8,
                    golden_sha256=golden.sha256,
                    before=sides[0] if sides else None,
                    kept=kept,
                    progress=progress,
                )
            sides.append(side)
        a, b = sides
        changes = find_changes(a.service, b.service)
        code = _finish(a, b, golden, limits, changes, options, say)
        for kept in files:
            kept.forget()
    return code


def _keep(options: argparse.Namespace, name: str, say: Say) -> KeptAnswers:
    path = options.out / f"{name}.partial.jsonl"
    return KeptAnswers(path, say, is_resumed=options.resume)


def _finish(
    before: Side,
    after: Side,
    golden: GoldenSet,
    limits: Limits,
    changes: Sequence[str],
    options: argparse.Namespace,
    say: Say,
) -> int:
    cases = pair_cases(golden.cases, before, after)
    judgement = judge(cases, pair_speeds(before, after), limits, is_same_model=not changes)
    report = DriftReport(
        title=TITLES[options.command],
        before=before,
        after=after,
        rows=golden.cases,
        cases=cases,
        judgement=judgement,
        limits=limits,
        golden_sha256=golden.sha256,
        changes=changes,
        command=without_users(shlex.join(options.words)),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    paths = write_reports(options.out, report)
    append_summary(to_markdown(report), say)
    for check in judgement.checks:
        if check.status in (Status.FAILED, Status.UNSURE) or check.name == "power":
            say(f"{check.status}: {check.name}: {check.text}")
    say(f"{judgement.outcome}: {judgement.reason}. The report is in {paths['report.html']}")
    if judgement.outcome.exit_code:
        annotate_error(f"{judgement.outcome}: {judgement.reason}")
    return judgement.outcome.exit_code


def _limits(options: argparse.Namespace) -> Limits:
    try:
        return Limits(**{each.name: getattr(options, each.name) for each in fields(Limits)})
    except ValueError as error:
        raise EvaluationError(f"a limit is no limit: {error}") from error


def _check_cases(baseline: Baseline, golden: GoldenSet, path: Path) -> None:
    """Find out that a baseline lacks cases of the very set that it is of.

    Raises:
        EvaluationError: It does, or it has others.
    """
    if baseline.golden_sha256 != golden.sha256:
        return
    own, wanted = {case.id for case in baseline.cases}, {case.id for case in golden.cases}
    if own != wanted:
        first = sorted(own ^ wanted)[0]
        raise EvaluationError(
            f"{path} is of this golden set and yet not of its cases (the first is {first!r}): make "
            "it again with `python -m evaluation baseline`"
        )
