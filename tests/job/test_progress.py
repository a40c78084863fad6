"""What a person is shown: figures, lines, tables."""

import io

import pytest
import trio
import trio.testing
from rich.console import Console

from agents.messages import Usage
from agents.money import Price
from orchestrator.cli.progress import (
    LiveDisplay,
    PlainDisplay,
    Rate,
    Snapshot,
    dollars,
    duration,
    figures_line,
    short,
    watch,
)
from orchestrator.cli.report import job_table, ranges, summary, tenant_table
from orchestrator.jobs.job import JobReport
from orchestrator.tally import Tally


def snapshot(done: int = 0, *, total: float | None = None, exact: bool = False, seconds: float = 1.0) -> Snapshot:
    return Snapshot(
        done=done,
        failed=3,
        live=8,
        total=total,
        exact=exact,
        waiting=12,
        in_flight=4,
        tokens=1_234_567,
        cost=0.5,
        seconds=seconds,
    )


def test_the_rate_follows_the_last_half_minute() -> None:
    """After a limit changed, the old rate is forgotten within `RATE_SECONDS`."""
    rate = Rate()
    fast = slow = 0.0
    for second in range(1, 61):
        fast = rate.update(second, 100 * second)
    assert fast == pytest.approx(100)
    for second in range(61, 100):
        slow = rate.update(second, 6000 + second - 60)
    assert slow == pytest.approx(1)


async def test_plain_lines_say_all_there_is(autojump_clock: trio.testing.MockClock) -> None:
    """Off a terminal: a line every few seconds with count, rate, waiting, tokens, cost and time left."""
    lines: list[str] = []
    display = PlainDisplay(lines.append, "job")
    with trio.move_on_after(11):
        await watch(display, lambda: snapshot(1000, total=100_000.4, seconds=trio.current_time()))
    assert len(lines) == 2
    assert lines[1].startswith("job: 1,000 of about 100,000 done, 3 failed, ")
    assert ", 12 waiting, 4 in flight, 1.2M tokens, $0.5000, " in lines[1]
    assert lines[1].endswith(" left")


def test_an_unknown_total_promises_no_end() -> None:
    """From a pipe nobody knows how much is left, and nothing is said of it."""
    assert "left" not in figures_line(snapshot(10), 5.0)


def test_a_live_line_leaves_the_terminal_as_it_was() -> None:
    """On a terminal the bar is drawn over itself and wiped at the end, the cursor shown again."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, legacy_windows=False)
    with LiveDisplay(console, "job") as display:
        display.show(snapshot(10, total=40, exact=True))
        display.show(snapshot(20))
    assert "10 of 40 done, 3 failed" in screen.getvalue()
    assert "20 done" in screen.getvalue()
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l")


def test_figures_for_people() -> None:
    """Numbers are short, sums of money keep their digits, times are in people's units."""
    assert [short(n) for n in (7, 12_345, 4_500_000)] == ["7", "12.3k", "4.5M"]
    assert [dollars(d) for d in (0.0042, 1234.5)] == ["$0.0042", "$1,234.50"]
    assert [duration(s) for s in (42, 185, 7800)] == ["42 s", "3 min 5 s", "2 h 10 min"]
    assert ranges((3, 4, 5, 9, 12, 11)) == "3-5, 9, 11-12"
    assert ranges(tuple(range(0, 40, 2)), most=2) == "0, 2, ..."


def test_the_report_names_what_was_not_done() -> None:
    """Table and JSON both say what failed, what was cut off, and where reading stopped."""
    report = JobReport(
        job="job",
        state="interrupted",
        message="interrupted by SIGINT",
        done=7,
        failed=2,
        cancelled=(10, 11),
        unread_after="in.jsonl:11",
        failures={"output_limit": 2},
        errors=("in.jsonl:3: cut off",),
        usage=Usage(),
        seconds=10.0,
    )
    tally = Tally(["default"])
    tally.tenants["default"].usage = Usage(900_000, cached=100_000, output=50_000)
    price = Price(2_000_000, 8_000_000, cached=500_000)
    screen = io.StringIO()
    Console(file=screen, width=100).print(job_table(report, tally, price))
    text = screen.getvalue()
    for part in ("2 (ended as: 2 output_limit)", "2: 10-11", "behind in.jsonl:11", "1,000,000 in (100,000 cached)"):
        assert part in text
    data = summary(report, tally, price)
    assert (data["cancelled"], data["unread_after"]) == ([10, 11], "in.jsonl:11")
    assert data["cost_dollars"] == pytest.approx(0.9 * 2 + 0.1 * 0.5 + 0.05 * 8)


def test_the_tenant_table_sets_share_beside_weight() -> None:
    """Each tenant's share of the service under contention stands beside what its weight asks for."""
    tally = Tally(["a", "b"])
    tally.tenants["a"].contended_service, tally.tenants["b"].contended_service = 740.0, 260.0
    screen = io.StringIO()
    Console(file=screen, width=120).print(tenant_table(tally, {"a": 3, "b": 1}))
    lines = [line for line in screen.getvalue().splitlines() if line.startswith((" a ", " b "))]
    assert [line.split()[-2] for line in lines] == ["74%", "26%"]
    assert [line.split()[-1] for line in lines] == ["75%", "25%"]
