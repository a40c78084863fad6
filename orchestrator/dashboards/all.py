"""All dashboards, and their files."""

from collections.abc import Mapping
from typing import Final

from orchestrator.dashboards.backends import BACKENDS
from orchestrator.dashboards.health import HEALTH
from orchestrator.dashboards.overview import OVERVIEW
from orchestrator.dashboards.render import render
from orchestrator.dashboards.tenants import TENANTS
from orchestrator.dashboards.work import WORK

DASHBOARDS: Final = (OVERVIEW, BACKENDS, TENANTS, WORK, HEALTH)


def files() -> Mapping[str, str]:
    """The text of each file, by its name."""
    return {f"{dashboard.key}.json": render(dashboard) for dashboard in DASHBOARDS}
