"""The live board as lines: the facts are there at every size, and nothing runs over the edge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.cli.top_cells import ASCII, UNICODE, bar, few, mark, percent, span
from orchestrator.cli.top_render import board_lines
from orchestrator.views.queue import BackendView, PoolView, QueueView, SilentWorker
from tests.board.busy import BUSY, TENANTS, endpoint, many, tenant

POOLED = replace(
    BUSY,
    pool=PoolView(workers=3, runs=1_204, room=72, waiting=14, silent=(SilentWorker(worker="node-2", quiet=17.3),)),
)


def draw(view: QueueView, width: int, height: int | None = None, gone: str = "") -> list[str]:
    return [line.plain for line in board_lines(view, width=width, height=height, gone=gone)]


def row(lines: list[str], name: str) -> list[str]:
    """The words of the first line that begins with the name."""
    return next(line.split() for line in lines if line.split()[:1] == [name])


@given(
    width=st.integers(1, 220),
    height=st.none() | st.integers(1, 60),
    view=st.sampled_from(
        [BUSY, many(3), many(100), replace(BUSY, backends=()), replace(BUSY, backends=BUSY.backends * 9), POOLED]
    ),
    gone=st.sampled_from(["", "the daemon is gone"]),
)
def test_nothing_runs_over_the_edge(width: int, height: int | None, view: QueueView, gone: str) -> None:
    """At any size of the screen every line fits its width and all lines its height."""
    lines = board_lines(view, width=width, height=height, gone=gone)
    assert all(line.cell_len <= width for line in lines)
    assert all("\n" not in line.plain for line in lines)
    assert height is None or len(lines) <= height


def test_worker_processes_have_a_line() -> None:
    """How many there are, what they drive, what waits, who is silent; without one, what to do."""
    [line] = [line for line in draw(POOLED, 120) if "worker" in line]
    assert "3 workers: 1,204 runs, room for 72 more   14 runs wait for a worker   silent: node-2 for 17s" in line
    none = replace(BUSY, pool=PoolView(waiting=1, problem="no worker is connected; start one"))
    [line] = [line for line in draw(none, 120) if "worker" in line]
    assert line == " no worker is connected; start one   1 run waits for a worker"
    assert not any("worker" in line for line in draw(BUSY, 120))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (160, 50), (200, 50), (160, None)])
def test_the_facts_are_there(width: int, height: int | None) -> None:
    """From 80 by 24 on: who waits for what, how much is used, what is broken and until when, runs and jobs."""
    lines = draw(BUSY, width, height)
    text = "\n".join(lines)
    for fact in (
        "headrace 0.1.0",
        "up 3 h 12 min",
        "3 live jobs",
        "925 live: 871 waiting_model",
        "12,856 queued   53 in flight   3 to be retried   12 in the inbox",
        "broken, retry in 12s",
        "told to wait 4.0s",
        "2 cuts",
        "91% 182k/200k",
        "shut for 12s",
        "own requests/min",
    ):
        assert fact in text, fact
    assert row(lines, "key-a")[1:3] == ["32/32", "live"]
    research = row(lines, "research")
    assert research[1:4] == ["3", "0/412/0", "34"]
    for figure in ("55%", "53%", "1m34s", "100.1k", "total_tokens/min"):
        assert figure in research, figure
    assert row(lines, "quiet")[-3:].count("-") >= 2


def test_more_room_tells_more() -> None:
    """A wide screen shows mean waits, failures, own limits and the shares as bars, beside what a narrow one does."""
    narrow, wide = draw(BUSY, 80, 24), draw(BUSY, 200, 50)
    extra = ("mean", "fail/m", "own limit", "share | by weight")
    assert not any(word in "\n".join(narrow) for word in extra)
    assert all(word in "\n".join(wide) for word in extra)
    assert row(wide, "trial")[-6:] == ["22s", "-", "requests/min", "100%", "own", "requests/min"]
    assert len([line for line in wide if "requests/min " in line and "/500" in line]) == 3
    assert "others 6%" in "\n".join(wide)


def test_what_does_not_fit_is_summed_up() -> None:
    """Of a thousand tenants those with most calls are shown, and the others' calls are told as a sum."""
    view = many(1000)
    lines = draw(view, 80, 24)
    assert len(lines) == 24
    shown = [line.split()[0] for line in lines if line.startswith(" tenant-")]
    assert shown == [f"tenant-{n:04}" for n in range(len(shown))]
    assert len(shown) >= 5
    left = sum(sum(tenant.queued.values()) for tenant in view.backends[0].tenants[len(shown) :])
    assert lines[-1].startswith(f" and {1000 - len(shown)} more: {left:,} queued, 0 in flight")
    everybody = draw(view, 80)
    assert sum(line.startswith(" tenant-") for line in everybody) == 1000


