"""The order inside a job: least attained service, bounded overtaking, keys that are kept; and the memory of runs."""

import random
from functools import partial
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.policy.fairness import FairConfig, FairQueue
from orchestrator.policy.run_order import Order
from orchestrator.policy.run_table import RunTable
from orchestrator.policy.ticket import Ticket
from tests.policy.slots import Slots


def program(server: Slots, run: str, costs: list[float]) -> None:
    """A run that makes one call after the other."""

    def step(number: int) -> None:
        if number < len(costs):
            server.submit("t", costs[number], run=run, then=lambda _now, _ticket: step(number + 1))

    step(0)


@pytest.mark.parametrize(("order", "waiting", "response"), [("fifo", 18.0, 11.0), ("las", 14.0, 10.0)])
def test_autellix_worked_example(order: Order, waiting: float, response: float):
    """Autellix's example: four programs on two slots wait 18 in arrival order, 14 by attained service."""
    programs = {"A": [4.0, 3.0, 1.0, 1.0], "B": [3.0, 3.0, 4.0], "C": [1.0, 2.0], "D": [4.0]}
    server = Slots(FairConfig(order=order), 2)
    for run, costs in programs.items():
        program(server, run, costs)
    server.run()
    assert sum(at - ticket.arrived for at, ticket in server.started) == waiting
    assert mean(max(at for at, ticket in server.ended if ticket.run == run) for run in programs) == response


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), overtaking=st.sampled_from([0.0, 5.0, 60.0]))
def test_no_call_is_overtaken_for_longer_than_the_bound(seed: int, overtaking: float):
    """Of two calls of a job, the one that came more than the bound later never goes first."""
    rng = random.Random(seed)
    server = Slots(FairConfig(overtaking=overtaking))
    for _ in range(300):
        server.arrive(rng.uniform(0.0, 400.0), "t", rng.uniform(0.5, 3.0), run=rng.choice("abcdefgh"))
    server.run()
    oldest = float("inf")
    for _, ticket in reversed(server.started):
        assert ticket.arrived <= oldest + overtaking
        oldest = min(oldest, ticket.arrived)
    assert len(server.started) == 300


def test_no_run_starves_under_a_stream_of_new_ones():
    """A run that had much waits at most 600 s longer than in arrival order, though new runs keep coming."""
    waits = {}
    for order in ("fifo", "least_attained"):
        server = Slots(FairConfig(order=order))
        # warm up: the old run was served for 1,200 s
        program(server, "old", [12.0] * 100)
        for number in range(4000):
            server.arrive(1200.0 + number, "t", 1.0, run=f"new{number}")
        server.arrive(1300.5, "t", 1.0, run="old")
        server.run()
        waits[order] = next(at - t.arrived for at, t in server.started if t.run == "old" and t.arrived > 1300)
    assert waits["least_attained"] <= waits["fifo"] + 601.0
    assert waits["least_attained"] > waits["fifo"] + 500.0


def sessions(order: Order) -> tuple[float, float]:
    """Short and long runs at load 1.3: the mean slowdown of all, and the mean completion time of the long ones."""
    rng = random.Random(7)
    server = Slots(FairConfig(order=order), 2)
    calls = {f"r{number}": rng.choice([2, 3, 4, 60]) for number in range(200)}
    begun = {run: rng.uniform(0.0, sum(calls.values()) / 2.6) for run in calls}
    for run in calls:
        server.at(begun[run], partial(program, server, run, [1.0] * calls[run]))
    server.run()
    done = {ticket.run: at for at, ticket in server.ended}
    slowdown = mean((done[run] - begun[run]) / calls[run] for run in calls)
    return slowdown, mean(done[run] - begun[run] for run in calls if calls[run] == 60)


def test_short_runs_finish_sooner_and_long_ones_pay():
    """Under overload the mean slowdown of runs is lower than in arrival order, at the largest runs' cost."""
    fifo, fifo_long = sessions("fifo")
    fair, fair_long = sessions("least_attained")
    assert fair < 0.8 * fifo
    assert fifo_long < fair_long < 600.0 + 2 * fifo_long


def test_a_retry_keeps_its_first_key():
    """A call that comes back after a failed attempt has the place of its first arrival."""
    queue = FairQueue(FairConfig())
    first, second = Ticket(seq=1, tenant="t", run="a"), Ticket(seq=2, tenant="t", run="b")
    queue.push(first, 10.0)
    queue.push(second, 20.0)
    queue.start(first, 5.0)
    queue.settle(first, 0.0)
    queue.push(first, 99.0)
    assert (first.key, queue.head()) == (10.0, first)


def test_a_run_is_put_back_by_what_it_had():
    """Each second that a run was served puts its next call back by half a second, at most 600 s; no run, by none."""
    queue = FairQueue(FairConfig())
    tickets = []
    for seq in range(100):
        ticket = Ticket(seq=seq, tenant="t", run="r")
        queue.push(ticket, 0.0)
        tickets.append(ticket)
        queue.start(ticket, 4.0)
        queue.settle(ticket, 4.0, 20.0)
    assert [ticket.key for ticket in tickets[:3]] == [0.0, 10.0, 20.0]
    assert tickets[-1].key == 600.0
    nameless = Ticket(seq=1000, tenant="t")
    queue.push(nameless, 7.0)
    assert nameless.key == 7.0


def test_refused_attempts_teach_nothing():
    """An attempt that was refused before any work changes neither the run's time nor the mean."""
    queue = FairQueue(FairConfig())
    ticket = Ticket(seq=1, tenant="t", run="r")
    for actual in (6.0, 0.0):
        queue.push(ticket, 0.0)
        queue.start(ticket, 5.0)
        queue.settle(ticket, actual, 3.0)
    state = queue.runs.find("t", "", "r")
    assert state is not None
    assert (state.attained, queue.mean_service) == (3.0, 6.0)


def test_run_table_keeps_the_runs_used_last():
    """The table forgets the run that was not used for longest, and calls without a run have no state."""
    table = RunTable(kept=2)
    a = table.use("t", "j", "a")
    table.use("t", "j", "b")
    assert table.use("t", "j", "a") is a
    table.use("t", "j", "c")
    assert table.find("t", "j", "a") is a
    assert table.find("t", "j", "b") is None
    assert len(table) == 2
    assert table.use("t", "j", "") is None
    table.drop("t", "j", "a")
    table.drop("t", "j", "a")
    assert table.find("t", "j", "a") is None
