"""The live board as lines of text: a pure function of what the daemon says and the size of the screen.

Every line fits the width and all lines fit the height. Where there is little of it, endpoints are told in less detail:
first every limit with its bar, then one line for each endpoint with its fullest limit, then one line for all of them.
So there is room for tenants, who are why somebody looks. States are said in words as well as in colours.

What is full is not alarming here: a scarce backend is meant to be used up. Red is for what serves nobody.
"""

from collections.abc import Sequence
from enum import IntEnum

from rich.text import Text

from agents.lifecycle import TERMINAL
from orchestrator.cli.progress import duration
from orchestrator.cli.top_cells import UNICODE, Glyphs, bar, clip, few, fit, name_of, percent, span
from orchestrator.cli.top_tenants import tenant_lines
from orchestrator.cli.top_work import Work, work_lines
from orchestrator.views.queue import BackendView, EndpointView, LimitView, PoolView, QueueView

TENANTS_WANTED = 5
"""Tenants of each backend that should be seen before endpoints are told in detail."""

LIMIT_CELL = 58
"""The least width of one limit; where there is more, several stand side by side."""

LIMIT_NAME, LIMIT_FIGURES = 17, 30
"""Room for a limit's name, and for its figures with what else there is to say."""

BAR_LEAST, BAR_MOST = 4, 40
FULL = 0.95

SHOWN = 0.005
"""What others use of a limit is a guess; below this part it is not worth a word."""

NAME_MOST = 20

WORK_SHARE = 3
"""The part of the screen that runs, jobs and people have at most: one in so many lines."""

NO_WORK = Work()


class Detail(IntEnum):
    """How much is told of endpoints."""

    LIMITS = 0
    LINES = 1
    SUMMARY = 2


