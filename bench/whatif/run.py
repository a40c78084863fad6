"""From a ledger and two configurations to what would have changed."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from agents.port import Priority
from bench.policies import POLICIES, Policy
from bench.traces.base import TraceError
from bench.traces.ledger import read_rows
from bench.whatif.change import Changed
from bench.whatif.play import play_again
from bench.whatif.record import Record, records_of, with_priorities
from bench.whatif.report import WhatIf, what_if
from orchestrator.config.schema import Config

AROUND: Final = 300.0
"""Seconds before and after the time asked about whose calls are played as well, and not counted: they fill limits and
queues.
"""

MOST_CALLS: Final = 500_000
"""Calls of one backend that are played at most."""


def find_out(
    source: Path,
    change: Changed,
    *,
    since: float = 0.0,
    until: float = float("inf"),
    policy: Policy | None = None,
    limits_as_was: bool = False,
    open_loop: bool = False,
    seed: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> list[WhatIf]:
    """What would have changed at each backend, for calls that arrived in [since, until), in seconds since the epoch.

    `policy` is another order for the changed case. With `limits_as_was` the provider goes on enforcing what it did.
    Raises `TraceError` where there is nothing to be played, or a backend is in only one of the two.
    """
    rows = read_rows(source, since=since - AROUND, until=until + AROUND)
    records = records_of(rows, since=since, until=until, open_loop=open_loop)
    if not records:
        raise TraceError(source, None, "has no calls of that time that were answered")
    for record in records:
        _check(source, record, change)
    changes = list(change.changes) + ([f"policy: headrace -> {policy.name}"] if policy is not None else [])
    return [
        _one(source, record, change, changes, policy, limits_as_was=limits_as_was, seed=seed, say=say)
        for record in records
    ]


def _one(
    source: Path,
    record: Record,
    change: Changed,
    changes: Sequence[str],
    policy: Policy | None,
    *,
    limits_as_was: bool,
    seed: int,
    say: Callable[[str], None],
) -> WhatIf:
    usual = POLICIES["headrace"]
    say(f"{record.backend}: {len(record.calls):,} calls as it was")
    as_was = play_again(record.calls, change.was, record.backend, usual, seed=seed)
    changed = None
    if changes:
        say(f"{record.backend}: {len(record.calls):,} calls, changed")
        calls = with_priorities(record.calls, _defaults(change.was), _defaults(change.now))
        enforced = change.was if limits_as_was else None
        changed = play_again(calls, change.now, record.backend, policy or usual, enforced=enforced, seed=seed)
    return what_if(str(source), record, changes, as_was, changed)


def _check(source: Path, record: Record, change: Changed) -> None:
    if len(record.calls) > MOST_CALLS:
        problem = f"has {len(record.calls):,} calls to {record.backend}, more than {MOST_CALLS:,}"
        raise TraceError(source, None, f"{problem}; --from and --to take a part")
    for config in (change.was, change.now):
        if record.backend not in config.backends:
            there = ", ".join(config.backends) or "none"
            problem = f"has calls to the backend {record.backend!r}, which {config.source} does not have"
            raise TraceError(source, None, f"{problem}; there: {there}")


def _defaults(config: Config) -> Mapping[str, Priority]:
    return {name: Priority[tenant.default_priority.upper()] for name, tenant in config.tenants.items()}
