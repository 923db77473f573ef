"""Goals: read from a file, with their units, and held against the figures of a run.

``loadtest/slo.toml`` has them: one table for each deployment, and in it one for each profile.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from loadtest.errors import GoalsError
from loadtest.figures import Figures
from loadtest.profiles import PROFILE_NAMES

DEFAULT_FILE = Path(__file__).with_name("slo.toml")

_UNITS = {
    "time": {"ms": 0.001, "s": 1.0, "min": 60.0},
    "share": {"%": 0.01},
    "rate": {"/s": 1.0},
}
"""Kind of a quantity -> unit -> what it is in seconds, shares or requests a second."""

_NUM_FOR = {"p50": 2, "p95": 20, "p99": 100}
"""A percentile of fewer answers than these is one of the extremes, and says nothing."""


@dataclass(frozen=True, slots=True)
class GoalKind:
    """One kind of goal.

    Attributes:
        name: In the file.
        quantity: ``time`` or ``share``.
        is_floor: The figure must be at least the goal; else at most.
    """

    name: str
    quantity: str
    is_floor: bool = False


GOALS = {
    each.name: each
    for each in (
        GoalKind("p50", "time"),
        GoalKind("p95", "time"),
        GoalKind("p99", "time"),
        GoalKind("error_rate", "share"),
        GoalKind("shed_rate", "share"),
        GoalKind("goodput", "share", is_floor=True),
        GoalKind("cold_start", "time"),
        GoalKind("warm_start", "time"),
    )
}
_WITHIN = "goodput_within"
_START_GOALS = ("cold_start", "warm_start")


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is expected of the service in one place.

    Attributes:
        name: Of its table.
        rate_per_s: Requests a second at the expected load: multiple 1 of the profiles.
        is_measured: A run has shown that the goals can be met; else they are estimates.
        device: What ``/info`` calls the engine's device; None where the deployment must be named.
        note: Where the goals come from.
        goals: Profile -> goal -> value, in seconds or as a share.
        goodput_within_s: Profile -> seconds in which an answer counts as goodput.
    """

    name: str
    rate_per_s: float
    is_measured: bool
    device: str | None
    note: str
    goals: Mapping[str, Mapping[str, float]]
    goodput_within_s: Mapping[str, float]


class Status(StrEnum):
    """Whether a goal is met; ``untold`` where too little was measured."""

    MET = "met"
    MISSED = "missed"
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One goal beside its figure; seconds or shares.

    Attributes:
        goal: What is asked for.
        limit: Its value.
        value: What was measured; None where it was not.
        status: Whether it is met.
    """

    goal: GoalKind
    limit: float
    value: float | None
    status: Status


def read_goals(path: Path = DEFAULT_FILE) -> dict[str, Deployment]:
    """Return the deployments of a file, by their names.

    Raises:
        GoalsError: It cannot be read, or a field or unit is unknown; the message names it and what
            is allowed.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GoalsError(f"the goals in {path} cannot be read: {error}") from error
    try:
        found = {name: _read_deployment(name, value) for name, value in content.items()}
    except ValueError as error:
        raise GoalsError(f"{path}: {error}") from error
    if not found:
        raise GoalsError(f"{path} names no deployment")
    return found


def choose_deployment(
    deployments: Mapping[str, Deployment], name: str | None, device: str
) -> Deployment:
    """Return the deployment that is meant.

    Args:
        deployments: Of the file.
        name: As the user named it; None: the one of the service's device.
        device: Of the service's engine, as ``/info`` says it.

    Raises:
        GoalsError: There is none, or more than one.
    """
    names = ", ".join(deployments)
    if name is not None:
        if name not in deployments:
            raise GoalsError(f"there is no deployment {name!r} in the goals, only: {names}")
        return deployments[name]
    fitting = [each for each in deployments.values() if each.device == device]
    if len(fitting) != 1:
        raise GoalsError(
            f"{len(fitting)} deployments in the goals are for the service's device {device!r}: "
            f"name one with --deployment ({names})"
        )
    return fitting[0]


def judge_figures(goals: Mapping[str, float], figures: Figures) -> list[Verdict]:
    """Hold figures against goals; goals of the start are left out."""
    latency = figures.latency_s
    values = {
        "p50": latency.p50,
        "p95": latency.p95,
        "p99": latency.p99,
        "error_rate": figures.error_rate,
        "shed_rate": figures.shed_rate,
        "goodput": figures.goodput,
    }
    return [
        _judge(name, limit, values[name] if latency.num >= _NUM_FOR.get(name, 0) else None)
        for name, limit in goals.items()
        if name not in _START_GOALS
    ]


def judge_starts(goals: Mapping[str, float], starts: Mapping[str, float]) -> list[Verdict]:
    """Hold times to the first verdict against goals.

    Args:
        goals: Of the profile ``coldstart``.
        starts: ``cold_start`` and ``warm_start`` in seconds, those that were measured.
    """
    return [_judge(name, limit, starts.get(name)) for name, limit in goals.items()]


