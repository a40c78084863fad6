"""A daemon on the far side of a transport without a wire: it serves what a test gives it and breaks where told."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
import trio

from agents.amounts import UNLIMITED
from agents.events import Event, RunCreated, RunEnded, RunStarted, encode
from agents.lifecycle import State, StopReason
from agents.messages import Usage
from orchestrator.client.client import Client, open_client
from orchestrator.views.errors import ErrorAnswer, ErrorBody
from orchestrator.views.jobs import JobPhase, JobView
from orchestrator.views.runs import RunDetail

URL = "http://daemon.test:8700"
Handler = Callable[[httpx2.Request], Awaitable["Answer"]]


class Broken(Exception):
    """In a body: the connection breaks here."""


class Body(httpx2.AsyncByteStream):
    """Pieces of a body; a `Broken` or an httpx2 error among them is where it ends."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = iter(pieces)
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        piece = next(self._pieces, None)
        if piece is None:
            raise StopAsyncIteration
        if isinstance(piece, Broken):
            raise httpx2.ReadError("broken")
        if isinstance(piece, Exception):
            raise piece
        return piece


class Answer:
    """An answer that can be given any number of times."""

    def __init__(self, status: int, *pieces: bytes | Exception, headers: Mapping[str, str] | None = None) -> None:
        self._status = status
        self._pieces = pieces
        self._headers = dict(headers or {})

    def __call__(self) -> httpx2.Response:
        return httpx2.Response(self._status, headers=self._headers, stream=Body(*self._pieces))


class FakeDaemon(httpx2.AsyncBaseTransport):
    """Answers each request by the handler of its method and path. `down` refuses connections, `asked` has them all."""

    def __init__(self) -> None:
        self.handlers: dict[tuple[str, str], Handler] = {}
        self.asked: list[httpx2.Request] = []
        self.down = False
        self.bodies: list[Body] = []

    def on(self, method: str, path: str, *answers: Answer | Exception | Handler) -> None:
        """Gives these answers in turn, the last one for ever."""
        left = list(answers)

        async def handle(request: httpx2.Request) -> Answer:
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            return answer if isinstance(answer, Answer) else await answer(request)

        self.handlers[method, path] = handle

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        if self.down:
            raise httpx2.ConnectError("refused") from ConnectionRefusedError(111, "Connection refused")
        handler = self.handlers.get((request.method, request.url.path))
        if handler is None:
            return refused(404, "not_found", f"there is nothing at {request.url.path}")()
        response = (await handler(request))()
        assert isinstance(response.stream, Body)
        self.bodies.append(response.stream)
        return response

    def count(self, method: str, path: str) -> int:
        return sum((request.method, request.url.path) == (method, path) for request in self.asked)


@asynccontextmanager
async def talking(daemon: FakeDaemon, told: list[str] | None = None) -> AsyncIterator[Client]:
    """A client of it; what a person would be told goes into `told`."""
    tell = (lambda _: None) if told is None else told.append
    async with open_client(URL, tell=tell, transport=daemon) as client:
        yield client


def answered(value: Any, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(value))


def refused(status: int, kind: str, message: str, **more: Any) -> Answer:
    headers = more.pop("headers", None)
    body = ErrorAnswer(error=ErrorBody(kind=kind, message=message, **more))
    return Answer(status, msgspec.json.encode(body), headers=headers)


def streamed(*pieces: bytes | Exception) -> Answer:
    return Answer(200, *pieces)


def sse(number: int, event: Event) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, str(event.__struct_config__.tag).encode(), encode(event))


def three_events() -> list[Event]:
    return [
        RunCreated(run="r", agent="a", model="m", messages=(), limits=UNLIMITED),
        RunStarted(run="r"),
        RunEnded(run="r", reason=StopReason.FINAL_ANSWER, state=State.COMPLETED, answer="yes"),
    ]


def run_detail(**more: Any) -> RunDetail:
    fields: dict[str, Any] = {
        "run": "r",
        "agent": "plain",
        "model": "m",
        "tenant": "default",
        "job": "",
        "priority": "standard",
        "state": State.COMPLETED,
        "observed": "done",
        "reason": StopReason.FINAL_ANSWER,
        "created": 0.0,
        "started": 0.0,
        "ended": 1.0,
        "rounds": 1,
        "tool_calls": 0,
        "usage": Usage(input=10, output=5),
        "micro_dollars": None,
        "message": "",
        "answer": "yes",
        "events": 3,
    }
    return RunDetail(**{**fields, **more})


def job_view(phase: JobPhase = "running", **more: Any) -> JobView:
    fields: dict[str, Any] = {
        "job": "j",
        "name": "job",
        "tenant": "default",
        "priority": "batch",
        "agent": "plain",
        "model": "m",
        "weight": 1.0,
        "workers": 8,
        "phase": phase,
        "created": 0.0,
        "ended": None,
        "received": 0,
        "complete": False,
        "upload_offset": 0,
        "done": 0,
        "failed": 0,
        "live": 0,
        "cancelled": 0,
        "usage": Usage(),
        "micro_dollars": None,
        "message": "",
        "failures": {},
        "errors": (),
        "result_bytes": 0,
    }
    return JobView(**{**fields, **more})
