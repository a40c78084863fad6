"""Where the simulated provider's answers go over HTTP: as they come for a streamed request, else whole at the end."""

from collections.abc import Sequence

from agents.messages import Delta, Usage
from orchestrator.backends.simulated.answer import Answer
from orchestrator.backends.simulated.dialect import Asked, Headers, Manners, streamed
from orchestrator.backends.simulated.http import HttpConnection
from orchestrator.policy.feedback import Reading

JSON: Headers = [("content-type", "application/json")]
SSE: Headers = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")]


class DocumentSink:
    """For an answer that is one document; everything that comes before it but the headers is nothing to it."""

    def __init__(self, http: HttpConnection, manners: Manners, headers: Headers) -> None:
        self._http = http
        self._manners = manners
        self._headers = headers

    def admitted(self, usage: Usage) -> None: ...

    async def headers(self, readings: Sequence[Reading]) -> None:
        self._headers = self._headers + self._manners.limit_headers(readings)

    async def alive(self) -> None: ...

    async def deltas(self, deltas: tuple[Delta, ...]) -> None: ...

    async def finish(self, document: bytes) -> None:
        """Sends the answer."""
        await self._http.respond(200, JSON + self._headers, document)


class StreamSink:
    """For a streamed answer."""

    def __init__(self, http: HttpConnection, manners: Manners, headers: Headers, asked: Asked) -> None:
        self._http = http
        self._manners = manners
        self._headers = headers
        self._writer = asked.writer
        self._usage = Usage()

    def admitted(self, usage: Usage) -> None:
        self._usage = usage

    async def headers(self, readings: Sequence[Reading]) -> None:
        await self._http.begin(200, SSE + self._headers + self._manners.limit_headers(readings))
        await self._http.data(streamed(self._writer.begin(self._usage)))

    async def alive(self) -> None:
        await self._http.data(self._writer.heartbeat)

    async def deltas(self, deltas: tuple[Delta, ...]) -> None:
        await self._http.data(streamed(self._writer.deltas(deltas)))

    async def finish(self, answer: Answer) -> None:
        """Sends the end of the stream."""
        await self._http.data(streamed(self._writer.end(answer)))
        await self._http.end()
