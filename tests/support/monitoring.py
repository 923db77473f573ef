"""The expressions of the dashboard and of the rules, as the project's files have them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DOCKER = Path(__file__).parents[2] / "docker"
DASHBOARD = DOCKER / "grafana" / "dashboards" / "detector.json"


@dataclass(frozen=True)
class Expression:
    """A question to Prometheus.

    Attributes:
        name: Of the panel or the rule, and its place there.
        text: With Grafana's variables filled in.
    """

    name: str
    text: str


def read_dashboard() -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return dashboard


def dashboard_expressions(rate_interval: str = "1m") -> list[Expression]:
    return [
        Expression(
            f"{panel['title']} {target['refId']}",
            target["expr"].replace("$__rate_interval", rate_interval).replace("$instance", ".*"),
        )
        for panel in read_dashboard()["panels"]
        for target in panel.get("targets", [])
    ]


def read_rules() -> list[dict[str, Any]]:
    """Return all rules: ``record`` or ``alert``, and ``expr``."""
    return [
        rule
        for path in sorted((DOCKER / "prometheus" / "rules").glob("*.yml"))
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    ]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in read_rules() if "alert" in rule]


def recordings() -> list[dict[str, Any]]:
    return [rule for rule in read_rules() if "record" in rule]
