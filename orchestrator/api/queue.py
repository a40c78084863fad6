"""The queue, once or again and again, and what the daemon can do."""

from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec
import trio
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.routing import Route

from orchestrator.api.identity import Client, client_of
from orchestrator.api.operations import Operation
from orchestrator.api.scoping import capabilities_for, queue_for
from orchestrator.api.services import Services
from orchestrator.api.streams import EventStream, ServerEvent
from orchestrator.views.queue import CapabilitiesView, QueueView


class Pace(Struct, frozen=True, forbid_unknown_fields=True):
    """How often."""

    every: Annotated[float, Meta(ge=0.25, le=60.0, description="seconds from one event to the next")] = 1.0


def routes(services: Services) -> list[Route]:
    """What is looked at, and never changed."""

    async def queue(request: Request) -> QueueView:
        return await queue_for(services, client_of(request.scope))

    async def queue_events(request: Request, query: Pace) -> EventStream:
        return EventStream(_again_and_again(services, client_of(request.scope), query.every))

    async def capabilities(request: Request) -> CapabilitiesView:
        return capabilities_for(services, client_of(request.scope))

    return [
        Operation("GET", "/api/queue", queue, "Who waits for what", answer=QueueView).route(),
        Operation(
            "GET",
            "/api/queue/events",
            queue_events,
            "Who waits for what, again and again",
            query=Pace,
            events={"message": QueueView},
        ).route(),
        Operation(
            "GET", "/api/capabilities", capabilities, "What this daemon can do and knows", answer=CapabilitiesView
        ).route(),
    ]


async def _again_and_again(services: Services, client: Client, every: float) -> AsyncGenerator[ServerEvent, None]:
    due = trio.current_time()
    while True:
        yield ServerEvent(msgspec.json.encode(await queue_for(services, client)))
        # a reader that was slow gets the next one now, and none of those it missed
        due = max(due + every, trio.current_time())
        await trio.sleep_until(due)
