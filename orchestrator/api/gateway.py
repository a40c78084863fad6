"""What all routes of the gateway share: from a program's body to its answer.

A call goes through the queue like every other, and counts towards its caps. Upstream is always streamed; a program that
asked for one document gets the events put together. A program that leaves takes its call with it in every phase:
queued, before the first byte, in a stream, and while a document is put together.

Nothing that a program has seen is taken back, so a stream that broke off after its first event ends with an error; one
document can be begun again unseen.
"""

from contextlib import aclosing
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from agents.errors import ModelError
from agents.messages import Dialect, WireEvent
from orchestrator.api.call_services import CallPort
from orchestrator.api.gateway_asked import Asked, read_asked
from orchestrator.api.gateway_headers import show_call, show_limits
from orchestrator.api.gateway_limits import limit_headers
from orchestrator.api.gateway_spending import spending
from orchestrator.api.gateway_stream import Batches, Relay
from orchestrator.api.leaving import until_left
from orchestrator.api.services import Services
from orchestrator.dialects.assemblers import assembler

JSON = "application/json"
DONE = b"[DONE]"


class Gateway:
    """Model calls of programs, over these services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def answer(self, request: Request, dialect: Dialect, body: bytes) -> ASGIApp:
        """The answer to a program's request, streamed or whole. Raises `ClientLeft`, and the taxonomy's errors."""
        asked = read_asked(self._services, request, dialect, body)
        self._show_limits(request, asked)
        show_call(request.scope, asked.key)
        self._services.traced(asked.key, request.headers)
        if asked.parsed.stream:
            return Relay(request.scope, dialect, self._batches(asked, restartable=False))
        work = self._document if dialect in ("embeddings", "count_tokens") else self._assembled
        return Response(await until_left(request.receive, partial(work, asked)), media_type=JSON)

    def _show_limits(self, request: Request, asked: Asked) -> None:
        services, tenant, model, dialect = self._services, asked.flow.tenant, asked.model, asked.dialect
        show_limits(request.scope, lambda: limit_headers(dialect, services.allowances(model, tenant), services.wall()))

    async def _document(self, asked: Asked) -> bytes:
        """The answer of a dialect that has no stream."""
        async with spending(self._services, asked) as spent:
            reply = await self._port(asked).call(spent.request, deadline=asked.deadline, receipt=spent.receipt)
            spent.usage = reply.usage
            return reply.wire

    async def _assembled(self, asked: Asked) -> bytes:
        """The whole answer, put together from the events of its stream."""
        whole = assembler(asked.dialect)
        async with aclosing(self._batches(asked, restartable=True)) as batches:
            async for batch in batches:
                if batch is None:
                    whole = assembler(asked.dialect)
                    continue
                for event in batch:
                    if event.data != DONE:
                        whole.feed(event)
        return whole.document()

    async def _batches(self, asked: Asked, *, restartable: bool) -> Batches:
        """The answer's events as they come; closing it takes the call with it."""
        async with spending(self._services, asked) as spent:
            try:
                async with self._port(asked).stream(
                    spent.request, deadline=asked.deadline, restartable=restartable, receipt=spent.receipt
                ) as stream:
                    async for deltas in stream:
                        events: list[WireEvent] = []
                        for delta in deltas:
                            if delta.reset:
                                events.clear()
                                yield None
                            events.extend(delta.wire)
                        yield tuple(events)
                    spent.usage = (await stream.reply()).usage
            except ModelError as error:
                spent.usage = error.usage
                raise

    def _port(self, asked: Asked) -> CallPort:
        return self._services.calls.port(asked.flow, asked.priority, agent=False)