def test_tenants_that_the_daemon_left_out_are_counted() -> None:
    """What the daemon did not name is counted among those not shown, however large the screen."""
    backend = replace(BUSY.backends[0], hidden_tenants=7)
    lines = draw(replace(BUSY, backends=(backend,)), 160)
    assert lines[-1].strip().startswith("and 7 more")


def test_shares_stand_beside_what_is_due_by_weight() -> None:
    """What those got who wait in one priority is due to them by weight; nothing is due to a tenant that is alone in its
    priority, stopped by its own limit, or without calls that wait."""
    lines = draw(BUSY, 100, 40)
    due = {name: row(lines, name)[8] for name in ("research", "support-desk", "nightly", "trial", "quiet")}
    assert due == {"research": "53%", "support-desk": "35%", "nightly": "-", "trial": "-", "quiet": "-"}


def test_names_cannot_drive_the_terminal() -> None:
    """Control characters and markup in what the daemon says are shown as text."""
    evil = "\x1b[2J\x07red\u202e[bold]"
    backend = BackendView(
        name=evil,
        inbox=0,
        queued=1,
        in_flight=0,
        retrying=0,
        endpoints=(endpoint(evil),),
        tenants=(tenant(evil, queued=(0, 1, 0), held_by=evil),),
    )
    view = replace(BUSY, backends=(backend,), version=evil, runs={evil: 1})
    text = "\n".join(draw(view, 200, gone=evil))
    assert not set(text) & {"\x1b", "\x07", "\u202e"}
    assert text.count("\\x1b[2J\\x07red") >= 5
    assert "[bold]" in text


def test_draining_and_gone_are_said_first() -> None:
    """That the daemon is ending, or gone, stands in the first three lines, and moves nothing below them."""
    calm = draw(BUSY, 80, 24)
    lines = draw(replace(BUSY, draining=True), 80, 24, gone="daemon gone, trying again")
    assert "DRAINING" in lines[0]
    assert lines[2].strip() == "daemon gone, trying again"
    assert lines[3:] == calm[3:]


def test_an_empty_daemon_says_so() -> None:
    """Without backends, or without calls, the board says that rather than nothing."""
    assert any("no backends" in line for line in draw(replace(BUSY, backends=()), 80, 24))
    idle = replace(BUSY.backends[0], tenants=())
    assert any("no calls in the last minute" in line for line in draw(replace(BUSY, backends=(idle,)), 80, 24))


def test_many_endpoints_leave_room_for_tenants() -> None:
    """Twenty endpoints are summed up in one line, with the broken ones by name, where they would hide the tenants."""
    sick = endpoint("key-x", 0, breaker="open", opens_in=3.0)
    backend = replace(BUSY.backends[0], endpoints=(*(endpoint(f"key-{n}") for n in range(19)), sick))
    lines = draw(replace(BUSY, backends=(backend,)), 80, 24)
    assert any("20 endpoints   589/640 live   broken: key-x" in line for line in lines)
    assert all(any(line.startswith(f" {tenant.tenant[:9]}") for line in lines) for tenant in TENANTS)


def test_bars_and_figures() -> None:
    """Bars are as long as told, show what is used at all, and marks stand inside; figures are short."""
    assert bar(0.5, 10, ASCII).plain == "#####-----"
    assert bar(0.001, 10, ASCII).plain == "#---------"
    assert bar(1.7, 10, ASCII, others=0.5).plain == "##########"
    assert bar(0.5, 10, ASCII, others=0.3).plain == "#####+++--"
    assert mark(bar(0.5, 10, UNICODE), 1.0, UNICODE).plain == "█████░░░░│"
    assert [percent(part) for part in (0.0, 0.001, 0.744, 1.0)] == ["0%", "<1%", "74%", "100%"]
    assert [few(n) for n in (7, 200_000, 12_345)] == ["7", "200k", "12.3k"]
    times = (0, 0.01, 0.42, 9.97, 59.4, 185, 7_800, 273_600)
    assert [span(seconds) for seconds in times] == ["-", "0.1s", "0.4s", "10s", "59s", "3m05s", "2h10m", "3d4h"]
