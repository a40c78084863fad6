"""Why nothing seems to happen: what the queue says of a tenant whose work stands still."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from orchestrator.cli.progress import duration
from orchestrator.client.client import Client
from orchestrator.client.errors import ClientError
from orchestrator.views.queue import BackendView, QueueView, TenantView

SECONDS: Final = 5.0
"""How long nothing has to happen before somebody wonders."""


def why_waiting(queue: QueueView, tenant: str) -> tuple[str, str]:
    """The reason as a stable word and in words for a person; both empty where nothing holds the tenant's work."""
    if queue.pool is not None and queue.pool.problem:
        return "no worker", queue.pool.problem
    for backend in queue.backends:
        own = next((row for row in backend.tenants if row.tenant == tenant), None)
        if own is None:
            continue
        reason = _outage(backend) or _held(own)
        if reason is not None:
            return reason
    return "", ""


async def explain(client: Client, tenant: str, moved: Callable[[], object], tell: Callable[[str, str], None]) -> None:
    """Whenever `moved` has stayed the same for a while, tells why (see `why_waiting`), until cancelled."""
    before = moved()
    while True:
        await trio.sleep(SECONDS)
        now = moved()
        kind, words = "", ""
        if now == before:
            with suppress(ClientError):  # whoever waits for the answer itself tells of it
                kind, words = why_waiting(await client.queue(), tenant)
        before = now
        tell(kind, words)


def _outage(backend: BackendView) -> tuple[str, str] | None:
    if not backend.endpoints or any(endpoint.breaker == "closed" for endpoint in backend.endpoints):
        return None
    opens = min((endpoint.opens_in or 0.0 for endpoint in backend.endpoints), default=0.0)
    return "outage", f"backend {backend.name} does not answer, next try {f'in {duration(opens)}' if opens else 'now'}"


def _held(tenant: TenantView) -> tuple[str, str] | None:
    calls = sum(tenant.queued.values())
    if not calls or not tenant.held_by:
        return None
    by = "others who go first" if tenant.held_by == "fair_order" else tenant.held_by
    many = "1 call waits" if calls == 1 else f"{calls:,} calls wait"
    return f"held_by {tenant.held_by}", f"{many}, for {duration(tenant.oldest_wait)} so far, held by {by}"
