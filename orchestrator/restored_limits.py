"""Limits after a restart: the ledger says what was sent, the owners' limits take it in, and so a restart causes no 429.

Both sides have clocks of their own: rows the wall's, owners one that begins anywhere. What was counted by the provider
between a row's slot and the end of `WRITE_GRACE` behind it is taken as counted at that end.

Known limits: of calls that were sent and not yet in the ledger when a process was killed, which is what the last group
of rows would have held, nothing is known. What was learned of how a provider counts, and what others take of a limit,
is learned anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from orchestrator.owner import Owner
from orchestrator.policy.history import Sent, restore
from orchestrator.policy.lease import WRITE_GRACE
from orchestrator.policy.limits import LimitSet
from orchestrator.policy.window import SLOTS
from orchestrator.store.ledger_port import Ledger, SentRow

LEAST_SLOT: Final = 0.1
"""Seconds; finer slots would say nothing that `WRITE_GRACE` leaves certain."""

Rows = Mapping[float, Sequence[SentRow]]
"""What was sent, by the span of the limits that it matters to."""


async def sent_before(ledger: Ledger, owners: Iterable[Owner], wall: float) -> Rows:
    """What was sent within the spans of all limits up to `wall` (seconds since the epoch). Raises `StoreError`.

    The owners must run.
    """
    spans = {window.span for owner in owners for _, _, limits in _limits_of(owner) for window in limits.windows}
    rows = {}
    for span in sorted(spans):
        slot = slot_of_span(span)
        rows[span] = await ledger.sent(wall - span - slot - WRITE_GRACE, slot)
    return rows


def restore_limits(owners: Iterable[Owner], rows: Rows, wall: float, now: float) -> None:
    """Puts what was sent into the limits of owners that run and have sent nothing yet. `now` is their clock at `wall`.

    Endpoints and tenants that are no more are passed over.
    """
    whole = {span: _by_place(sent, slot_of_span(span) + WRITE_GRACE + now - wall) for span, sent in rows.items()}
    for owner in owners:
        for endpoint, tenant, limits in _limits_of(owner):
            for span, by_place in whole.items():
                restore(limits, span, by_place.get((owner.config.name, endpoint, tenant), ()), now)


def slot_of_span(span: float) -> float:
    """How long the slots are, in seconds, in which rows are asked for."""
    return max(LEAST_SLOT, span / SLOTS)


def _limits_of(owner: Owner) -> Iterable[tuple[str, str, LimitSet]]:
    """Every set of limits, with the endpoint or the tenant that it holds for."""
    policy = owner.policy
    for state in policy.endpoints:
        yield state.name, "", state.limits
    for tenant, limits in policy.tenant_limits.items():
        yield "", tenant, limits


def _by_place(rows: Sequence[SentRow], late: float) -> Mapping[tuple[str, str, str], list[Sent]]:
    """By backend, and endpoint or tenant. A row counts `late` seconds after its slot's beginning, on another clock."""
    places: dict[tuple[str, str, str], list[Sent]] = {}
    for row in rows:
        sent = Sent(row.at + late, row.calls, row.input, row.cached, row.output, row.held_input, row.held_output)
        for place in ((row.backend, row.endpoint, ""), (row.backend, "", row.tenant)):
            places.setdefault(place, []).append(sent)
    return places
