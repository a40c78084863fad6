"""What the ledger says of calls that went through an owner."""

from contextlib import AbstractAsyncContextManager

import pytest
import trio
from msgspec.structs import replace

from agents.errors import ModelError, Throttled, Unavailable
from agents.money import Price
from agents.owner_port import OwnerPort
from agents.port import Flow, Held, Receipt
from orchestrator.ledger import LedgerHook
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.limits import LimitSpec
from orchestrator.store.ledger_port import CallRow
from orchestrator.store.memory_ledger import MemoryLedger
from tests.ledger.ledgers import NOON
from tests.owner.staged import StagedBackend, one_endpoint, request, running

FLOW = Flow("acme", "job", "run")
HELD = Held(tokens=500, micro_dollars=900, price=Price(input=1_000_000, output=2_000_000))
Clock = trio.testing.MockClock


class Book:
    """A ledger behind one owner; virtual time begins at noon."""

    def __init__(self, backend: StagedBackend | None = None, limits: tuple[LimitSpec, ...] = ()) -> None:
        self.ledger = MemoryLedger()
        self.backend = backend or StagedBackend()
        began = trio.current_time()
        self.hook = LedgerHook(self.ledger, wall=lambda: NOON + trio.current_time() - began, cost=lambda transition: 11)
        endpoint = Endpoint("staged", self.backend, limits, concurrency=ConcurrencyConfig(fixed=1))
        self._owner = Owner(OwnerConfig("test", DispatchConfig()), [endpoint], hooks=[self.hook])

    def running(self) -> AbstractAsyncContextManager[Owner]:
        return running(self._owner)

    async def row(self, key: str = "run/1/1") -> CallRow:
        (row,) = await self.ledger.calls(key=key)
        return row


async def test_an_answered_call_has_one_row_with_its_times_and_cost(autojump_clock: Clock) -> None:
    """When it arrived, went out, began to answer and ended; what was reported, and what its holder's price makes it."""
    book = Book()
    async with book.running() as owner:
        await trio.sleep(100)
        await OwnerPort(owner.inbox, FLOW).call(request(), receipt=Receipt("run/1/1", HELD))
    row = await book.row()
    assert (row.tenant, row.job, row.run, row.outcome, row.retried) == ("acme", "job", "run", "ok", 0)
    assert [row.arrived, row.sent, row.first_token, row.ended] == pytest.approx(
        [NOON + 100, NOON + 100, NOON + 104, NOON + 106]
    )
    assert (row.input, row.output, row.micro_dollars) == (10, 2, 14)
    assert (row.unknown_tokens, row.unknown_micro_dollars) == (0, 0)
    assert row.held_input > 0
    assert row.held_output > 0
    assert book.hook.out == 0


async def test_a_call_without_a_key_has_no_row(autojump_clock: Clock) -> None:
    """Whoever names no call keeps no book of it."""
    book = Book()
    async with book.running() as owner:
        await OwnerPort(owner.inbox, FLOW).call(request())
    assert await book.ledger.calls() == []
    assert book.hook.out == 0


async def test_while_a_call_is_out_its_row_says_what_it_may_cost(autojump_clock: Clock) -> None:
    """The row that a killed daemon leaves behind has no end, and what was reserved is unknown."""
    book = Book()
    async with book.running() as owner, trio.open_nursery() as callers:
        receipt = Receipt("run/1/1", HELD)
        callers.start_soon(lambda: OwnerPort(owner.inbox, FLOW).call(request(), receipt=receipt))
        await trio.sleep(2.5)
        row = await book.row()
        assert (row.ended, row.outcome, row.unknown_tokens, row.unknown_micro_dollars) == (None, "", 500, 900)
        assert row.sent == pytest.approx(NOON)
        assert book.hook.out == 1


async def test_a_call_that_says_nothing_of_its_usage_stays_reserved(autojump_clock: Clock) -> None:
    """Cut off while it was answering, all that it held is unknown: it may have been used."""
    book = Book()
    async with book.running() as owner:
        with trio.move_on_after(4.5):
            await OwnerPort(owner.inbox, FLOW).call(request(), receipt=Receipt("run/1/1", HELD))
        await trio.sleep(1)
        row = await book.row()
    assert row.outcome == "caller_gone"
    assert (row.input, row.output, row.micro_dollars) == (None, None, None)
    assert (row.unknown_tokens, row.unknown_micro_dollars) == (500, 900)


