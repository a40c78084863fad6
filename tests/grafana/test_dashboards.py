"""Dashboards as they are drawn up, and as they are shipped."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from orchestrator.dashboards.all import DASHBOARDS, files
from orchestrator.dashboards.model import WIDTH, Dashboard, Query
from orchestrator.dashboards.shipped import ROOT, SHIPPED, SOURCE, shipped


def test_the_files_are_what_is_drawn_up() -> None:
    """The committed JSON is what the data makes, to the letter, and nothing else is beside it."""
    kept = {path.name: path.read_text(encoding="utf-8") for path in (SOURCE / "dashboards").iterdir()}
    assert kept == dict(files()), "run `python -m orchestrator.dashboards`"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("up{@}", 'up{instance=~"$instance"}'),
        ("a{@b} / b{@t}", 'a{instance=~"$instance",backend=~"$backend"} / b{instance=~"$instance",tenant=~"$tenant"}'),
        ('a{@bt, c!="d"}', 'a{instance=~"$instance",backend=~"$backend",tenant=~"$tenant",c!="d"}'),
        ('a{c="d"}', 'a{c="d"}'),
    ],
)
def test_variables_are_abbreviated(written: str, meant: str) -> None:
    """The abbreviation stands for matchers of the dashboard's variables, before all others."""
    assert Query(written).promql() == meant


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=[one.key for one in DASHBOARDS])
def test_a_dashboard_has_the_variables_that_it_uses(dashboard: Dashboard) -> None:
    """No panel asks for a variable that its dashboard does not offer, and none is offered in vain."""
    text = " ".join(query.promql() for panel in dashboard.panels() for query in panel.queries)
    used = set(re.findall(r"\$(\w+)", text)) - {"__rate_interval", "__range"}
    assert used == {"instance", *dashboard.variables}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=[one.key for one in DASHBOARDS])
def test_panels_explain_themselves(dashboard: Dashboard) -> None:
    """Each panel says what its reader does about it, has a title of its own, and leads only to what there is."""
    titles = [panel.title for panel in dashboard.panels()]
    assert len(titles) == len(set(titles))
    for panel in dashboard.panels():
        assert len(panel.about) > 15, panel.title
        assert panel.leads_to in ("", *(one.key for one in DASHBOARDS))
        assert panel.leads_to != dashboard.key
        assert all(query.legend or panel.kind == "table" for query in panel.queries)


@pytest.mark.parametrize("name", sorted(files()))
def test_panels_do_not_overlap(name: str) -> None:
    """Every panel has a place of its own within the grid, and an id of its own."""
    panels = json.loads(files()[name])["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in panels):
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= WIDTH
        assert not cells & taken
        taken |= cells


def test_what_is_shipped_is_what_the_wheel_takes() -> None:
    """The wheel's list and the source tree's are the same, and everything listed is there."""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    taken = {source: Path(place).name for source, place in built["force-include"].items()}
    assert taken == {**{f"grafana/{name}": name for name in SHIPPED}, "docs/runbook.md": "runbook.md"}
    texts = shipped()
    assert {path.partition("/")[0] for path in texts} == {*SHIPPED, "runbook.md"}
    assert all(texts.values())
