"""One model call through the queue, for a client that is no agent of this daemon.

Such calls are what the queue's caps are for (`orchestrator.policy.admission`): a client may be told to come back
later, and its `batch` calls may lose their place. A client that leaves takes its call with it, in every phase.
"""

import math
from collections.abc import AsyncGenerator, Iterator

import msgspec
import trio
from msgspec import Struct
from starlette.requests import Request
from starlette.routing import Route

from agents.errors import InvalidLimits
from agents.messages import Delta, ModelReply, ModelRequest
from agents.port import Flow, Priority
from orchestrator.api.call_services import CallPort
from orchestrator.api.gateway_asked import new_key
from orchestrator.api.gateway_spending import plain_spending
from orchestrator.api.identity import Client, client_of
from orchestrator.api.operations import Operation
from orchestrator.api.scoping import priority_for
from orchestrator.api.services import Services
from orchestrator.api.streams import EventStream, ServerEvent
from orchestrator.policy.checks import require
from orchestrator.views.calls import CallReply, CallRequest
from orchestrator.views.errors import ErrorAnswer
from orchestrator.views.names import check_name

PATIENCE = 0.5
"""Seconds for which a streamed answer's status is held back: whom the queue refuses, it refuses at once."""

MOST_TOKENS = 100_000_000


class Nothing(Struct, frozen=True):
    """An event that says all by its name."""


def routes(services: Services) -> list[Route]:
    """Single calls."""

    async def call(request: Request, body: CallRequest) -> CallReply | EventStream:
        ready = _prepared(services, client_of(request.scope), body)
        services.traced(ready.key, request.headers)
        if body.stream:
            return EventStream(_streamed(services, ready), patience=PATIENCE)
        return CallReply(reply=await _answered(services, ready), call=ready.key)

    return [
        Operation(
            "POST",
            "/api/calls",
            call,
            "Send one model call through the queue",
            body=CallRequest,
            answer=CallReply,
            events={"delta": Delta, "reset": Nothing, "reply": ModelReply, "error": ErrorAnswer},
            waits=True,
            errors=(403, 404, 413, 429, 502, 503, 504),
        ).route(),
    ]


class _Ready(Struct, frozen=True):
    """One call, ready to go: whose it is, the way to its model, and its deadline on trio's clock."""

    tenant: str
    port: CallPort
    request: ModelRequest
    deadline: float
    key: str


def _prepared(services: Services, client: Client, asked: CallRequest) -> _Ready:
    """Raises `Forbidden`, `InvalidLimits`, `UnknownModel`."""
    tenant = check_name("tenant", client.tenant_for(asked.tenant))
    for field in ("job", "run"):
        if getattr(asked, field):
            check_name(field, getattr(asked, field))
    deadline = math.inf
    if asked.deadline is not None:
        require("deadline", asked.deadline, above=True)
        deadline = trio.current_time() + asked.deadline
    if asked.request.wire is not None:
        raise InvalidLimits("request.wire", "is not for this route: send the program's own request to /v1")
    if asked.request.max_tokens is not None:
        require("request.max_tokens", asked.request.max_tokens, at_least=1, at_most=MOST_TOKENS)
    wanted = None if asked.priority is None else Priority[asked.priority.upper()]
    priority = priority_for(services, client, tenant, wanted)
    request = msgspec.structs.replace(asked.request, model=services.model(asked.request.model))
    port = services.calls.port(Flow(tenant, asked.job, asked.run), priority, agent=False)
    return _Ready(tenant, port, request, deadline, new_key())


async def _answered(services: Services, ready: _Ready) -> ModelReply:
    async with plain_spending(services, ready.tenant, ready.request, ready.key) as spent:
        with spent.told():
            reply = await ready.port.call(spent.request, deadline=ready.deadline, receipt=spent.receipt)
        spent.usage = reply.usage
    return reply


async def _streamed(services: Services, ready: _Ready) -> AsyncGenerator[tuple[ServerEvent, ...], None]:
    async with plain_spending(services, ready.tenant, ready.request, ready.key) as spent:
        stream_of = ready.port.stream(spent.request, deadline=ready.deadline, receipt=spent.receipt)
        with spent.told():
            async with stream_of as stream:
                async for deltas in stream:
                    yield tuple(_delta_events(deltas))
                reply = await stream.reply()
        spent.usage = reply.usage
    yield (ServerEvent(msgspec.json.encode(reply), "reply"),)


def _delta_events(deltas: tuple[Delta, ...]) -> Iterator[ServerEvent]:
    for delta in deltas:
        if delta.reset:
            yield ServerEvent(b"{}", "reset")
            delta = msgspec.structs.replace(delta, reset=False)
        if delta != Delta():
            yield ServerEvent(msgspec.json.encode(delta), "delta")
