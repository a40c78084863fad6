"""A hook that keeps the ledger of calls: an open row when an attempt goes out, the final one when its call has ended.

Only calls with a key are kept (`agents.port.Receipt`). What a call that says nothing of its usage may have used comes
from what it holds of its budgets (`agents.port.Held`), by the same rule that settles those (`agents.model_need`), so
that what is read back after a restart is what the budgets said before it.

The hook runs in its owner's task for every call, so it does little: a row for the store's next group, and one entry per
call that is out. A call that ends soon after it was sent is written once.

Known limits: a failed attempt that was tried again is counted in `retried` and in no tokens; budgets do the same. A
call that went on to another backend has a row for each of them.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec
import trio
from msgspec.structs import replace

from agents.amounts import NOTHING, Amounts
from agents.messages import Usage
from agents.model_need import settlement
from agents.port import Held
from orchestrator.store.ledger_port import CallRow
from orchestrator.transitions import Transition, TransitionKind

OFFSET_SECONDS: Final = 1.0
"""How old the distance between the owner's clock and the wall's may be before it is measured again."""

NO_USAGE: Final = Usage()
NO_WORK: Final = Usage(0, 0, 0, 0)


class Writes(Protocol):
    """The part of a ledger that the hook needs."""

    def write(self, rows: Sequence[CallRow]) -> None:
        """See `Ledger.write`."""
        ...


class LedgerHook:
    """Implements `orchestrator.transitions.Hook`. Times of rows are the wall's, in seconds since the epoch.

    `now` is the owners' clock; `cost` is what a transition's usage comes to in micro-dollars, for calls whose holder
    names no price.
    """

    wants: frozenset[TransitionKind] = frozenset({"started", "first_token", "attempt_failed", "finished"})

    def __init__(
        self,
        ledger: Writes,
        *,
        wall: Callable[[], float],
        now: Callable[[], float] = trio.current_time,
        cost: Callable[[Transition], int | None] = lambda transition: None,
    ) -> None:
        self._write = ledger.write
        self._wall = wall
        self._now = now
        self._cost = cost
        self._out: dict[str, _Out] = {}
        self._offset = 0.0
        self._measured = float("-inf")

    def __call__(self, transition: Transition) -> None:
        key = transition.key
        if not key:
            return
        kind = transition.kind
        if kind == "finished":
            self._finished(transition, self._out.pop(key, None))
        elif kind == "started":
            self._started(transition)
        elif (out := self._out.get(key)) is not None:
            if kind == "first_token":
                out.first_token = self._at(transition.at)
            else:
                out.usage = transition.usage

    @property
    def out(self) -> int:
        """Calls that were sent and have not ended."""
        return len(self._out)

    def __repr__(self) -> str:
        return f"<LedgerHook {self.out} calls out>"

    def _started(self, transition: Transition) -> None:
        at = self._at(transition.at)
        known = self._out.get(transition.key)
        arrived = at - transition.waited if known is None else known.arrived
        self._out[transition.key] = _Out(arrived, at)
        flow, held = transition.flow, transition.held
        self._write(
            (
                CallRow(
                    key=transition.key,
                    tenant=flow.tenant,
                    job=flow.job,
                    run=flow.run,
                    priority=int(transition.priority),
                    backend=transition.backend,
                    endpoint=transition.endpoint,
                    model=transition.model,
                    arrived=arrived,
                    sent=at,
                    retried=transition.attempt - 1,
                    waited=transition.waited,
                    held_by=transition.held_by,
                    unknown_tokens=0 if held is None else held.tokens,
                    unknown_micro_dollars=0 if held is None else held.micro_dollars,
                    held_input=transition.input,
                    held_output=transition.output,
                    waits=_json(transition.waits),
                ),
            )
        )

    def _finished(self, transition: Transition, out: "_Out | None") -> None:
        at = self._at(transition.at)
        flow = transition.flow
        usage = transition.usage
        if usage is None and out is not None:
            usage = out.usage
        worked = transition.worked or usage is not None
        cost, unknown = self._came_to(transition, usage, worked=worked)
        if usage is None:
            usage = NO_USAGE if worked else NO_WORK
        self._write(
            (
                CallRow(
                    key=transition.key,
                    tenant=flow.tenant,
                    job=flow.job,
                    run=flow.run,
                    priority=int(transition.priority),
                    backend=transition.backend,
                    endpoint=transition.endpoint,
                    model=transition.model,
                    arrived=at - transition.seconds if out is None else out.arrived,
                    sent=0.0 if out is None else out.sent,
                    first_token=None if out is None else out.first_token,
                    ended=at,
                    outcome=transition.outcome,
                    retried=max(0, transition.attempt - 1),
                    # one that was never sent has waited for nothing in the end, but it has waited
                    waited=transition.waited or sum(seconds for _, seconds in transition.waits),
                    held_by=transition.held_by,
                    input=usage.input,
                    cached=usage.cached,
                    cache_write=usage.cache_write,
                    output=usage.output,
                    micro_dollars=cost,
                    unknown_tokens=unknown.tokens,
                    unknown_micro_dollars=unknown.micro_dollars,
                    held_input=transition.input,
                    held_output=transition.output,
                    waits=_json(transition.waits),
                ),
            )
        )

    def _came_to(self, transition: Transition, usage: Usage | None, *, worked: bool) -> tuple[int | None, Amounts]:
        """What the call cost, and what stays reserved for it."""
        if not worked:
            return 0, NOTHING
        held = transition.held
        if held is None or held.price is None:
            cost = self._cost(transition if transition.usage is usage else replace(transition, usage=usage))
        else:
            cost = None if usage is None else held.price.cost(usage)
        if held is None or (cost is not None and usage is not None and usage.total is not None):
            return cost, NOTHING
        return cost, _unknown(held, usage or NO_USAGE)

    def _at(self, at: float) -> float:
        """A time on the owner's clock as the wall's."""
        if at - self._measured >= OFFSET_SECONDS:
            self._offset = self._wall() - self._now()
            self._measured = at
        return at + self._offset


def _json(waits: Sequence[tuple[str, float]]) -> str:
    """Seconds to the millisecond; nothing for nothing."""
    if not waits:
        return ""
    return msgspec.json.encode({what: round(seconds, 3) for what, seconds in waits}).decode()


class _Out:
    """A call that was sent: what later transitions do not say again."""

    __slots__ = ("arrived", "first_token", "sent", "usage")

    def __init__(self, arrived: float, sent: float) -> None:
        self.arrived = arrived
        self.sent = sent
        self.first_token: float | None = None
        self.usage: Usage | None = None


def _unknown(held: Held, usage: Usage) -> Amounts:
    """What stays reserved for a call that was worked on."""
    whole = Amounts(tokens=held.tokens, micro_dollars=held.micro_dollars)
    return settlement(whole, usage, held.price, worked=True)[1]
