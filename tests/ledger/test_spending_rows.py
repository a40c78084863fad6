"""Clients' calls in the ledger: what a tenant may have spent is durable before anything is sent."""

import random
from pathlib import Path

import pytest
import trio

from agents.errors import ModelError, Throttled, Unavailable
from agents.messages import Usage
from agents.money import Price, PriceList
from agents.owner_port import OwnerPort
from agents.port import Flow, Receipt
from orchestrator.budget_file import SPENT, carry_over, read_spent
from orchestrator.budget_periods import Spent
from orchestrator.budgets import HeldCall, TenantBudget, TenantBudgets
from orchestrator.ledger import LedgerHook
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.store.errors import StoreFull
from orchestrator.store.ledger_port import Ledger, SpentRow
from orchestrator.store.memory_ledger import MemoryLedger
from tests.ledger.ledgers import NOON
from tests.owner.staged import StagedBackend, request, running

Clock = trio.testing.MockClock
PRICES = PriceList({"any": Price(input=1_000_000, output=2_000_000)})
LIMIT = {"acme": TenantBudget(tokens=100_000, micro_dollars=200_000)}


def budgets_of(ledger: Ledger, spent: list[SpentRow] | None = None) -> TenantBudgets:
    return TenantBudgets(LIMIT, prices=lambda: PRICES, wall=lambda: NOON, spent=spent or [], ledger=ledger)


async def reserve(budgets: TenantBudgets, key: str = "call-1") -> HeldCall:
    held = await budgets.reserve_call("acme", "any", input_tokens=100, max_tokens=50, key=key)
    assert held is not None
    return held


async def test_a_reserved_call_is_in_the_ledger_before_it_can_be_sent(ledger: Ledger) -> None:
    """When the reservation is granted, its row is durable: a daemon killed now would find it, and start with it."""
    await reserve(budgets_of(ledger))
    (row,) = await ledger.calls()
    assert (row.key, row.tenant, row.model, row.ended, row.sent) == ("call-1", "acme", "any", None, 0.0)
    assert (row.unknown_tokens, row.unknown_micro_dollars) == (150, 200)
    await ledger.end_open(NOON + 1)
    again = budgets_of(ledger, await ledger.spent())
    assert list(again.spent()) == [Spent(tenant="acme", period="ever", unknown_tokens=150, unknown_micro_dollars=200)]


async def test_a_call_that_never_went_out_gives_everything_back(ledger: Ledger) -> None:
    """Settled without work done, its row ends and nothing of it stays spent, in the ledger as in the budget."""
    budgets = budgets_of(ledger)
    (await reserve(budgets)).settle(None, worked=False)
    await ledger.flush()
    (row,) = await ledger.calls()
    assert (row.outcome, row.unknown_tokens, row.micro_dollars) == ("not_sent", 0, 0)
    (spent,) = await ledger.spent()
    assert (spent.tokens, spent.micro_dollars, spent.unknown_tokens, spent.unknown_micro_dollars) == (0, 0, 0, 0)
    assert list(budgets.spent()) == [Spent(tenant="acme", period="ever")]


class Full(MemoryLedger):
    """A ledger that cannot be made durable."""

    async def flush(self) -> None:
        await trio.lowlevel.checkpoint()
        raise StoreFull("no room")


async def test_a_call_that_cannot_be_kept_is_not_made() -> None:
    """Where the ledger has no room the call fails before it is sent, and holds nothing of the budget."""
    budgets = budgets_of(Full())
    with pytest.raises(StoreFull):
        await reserve(budgets)
    assert list(budgets.spent()) == [Spent(tenant="acme", period="ever")]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("leave", [False, True])
async def test_a_restart_finds_what_the_budgets_said(seed: int, leave: bool, autojump_clock: Clock) -> None:
    """Calls that are answered, fail or are tried again: as much is spent by the ledger as by the scope.

    Of calls whose callers leave, the ledger may learn later that they were not written, or what they reported.
    """
    chance = random.Random(seed)
    ledger = MemoryLedger()
    budgets = budgets_of(ledger)
    backend = StagedBackend()

    def plan(n: int, _: object) -> ModelError | None:
        return chance.choice([None, None, Throttled("later"), Unavailable("down", worked=True), silent()])

    backend.plan = plan
    hook = LedgerHook(ledger, wall=lambda: NOON)
    endpoint = Endpoint("staged", backend, concurrency=ConcurrencyConfig(fixed=4))
    owner = Owner(OwnerConfig("test", DispatchConfig()), [endpoint], hooks=[hook])

    async def call(number: int) -> None:
        await trio.sleep(chance.random() * 20)
        key = f"call-{number}"
        held = await reserve(budgets, key)
        receipt = Receipt(key, held.held)
        usage: Usage | None = None
        try:
            with trio.move_on_after(chance.choice([1, 5, 1000]) if leave else 1000):
                reply = await OwnerPort(owner.inbox, Flow("acme"), agent=False).call(
                    request(), receipt=receipt, deadline=trio.current_time() + chance.choice([3, 20, 500])
                )
                usage = reply.usage
        except ModelError as error:
            usage = error.usage
        finally:
            held.settle(usage, worked=bool(receipt.sent))

    async with running(owner), trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(call, number)
    (said,) = budgets.spent()
    (kept,) = budgets_of(ledger, await ledger.spent()).spent()
    assert said.tokens > 0
    if leave:
        assert 0 < kept.tokens + kept.unknown_tokens <= said.tokens + said.unknown_tokens
        assert said.micro_dollars <= kept.micro_dollars + kept.unknown_micro_dollars
    else:
        assert kept.tokens + kept.unknown_tokens == said.tokens + said.unknown_tokens
        assert (kept.micro_dollars, kept.unknown_micro_dollars) == (said.micro_dollars, said.unknown_micro_dollars)
    assert all(row.ended is not None for row in await ledger.calls())


def silent() -> ModelError:
    """An answer that failed and reported a part of its usage."""
    error = Unavailable("cut off", worked=True)
    error.usage = Usage(input=10)
    return error


async def test_a_file_of_an_earlier_release_is_carried_over_once(tmp_path: Path, ledger: Ledger) -> None:
    """What it says is in the ledger, in its own period, and the file is gone; done twice it counts once."""
    text = (
        b'{"version":1,"spent":[{"tenant":"acme","period":"2026-02","tokens":60,"micro_dollars":5,"unknown_tokens":7},'
        b'{"tenant":"web","period":"ever","tokens":9},{"tenant":"day","period":"2026-02-01","unknown_micro_dollars":3}]}'
    )
    for _ in range(2):
        (tmp_path / SPENT).write_bytes(text)
        await carry_over(tmp_path, ledger, NOON)
        assert not (tmp_path / SPENT).exists()
        assert read_spent(tmp_path) == ()
    assert [(row.tenant, row.day, row.tokens, row.unknown_tokens) for row in await ledger.spent()] == [
        ("acme", "2026-02-01", 60, 7),
        ("day", "2026-02-01", 0, 0),
        ("web", "2026-02-02", 9, 0),
    ]
    budgets = budgets_of(ledger, await ledger.spent())
    budgets.configure({"acme": TenantBudget(tokens=100, per="month"), "day": TenantBudget(tokens=1, per="day")})
    acme, day = budgets.spent()
    assert (acme.period, acme.tokens, acme.micro_dollars, acme.unknown_tokens) == ("2026-02", 60, 5, 7)
    assert (day.period, day.unknown_micro_dollars) == ("2026-02-02", 0)
    await carry_over(tmp_path, ledger, NOON)
