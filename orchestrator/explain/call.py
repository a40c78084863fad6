"""One call, explained from its row in the ledger: pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.explain.ahead import NAMES, ahead_of
from orchestrator.explain.words import call_words
from orchestrator.policy.waits import MOMENT
from orchestrator.store.ledger_port import CallRow, WentRow
from orchestrator.views.explain import CallExplanation, WaitShare

NOBODY: Final[tuple[WentRow, ...]] = ()

_waits: Final = msgspec.json.Decoder(dict[str, float])


def waits_of(row: CallRow) -> tuple[WaitShare, ...]:
    """What the call waited for, most first. A row from before calls said so has its last obstacle for all of it."""
    if row.waits:
        try:
            parts = _waits.decode(row.waits)
        except msgspec.MsgspecError:
            parts = {}
        return tuple(WaitShare(held_by=what, seconds=seconds) for what, seconds in parts.items())
    if row.waited <= MOMENT:
        return ()
    return (WaitShare(held_by=row.held_by or "fair_order", seconds=row.waited),)


def waited_of(row: CallRow) -> float:
    """Seconds in queue and between attempts."""
    return max(row.waited, sum(part.seconds for part in waits_of(row)))


def at_own_limit(waits: Sequence[WaitShare]) -> bool:
    """Whether a limit of its own tenant is what it waited for most of the time."""
    own = sum(part.seconds for part in waits if part.held_by.startswith("tenant "))
    return own > sum(part.seconds for part in waits) / 2


def explain_call(
    row: CallRow,
    went: Sequence[WentRow] = NOBODY,
    *,
    weights: Callable[[str], float],
    amounts: Mapping[str, str],
    sees: Callable[[str], bool],
) -> CallExplanation:
    """`went` is what went out at its backend while it waited, `amounts` says how large limits are, by name."""
    waits = waits_of(row)
    explained = CallExplanation(
        call=row.key,
        tenant=row.tenant,
        job=row.job,
        run=row.run,
        priority=NAMES.get(row.priority, str(row.priority)),
        backend=row.backend,
        endpoint=row.endpoint,
        model=row.model,
        state=row.outcome if row.ended is not None else "sent" if row.sent else "queued",
        arrived=row.arrived,
        sent=row.sent or None,
        ended=row.ended,
        waited=waited_of(row),
        attempts=row.retried + (row.sent > 0),
        waits=waits,
        ahead=ahead_of(row, went, own_limit=at_own_limit(waits), sees=sees),
        words=(),
    )
    words = call_words(explained, weights=weights, amounts=amounts)
    return msgspec.structs.replace(explained, words=words)
