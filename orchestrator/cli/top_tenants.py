"""The live board's table of tenants: the columns that there is room for, as many rows as fit."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from rich.text import Text

from orchestrator.cli.top_cells import Glyphs, bar, few, fit, mark, name_of, percent, span
from orchestrator.views.queue import BackendView, TenantView

NAME_LEAST, HELD_LEAST = 10, 16
SHARE_BAR = 24
OWN = "tenant "
"""What a limit of the tenant's own begins with, where it holds a call."""

BEHIND = 0.8
"""A tenant that gets less than this part of what is due to it stands out."""

PRIORITIES = ("interactive", "standard", "batch")
NOWHERE = ""


class Row(Struct, frozen=True):
    """One tenant, and the part of the service that is due to it; None if it competes with nobody."""

    tenant: TenantView
    due: float | None

    @property
    def queued(self) -> int:
        return sum(self.tenant.queued.values())

    @property
    def behind(self) -> bool:
        return self.due is not None and self.tenant.share < BEHIND * self.due


class Column(Struct, frozen=True):
    """One column: its title, and what it says of a row.

    `least` is the width that it has at least, so that the table stands still while its figures move.
    """

    title: str
    cell: Callable[[Row, Glyphs], Text]
    least: int
    right: bool = True


def rows_of(backend: BackendView) -> list[Row]:
    """All tenants, those with most calls first, each with its due.

    Weights speak only between tenants that compete: that have calls waiting in the same priority, and are not stopped
    by a limit of their own. What those got between them is shared out by weight, and that is due to each; so it can be
    held against a tenant's share whatever the others took.
    """
    rivals: dict[str, list[TenantView]] = {}
    for tenant in backend.tenants:
        rivals.setdefault(_competes_in(tenant), []).append(tenant)
    rivals.pop(NOWHERE, None)
    due: dict[str, float] = {}
    for group in rivals.values():
        got, weights = sum(tenant.share for tenant in group), sum(tenant.weight for tenant in group)
        if len(group) > 1:
            due |= {tenant.tenant: got * tenant.weight / weights for tenant in group}
    rows = [Row(tenant, due.get(tenant.tenant)) for tenant in backend.tenants]
    return sorted(rows, key=lambda row: (-row.queued - row.tenant.in_flight, -row.tenant.tokens_per_minute))


def _competes_in(tenant: TenantView) -> str:
    """The most urgent priority in which the tenant has calls waiting that are not stopped by its own limit."""
    if tenant.held_by.startswith(OWN):
        return NOWHERE
    return next((priority for priority in PRIORITIES if tenant.queued.get(priority)), NOWHERE)


def tenant_lines(backend: BackendView, width: int, most: int | None, glyphs: Glyphs) -> list[Text]:
    """The table in at most `most` lines, its title among them, but always one; None is no bound."""
    rows = rows_of(backend)
    if not rows:
        return [Text(" no calls in the last minute", style="dim")]
    hidden = backend.hidden_tenants
    room = len(rows)
    if most is not None and 1 + room + bool(hidden) > most:
        room = max(most - 2, 0)
    shown, left = rows[:room], rows[room:]
    if not shown:
        return [_more(rows, f"{len(rows) + hidden:,} tenants")]
    lines = _table(shown, width, glyphs)
    if left or hidden:
        lines.append(_more(left, f"and {len(left) + hidden:,} more"))
    return lines


def _more(left: Sequence[Row], who: str) -> Text:
    queued = sum(row.queued for row in left)
    live = sum(row.tenant.in_flight for row in left)
    return Text(f" {who}: {queued:,} queued, {live:,} in flight", "dim")


def _table(rows: Sequence[Row], width: int, glyphs: Glyphs) -> list[Text]:
    """The title and the rows, in columns as wide as what stands in them."""
    cells = {column.title: [column.cell(row, glyphs) for row in rows] for column in COLUMNS}
    sizes = {
        column.title: max(column.least, len(column.title), *(cell.cell_len for cell in cells[column.title]))
        for column in COLUMNS
    }
    chosen = _chosen(rows, sizes, width)
    room = width - 1 - sum(sizes[column.title] + 1 for column in chosen)
    name_want = max(NAME_LEAST, *(len(name_of(row.tenant.tenant)) for row in rows))
    held_want = max(HELD_LEAST, *(len(_held(row.tenant.held_by)) for row in rows))
    name = max(min(name_want, room - 1 - min(held_want, HELD_LEAST)), min(NAME_LEAST, room - 1), 1)
    held = max(min(held_want, room - 1 - name), 0)
    title = [fit(Text("tenant"), name, glyphs)]
    title += [fit(Text(column.title), sizes[column.title], glyphs, right=column.right) for column in chosen]
    title.append(fit(Text("held by"), held, glyphs))
    lines = [_line(title, "bold")]
    for index, row in enumerate(rows):
        parts = [fit(Text(name_of(row.tenant.tenant)), name, glyphs)]
        parts += [fit(cells[column.title][index], sizes[column.title], glyphs, right=column.right) for column in chosen]
        parts.append(fit(Text(_held(row.tenant.held_by), _held_style(row.tenant.held_by)), held, glyphs))
        lines.append(_line(parts, "" if row.queued or row.tenant.in_flight else "dim"))
    return lines


