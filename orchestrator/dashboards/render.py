"""A dashboard as the JSON that Grafana takes in (its dashboard JSON model, schema version 39).

https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from orchestrator.dashboards.model import WIDTH, Dashboard, Panel, Query

Json = dict[str, Any]

SCHEMA: Final = 39
TAG: Final = "headrace"
PREFIX: Final = "headrace-"
"""Before a dashboard's key, its address in Grafana."""

_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_VARIABLES: Final = {
    "instance": ("Daemon", "label_values(headrace_build_info, instance)"),
    "backend": ("Backend", "label_values(headrace_concurrency_limit, backend)"),
    "tenant": ("Tenant", "label_values(headrace_tenant_weight, tenant)"),
}


def render(dashboard: Dashboard) -> str:
    """The file's text: the same dashboard, the same bytes."""
    return json.dumps(_dashboard(dashboard), indent=2, ensure_ascii=False) + "\n"


def _dashboard(dashboard: Dashboard) -> Json:
    return {
        "uid": PREFIX + dashboard.key,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": [TAG],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": dashboard.since, "to": "now"},
        "timezone": "browser",
        "timepicker": {},
        "annotations": {"list": [_alerts_on_graphs()]},
        "links": [_links()],
        "templating": {"list": [_datasource(), *(_variable(name) for name in ("instance", *dashboard.variables))]},
        "panels": list(_placed(dashboard)),
    }


def _alerts_on_graphs() -> Json:
    return {
        "name": "Alerts",
        "enable": True,
        "hide": False,
        "iconColor": "red",
        "datasource": _DATASOURCE,
        "target": {
            "refId": "Alerts",
            "expr": 'ALERTS{alertname=~"Headrace.+",alertstate="firing"}',
            "interval": "30s",
        },
        "titleFormat": "{{alertname}}",
    }


def _links() -> Json:
    return {
        "title": "Headrace",
        "type": "dashboards",
        "tags": [TAG],
        "asDropdown": False,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
    }


def _variable(name: str) -> Json:
    label, query = _VARIABLES[name]
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": "variable"},
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "hide": 0,
        "options": [],
        "refresh": 2,
        "regex": "",
        "skipUrlSync": False,
        "sort": 1,
    }


def _placed(dashboard: Dashboard) -> Iterator[Json]:
    """Rows and panels with their places: a line is as high as its highest panel."""
    number, y = 0, 0
    for row in dashboard.rows:
        number += 1
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        y += 1
        x = height = 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y, height = 0, y + height, 0
            number += 1
            yield _panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": panel.height})
            x, height = x + panel.width, max(height, panel.height)
        y += height


def _panel(panel: Panel, number: int, place: Json) -> Json:
    made: Json = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "gridPos": place,
        "datasource": _DATASOURCE,
        "targets": [_target(panel, query, place) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _options(panel),
    }
    if panel.kind == "table":
        made["transformations"] = _transformations(panel)
    if panel.leads_to:
        made["links"] = [
            {
                "title": "More of this",
                "url": f"/d/{PREFIX}{panel.leads_to}?${{__url_time_range}}&${{__all_variables}}",
                "targetBlank": False,
            }
        ]
    return made


def _target(panel: Panel, query: Query, place: int) -> Json:
    # names are those of what is now, and not of all that was in the whole time that is looked at
    instant = panel.kind in ("bargauge", "table") or panel.names
    return {
        "refId": _letter(place),
        "datasource": _DATASOURCE,
        "expr": query.promql(),
        "legendFormat": "" if panel.kind == "table" else query.legend,
        "format": "table" if panel.kind == "table" else "time_series",
        "instant": instant,
        "range": not instant,
        "editorMode": "code",
    }


def _letter(place: int) -> str:
    return "ABCDEFGH"[place]


def _defaults(panel: Panel) -> Json:
    defaults: Json = {"unit": panel.unit, "noValue": "-", "thresholds": _thresholds(panel)}
    if panel.least is not None:
        defaults["min"] = panel.least
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    defaults["color"] = {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"}
    if panel.kind == "timeseries":
        defaults["custom"] = _lines(panel)
    return defaults


def _thresholds(panel: Panel) -> Json:
    calm = "green" if panel.steps else "text"
    steps: list[Json] = [{"color": calm, "value": None}]
    steps += [{"color": step.color, "value": step.above} for step in panel.steps]
    return {"mode": "absolute", "steps": steps}


def _lines(panel: Panel) -> Json:
    return {
        "drawStyle": "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": 35 if panel.stacked else 5,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "dashed" if panel.steps else "off"},
        "axisPlacement": "auto",
        "axisLabel": "",
    }


def _options(panel: Panel) -> Json:
    if panel.kind == "timeseries":
        return {
            "legend": {
                "showLegend": True,
                "displayMode": "table",
                "placement": "bottom",
                "calcs": ["lastNotNull", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if panel.kind == "table":
        return {"showHeader": True, "cellHeight": "sm"}
    last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if panel.kind == "bargauge":
        return {
            "reduceOptions": last,
            "orientation": "horizontal",
            "displayMode": "basic",
            "valueMode": "color",
            "showUnfilled": True,
            "minVizWidth": 8,
            "minVizHeight": 16,
            "namePlacement": "auto",
            "sizing": "auto",
        }
    return {
        "reduceOptions": last,
        "orientation": "auto",
        "textMode": "name" if panel.names else "auto",
        "colorMode": "background" if panel.steps else "value",
        "graphMode": "none" if panel.names else "area",
        "justifyMode": "auto",
    }


def _column(panel: Panel, place: int) -> str:
    """What a table calls the values of a query: with more than one they carry its letter."""
    return "Value" if len(panel.queries) == 1 else f"Value #{_letter(place)}"


def _overrides(panel: Panel) -> list[Json]:
    return [
        {"matcher": {"id": "byName", "options": title}, "properties": [{"id": "unit", "value": unit}]}
        for title, unit in panel.units
    ]


def _transformations(panel: Panel) -> list[Json]:
    titles = {_column(panel, place): query.legend for place, query in enumerate(panel.queries)}
    hidden: Sequence[str] = ("Time", *panel.hidden, *(name for name, title in titles.items() if not title))
    organized = {
        "excludeByName": dict.fromkeys(hidden, True),
        "indexByName": {},
        "renameByName": {name: title for name, title in titles.items() if title},
    }
    return [{"id": "merge", "options": {}}, {"id": "organize", "options": organized}]