def board_lines(
    view: QueueView,
    *,
    width: int,
    height: int | None = None,
    gone: str = "",
    glyphs: Glyphs = UNICODE,
    work: Work = NO_WORK,
    only_work: bool = False,
) -> list[Text]:
    """The board in at most `height` lines of at most `width` cells. `gone` says that what is shown is old, and why; it
    stands on a line that is empty otherwise, so that nothing moves. `work` has a third of the screen, and with
    `only_work` all of it.
    """
    lines = [*_header(view, width, glyphs), Text(f" {name_of(gone)}", "bold red")]
    if not view.backends:
        lines.append(Text(" no backends"))
    room = None if height is None else height - len(lines)
    least = None if room is None else max(room if only_work else room // WORK_SHARE, 0)
    lines += work_lines(view, work, width, least, glyphs)
    if only_work:
        return [clip(line, width, glyphs) for line in (lines if height is None else _cut(lines, height))]
    room = None if height is None else height - len(lines)
    blocks = _blocks(view.backends, width, room, glyphs)
    shares: Sequence[int | None] = [None] * len(blocks)
    if room is not None:
        shares = _deal(room - _lines_of(blocks), [_table_size(backend) for backend in view.backends])
    for index, (backend, block, share) in enumerate(zip(view.backends, blocks, shares, strict=True)):
        lines += [Text()] if index else []
        lines += [*block, *tenant_lines(backend, width, share, glyphs)]
    return [clip(line, width, glyphs) for line in (lines if height is None else _cut(lines, height))]


def _blocks(backends: Sequence[BackendView], width: int, room: int | None, glyphs: Glyphs) -> list[list[Text]]:
    """The backends' endpoints in as much detail as leaves room for tenants."""
    wanted = sum(min(_table_size(backend), TENANTS_WANTED + 2) for backend in backends)
    blocks: list[list[Text]] = []
    for detail in Detail:
        blocks = [_endpoints(backend, detail, width, glyphs) for backend in backends]
        if room is None or _lines_of(blocks) + wanted <= room:
            break
    return blocks


def _lines_of(blocks: Sequence[Sequence[Text]]) -> int:
    """An empty line stands between them."""
    return sum(len(block) for block in blocks) + max(len(blocks) - 1, 0)


def _cut(lines: list[Text], height: int) -> list[Text]:
    if len(lines) <= height:
        return lines
    left = len(lines) - height + 1
    return [*lines[: height - 1], Text(f" and {left} more lines: the screen is too small", "dim")]


def _header(view: QueueView, width: int, glyphs: Glyphs) -> list[Text]:
    title = Text.assemble((f" headrace {name_of(view.version)}", "bold"), f"   up {duration(view.uptime)}")
    if view.draining:
        title.append("   DRAINING: it takes nothing new", "bold red")
    live = {state: count for state, count in view.runs.items() if state not in ENDED and count}
    ended = {state: count for state, count in view.runs.items() if state in ENDED and count}
    runs = Text.assemble(" runs ", (f"{sum(live.values()):,} live", "bold"))
    if live:
        runs.append(f": {_counts(live)}")
    if ended:
        runs.append(f"; ended: {_counts(ended)}", "dim")
    jobs = Text(f"{view.jobs:,} live job{'' if view.jobs == 1 else 's'} ")
    first = Text.assemble(fit(title, max(width - jobs.cell_len, 0), glyphs), jobs)
    return [first, runs] if view.pool is None else [first, runs, _pool(view.pool)]


def _pool(pool: PoolView) -> Text:
    """The worker processes, on one line."""
    if pool.problem:
        line = Text(f" {name_of(pool.problem)}", "bold red")
    else:
        line = Text(f" {pool.workers:,} worker{'' if pool.workers == 1 else 's'}: ")
        line.append(f"{pool.runs:,} run{'' if pool.runs == 1 else 's'}", "bold")
        line.append(f", room for {pool.room:,} more")
    if pool.waiting:
        line.append(f"   {pool.waiting:,} run{' waits' if pool.waiting == 1 else 's wait'} for a worker", "yellow")
    if pool.silent:
        silent = ", ".join(f"{name_of(one.worker)} for {span(one.quiet)}" for one in pool.silent)
        line.append(f"   silent: {silent}", "bold red")
    return line


ENDED = frozenset(state.value for state in TERMINAL)


def _counts(states: dict[str, int]) -> str:
    counts = sorted(states.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{count:,} {name_of(state)}" for state, count in counts)


# Room


def _table_size(backend: BackendView) -> int:
    """Lines of the whole table: its title, its tenants, and what is said of those left out."""
    return 1 + len(backend.tenants) + bool(backend.hidden_tenants) if backend.tenants else 1


def _deal(room: int, wants: Sequence[int]) -> list[int]:
    """Shares the room out: nobody gets more than it wants, and what one leaves the others get."""
    given = [0] * len(wants)
    while room > 0:
        hungry = [index for index, want in enumerate(wants) if given[index] < want]
        if not hungry:
            break
        for index in hungry[:room]:
            given[index] += 1
        room -= len(hungry)
    return given


# Endpoints


def _endpoints(backend: BackendView, detail: Detail, width: int, glyphs: Glyphs) -> list[Text]:
    """A backend's title and its endpoints."""
    title = Text.assemble((f" {name_of(backend.name)}", "bold cyan"))
    for count, word in (
        (backend.queued, "queued"),
        (backend.in_flight, "in flight"),
        (backend.retrying, "to be retried"),
        (backend.inbox, "in the inbox"),
    ):
        if count or word in ("queued", "in flight"):
            title.append(f"   {count:,} {word}")
    if backend.held_by:
        title.append(f"   held by {name_of(backend.held_by)}", "yellow")
        if backend.held_until:
            title.append(f" for {span(backend.held_until)}", "yellow")
    if detail is Detail.SUMMARY:
        return [title, _summary(backend.endpoints)]
    lines = [title]
    names = min(max((len(name_of(endpoint.name)) for endpoint in backend.endpoints), default=0), NAME_MOST)
    for endpoint in backend.endpoints:
        line = _endpoint(endpoint, names, glyphs)
        if detail is Detail.LINES and endpoint.limits:
            fullest = max(endpoint.limits, key=lambda limit: limit.used + limit.others)
            line = Text.assemble(line, "   ", _brief_limit(fullest, width - line.cell_len - 3, glyphs))
        lines.append(line)
        if detail is Detail.LIMITS:
            lines += _limits(endpoint.limits, width, glyphs)
    return lines


def _summary(endpoints: Sequence[EndpointView]) -> Text:
    open_ = [endpoint for endpoint in endpoints if endpoint.breaker != "closed"]
    live, most = sum(e.in_flight for e in endpoints), sum(e.concurrency_limit for e in endpoints)
    text = Text(f"  {len(endpoints)} endpoint{'' if len(endpoints) == 1 else 's'}   {live:,}/{most:,} live")
    if open_:
        text.append(f"   broken: {', '.join(name_of(endpoint.name) for endpoint in open_)}", "bold red")
    fullest = max((limit for e in endpoints for limit in e.limits), key=lambda limit: limit.used, default=None)
    if fullest is not None:
        text.append(f"   {name_of(fullest.name)} {percent(fullest.used)}")
    return text


def _endpoint(endpoint: EndpointView, name: int, glyphs: Glyphs) -> Text:
    line = Text("  ")
    line.append_text(fit(Text(name_of(endpoint.name)), name, glyphs))
    line.append(f"  {endpoint.in_flight:>4,}/{endpoint.concurrency_limit:<4,} live   ")
    line.append_text(_breaker(endpoint))
    if endpoint.cuts:
        line.append(f"   {endpoint.cuts:,} cut{'' if endpoint.cuts == 1 else 's'}", "yellow")
    if endpoint.last_cuts:
        cut = endpoint.last_cuts[0]
        line.append(f", the last {span(cut.ago)} ago from {cut.before:,} to {cut.after:,}", "yellow")
    if endpoint.failing_with and endpoint.breaker != "closed":
        line.append(f"   {name_of(endpoint.failing_with)}", "red")
    return line


def _breaker(endpoint: EndpointView) -> Text:
    """Whether the endpoint takes calls; if not, why, and when it is tried again."""
    opens_in = endpoint.opens_in
    if endpoint.breaker == "closed":
        return Text("ok", "green") if not opens_in else Text(f"told to wait {span(opens_in)}", "bold red")
    if endpoint.breaker == "half_open" or not opens_in:
        return Text("broken, being tried", "bold red")
    return Text(f"broken, retry in {span(opens_in)}", "bold red")


def _limits(limits: Sequence[LimitView], width: int, glyphs: Glyphs) -> list[Text]:
    """Limits with their bars, as many side by side as fit."""
    if not limits:
        return []
    across = max(1, min((width - 4) // LIMIT_CELL, len(limits)))
    cell = min((width - 4) // across - 2, 2 * LIMIT_CELL)
    lines = []
    for start in range(0, len(limits), across):
        line = Text("    ")
        for limit in limits[start : start + across]:
            line.append_text(fit(_limit(limit, cell, glyphs), cell, glyphs))
            line.append("  ")
        line.rstrip()
        lines.append(line)
    return lines


def _limit(limit: LimitView, width: int, glyphs: Glyphs) -> Text:
    """Name, bar, part and amount; what others use, and a gate that the provider closed.

    The bar's width depends on the room alone, so that bars stand in line and still.
    """
    figures = Text(f" {percent(limit.used):>4} {_amounts(limit)}")
    if limit.others >= SHOWN:
        figures.append(f", others {percent(limit.others)}", "magenta")
    if limit.opens_in is not None:
        figures.append(f", shut for {span(limit.opens_in)}", "bold red")
    label = fit(Text(name_of(limit.name)), LIMIT_NAME, glyphs)
    room = max(BAR_LEAST, min(width - LIMIT_NAME - 1 - LIMIT_FIGURES, BAR_MOST))
    return Text.assemble(label, " ", _bar(limit, room, glyphs), figures)


def _brief_limit(limit: LimitView, width: int, glyphs: Glyphs) -> Text:
    """The same where there is little room: name and part; the amount, or the gate, and a bar as far as they fit."""
    line = Text(f"{name_of(limit.name)} {percent(limit.used)}")
    more = Text(f" {_amounts(limit)}")
    if limit.opens_in is not None:
        more = Text(f" shut for {span(limit.opens_in)}", "bold red")
    if line.cell_len + more.cell_len <= width:
        line.append_text(more)
    room = min(width - line.cell_len - 1, BAR_MOST)
    return line if room < BAR_LEAST else Text.assemble(line, " ", _bar(limit, room, glyphs))


def _amounts(limit: LimitView) -> str:
    return f"{few(limit.used * limit.amount)}/{few(limit.amount)}"


def _bar(limit: LimitView, width: int, glyphs: Glyphs) -> Text:
    style = "cyan" if limit.used + limit.others < FULL else "bold cyan"
    return bar(limit.used, width, glyphs, others=limit.others if limit.others >= SHOWN else 0.0, style=style)