@pytest.mark.parametrize("error", [Throttled("later"), Unavailable("down", worked=False)])
async def test_a_call_that_nobody_worked_on_costs_nothing(autojump_clock: Clock, error: ModelError) -> None:
    """Refused before work at every try: no tokens, no money, nothing unknown, and every try is counted."""
    backend = StagedBackend()
    backend.plan = lambda n, request: error
    book = Book(backend)
    async with book.running() as owner:
        with pytest.raises(ModelError):
            await OwnerPort(owner.inbox, FLOW).call(
                request(), receipt=Receipt("run/1/1", HELD), deadline=trio.current_time() + 60
            )
        row = await book.row()
    assert row.outcome != "ok"
    assert (row.input, row.output, row.micro_dollars, row.unknown_tokens, row.unknown_micro_dollars) == (0, 0, 0, 0, 0)
    assert row.retried == len(backend.sent) - 1 > 0


async def test_a_call_that_was_tried_again_has_one_row(autojump_clock: Clock) -> None:
    """It arrived once, went out last when it was answered, and says how often it had failed."""
    backend = StagedBackend()
    backend.plan = lambda n, request: Throttled("later") if n == 1 else None
    book = Book(backend)
    async with book.running() as owner:
        await OwnerPort(owner.inbox, FLOW).call(request(), receipt=Receipt("run/1/1", HELD))
    (row,) = await book.ledger.calls()
    assert (row.outcome, row.retried, row.arrived) == ("ok", 1, pytest.approx(NOON))
    assert row.sent > NOON + 3
    assert (row.input, row.unknown_tokens) == (10, 0)


async def test_a_call_that_never_went_out_says_so(autojump_clock: Clock) -> None:
    """One too large for a limit has a row with an end, and was sent at no time."""
    book = Book(limits=[LimitSpec("total_tokens", 10)])
    async with book.running() as owner:
        with pytest.raises(ModelError):
            await OwnerPort(owner.inbox, FLOW).call(request(), receipt=Receipt("run/1/1", HELD))
    row = await book.row()
    assert (row.outcome, row.sent, row.unknown_tokens, row.micro_dollars) == ("too_large", 0.0, 0, 0)


async def test_without_a_price_of_its_own_a_call_costs_what_the_catalogue_says(autojump_clock: Clock) -> None:
    """A client's call without a budget is priced all the same."""
    book = Book()
    async with book.running() as owner:
        await OwnerPort(owner.inbox, FLOW).call(request(), receipt=Receipt("call-1"))
    assert (await book.row("call-1")).micro_dollars == 11


async def test_each_backend_that_a_call_went_to_has_a_row(autojump_clock: Clock) -> None:
    """A call that is made again under the same receipt gets a key of its own, so that neither end hides the other."""
    backend = StagedBackend()
    book = Book(backend)
    backend.plan = lambda n, request: Unavailable("down", worked=True) if n == 1 else None
    receipt = Receipt("run/1/1", HELD)
    async with book.running() as owner:
        port = OwnerPort(owner.inbox, FLOW)
        with pytest.raises(ModelError):
            await port.call(request(), receipt=receipt, deadline=trio.current_time() + 4)
        await port.call(request(), receipt=receipt)
    first, second = await book.ledger.calls()
    assert [first.key, second.key] == ["run/1/1", "run/1/1+1"]
    assert (first.unknown_tokens, second.unknown_tokens, second.outcome) == (500, 0, "ok")


async def test_the_hook_follows_a_wall_clock_that_is_set(autojump_clock: Clock) -> None:
    """Rows have the wall's time as it is, not as it was when the daemon started."""
    book = Book()
    wall = [NOON]
    hook = LedgerHook(book.ledger, wall=lambda: wall[0])
    seen = []
    async with running(one_endpoint(StagedBackend(), hooks=[seen.append])) as owner:
        await OwnerPort(owner.inbox, FLOW).call(request(), receipt=Receipt("a"))
        for transition in seen:
            hook(transition)
        wall[0] += 3600
        await trio.sleep(2)
        again = [replace(transition, key="b", at=trio.current_time()) for transition in seen]
        for transition in again:
            hook(transition)
    assert (await book.row("b")).sent == pytest.approx(NOON + 3600)
