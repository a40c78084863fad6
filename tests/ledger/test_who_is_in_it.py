"""Agents and clients of every kind are in the ledger, each call once, under a key of its own."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
from starlette.types import ASGIApp

from agents.budget import Scope
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.money import Price, PriceList
from agents.owner_port import OwnerPort
from agents.port import Flow
from agents.spec import AgentSpec
from orchestrator.budgets import TenantBudget, TenantBudgets
from orchestrator.ledger import LedgerHook
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.store.memory_ledger import MemoryLedger
from tests.api.surface_rig import Exchange, ask
from tests.gateway.gateway_rig import PATHS, STREAMED, OwnerCalls, WireBackend, body, gateway
from tests.ledger.ledgers import NOON
from tests.owner.staged import StagedBackend, running

Clock = trio.testing.MockClock
PRICES = PriceList({"small": Price(input=1_000_000, output=2_000_000), "any": Price(input=1, output=1)})


class Desk:
    """A surface over one backend, with a ledger behind its owner and its budgets."""

    def __init__(self, backend: Any, budgets: dict[str, TenantBudget]) -> None:
        self.ledger = MemoryLedger()
        self.backend = backend
        self.budgets = TenantBudgets(
            budgets, prices=lambda: PRICES, wall=lambda: NOON, longest=lambda model: 500, ledger=self.ledger
        )
        endpoint = Endpoint("one", cast("Any", backend), concurrency=ConcurrencyConfig(fixed=2))
        hook = LedgerHook(self.ledger, wall=lambda: NOON)
        self.owner = Owner(OwnerConfig("test", DispatchConfig()), [endpoint], hooks=[hook])

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ASGIApp]:
        async with running(self.owner):
            yield gateway(self.owner, OwnerCalls(self.owner), budgets=self.budgets)


LIMITED = {"default": TenantBudget(tokens=10_000, micro_dollars=20_000)}


@pytest.mark.parametrize("budgets", [{}, LIMITED])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", [*STREAMED, "embeddings"])
async def test_each_call_of_a_program_is_in_the_ledger_once(
    dialect: str, stream: bool, budgets: dict[str, TenantBudget], autojump_clock: Clock
) -> None:
    """Whatever its dialect, streamed or not, with a budget or none; two calls have two keys."""
    desk = Desk(WireBackend(), budgets)
    asked = {} if dialect == "embeddings" else {"stream": stream}
    async with desk.serving() as app:
        for _ in range(2):
            assert (await ask(app, "POST", PATHS[dialect], body(dialect, **asked))).status == 200
    first, second = await desk.ledger.calls()
    assert first.key != second.key
    assert (first.tenant, first.outcome, first.input, first.output, first.unknown_tokens) == ("default", "ok", 10, 2, 0)
    assert first.micro_dollars == (14 if budgets else None)
    assert first.sent > 0


async def test_a_count_of_tokens_is_no_call(autojump_clock: Clock) -> None:
    """It costs nothing, so nobody keeps it."""
    desk = Desk(WireBackend(), LIMITED)
    async with desk.serving() as app:
        assert (await ask(app, "POST", PATHS["count_tokens"], body("count_tokens"))).status == 200
    assert await desk.ledger.calls() == []


async def test_a_plain_call_is_in_the_ledger(autojump_clock: Clock) -> None:
    """`/api/calls` keeps one row with the client's job and run."""
    desk = Desk(StagedBackend(), LIMITED)
    asked = {
        "request": {"model": "small", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20},
        "job": "j",
        "run": "r",
    }
    async with desk.serving() as app:
        answer = await ask(app, "POST", "/api/calls", json.dumps(asked).encode())
        assert answer.status == 200, answer.body
    (row,) = await desk.ledger.calls()
    assert (row.job, row.run, row.outcome, row.micro_dollars) == ("j", "r", "ok", 14)


async def test_a_program_that_leaves_stays_reserved_as_long_as_its_call_may_have_cost(autojump_clock: Clock) -> None:
    """Killed while the provider worked, the row has no end and holds the bound; when the program left, it has ended."""
    backend = WireBackend("headers")
    desk = Desk(backend, LIMITED)
    async with desk.serving() as app, trio.open_nursery() as nursery:
        exchange = Exchange(app, "POST", PATHS["chat"], body("chat", max_tokens=100), {})
        nursery.start_soon(exchange.run)
        await trio.testing.wait_all_tasks_blocked()
        (row,) = await desk.ledger.calls()
        assert (row.ended, row.endpoint) == (None, "one")
        assert row.unknown_tokens > 100
        assert row.unknown_micro_dollars > 200
        held = row.unknown_tokens
        nursery.cancel_scope.cancel()
    (row,) = await desk.ledger.calls()
    assert (row.outcome, row.unknown_tokens) == ("caller_gone", held)
    (spent,) = desk.budgets.spent()
    assert spent.unknown_tokens == held


async def test_an_agents_calls_have_the_keys_of_its_log(autojump_clock: Clock) -> None:
    """`run/step/attempt`, with what the run reserved while it waits, and what it cost in the end."""
    desk = Desk(StagedBackend(), {})
    tenant = Scope("tenant acme")
    agent = AgentSpec(name="a", model="any", max_tokens=50)
    async with running(desk.owner), trio.open_nursery() as nursery:
        port = OwnerPort(desk.owner.inbox, Flow("acme", "", "run-7"))

        @nursery.start_soon
        async def run() -> None:
            await run_agent(agent, "hi", model=port, journal=MemoryJournal(), budget=tenant, prices=PRICES, run="run-7")

        await trio.sleep(2.5)
        (row,) = await desk.ledger.calls()
        assert (row.key, row.run, row.tenant, row.ended) == ("run-7/1/1", "run-7", "acme", None)
        assert (row.unknown_tokens, row.unknown_micro_dollars) == (
            tenant.reserved.tokens,
            tenant.reserved.micro_dollars,
        )
    (row,) = await desk.ledger.calls()
    assert (row.outcome, row.micro_dollars, row.unknown_tokens) == ("ok", tenant.used.micro_dollars, 0)
    (spent,) = await desk.ledger.spent()
    assert spent.tokens == tenant.used.tokens == 12
