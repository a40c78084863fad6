"""What must hold when a schedule is over: each violation in one sentence."""

import math
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise

from agents.events import Event, ToolStarted, decode
from agents.fold import fold
from orchestrator.store.base import RunQuery
from tests.chaos.world import CALLS_IN_FLIGHT, Life, World


async def violations(world: World) -> list[str]:
    """Everything that does not hold; empty where all is well."""
    found = [*world.broken]
    if world.overshoot > 0:
        found.append(f"a budget was overshot by {world.overshoot} tokens")
    for life in world.lives:
        found += _once(life)
    found += _nothing_left(world.lives[-1])
    found += _limits(world)
    found += _callers(world)
    found += [one async for one in _logs(world)]
    found += await _ledger(world)
    return found


def _once(life: Life) -> Iterator[str]:
    for key, count in life.keys.items():
        if key and count != 1:
            yield f"call {key} finished {count} times in one life"


def _limits(world: World) -> Iterator[str]:
    """No minute has more requests than its limit, as the daemon that sent them knew it. One that is killed knows more
    than the next, so each counts by itself.
    """
    most = world.plan.rpm * (2 if world.plan.reloads else 1)
    begins = [*(life.began for life in world.lives), math.inf]
    for endpoint in world.endpoints:
        if endpoint.most > CALLS_IN_FLIGHT:
            yield f"endpoint {endpoint.name} had {endpoint.most} requests at once"
        for begin, end in pairwise(begins):
            sent = [at for at in endpoint.sent if begin <= at < end]
            for index, at in enumerate(sent):
                minute = bisect_left(sent, at + 60) - index
                if minute > most:
                    yield f"endpoint {endpoint.name} got {minute} requests in the minute from {at}, where {most} may go"
                    break


def _nothing_left(life: Life) -> Iterator[str]:
    statistics = life.owner.statistics()
    counts = {
        "waiting": statistics.waiting,
        "held": statistics.held,
        "queued": statistics.queued,
        "live": statistics.live,
    }
    for name, count in counts.items():
        if count:
            yield f"{count} calls are {name} at the end"
    for endpoint in life.owner.policy.endpoints:
        books = endpoint.limits.statistics(1e9)
        if (
            endpoint.concurrency.in_flight
            or books.in_flight_calls
            or books.tokens_in_flight
            or books.awaiting_first_token
        ):
            yield f"endpoint {endpoint.name} still holds something: {books}"
        if any(limit.held for limit in books.limits):
            yield f"a limit of {endpoint.name} still holds something: {books}"
    for tenant, limits in life.owner.policy.tenant_limits.items():
        books = limits.statistics(1e9)
        if books.in_flight_calls or any(limit.held for limit in books.limits):
            yield f"a limit of tenant {tenant} still holds something: {books}"
    if life.owner.policy.admission.all.calls:
        yield "admission still counts calls"
    if life.owner.policy.retrying:
        yield "calls still wait for a retry"
    busy = sum(endpoint.busy for endpoint in life.world.endpoints)
    if busy:
        yield f"{busy} requests are under way at the provider at the end"
    scope = life.budgets.scope("poor")
    parent = None if scope is None else scope.parent
    if parent is not None and (parent.reserved.tokens or parent.reserved.rounds or parent.waiting):
        yield f"a tenant's budget still holds something: {parent}"


def _callers(world: World) -> Iterator[str]:
    for key, outcomes in world.outcomes.items():
        if len(outcomes) > 1:
            yield f"client {key} was answered {len(outcomes)} times"


async def _logs(world: World) -> AsyncIterator[str]:
    rows = (await world.disk.runs(RunQuery(size=1000))).rows
    known = {row.run for row in rows}
    for run in world.started - known:
        yield f"run {run} was acknowledged and is not in the index"
    for row in rows:
        if row.open:
            yield f"run {row.run} is open in the index at the end ({row.state})"
        events = [decode(record.data) for record in await world.disk.read(row.session)]
        try:
            last = fold(events).last
        except Exception as error:
            yield f"the log of {row.run} cannot be folded: {type(error).__name__}: {error}"
            continue
        if last is None or last.ended is None:
            yield f"the log of {row.run} has no closing event"
        for one in _deeds(row.run, events, world):
            yield one


def _deeds(run: str, events: list[Event], world: World) -> Iterator[str]:
    """A call that may not be repeated has begun once, and its effect happened at most as often as it was announced."""
    announced: dict[str, int] = {}
    for event in events:
        if isinstance(event, ToolStarted) and not event.repeatable:
            announced[event.key] = announced.get(event.key, 0) + 1
    for key, count in announced.items():
        if count > 1:
            yield f"the tool call {key} was announced {count} times"
    for name, count in world.deeds.items():
        if name.startswith(f"{run}/") and count > 1:
            yield f"{name} was done {count} times"
    done = sum(count for name, count in world.deeds.items() if name.startswith(f"{run}/"))
    if done > len(announced):
        yield f"run {run} acted {done} times and announced {len(announced)}"


async def _ledger(world: World) -> list[str]:
    rows = await world.disk.ledger.calls(size=10_000)
    return [f"the ledger's row of {row.key} is open at the end" for row in rows if row.ended is None]
