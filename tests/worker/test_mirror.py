"""Budgets mirrored at a worker against those that the daemon has."""

from typing import Any

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agents.amounts import Amounts, Limits
from agents.budget import Blocked, Reservation, Scope
from agents.reserve import when_room
from orchestrator.views.workers import ScopeView
from orchestrator.worker.mirror import Mirror
from tests.worker.fake_pool import views_of

AMOUNTS = st.builds(Amounts, *(st.integers(0, 30) for _ in range(4)))
LIMITS = st.builds(
    Limits,
    rounds=st.none() | st.integers(1, 60),
    tool_calls=st.none() | st.integers(0, 60),
    tokens=st.none() | st.integers(1, 60),
    micro_dollars=st.none() | st.integers(0, 60),
)


class Both:
    """The daemon's budgets with the run's own below and others beside it, and the run's own at the worker.

    The daemon is told of whatever the worker does; the worker is told of others only by `refresh`.
    """

    def __init__(self, limits: list[Limits], own: Limits) -> None:
        scope: Scope | None = None
        for number, each in enumerate(limits):
            scope = Scope(f"s{number}", each, scope)
        self.parent = scope
        self.own = Scope("run", own, scope)
        self.others = Scope("others", parent=scope)
        self.mirror = Mirror(views_of(self.own))
        self.run = Scope("run", own, self.mirror.scope)
        self.mirror.of(self.run)
        self.held: list[tuple[Reservation, Reservation]] = []
        self.held_by_others: list[Reservation] = []

    def refresh(self) -> None:
        self.mirror.refresh(views_of(self.own))

    def reserve(self, need: Amounts) -> None:
        """As a worker does: decided here, and by the daemon when it appends."""
        here = self.run.reserve(need)
        if not isinstance(here, Reservation):
            return
        there = self.own.reserve(need)
        if isinstance(there, Reservation):
            self.held.append((here, there))
        else:
            here.release()
            self.refresh()

    def settle(self, used: Amounts) -> None:
        if self.held:
            for reservation in self.held.pop():
                reservation.settle(used)

    def spend(self, amounts: Amounts) -> None:
        if self.run.spend(amounts) is None and self.own.spend(amounts) is not None:
            self.run.give_back(amounts)
            self.refresh()

    def child(self, used: Amounts, unknown: Amounts) -> None:
        self.mirror.count(used, unknown)
        for scope in self.own.path():
            scope.used += used
            scope.unknown += unknown

    def others_reserve(self, need: Amounts) -> None:
        got = self.others.reserve(need)
        if isinstance(got, Reservation):
            self.held_by_others.append(got)

    def others_settle(self, used: Amounts) -> None:
        if self.held_by_others:
            self.held_by_others.pop().settle(used)


MOVES = st.one_of(
    st.tuples(st.sampled_from(["reserve", "settle", "spend", "others_reserve", "others_settle"]), AMOUNTS),
    st.tuples(st.just("refresh")),
    st.tuples(st.just("child"), AMOUNTS, AMOUNTS),
)


@given(st.lists(LIMITS, min_size=1, max_size=3), LIMITS, st.lists(MOVES, max_size=25), AMOUNTS)
def test_what_the_mirror_decides_is_what_the_daemon_decides(
    limits: list[Limits], own: Limits, moves: list[tuple[Any, ...]], need: Amounts
) -> None:
    """Whatever others and the run did: brought up to date, it allows and refuses the same for the same reason, others
    and the run's own make up the whole, and the daemon's limits were never passed by a reservation."""
    both = Both(limits, own)
    for name, *amounts in moves:
        getattr(both, name)(*amounts)
    both.refresh()
    for scope, mirrored in zip(both.own.path(), both.run.path(), strict=True):
        assert (scope.used, scope.reserved, scope.unknown) == (mirrored.used, mirrored.reserved, mirrored.unknown)
    theirs, mine = both.own.check(need), both.run.check(need)
    if isinstance(theirs, Blocked):
        assert isinstance(mine, Blocked)
        assert mine.scope.name == theirs.scope.name
    else:
        assert mine == theirs
    assert both.run.deadline() == both.own.deadline()


async def test_timeouts_above_run_out_at_the_same_time(autojump_clock: trio.testing.MockClock) -> None:
    """The daemon says for how long a budget has been running, since its clock is another one."""
    job = Scope("job", Limits(timeout=100.0))
    job.start(trio.current_time())
    await trio.sleep(30)
    mirror = Mirror(views_of(job.child("run")))
    assert mirror.scope is not None
    assert mirror.scope.deadline() == job.deadline()


async def test_whoever_waits_goes_on_when_the_daemon_says_so(autojump_clock: trio.testing.MockClock) -> None:
    """It asks only while somebody waits, for what stands in the way, and no faster than it must."""
    others = Amounts(rounds=0, tokens=90)
    asked: list[tuple[float, Amounts]] = []

    def view(reserved: Amounts) -> tuple[ScopeView, ...]:
        return (ScopeView(name="job", limits=Limits(tokens=100), reserved=reserved),)

    async def ask(need: Amounts) -> tuple[ScopeView, ...]:
        asked.append((trio.current_time(), need))
        await trio.lowlevel.checkpoint()
        return view(others if trio.current_time() < 10 else Amounts())

    mirror = Mirror(view(others))
    run = Scope("run", parent=mirror.scope)
    mirror.of(run)
    need = Amounts(tokens=50)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.follow, ask)
        await trio.sleep(5)
        assert not asked
        assert isinstance(await when_room(lambda: run.reserve(need)), Reservation)
        assert 10 <= trio.current_time() < 10.1
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert 5 <= len(asked) <= 101
    assert {wanted for _, wanted in asked} == {need}
