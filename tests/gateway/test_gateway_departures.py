"""Programs that leave, in every phase and in every dialect: their calls go with them, and nothing of them is left."""

import random

import pytest
import trio
import trio.testing

from agents.money import PriceList
from orchestrator.budgets import TenantBudget, TenantBudgets
from tests.api.surface_rig import Exchange, ask
from tests.gateway.gateway_rig import PATHS, STREAMED, WireBackend, body, gateway, wire_owner
from tests.owner.staged import assert_balanced, running

PHASES = ("headers", "middle", "end")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", STREAMED)
async def test_R28_a_program_that_leaves_the_queue_takes_its_call_with_it(dialect, stream, autojump_clock):
    """A call whose program leaves while it is queued is gone at once, and never reaches the provider."""
    backend = WireBackend("headers")
    async with running(wire_owner(backend)) as owner, trio.open_nursery() as nursery:
        app = gateway(owner)
        nursery.start_soon(ask, app, "POST", PATHS["chat"], body("chat", "first"))
        await trio.testing.wait_all_tasks_blocked()
        leaver = Exchange(app, "POST", PATHS[dialect], body(dialect, "second", stream=stream))
        nursery.start_soon(leaver.run)
        await trio.testing.wait_all_tasks_blocked()
        assert owner.statistics().queued == 1
        leaver.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert leaver.ended.is_set()
        assert (owner.statistics().queued, owner.statistics().held) == (0, 1)
        backend.release("headers")
    assert len(backend.sent) == 1


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", STREAMED)
@pytest.mark.parametrize("phase", PHASES)
async def test_R28_a_program_that_leaves_aborts_its_call_at_the_provider(phase, dialect, stream, autojump_clock):
    """In flight, wherever it is, the call of a program that leaves is aborted, and its slot is free."""
    backend = WireBackend(phase)
    async with running(wire_owner(backend)) as owner, trio.open_nursery() as nursery:
        app = gateway(owner)
        leaver = Exchange(app, "POST", PATHS[dialect], body(dialect, stream=stream))
        nursery.start_soon(leaver.run)
        await trio.testing.wait_all_tasks_blocked()
        assert backend.busy == 1
        leaver.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert leaver.ended.is_set()
        assert (backend.busy, backend.aborted) == (0, 1)
        assert_balanced(owner)
        backend.release(phase)
        assert (await ask(app, "POST", PATHS["chat"], body("chat"))).status == 200


@pytest.mark.parametrize("dialect", ["embeddings", "count_tokens"])
async def test_R28_leaving_a_document_aborts_it(dialect, autojump_clock):
    """A request that has no stream upstream is aborted like any other when its program leaves."""
    backend = WireBackend("headers")
    async with running(wire_owner(backend)) as owner, trio.open_nursery() as nursery:
        leaver = Exchange(gateway(owner), "POST", PATHS[dialect], body(dialect))
        nursery.start_soon(leaver.run)
        await trio.testing.wait_all_tasks_blocked()
        leaver.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert leaver.ended.is_set()
        assert (backend.busy, backend.aborted) == (0, 1)
        assert_balanced(owner)


async def test_1000_departures_at_random_moments_leave_every_counter_at_zero(autojump_clock):
    """After 1,000 programs left in whatever phase, books and queue are empty and the next call is answered."""
    rng = random.Random(11)
    backend = WireBackend(step=0.5)
    async with running(wire_owner(backend, slots=5)) as owner:
        app = gateway(owner)

        async def leave_some_time(patience: float, dialect: str, stream: bool) -> None:
            exchange = Exchange(app, "POST", PATHS[dialect], body(dialect, stream=stream))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(exchange.run)
                await trio.sleep(patience)
                exchange.leave()

        async with trio.open_nursery() as nursery:
            for _ in range(1_000):
                patience = rng.choice([rng.uniform(0, 0.1), rng.uniform(0, 3), rng.uniform(0, 100)])
                nursery.start_soon(leave_some_time, patience, rng.choice(STREAMED), rng.random() < 0.5)
                await trio.sleep(rng.uniform(0, 0.3))
        await trio.testing.wait_all_tasks_blocked()
        assert_balanced(owner)
        assert backend.aborted > 50
        assert backend.busy == 0
        answer = await ask(app, "POST", PATHS["chat"], body("chat"))
        assert answer.status == 200


@pytest.mark.parametrize("phase", ["queue", *PHASES])
async def test_a_departure_settles_what_the_call_reserved(phase, autojump_clock):
    """A call that was not sent gives all of its reservation back; one that was keeps it as unknown cost."""
    budgets = TenantBudgets({"default": TenantBudget(tokens=100_000)}, prices=PriceList, wall=lambda: 1e9)
    backend = WireBackend("headers" if phase == "queue" else phase)
    async with running(wire_owner(backend)) as owner, trio.open_nursery() as nursery:
        app = gateway(owner, budgets=budgets)
        if phase == "queue":
            nursery.start_soon(ask, app, "POST", PATHS["chat"], body("chat"), {"x-headrace-tenant": "other"})
            await trio.testing.wait_all_tasks_blocked()
        leaver = Exchange(app, "POST", PATHS["chat"], body("chat", max_tokens=1_000))
        nursery.start_soon(leaver.run)
        await trio.testing.wait_all_tasks_blocked()
        assert held(budgets) > 1_000
        leaver.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert (held(budgets) == 0) == (phase == "queue")
        backend.release("headers" if phase == "queue" else phase)


def held(budgets: TenantBudgets) -> int:
    """Tokens of the default tenant that are reserved or of unknown use."""
    scope = budgets.scope("default")
    assert scope is not None
    return (scope.reserved.tokens or 0) + (scope.unknown.tokens or 0)
