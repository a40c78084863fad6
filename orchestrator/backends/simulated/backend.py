"""The simulated backend, in-process: a `SimProvider` behind the backend port, on trio alone, without sockets.

Under a virtual clock it replays hours in seconds; with `instant` a send costs one checkpoint and a few microseconds.
The same provider served over HTTP (`server`) behaves the same way, on a wire.
"""

from collections.abc import Sequence

import msgspec
import trio

from agents.errors import ModelError, Truncated, Unavailable
from agents.messages import Delta, ModelReply, ModelRequest, Usage
from orchestrator.backends.base import Capabilities, Connection, Progress
from orchestrator.backends.openai.errors import error_from_event, error_from_response
from orchestrator.backends.place import Place
from orchestrator.backends.simulated.config import FaultRule, SimConfig, SimLatency, SimLength, SimLimit
from orchestrator.backends.simulated.errors import Hangup, SimError
from orchestrator.backends.simulated.provider import SimProvider
from orchestrator.backends.simulated.relay import DIALECTS, RelaySink
from orchestrator.backends.simulated.wire import error_object
from orchestrator.policy.feedback import Reading

__all__ = [
    "FaultRule",
    "SimConfig",
    "SimLatency",
    "SimLength",
    "SimLimit",
    "SimProvider",
    "SimulatedBackend",
    "SimulatedConnection",
]


class SimulatedBackend:
    """One endpoint of a simulated provider. Endpoints that share a provider share its limits, like one key."""

    def __init__(self, name: str, provider: SimProvider | None = None) -> None:
        self._name = name
        self.provider = provider if provider is not None else SimProvider()

    @property
    def name(self) -> str:
        return self._name

    def capabilities(self) -> Capabilities:
        return Capabilities("simulated", reports_cached=self.provider.config.prefix_cache > 0, dialects=DIALECTS)

    def connect(self) -> Connection:
        return SimulatedConnection(self.provider)

    def __repr__(self) -> str:
        return f"<SimulatedBackend {self._name!r} {self.provider!r}>"


class SimulatedConnection:
    """One request at a time to the provider."""

    __slots__ = ("_busy", "_provider")

    def __init__(self, provider: SimProvider) -> None:
        self._provider = provider
        self._busy = False

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        """See `Connection.send`. Raises the error an adapter would raise for the same behaviour on a wire."""
        if self._busy:
            raise trio.BusyResourceError("this connection is already sending a request")
        self._busy = True
        try:
            if request.wire is not None:
                return await self._relay(request, progress)
            if self._provider.config.instant:
                return await self._send_instantly(request, progress)
            return await self._send(request, progress)
        finally:
            self._busy = False

    async def _send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        if self._provider.refuses_connection():
            await trio.lowlevel.checkpoint()
            raise Unavailable("the simulated provider refused the connection", worked=False)
        progress.connected()
        progress.written()
        sink = _ToProgress(progress)
        try:
            answer = await self._provider.serve(request, sink)
        except (SimError, Hangup) as error:
            if isinstance(error, SimError) and error.readings is not None:
                progress.headers(error.readings)
            raise _as_adapter(error, sink) from None
        for _ in range(answer.usage_reports):
            progress.usage(answer.reply.usage)
        return answer.reply

    async def _relay(self, request: ModelRequest, progress: Progress) -> ModelReply:
        if self._provider.refuses_connection():
            await trio.lowlevel.checkpoint()
            raise Unavailable("the simulated provider refused the connection", worked=False)
        progress.connected()
        progress.written()
        sink = RelaySink(progress)
        try:
            return await sink.answer(self._provider, request)
        except (SimError, Hangup) as error:
            if isinstance(error, SimError) and error.readings is not None:
                progress.headers(error.readings)
            raise _as_adapter(error, sink) from None

    async def _send_instantly(self, request: ModelRequest, progress: Progress) -> ModelReply:
        progress.connected()
        progress.written()
        await trio.lowlevel.checkpoint()
        try:
            reply = self._provider.serve_instantly(request)
        except SimError as error:
            progress.headers(error.readings or ())
            raise _as_adapter(error) from None
        progress.headers(self._provider.readings())
        await progress.deltas((Delta(reply.message.content),))
        progress.usage(reply.usage)
        return reply

    async def aclose(self) -> None:
        """Nothing to release."""
        await trio.lowlevel.checkpoint()


class _ToProgress:
    """Tells an attempt what the provider does, and keeps the text for an answer that ends early."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.began = False
        self.texts: list[str] = []

    def admitted(self, usage: Usage) -> None:
        """Usage is reported with the whole answer."""

    async def headers(self, readings: Sequence[Reading]) -> None:
        self.began = True
        self._progress.headers(readings)

    async def alive(self) -> None:
        self._progress.alive()

    async def deltas(self, deltas: tuple[Delta, ...]) -> None:
        self.texts.extend(delta.text for delta in deltas)
        await self._progress.deltas(deltas)


_PLACE = Place("the simulated provider")


def _as_adapter(error: SimError | Hangup, sink: _ToProgress | RelaySink | None = None) -> ModelError:
    """The error that the adapter raises for this answer on a wire: one judgement for both."""
    partial = "".join(sink.texts) if sink is not None else ""
    if isinstance(error, Hangup):
        if sink is not None and sink.began:
            return Truncated("the simulated provider broke the answer off", status=200, partial=partial)
        return Unavailable("the simulated provider closed the connection without an answer")
    if error.in_stream:
        return error_from_event(error_object(error), _PLACE, None, partial)
    body = msgspec.json.encode(error_object(error))
    return error_from_response(error.status, body, _PLACE, error.readings or (), error.retry_after)
