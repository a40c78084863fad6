"""Sessions over HTTP: listed, looked at, written out, brought in.

`views/sessions.py` says what an exported log is. Bringing one in takes an admin's key: its events are believed word
for word, and they say whose the runs are, how urgent, and what they may use.
"""

from collections.abc import AsyncGenerator
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.api.identity import client_of
from orchestrator.api.operations import Operation, json_answer
from orchestrator.api.scoping import own_session
from orchestrator.api.services import Services
from orchestrator.api.streams import LINES, LineStream
from orchestrator.views.names import check_name
from orchestrator.views.sessions import ExportLine, ImportReport, SessionDetail, SessionPage

EXPORT_PATIENCE = 1.0
"""Seconds for which the head of an export waits for its first line, so that a store that fails has its own status."""


class SessionsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of sessions."""

    tenant: str = ""
    cursor: Annotated[str, Meta(description="the `next` of the page before")] = ""
    size: Annotated[int, Meta(ge=1, le=1000, description="sessions on a page")] = 100


class ImportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose the session is to be."""

    tenant: Annotated[str, Meta(description="stands in for the tenant that the log names")] = ""


def routes(services: Services) -> list[Route]:
    """The routes under `/api/sessions`."""
    sessions = services.sessions

    async def list_sessions(request: Request, query: SessionsQuery) -> SessionPage:
        client = client_of(request.scope)
        if not client.admin and query.tenant not in ("", client.tenant):
            return SessionPage(sessions=())
        tenant = query.tenant if client.admin else client.tenant
        return await sessions.page(tenant=tenant, cursor=query.cursor, size=query.size)

    async def show_session(request: Request) -> SessionDetail:
        return await own_session(sessions, client_of(request.scope), request.path_params["session"])

    async def export_session(request: Request) -> LineStream:
        session = await own_session(sessions, client_of(request.scope), request.path_params["session"])
        return LineStream(sessions.export(session.session), patience=EXPORT_PATIENCE)

    async def import_session(request: Request, body: AsyncGenerator[bytes, None], query: ImportQuery) -> Response:
        client_of(request.scope).require_admin("bringing a log in")
        if query.tenant:
            check_name("tenant", query.tenant)
        report = await sessions.take_in(body, tenant=query.tenant)
        return json_answer(report, 201, {"location": f"/api/sessions/{quote(report.session, safe='')}"})

    return [
        Operation(
            "GET",
            "/api/sessions",
            list_sessions,
            "List sessions in the order of their names",
            query=SessionsQuery,
            answer=SessionPage,
            errors=(503,),
        ).route(),
        Operation(
            "GET",
            "/api/sessions/{session}",
            show_session,
            "Show a session with its latest runs",
            answer=SessionDetail,
            errors=(404, 503),
        ).route(),
        Operation(
            "GET",
            "/api/sessions/{session}/export",
            export_session,
            "Write out a session's log: behind a line that says whose it is, every event with its number",
            answer=ExportLine,
            lines=True,
            errors=(404, 503),
        ).route(),
        Operation(
            "POST",
            "/api/sessions",
            import_session,
            "Bring an exported log in: all of it, or nothing",
            upload=LINES,
            query=ImportQuery,
            answer=ImportReport,
            status=201,
            errors=(403, 409, 503, 507),
        ).route(),
    ]
