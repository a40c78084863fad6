"""Faults put in on purpose, each as a patch of one place: what the harness must find.

Two of them stood in the code until the harness found them (`forgotten after a fence`, `no rate is zero`).
"""

import math
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import trio

from agents import budget, take_up
from agents.amounts import NOTHING, Amounts
from agents.budget import Reservation
from agents.errors import ModelError, Throttled
from agents.events import Event, RunEnded
from agents.log import Log
from agents.messages import Delta
from agents.port import Call
from orchestrator import attempt
from orchestrator.ledger import LedgerHook
from orchestrator.owner import Owner
from orchestrator.policy.admission import Admission
from orchestrator.policy.concurrency import Concurrency
from orchestrator.policy.dispatch import Dispatcher
from orchestrator.policy.drain import DrainRates
from orchestrator.policy.fairness import FairQueue
from orchestrator.policy.lease import Lease
from orchestrator.policy.limits import LimitSet
from orchestrator.policy.window import Window
from orchestrator.runs.driving import Driving
from orchestrator.runs.expiry import Expiry
from orchestrator.runs.head import Head
from orchestrator.runs.journal import SessionJournal
from orchestrator.runs.record import RunRecord

Plant = Callable[[], Any]
"""Makes a patch, to be entered."""


def _slot_kept_after_429() -> Any:
    whole = Concurrency.ended

    def ended(self: Concurrency, now: float, *, sent: float, error: ModelError | None = None) -> None:
        if not isinstance(error, Throttled):
            whole(self, now, sent=sent, error=error)

    return patch.object(Concurrency, "ended", ended)


def _lease_kept_by_calls_without_usage() -> Any:
    whole = Lease.settle

    def settle(self: Lease, **known: Any) -> None:
        if known["output"] is not None or not known["worked"]:
            whole(self, **known)

    return patch.object(Lease, "settle", settle)


def _finished_twice() -> Any:
    whole = Owner._finish

    def finish(self: Owner, call: Call, outcome: Any, now: float) -> None:
        whole(self, call, outcome, now)
        if isinstance(outcome, ModelError) and outcome.kind == "truncated":
            self._open[call] = None
            whole(self, call, outcome, now)

    return patch.object(Owner, "_finish", finish)


def _admission_counts_those_who_left() -> Any:
    whole = Admission.release

    def release(self: Admission, ticket: Any, now: float, *, sent: bool) -> None:
        if sent:
            whole(self, ticket, now, sent=sent)

    return patch.object(Admission, "release", release)


def _budget_not_asked() -> Any:
    return patch.object(budget, "_obstacle", lambda path, need: None)


def _reservation_kept_when_nothing_was_used() -> Any:
    whole = Reservation.settle

    def settle(self: Reservation, used: Amounts, unknown: Amounts = NOTHING) -> None:
        if used != NOTHING:
            whole(self, used, unknown)

    return patch.object(Reservation, "settle", settle)


def _unknown_effect_done_again() -> Any:
    def restore(state: Any, snapshot: Any) -> None:
        whole(state, snapshot)
        step = state.open_step
        for index in step.started:
            step.started[index] = True

    whole = take_up._restore_step
    return patch.object(take_up, "_restore_step", restore)


def _forgotten_after_a_fence() -> Any:
    whole = Driving._take_up

    async def taken_up(self: Driving, record: RunRecord, wait: float) -> bool:
        with trio.CancelScope() as record.pause:
            try:
                return await whole(self, record, wait)
            finally:
                record.pause = None
        return False

    return patch.object(Driving, "_taken_up", taken_up)


def _no_rate_is_zero() -> Any:
    def fastest(self: DrainRates, now: float) -> float:
        self._total.advance(now)
        time = self._total.time
        return math.inf if time < 30 else 2.0 * self._total.service / time

    return patch.object(DrainRates, "fastest", fastest)


def _last_comes_first() -> Any:
    def head(self: FairQueue) -> Any:
        first = whole(self)
        return None if first is None else list(self._trees[first.priority].walk())[-1].first().first()

    whole = FairQueue.head
    return patch.object(FairQueue, "head", head)


def _limit_not_looked_at() -> Any:
    return patch.object(Window, "short_until", lambda self, need, variance, now: -math.inf)


def _calls_in_flight_not_looked_at() -> Any:
    whole = LimitSet.check

    def check(self: LimitSet, ticket: Any, now: float) -> Any:
        self._max_calls = math.inf  # type: ignore[assignment]
        return whole(self, ticket, now)

    return patch.object(LimitSet, "check", check)


def _begun_anew_without_a_word() -> Any:
    return patch.object(attempt, "RESET", (Delta(),))


def _retries_forgotten() -> Any:
    return patch.object(Dispatcher, "_bring_back", lambda self, now: [*self._retries.due(now)] and None)


def _deadlines_forgotten() -> Any:
    return patch.object(Dispatcher, "expired", lambda self, now: [*self._deadlines.due(now)] and [])


def _ends_not_in_the_ledger() -> Any:
    return patch.object(LedgerHook, "_finished", lambda self, transition, out: None)


def _ends_not_in_the_index() -> Any:
    whole = SessionJournal._told

    def told(self: SessionJournal, events: Any) -> tuple[Head | None, Any]:
        head, rows = whole(self, events)
        return head, () if any(isinstance(event, RunEnded) for event in events) else rows

    return patch.object(SessionJournal, "_told", told)


def _closing_event_twice() -> Any:
    whole = Log.append

    async def append(self: Log, *events: Event) -> None:
        last = events[-1]
        await whole(self, *events, *([last] if isinstance(last, RunEnded) else []))

    return patch.object(Log, "append", append)


def _requests_never_expire() -> Any:
    return patch.object(Expiry, "_begin", lambda self: None)


PLANTS: Mapping[str, Plant] = {
    "a slot is kept after a 429": _slot_kept_after_429,
    "a lease is kept by calls that say nothing of their output": _lease_kept_by_calls_without_usage,
    "a truncated call finishes twice": _finished_twice,
    "admission counts those who left": _admission_counts_those_who_left,
    "no budget is asked": _budget_not_asked,
    "a reservation is kept when nothing was used": _reservation_kept_when_nothing_was_used,
    "an effect that is unknown is done again": _unknown_effect_done_again,
    "a run that waits for the store is forgotten after a fence": _forgotten_after_a_fence,
    "a rate may be zero": _no_rate_is_zero,
    "the tenant with the most service goes first": _last_comes_first,
    "no limit is looked at": _limit_not_looked_at,
    "calls in flight are not looked at": _calls_in_flight_not_looked_at,
    "a stream begins anew without a word": _begun_anew_without_a_word,
    "retries are forgotten": _retries_forgotten,
    "deadlines are forgotten": _deadlines_forgotten,
    "ends are not in the ledger": _ends_not_in_the_ledger,
    "ends are not in the index": _ends_not_in_the_index,
    "a run is closed twice": _closing_event_twice,
    "requests to people never expire": _requests_never_expire,
}
