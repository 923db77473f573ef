"""What ``python -m loadtest`` does: a profile, the search for the capacity, or starts."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from client.api_key import read_api_key
from evaluation.identity import ServiceIdentity
from evaluation.step_summary import without_users
from loadtest.arrivals import Spacing, Stage
from loadtest.capacity import MIN_REQUESTS, Point, find_capacity
from loadtest.coldstart import measure_starts, measure_wake_ups, median_starts
from loadtest.conditions import describe_machine, find_commit
from loadtest.errors import LoadTestError
from loadtest.load_files import remove_reports
from loadtest.load_report import LoadReport
from loadtest.plan import Loop, Plan
from loadtest.profiles import COLD_START, PROFILES
from loadtest.run import Target, measure, wait_ready
from loadtest.slo import Deployment, choose_deployment, judge_figures, judge_starts, read_goals
from loadtest.workload import SHARES

_CAPACITY_PROFILE = "slo"
_CAPACITY_S, _CAPACITY_WARM_UP_S = 60.0, 10.0

Say = Callable[[str], None]


def run(options: argparse.Namespace, say: Say) -> LoadReport:
    """Measure what the options ask for.

    Raises:
        LoadTestError: It could not be measured; the message says what to do.
        ValueError: The variable that should hold the API key is not set.
    """
    deployments = read_goals(options.slo)
    target = Target(options.url, read_api_key(options.api_key_env))
    _prepare(options.out)
    if options.profile == COLD_START and not options.find_capacity:
        return _measure_cold_start(options, target, deployments, say)
    service = wait_ready(target, options.wait)
    deployment = choose_deployment(deployments, options.deployment, service.device)
    profile = _CAPACITY_PROFILE if options.find_capacity else options.profile
    if not deployment.goals.get(profile):
        raise LoadTestError(
            f"{options.slo} has no goals for {deployment.name} in the profile {profile}: add a "
            f"table [{deployment.name}.goals.{profile}]"
        )
    if options.find_capacity:
        return _measure_capacity(options, target, deployment, service, say)
    return _measure_profile(options, target, deployment, service, say)


def _measure_profile(
    options: argparse.Namespace,
    target: Target,
    deployment: Deployment,
    service: ServiceIdentity,
    say: Say,
) -> LoadReport:
    profile = PROFILES[options.profile]
    rate_per_s = options.rate or deployment.rate_per_s
    warm_up_s, stages = profile.at(rate_per_s, options.duration, options.warm_up)
    plan = _plan(options, warm_up_s, stages, options.seed)
    say(f"{profile.name}: {plan.duration_s:.0f} s of load on {without_users(options.url)}")
    within_s = deployment.goodput_within_s.get(profile.name)
    run = measure(target, plan, options.out, service, within_s, say)
    return LoadReport(
        title=f"Load test, {profile.name}" + (" (closed loop)" if plan.loop is Loop.CLOSED else ""),
        deployment=deployment,
        conditions=_conditions(options, deployment, service, rate_per_s),
        verdicts=judge_figures(deployment.goals[profile.name], run.figures),
        measured_at=_now(),
        run=run,
    )


def _measure_capacity(
    options: argparse.Namespace,
    target: Target,
    deployment: Deployment,
    service: ServiceIdentity,
    say: Say,
) -> LoadReport:
    if options.loop == Loop.CLOSED:
        raise LoadTestError("--find-capacity needs an open loop: leave --loop out")
    goals = deployment.goals[_CAPACITY_PROFILE]
    within_s = deployment.goodput_within_s.get(_CAPACITY_PROFILE)
    warm_up_s = _CAPACITY_WARM_UP_S if options.warm_up is None else options.warm_up
    number = 0

    def measure_rate(rate_per_s: float) -> Point:
        nonlocal number
        number += 1
        seconds = max(options.duration or _CAPACITY_S, MIN_REQUESTS / rate_per_s)
        stages = [Stage(seconds, rate_per_s, rate_per_s)]
        if warm_up_s:
            stages.insert(0, Stage(warm_up_s, rate_per_s, rate_per_s))
        folder = options.out / f"rate-{number}"
        folder.mkdir(exist_ok=True)
        # Other requests each time: none is found in the engine's cache.
        plan = _plan(options, warm_up_s, stages, options.seed + number)
        run = measure(target, plan, folder, service, within_s, say)
        point = Point(rate_per_s, run, judge_figures(goals, run.figures))
        say(f"{rate_per_s:.3g} requests/s: {point.status}")
        return point

    first_per_s = options.rate or deployment.rate_per_s
    search = find_capacity(measure_rate, first_per_s, options.max_runs)
    return LoadReport(
        title="Load test, capacity",
        deployment=deployment,
        conditions=_conditions(options, deployment, service, first_per_s),
        verdicts=search.best.verdicts if search.best else (),
        measured_at=_now(),
        run=search.best.run if search.best else None,
        search=search,
    )


def _measure_cold_start(
    options: argparse.Namespace, target: Target, deployments: dict[str, Deployment], say: Say
) -> LoadReport:
    if options.start_command is None and options.cache_dir is not None:
        raise LoadTestError("--cache-dir needs --start-command: it is for a service started here")
    if options.start_command is None and options.repeats > 1 and options.idle is None:
        raise LoadTestError(
            "--repeats without --start-command needs --idle, the seconds in which the service "
            "scales to zero"
        )
    if options.start_command is None:
        starts = measure_wake_ups(
            target, repeats=options.repeats, idle_s=options.idle or 0.0,
            timeout_s=options.wait, say=say,
        )  # fmt: skip
    else:
        starts = measure_starts(
            target, options.start_command, repeats=options.repeats, cache_dir=options.cache_dir,
            timeout_s=options.wait, folder=options.out, say=say,
        )  # fmt: skip
    service = starts[-1].service
    deployment = choose_deployment(deployments, options.deployment, service.device)
    measured = median_starts(starts)
    goals = {
        name: limit
        for name, limit in deployment.goals.get(COLD_START, {}).items()
        if name in measured
    }
    if not goals:
        raise LoadTestError(
            f"{options.slo} has no goal for {' and '.join(measured)} of {deployment.name} in the "
            f"profile {COLD_START}"
        )
    return LoadReport(
        title="Load test, cold start",
        deployment=deployment,
        conditions=_conditions(options, deployment, service, None),
        verdicts=judge_starts(goals, measured),
        measured_at=_now(),
        starts=starts,
    )


def _plan(
    options: argparse.Namespace, warm_up_s: float, stages: Sequence[Stage], seed: int
) -> Plan:
    return Plan(
        stages=tuple(stages),
        warm_up_s=warm_up_s,
        seed=seed,
        timeout_s=options.timeout,
        loop=Loop(options.loop),
        spacing=Spacing(options.arrivals),
        concurrency=options.concurrency,
    )


def _conditions(
    options: argparse.Namespace,
    deployment: Deployment,
    service: ServiceIdentity,
    rate_per_s: float | None,
) -> dict[str, str]:
    conditions = {
        "Command": without_users(shlex.join(["python", "-m", "loadtest", *options.words])),
        "Commit": find_commit(),
        "Generator": f"{describe_machine()}, load average {os.getloadavg()[0]:.1f}",
        "Service": f"{service.engine} {service.engine_version} on {service.hardware}",
        "Model": f"{service.model}, revision {service.revision}",
        "Contract": f"version {service.contract_version}, {service.contract}",
        "Deployment": f"{deployment.name} ({deployment.note})",
    }
    if rate_per_s is None:
        return conditions
    if options.loop == Loop.CLOSED:
        load = f"closed loop, {options.concurrency} at once"
    else:
        load = f"open loop, {options.arrivals} arrivals, expected load {rate_per_s:g} requests/s"
    conditions["Load"] = f"{load}, seed {options.seed}"
    conditions["Mix"] = ", ".join(f"{kind} {share:.0%}" for kind, share in SHARES.items())
    return conditions


def _prepare(folder: Path) -> None:
    """Find out before the test that reports cannot be written; remove earlier ones."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_reports(folder)
    except OSError as error:
        raise LoadTestError(f"--out {folder} cannot be written ({error.strerror})") from error
    if not os.access(folder, os.W_OK):
        raise LoadTestError(f"--out {folder} cannot be written: name another folder")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