def _chosen(rows: Sequence[Row], sizes: dict[str, int], width: int) -> list[Column]:
    """The columns that fit beside the name and what holds the tenant."""
    chosen = list(COLUMNS)
    if not any(row.tenant.limits for row in rows):
        chosen.remove(OWN_LIMIT)
    if not any(row.tenant.failed_per_minute for row in rows):
        chosen.remove(FAILED)
    for column in OPTIONAL:
        used = 1 + NAME_LEAST + 1 + HELD_LEAST + sum(sizes[kept.title] + 1 for kept in chosen)
        if used <= width:
            break
        if column in chosen:
            chosen.remove(column)
    return chosen


def _line(parts: Sequence[Text], style: str) -> Text:
    line = Text(" ")
    for index, part in enumerate(parts):
        if index:
            line.append(" ")
        line.append_text(part)
    line.rstrip()
    line.stylize_before(style)
    return line


def _held(held_by: str) -> str:
    """What holds a tenant's next call, in a few words."""
    if held_by == "fair_order":
        return "its turn"
    return name_of(held_by.replace("tenant ", "own ", 1) if held_by.startswith(OWN) else held_by)


def _held_style(held_by: str) -> str:
    if held_by in ("breaker", "retry-after"):
        return "red"
    return "yellow" if held_by.startswith(OWN) else ""


def _queued(row: Row, glyphs: Glyphs) -> Text:
    queued = row.tenant.queued
    return Text("/".join(few(queued.get(priority, 0)) for priority in PRIORITIES))


def _share(row: Row, glyphs: Glyphs) -> Text:
    return Text(percent(row.tenant.share), "yellow" if row.behind else "")


def _share_bar(row: Row, glyphs: Glyphs) -> Text:
    drawn = bar(row.tenant.share, SHARE_BAR, glyphs, style="yellow" if row.behind else "green")
    return drawn if row.due is None else mark(drawn, row.due, glyphs)


def _own_limit(row: Row, glyphs: Glyphs) -> Text:
    """The tenant's own limit that is fullest."""
    if not row.tenant.limits:
        return Text()
    limit = max(row.tenant.limits, key=lambda limit: limit.used)
    return Text(f"{name_of(limit.name)} {percent(limit.used):>4}", "yellow" if limit.used >= 0.95 else "")


def _failed(row: Row, glyphs: Glyphs) -> Text:
    failed = row.tenant.failed_per_minute
    return Text(few(failed), "red" if failed else "dim")


def _ends(row: Row, glyphs: Glyphs) -> Text:
    """When the last of the tenant's queued calls goes, at the present pace; `?` where nobody can know."""
    waits = [wait.last_in for wait in row.tenant.waits]
    if not waits:
        return Text("-")
    known = [last for last in waits if last is not None]
    return Text(span(max(known)) if len(known) == len(waits) else "?")


ENDS = Column("ends in", _ends, 7)
MEAN = Column("mean", lambda row, _: Text(span(row.tenant.mean_wait)), 5)
CALLS = Column("call/m", lambda row, _: Text(few(row.tenant.calls_per_minute)), 6)
FAILED = Column("fail/m", _failed, 6)
OWN_LIMIT = Column("own limit", _own_limit, 16)
SHARE_BARS = Column("share | by weight", _share_bar, SHARE_BAR, right=False)

COLUMNS = (
    Column("wt", lambda row, _: Text(f"{row.tenant.weight:g}"), 3),
    Column("q i/s/b", _queued, 9),
    Column("live", lambda row, _: Text(few(row.tenant.in_flight)), 4),
    CALLS,
    FAILED,
    Column("tok/m", lambda row, _: Text(few(row.tenant.tokens_per_minute)), 6),
    Column("share", _share, 5),
    Column("due", lambda row, _: Text("-" if row.due is None else percent(row.due)), 4),
    SHARE_BARS,
    MEAN,
    Column("oldest", lambda row, _: Text(span(row.tenant.oldest_wait)), 6),
    ENDS,
    OWN_LIMIT,
)

OPTIONAL = (SHARE_BARS, OWN_LIMIT, MEAN, ENDS, FAILED, CALLS)
"""What is left out where there is no room, the first first."""