def exit_code(verdicts: list[Verdict]) -> int:
    """Return 0 where all goals are met, 1 where one is missed, else 2."""
    statuses = {verdict.status for verdict in verdicts}
    if Status.MISSED in statuses:
        return 1
    return 0 if statuses == {Status.MET} else 2


def _judge(name: str, limit: float, value: float | None) -> Verdict:
    goal = GOALS[name]
    if value is None:
        return Verdict(goal, limit, None, Status.UNTOLD)
    is_met = value >= limit if goal.is_floor else value <= limit
    return Verdict(goal, limit, value, Status.MET if is_met else Status.MISSED)


def read_quantity(text: object, quantity: str) -> float:
    """Return a quantity in seconds, as a share, or in requests a second.

    Args:
        text: A number and its unit, with a blank between or without.
        quantity: ``time``, ``share`` or ``rate``.

    Raises:
        ValueError: It is none; the message says what units there are.

    Example:
        >>> read_quantity("800 ms", "time"), read_quantity("2%", "share")
        (0.8, 0.02)
    """
    units = _UNITS[quantity]
    shown = ", ".join(units)
    allowed = f"must be a number with one of the units {shown}, such as '5 {next(iter(units))}'"
    if not isinstance(text, str):
        raise ValueError(f"{allowed}, not {text!r}")
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(\S*)\s*", text)
    if found is None:
        raise ValueError(f"{allowed}, not {text!r}")
    if found[2] not in units:
        raise ValueError(f"{allowed}: the unit {found[2]!r} is unknown")
    value = float(found[1]) * units[found[2]]
    if quantity == "share" and value > 1:
        raise ValueError(f"must be at most 100 %, not {text!r}")
    return value


def _read_deployment(name: str, raw: object) -> Deployment:
    table = _table(raw, name)
    _refuse_unknown(table, ("rate", "measured", "device", "note", "goals"), name)
    for needed, kind in (("rate", str), ("measured", bool), ("note", str)):
        if not isinstance(table.get(needed), kind):
            raise ValueError(f"{name}.{needed} is missing, or no {_KINDS[kind]}")
    device = table.get("device")
    if device is not None and not isinstance(device, str):
        raise ValueError(f"{name}.device is no string")
    rate_per_s = _quantity(table["rate"], "rate", f"{name}.rate")
    if not 0 < rate_per_s < math.inf:
        raise ValueError(f"{name}.rate must be above 0")
    profiles = _table(table.get("goals", {}), f"{name}.goals")
    _refuse_unknown(profiles, PROFILE_NAMES, f"{name}.goals")
    goals: dict[str, dict[str, float]] = {}
    within_s: dict[str, float] = {}
    for profile, raw_goals in profiles.items():
        place = f"{name}.goals.{profile}"
        fields = _table(raw_goals, place)
        _refuse_unknown(fields, (*GOALS, _WITHIN), place)
        _check_fit(profile, fields, place)
        goals[profile] = {
            goal: _quantity(value, GOALS[goal].quantity, f"{place}.{goal}")
            for goal, value in fields.items()
            if goal != _WITHIN
        }
        if _WITHIN in fields:
            within_s[profile] = _quantity(fields[_WITHIN], "time", f"{place}.{_WITHIN}")
    return Deployment(
        name, rate_per_s, bool(table["measured"]), device, str(table["note"]), goals, within_s
    )


_KINDS = {str: "string", bool: "boolean"}


def _check_fit(profile: str, fields: Mapping[str, object], place: str) -> None:
    """Refuse goals that the profile does not measure.

    Raises:
        ValueError: Names one.
    """
    is_start = profile == "coldstart"
    for goal in fields:
        if (goal in _START_GOALS) is not is_start:
            fitting = _START_GOALS if is_start else [g for g in GOALS if g not in _START_GOALS]
            raise ValueError(f"{place}.{goal} is not measured there, only: {', '.join(fitting)}")
    if ("goodput" in fields) is not (_WITHIN in fields):
        raise ValueError(f"{place} needs both or neither of goodput and {_WITHIN}")


def _table(raw: object, place: str) -> dict[str, object]:
    if not isinstance(raw, dict):
        raise ValueError(f"{place} must be a table")
    return raw


def _refuse_unknown(table: Mapping[str, object], known: tuple[str, ...], place: str) -> None:
    unknown = [name for name in table if name not in known]
    if unknown:
        raise ValueError(f"{place}.{unknown[0]} is unknown, allowed are: {', '.join(known)}")


def _quantity(raw: object, quantity: str, place: str) -> float:
    try:
        return read_quantity(raw, quantity)
    except ValueError as error:
        raise ValueError(f"{place} {error}") from None
