"""What a dashboard is made of, as data: rows of panels, panels of queries.

Queries are PromQL, with one abbreviation for the dashboard's variables: `{@}` selects the daemons that were chosen,
`{@b}` also the backends, `{@t}` the tenants, `{@bt}` both; further matchers follow behind a comma.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

Kind = Literal["timeseries", "stat", "bargauge", "table"]
Color = Literal["green", "yellow", "orange", "red", "blue", "text"]

WIDTH: Final = 24
"""Columns of Grafana's grid."""

_VARIABLES: Final = re.compile(r"\{@(b?)(t?)(?:, *)?([^}]*)\}")


class Query(Struct, frozen=True):
    """One PromQL expression; `legend` names its series, with `{{label}}`. In a table it is the column's title."""

    expr: str
    legend: str = ""

    def promql(self) -> str:
        """With the variables written out."""
        return _VARIABLES.sub(_matchers, self.expr)


class Step(Struct, frozen=True):
    """A value from which on another colour says how bad it is."""

    color: Color
    above: float


class Panel(Struct, frozen=True, kw_only=True):
    """One panel. `about` says what its reader does about it. `unit` is one of Grafana's names.

    `hidden` are labels that a table does not show, `units` the units of its columns that differ from `unit`, by title.
    `names` shows series by name alone, where every value is 1; `leads_to` is the dashboard that has more of it.
    """

    title: str
    about: str
    queries: Sequence[Query]
    kind: Kind = "timeseries"
    unit: str = "short"
    width: int = 12
    height: int = 8
    steps: Sequence[Step] = ()
    stacked: bool = False
    least: float | None = 0
    most: float | None = None
    decimals: int | None = None
    hidden: Sequence[str] = ()
    units: Sequence[tuple[str, str]] = ()
    names: bool = False
    leads_to: str = ""


class Row(Struct, frozen=True):
    """Panels under one heading, from left to right; they break into lines by their widths."""

    title: str
    panels: Sequence[Panel]


class Dashboard(Struct, frozen=True, kw_only=True):
    """One page. `key` names its file and is its address; `variables` are `backend` and `tenant`, where it has them."""

    key: str
    title: str
    about: str
    rows: Sequence[Row]
    variables: Sequence[Literal["backend", "tenant"]] = ()
    since: str = "now-1h"

    def panels(self) -> list[Panel]:
        """All of them, as they are read."""
        return [panel for row in self.rows for panel in row.panels]


def _matchers(found: re.Match[str]) -> str:
    backend, tenant, more = found.groups()
    matchers = ['instance=~"$instance"']
    if backend:
        matchers.append('backend=~"$backend"')
    if tenant:
        matchers.append('tenant=~"$tenant"')
    if more:
        matchers.append(more)
    return "{" + ",".join(matchers) + "}"
