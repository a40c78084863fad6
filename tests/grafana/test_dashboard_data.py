"""Every query of every panel, rule and alert, asked of a real Prometheus that has scraped real daemons under load."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.dashboards.shipped import SOURCE
from tests.grafana.monitored import SCRAPE, Monitored, monitored
from tests.grafana.promql import operands

NOT_SHOWN: dict[str, str] = {}
"""Metrics that are in no panel and no alert, and why."""

FILLED = {
    "$__rate_interval": f"{4 * SCRAPE}s",
    "$__range": "1m",
    "$instance": ".*",
    "$backend": ".*",
    "$tenant": ".*",
}
"""What Grafana puts in place of variables: all of each, and four scrapes as the shortest rate."""

FORCED = "Forced"


def rules(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((SOURCE / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = rules("alerts.yml")
RECORDED = rules("rules.yml")
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((SOURCE / "dashboards").glob("*.json"))}


def panels() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name, dashboard in DASHBOARDS.items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                yield f"{name}: {panel['title']} {target['refId']}", panel, target


PANELS = list(panels())


def filled(expr: str) -> str:
    for variable, value in FILLED.items():
        expr = expr.replace(variable, value)
    assert "$" not in expr, f"{expr}: a variable that nobody fills"
    return expr


def compared(rule: dict[str, Any]) -> list[str]:
    """What an alert looks at. What lies further back than the test is old is looked at as it is now."""
    return [re.sub(r" offset \w+", "", operand) for operand in operands(rule["expr"])]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """One load for all; beside the shipped rules, each alert once more, without its condition."""
    folder: Path = tmp_path_factory.mktemp("monitored")
    forced = [
        {"alert": FORCED + rule["alert"], "expr": compared(rule)[0], "annotations": rule["annotations"]}
        for rule in ALERTS
    ]
    file = folder / "forced.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "forced", "rules": forced}]}))
    with monitored(folder, [file]) as ready:
        yield ready


def points(series: list[Any]) -> list[float]:
    """All values; a series of a range has many, one of an instant has one."""
    found = [point for one in series for point in (one["values"] if "values" in one else [one["value"]])]
    return [float(value) for _, value in found]


@pytest.mark.parametrize(("panel", "target"), [case[1:] for case in PANELS], ids=[case[0] for case in PANELS])
def test_every_panel_shows_data(prometheus: Monitored, panel: dict[str, Any], target: dict[str, Any]) -> None:
    """A panel's query returns numbers, and its series have the labels that their legend names."""
    ask = prometheus.instant if target["instant"] else prometheus.over_time
    series = ask(filled(target["expr"]))
    assert any(math.isfinite(point) for point in points(series)), f"{panel['title']}: {target['expr']}: no data"
    for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
        assert all(label in one["metric"] for one in series), f"{target['expr']}: no label {label}"


@pytest.mark.parametrize("name", ["instance", "backend", "tenant"])
def test_every_variable_has_values(prometheus: Monitored, name: str) -> None:
    """What a dashboard offers to choose from is there."""
    variable = next(one for one in DASHBOARDS["overview"]["templating"]["list"] if one["name"] == name)
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
    assert found is not None
    assert prometheus.get(f"label/{found[2]}/values", **{"match[]": found[1]})


@pytest.mark.parametrize("rule", RECORDED, ids=[rule["record"] for rule in RECORDED])
def test_every_recorded_series_is_there(prometheus: Monitored, rule: dict[str, Any]) -> None:
    """A recording rule returns numbers, and has been recorded."""
    for expr in (rule["expr"], rule["record"]):
        assert any(math.isfinite(point) for point in points(prometheus.over_time(expr))), f"{expr}: no data"


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_every_alert_looks_at_data(prometheus: Monitored, rule: dict[str, Any]) -> None:
    """All that an alert compares returns numbers, and its words name only labels that are there."""
    for expr in compared(rule):
        assert any(math.isfinite(point) for point in points(prometheus.over_time(expr))), f"{expr}: no data"
    groups = prometheus.get("rules", type="alert")["groups"]
    forced = next(one for group in groups for one in group["rules"] if one["name"] == FORCED + rule["alert"])
    assert forced["health"] == "ok", forced
    assert forced["alerts"], "the alert without its condition does not fire"
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    for alert in forced["alerts"]:
        assert named <= set(alert["labels"]), alert["labels"]
        assert not re.search(r"<error|<no value", " ".join(alert["annotations"].values())), alert["annotations"]


def test_no_query_is_refused(prometheus: Monitored) -> None:
    """Prometheus evaluates every rule without an error."""
    for group in prometheus.get("rules")["groups"]:
        for rule in group["rules"]:
            assert rule["health"] == "ok", rule


def test_every_metric_is_looked_at(prometheus: Monitored) -> None:
    """Each metric of the daemon is in a panel or an alert, or in the list of those that are not, with the reason."""
    exposed = {name for text in prometheus.exposed for name in re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)}
    texts = [target["expr"] for _, _, target in PANELS] + [rule["expr"] for rule in (*ALERTS, *RECORDED)]
    used = {name for text in texts for name in re.findall(r"[a-z_:]+", text)}
    used |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    assert exposed - used - set(NOT_SHOWN) == set(), "in no panel and no alert"
    assert set(NOT_SHOWN) & used == set(), "listed, but shown"
    known = exposed | {f"{name}_{part}" for name in exposed for part in ("bucket", "sum", "count")}
    assert {name for name in used if name.startswith("headrace_")} - known == set(), "looked at, and not there"
