"""The live board's section of runs, jobs and people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.cli.top import Board
from orchestrator.cli.top_cells import UNICODE
from orchestrator.cli.top_render import board_lines
from orchestrator.cli.top_work import Work, work_lines
from orchestrator.views.queue import BudgetView, CutView, ToolWorkView
from tests.board.busy import BUSY
from tests.board.working import ASKED, JOB, NOON, RUN

FULL = replace(
    BUSY,
    approvals=1,
    budgets=(
        BudgetView(
            tenant="lab", period="day", amount="tokens", used=70.0, reserved=25.0, allowed=100.0, resets_in=7200
        ),
        BudgetView(tenant="web", period="day", amount="tokens", used=1.0, reserved=0.0, allowed=100.0),
    ),
    tools=(ToolWorkView(tool="lookup", running=8, longest=185.0, run="run-9"),),
)
WORK = Work(runs=(RUN,) * 30, live=1_204, jobs=(JOB,), approvals=(ASKED,), now=NOON)


def draw(work: Work = WORK, most: int | None = None, width: int = 160) -> list[str]:
    return [line.plain for line in work_lines(FULL, work, width, most, UNICODE)]


@pytest.mark.parametrize(
    "fact",
    [
        "may deploy run?  for 2m00s  run run-77  headrace approve run-77/2/0",
        "tool lookup at work for 3m05s in run run-9, 8 of it",
        "95% of 100 tokens per day, anew in 2h00m",
        "104 of 400, 64 live, 4 failed",
        "the 30 newest of 1,204 live",
        "waits for requests/min",
    ],
)
def test_who_waits_for_what_and_what_to_do(fact: str) -> None:
    """Requests with the command that answers them, long tools, budgets near their end, jobs, runs with their reason."""
    assert any(fact in line for line in draw())


def test_what_is_well_has_no_line() -> None:
    """A budget that is hardly used is not told."""
    assert not any("web" in line for line in draw())


def test_a_small_screen_keeps_what_alarms() -> None:
    """In four lines there is still each thing that needs somebody, and that there are more runs."""
    lines = draw(most=4)
    assert [word in line for word, line in zip(("deploy", "lookup", "lab", "nightly"), lines, strict=True)] == [
        True
    ] * 4


@given(
    width=st.integers(1, 220),
    height=st.none() | st.integers(1, 60),
    runs=st.integers(0, 60),
    name=st.text(max_size=12),
    alone=st.booleans(),
)
def test_nothing_runs_over_the_edge(width: int, height: int | None, runs: int, name: str, alone: bool) -> None:
    """At any size, whatever runs, tools and tenants are called, every line fits and is one line without escapes."""
    odd = replace(RUN, run=name, tenant=name, waits_for=name, agent=name)
    work = replace(WORK, runs=(odd,) * runs, jobs=(replace(JOB, name=name),), approvals=(replace(ASKED, tool=name),))
    lines = board_lines(FULL, width=width, height=height, work=work, only_work=alone)
    assert all(line.cell_len <= width for line in lines)
    assert not any(char in line.plain for line in lines for char in "\n\r\x1b\x07")
    assert height is None or len(lines) <= height


async def test_r_shows_runs_alone_and_back() -> None:
    """The key r gives the whole screen to runs and jobs, and once more the rest comes back."""
    board = Board("http://127.0.0.1:1")
    board.heard(FULL)
    board.work = WORK
    before = [line.plain for line in board.lines(120, 40, UNICODE)]
    board.press("r")
    alone = [line.plain for line in board.lines(120, 40, UNICODE)]
    board.press("r")
    assert sum("run-77 " in line for line in alone) > sum("run-77 " in line for line in before)
    assert not any("held by" in line for line in alone)
    assert [line.plain for line in board.lines(120, 40, UNICODE)] == before


def test_the_head_of_a_backend_says_what_holds_it() -> None:
    """What holds the next call and until when, the last cut, and what a broken endpoint fails with."""
    first = BUSY.backends[0]
    broken = replace(
        first.endpoints[0],
        breaker="open",
        opens_in=12.0,
        failing_with="unavailable: connection refused",
        last_cuts=(CutView(ago=42.0, before=20, after=16),),
    )
    held = replace(first, held_by="requests/min", held_until=3.2, endpoints=(broken, *first.endpoints[1:]))
    text = "\n".join(line.plain for line in board_lines(replace(BUSY, backends=(held,)), width=200, height=60))
    assert "held by requests/min for 3.2s" in text
    assert "the last 42s ago from 20 to 16" in text
    assert "unavailable: connection refused" in text
