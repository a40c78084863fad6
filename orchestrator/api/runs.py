"""Runs over HTTP: started, listed, looked at, waited for, followed, told, granted more, cancelled.

What is said to a run (`messages`, `grant`, `cancel`) is in its log when it is answered. Events are numbered by their
session, so a client that comes back with the `Last-Event-ID` it had goes on there, also at the next daemon.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal, TypeVar
from urllib.parse import quote

import msgspec
import trio
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agents import events
from orchestrator.api.identity import client_of
from orchestrator.api.operations import Operation, json_answer
from orchestrator.api.scoping import own_run, run_for
from orchestrator.api.services import Observed, Runs, Services
from orchestrator.api.streams import EventStream, ServerEvent, last_event_id
from orchestrator.views.runs import OutputPiece, RunDetail, RunPage, RunRequest, RunView
from orchestrator.views.sessions import GrantRequest, MessageRequest

LONGEST_WAIT = 3600.0

EVENT_TYPES = {
    "run_created": events.RunCreated,
    "run_started": events.RunStarted,
    "run_resumed": events.RunResumed,
    "model_requested": events.ModelRequested,
    "model_replied": events.ModelReplied,
    "model_failed": events.ModelFailed,
    "compacted": events.Compacted,
    "tool_refused": events.ToolRefused,
    "approval_requested": events.ApprovalRequested,
    "approval_decided": events.ApprovalDecided,
    "input_requested": events.InputRequested,
    "input_given": events.InputGiven,
    "run_waiting": events.RunWaiting,
    "tool_started": events.ToolStarted,
    "tool_finished": events.ToolFinished,
    "tool_late": events.ToolLate,
    "child_started": events.ChildStarted,
    "cancel_requested": events.CancelRequested,
    "message_added": events.MessageAdded,
    "budget_granted": events.BudgetGranted,
    "run_ended": events.RunEnded,
    "output": OutputPiece,
}


class RunsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs, and which page of them."""

    state: Annotated[frozenset[Observed], Meta(description="as seen from outside; several are alternatives")] = (
        frozenset()
    )
    tenant: str = ""
    job: str = ""
    session: str = ""
    cursor: Annotated[str, Meta(description="the `next` of the page before")] = ""
    size: Annotated[int, Meta(ge=1, le=1000, description="runs on a page")] = 100


class WaitQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait."""

    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT, description="seconds to wait for the end of the run")] = 0.0


class CancelQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the run's stop reason is to be."""

    reason: Annotated[
        Literal["cancelled", "interrupted"],
        Meta(description="interrupted: a person stopped the agent to talk to it"),
    ] = "cancelled"
    key: Annotated[str, Meta(max_length=200, description="an id of the client's own: the same again is noted once")] = (
        ""
    )


class EventsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events."""

    after: Annotated[int, Meta(ge=0, description="only events behind this number; Last-Event-ID goes before it")] = 0
    follow: Annotated[bool, Meta(description="false: what there is now, without waiting for more")] = True
    output: Annotated[bool, Meta(description="true: also what the model says, while it says it")] = False


class _Typed(Struct):
    type: str


V = TypeVar("V", bound=RunView)

_type_of = msgspec.json.Decoder(_Typed)


def routes(services: Services) -> list[Route]:
    """The routes under `/api/runs`."""
    runs = services.runs

    async def own(request: Request) -> str:
        return (await own_run(runs, client_of(request.scope), request.path_params["run"])).run

    async def start(request: Request, body: RunRequest) -> Response:
        traceparent = request.headers.get("traceparent", "")
        view = await runs.start(run_for(services, client_of(request.scope), body, traceparent))
        return json_answer(view, 201, {"location": f"/api/runs/{quote(view.run, safe='')}"})

    async def page(request: Request, query: RunsQuery) -> RunPage:
        client = client_of(request.scope)
        within = "" if client.admin else client.tenant
        found = await runs.page(
            observed=query.state,
            tenant=query.tenant,
            job=query.job,
            session=query.session,
            cursor=query.cursor,
            size=query.size,
            within=within,
        )
        return msgspec.structs.replace(found, runs=_waiting(services, found.runs))

    async def show(request: Request, query: WaitQuery) -> RunDetail:
        (detail,) = _waiting(services, (await _detail(runs, await own(request), query.wait),))
        return detail

    async def cancel(request: Request, query: CancelQuery) -> RunView:
        return await runs.cancel(await own(request), query.reason, key=query.key)

    async def tell(request: Request, body: MessageRequest) -> RunView:
        return await runs.message(await own(request), body.content, key=body.key)

    async def grant(request: Request, body: GrantRequest) -> RunView:
        return await runs.grant(await own(request), body.limits, key=body.key)

    async def follow(request: Request, query: EventsQuery) -> EventStream:
        # an unknown run is an answer of its own, not the end of a stream
        run, after = await own(request), last_event_id(request) or query.after
        return EventStream(_server_events(runs.events(run, after, follow=query.follow, output=query.output)))

    return [
        Operation(
            "POST",
            "/api/runs",
            start,
            "Start a run",
            body=RunRequest,
            answer=RunView,
            status=201,
            errors=(403, 404, 409, 429, 503, 507),
        ).route(),
        Operation("GET", "/api/runs", page, "List runs, the newest first", query=RunsQuery, answer=RunPage).route(),
        Operation(
            "GET",
            "/api/runs/{run}",
            show,
            "Show a run, or wait for its end",
            query=WaitQuery,
            answer=RunDetail,
            waits=True,
            errors=(404,),
        ).route(),
        Operation(
            "POST",
            "/api/runs/{run}/cancel",
            cancel,
            "Cancel a run",
            query=CancelQuery,
            answer=RunView,
            errors=(404,),
        ).route(),
        Operation(
            "POST",
            "/api/runs/{run}/messages",
            tell,
            "Say something to a run, which its model reads with the next request",
            body=MessageRequest,
            answer=RunView,
            errors=(404, 409, 507),
        ).route(),
        Operation(
            "POST",
            "/api/runs/{run}/grant",
            grant,
            "Give a run other limits of its own while it works",
            body=GrantRequest,
            answer=RunView,
            errors=(404, 409, 507),
        ).route(),
        Operation(
            "GET",
            "/api/runs/{run}/events",
            follow,
            "Follow a run's events",
            query=EventsQuery,
            events=EVENT_TYPES,
            errors=(404,),
        ).route(),
    ]


def _waiting(services: Services, views: tuple[V, ...]) -> tuple[V, ...]:
    """The views with what their runs wait for, while they are open."""
    if all(view.reason is not None for view in views):
        return views  # what all open runs wait for takes milliseconds where there are many
    waits = services.waits_for()
    return tuple(
        msgspec.structs.replace(view, waits_for=waits[view.run]) if view.reason is None and view.run in waits else view
        for view in views
    )


async def _detail(runs: Runs, run: str, wait: float) -> RunDetail:
    if wait:
        with trio.move_on_after(wait):
            return await runs.wait(run)
    return await runs.detail(run)


async def _server_events(records: AsyncGenerator[tuple[int, bytes], None]) -> AsyncGenerator[ServerEvent, None]:
    async with aclosing(records):
        async for number, record in records:
            yield ServerEvent(record, _type_of.decode(record).type, str(number) if number else "")
