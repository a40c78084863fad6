"""Rules and the scrape configuration by Prometheus' own tool; each alert in stories in which it fires, and not."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from orchestrator.dashboards.shipped import ROOT, SOURCE
from tests.grafana.alert_cases import CASES, Case
from tests.grafana.monitored import program

ALERTS = [rule for group in yaml.safe_load((SOURCE / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
RULES = ("rules.yml", "alerts.yml")


def promtool(*arguments: "str | Path") -> None:
    """Runs it; fails with its own words."""
    done = subprocess.run(
        [program("promtool"), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_valid() -> None:
    """Prometheus' tool takes both files of rules."""
    promtool("check", "rules", *(SOURCE / name for name in RULES))


@pytest.mark.parametrize("with_key", [False, True])
def test_the_scrape_configuration_is_valid(with_key: bool, tmp_path: Path) -> None:
    """The configuration is valid as it is shipped, and with what it shows for a daemon with keys."""
    text = (SOURCE / "prometheus.yml").read_text()
    if with_key:
        text, found = re.subn(r"# (authorization:\n.*)# (.*credentials_file: .*)", r"\1\2", text)
        assert found == 1
        assert "credentials_file" in yaml.safe_load(text)["scrape_configs"][0]["authorization"]
    for name in RULES:
        (tmp_path / name).write_text((SOURCE / name).read_text())
    (tmp_path / "headrace.key").write_text("key")
    (tmp_path / "prometheus.yml").write_text(text)
    promtool("check", "config", tmp_path / "prometheus.yml")


def test_every_alert_has_its_stories() -> None:
    """No alert is without a story in which it fires and one in which it does not, and no story without its alert."""
    assert list(CASES) == [rule["alert"] for rule in ALERTS]
    assert all(cases.fires and cases.rests for cases in CASES.values())


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    """In each story the alert fires, or does not, as the story says."""
    stories = [
        story(name, case, fires)
        for name, cases in CASES.items()
        for fires, group in ((True, cases.fires), (False, cases.rests))
        for case in group
    ]
    file = tmp_path / "stories.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(SOURCE / name) for name in RULES],
                "evaluation_interval": "15s",
                "tests": stories,
            }
        )
    )
    promtool("test", "rules", file)


def story(alert: str, case: Case, fires: bool) -> dict[str, object]:
    """One of promtool's tests. A series that Prometheus writes itself says whether the alert fires."""
    look = {
        "expr": f'sum(ALERTS{{alertname="{alert}",alertstate="firing"}}) > bool 0',
        "eval_time": case.at,
        "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
    }
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    return {"interval": "15s", "name": alert, "input_series": series, "promql_expr_test": [look]}


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_every_alert_says_what_to_do(rule: dict[str, dict[str, str]]) -> None:
    """Each alert has a severity, a summary, a description, one line of what to do, and a section of the runbook."""
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert all(text and "\n" not in text for text in rule["annotations"].values())


def test_the_runbook_has_a_section_for_each_alert() -> None:
    """The runbook's sections are the alerts, in their order: what each means, what to look at and what to do."""
    text = (ROOT / "docs" / "runbook.md").read_text()
    sections = re.split(r"^## (Headrace\w+)$", text, flags=re.MULTILINE)
    assert sections[1::2] == [rule["alert"] for rule in ALERTS]
    for name, section in zip(sections[1::2], sections[2::2], strict=True):
        for word in ("**It means**", "**Look at**", "**Do**"):
            assert section.count(word) == 1, f"{name}: {word}"
