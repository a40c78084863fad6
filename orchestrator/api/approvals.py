"""What people are asked, over HTTP: listed, followed, looked at, approved, denied, answered.

A tenant's key sees and decides what its own runs ask. Where keys are needed the log names the key that decided, beside
the name that whoever decided gives; without keys that name is all there is.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.routing import Route

from agents.runtime import UnknownRun
from orchestrator.api.identity import Client, client_of
from orchestrator.api.operations import Operation
from orchestrator.api.scoping import own_run
from orchestrator.api.services import Services
from orchestrator.api.streams import EventStream, ServerEvent
from orchestrator.runs.errors import UnknownApproval
from orchestrator.views.approvals import AnswerRequest, ApprovalList, ApprovalView, DecisionRequest

NOBODY = "somebody"
"""Who decided, where nobody says so."""

_ONE = "/api/approvals/{run}/{step}/{index}"


class ApprovalsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which open requests."""

    tenant: str = ""
    job: str = ""
    run: str = ""
    size: Annotated[int, Meta(ge=1, le=1000, description="requests at most")] = 100


class WatchQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose requests."""

    tenant: str = ""


def routes(services: Services) -> list[Route]:
    """The routes under `/api/approvals`."""
    approvals, runs = services.approvals, services.runs

    async def own(request: Request) -> str:
        run, step, index = (request.path_params[name] for name in ("run", "step", "index"))
        id = f"{run}/{step}/{index}"
        try:
            await own_run(runs, client_of(request.scope), run)
        except UnknownRun:
            raise UnknownApproval(f"nobody was asked under {id[:200]}") from None
        return id

    async def list_open(request: Request, query: ApprovalsQuery) -> ApprovalList:
        tenant = _within(client_of(request.scope), query.tenant)
        if tenant is None:
            return ApprovalList()
        return await approvals.list_open(tenant=tenant, job=query.job, run=query.run, size=query.size)

    async def follow_approvals(request: Request, query: WatchQuery) -> EventStream:
        tenant = _within(client_of(request.scope), query.tenant)
        return EventStream(_no_events() if tenant is None else _events(approvals.watch(tenant=tenant)))

    async def show_approval(request: Request) -> ApprovalView:
        return await approvals.show(await own(request))

    async def decide(request: Request, body: DecisionRequest) -> ApprovalView:
        return await approvals.decide(
            await own(request),
            body.decision,
            by=signed(client_of(request.scope), body.by),
            note=body.note,
            digest=body.digest,
            key=body.key,
        )

    async def answer(request: Request, body: AnswerRequest) -> ApprovalView:
        by = signed(client_of(request.scope), body.by)
        return await approvals.answer(await own(request), body.content, by=by, key=body.key)

    return [
        Operation(
            "GET",
            "/api/approvals",
            list_open,
            "List what people are asked and have not answered, the oldest first",
            query=ApprovalsQuery,
            answer=ApprovalList,
        ).route(),
        Operation(
            "GET",
            "/api/approvals/events",
            follow_approvals,
            "Follow what people are asked: all that is open now, and again whenever it has changed",
            query=WatchQuery,
            events={"approvals": ApprovalList},
        ).route(),
        Operation(
            "GET",
            _ONE,
            show_approval,
            "Show one request of people, open or decided",
            answer=ApprovalView,
            errors=(404, 503),
        ).route(),
        Operation(
            "POST",
            f"{_ONE}/decide",
            decide,
            "Approve or deny a tool call, or deny a question",
            body=DecisionRequest,
            answer=ApprovalView,
            errors=(404, 409, 503, 507),
        ).route(),
        Operation(
            "POST",
            f"{_ONE}/answer",
            answer,
            "Answer a question",
            body=AnswerRequest,
            answer=ApprovalView,
            errors=(404, 409, 503, 507),
        ).route(),
    ]


def signed(client: Client, name: str) -> str:
    """Who decides, as the log names them: the name they give, and the key they sent."""
    name = " ".join(name.split())
    if not client.key:
        return name or NOBODY
    return f"{name} (key {client.key})" if name else f"key {client.key}"


def _within(client: Client, tenant: str) -> str | None:
    """The tenant whose requests a client sees that asks for this one's; None for none."""
    if client.admin:
        return tenant
    return client.tenant if tenant in ("", client.tenant) else None


async def _events(lists: AsyncGenerator[ApprovalList, None]) -> AsyncGenerator[ServerEvent, None]:
    async with aclosing(lists):
        async for one in lists:
            yield ServerEvent(msgspec.json.encode(one), "approvals")


async def _no_events() -> AsyncGenerator[ServerEvent, None]:
    yield ServerEvent(msgspec.json.encode(ApprovalList()), "approvals")
