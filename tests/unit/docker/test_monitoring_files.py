"""Dashboard, rules and their page name only what there is. No Prometheus is needed for this."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from support.app_client import ITEM, fake_settings, running_app
from support.made_weights import make_weights
from support.monitoring import (
    DOCKER,
    alerts,
    dashboard_expressions,
    read_dashboard,
    read_rules,
    recordings,
)

from service.problems import INTERNAL, PROBLEMS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
# A rule's name, else a metric's with the ending of a histogram's parts cut off.
RECORDED = re.compile(r"\b[a-z_]+:[a-z_]+:[a-z0-9_]+\b")
NAME = re.compile(r"\b(?:detector|process)_[a-z0-9_]+\b")
MATCHER = re.compile(r'outcome=~?"([^"]*)"')
UNIT = re.compile(r"_(?:bucket|sum|count)$")


@pytest.fixture(scope="module")
def families() -> dict[str, str]:
    """Metrics of a service that has given verdicts on all that it has: name -> type."""

    async def scrape() -> str:
        async with running_app(fake_settings(window_verdicts=10), weights=make_weights()) as (
            client,
            _,
        ):
            for number in range(10):
                body = {**ITEM, "question": f"Question {number}?"}
                answer = await client.post("/classify", json=body)
                assert answer.status_code == httpx.codes.OK
            return (await client.get("/metrics")).text

    text = asyncio.run(scrape())
    sampled = {UNIT.sub("", name) for name in re.findall(r"^(\w+)[{ ]", text, re.MULTILINE)}
    declared = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE)
    return {name: kind for name, kind in declared if name in sampled}


EXPRESSIONS = {
    **{each.name: each.text for each in dashboard_expressions()},
    **{rule.get("alert") or rule["record"]: rule["expr"] for rule in read_rules()},
}


@pytest.mark.parametrize("text", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_an_expression_names_only_metrics_that_exist(text: str, families: dict[str, str]) -> None:
    recorded = {rule["record"] for rule in recordings()}
    used = set(RECORDED.findall(text))
    assert used <= recorded
    plain = {UNIT.sub("", name) for name in NAME.findall(RECORDED.sub("", text))}
    assert plain <= set(families)
    assert used or plain or text.startswith("up{")
    outcomes = {"ok", INTERNAL.slug, *(kind.slug for kind in PROBLEMS.values())}
    assert {part for found in MATCHER.findall(text) for part in found.split("|")} <= outcomes


def test_every_recorded_figure_is_used() -> None:
    used = {name for text in EXPRESSIONS.values() for name in RECORDED.findall(text)}
    assert used == {rule["record"] for rule in recordings()}


def test_the_page_has_every_metric_with_its_type(families: dict[str, str]) -> None:
    rows = re.findall(r"^\| `(detector_\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    ours = {name: kind for name, kind in families.items() if name.startswith("detector_")}
    assert dict(rows) == ours
    assert len(rows) == len(ours)


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    name = rule["alert"]
    assert re.fullmatch(r"\d+m", rule["for"])
    severity = rule["labels"]["severity"]
    assert severity in ("critical", "warning", "info")
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook"}
    assert "{{ $labels.instance }}" in notes["summary"]
    assert notes["runbook"] == f"docs/operations.md, {name}"
    assert f"\n### {name}\n" in PAGE
    minutes = rule["for"].removesuffix("m")
    row = rf"\| \[{name}\]\(#{name.lower()}\) \| {severity} \| .* \| {minutes} min \|"
    assert re.search(row, PAGE)


def test_the_page_has_no_alert_that_is_gone() -> None:
    assert set(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)) == {
        rule["alert"] for rule in alerts()
    }


def test_every_alert_is_shown_to_fire() -> None:
    paths = (DOCKER / "prometheus" / "tests").glob("*.yml")
    groups = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths]
    cases = [
        case for group in groups for test in group["tests"] for case in test["alert_rule_test"]
    ]
    fired = {case["alertname"] for case in cases if case["exp_alerts"]}
    assert fired == {rule["alert"] for rule in alerts()}


def test_the_dashboard_is_one_that_grafana_provisions() -> None:
    dashboard = read_dashboard()
    # Later versions of Grafana migrate it as they load it.
    assert dashboard["schemaVersion"] == 39
    assert dashboard["uid"] == "hallucination-detector"
    assert "id" not in dashboard
    provisioning = DOCKER / "grafana" / "provisioning"
    sources = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text("utf-8"))
    [source] = sources["datasources"]
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
    used = [panel["datasource"] for panel in dashboard["panels"] if panel["type"] != "row"]
    for found in (*used, *(target["datasource"] for target in targets)):
        assert found == {"type": source["type"], "uid": source["uid"]}
    config = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text("utf-8"))
    assert source["jsonData"]["timeInterval"] == config["global"]["scrape_interval"]
    providers = yaml.safe_load((provisioning / "dashboards" / "dashboards.yml").read_text("utf-8"))
    assert providers["providers"][0]["options"]["path"] in PAGE


def test_the_panels_of_the_dashboard_have_their_places() -> None:
    panels = read_dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        letters = [target["refId"] for target in panel.get("targets", [])]
        assert len(set(letters)) == len(letters)
        assert (panel["type"] == "row") == (not letters)
