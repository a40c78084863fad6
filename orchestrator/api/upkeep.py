"""Upkeep over HTTP: what is old is removed from the store. It touches all tenants, so it takes an admin's key."""

from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.routing import Route

from orchestrator.api.identity import client_of
from orchestrator.api.operations import Operation
from orchestrator.api.services import Services
from orchestrator.views.sessions import PruneReport

LONGEST_SPAN = 100 * 366 * 86_400.0


class PruneQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is old. There is no span that is meant where none is given."""

    older_than: Annotated[
        float, Meta(gt=0, le=LONGEST_SPAN, description="seconds for which nobody has touched what is removed")
    ]
    dry_run: Annotated[bool, Meta(description="true: remove nothing, say what it would be")] = False


def routes(services: Services) -> list[Route]:
    """The routes of upkeep."""
    sessions = services.sessions

    async def prune(request: Request, query: PruneQuery) -> PruneReport:
        client_of(request.scope).require_admin("pruning the store")
        return await sessions.prune(services.wall() - query.older_than, dry_run=query.dry_run)

    return [
        Operation(
            "POST",
            "/api/prune",
            prune,
            "Remove sessions and calls that nobody has touched for a while; sessions with an open run stay",
            query=PruneQuery,
            answer=PruneReport,
            errors=(403, 503, 507),
        ).route()
    ]
