"""One request sent and everything seen of it: times, pieces, usage, limits, or the error."""

from collections.abc import Sequence

import trio
from msgspec import Struct

from agents.errors import CallTimeout, ModelError
from agents.messages import Delta, ModelReply, ModelRequest, Usage
from orchestrator.backends.base import Connection
from orchestrator.policy.feedback import Reading

_BYTES_PER_TOKEN = 20
_SPARE_BYTES = 200


class Answer(Struct, kw_only=True):
    """What came back. Instants are on trio's clock; `first` and `last` are those of the first and last piece.

    `pieces` counts deltas, `reads` the reads that brought them. `overlong` is True where the answer went on so far
    beyond `max_tokens` that it was cut off here.
    """

    endpoint: str
    request: ModelRequest
    started: float
    ended: float = 0.0
    reply: ModelReply | None = None
    error: ModelError | None = None
    written: bool = False
    overlong: bool = False
    first: float | None = None
    last: float | None = None
    pieces: int = 0
    reads: int = 0
    usage: Usage | None = None
    readings: tuple[Reading, ...] = ()

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def first_token(self) -> float | None:
        """Seconds from sending to the first piece."""
        return None if self.first is None else self.first - self.started

    @property
    def spread(self) -> float:
        """Seconds between the first piece and the last."""
        return 0.0 if self.first is None or self.last is None else self.last - self.first

    @property
    def text(self) -> str:
        return self.reply.message.content if self.reply is not None else ""

    @property
    def tokens_per_second(self) -> float | None:
        """Output after the first token over the time it took; None where either is too small or unknown."""
        output = self.usage.output if self.usage is not None else None
        if output is None or output < 2 or self.spread < 0.02:
            return None
        return (output - 1) / self.spread


class _Watcher:
    """A `Progress` that writes down, and stops an answer that nothing bounds."""

    def __init__(self, answer: Answer, scope: trio.CancelScope) -> None:
        self._answer = answer
        self._scope = scope
        self._room = (answer.request.max_tokens or 1_000) * _BYTES_PER_TOKEN + _SPARE_BYTES

    def connected(self) -> None:
        pass

    def written(self) -> None:
        self._answer.written = True

    def headers(self, readings: Sequence[Reading]) -> None:
        self._answer.readings = tuple(readings)

    def alive(self) -> None:
        pass

    def usage(self, usage: Usage) -> None:
        self._answer.usage = usage

    async def deltas(self, deltas: Sequence[Delta]) -> None:
        answer = self._answer
        answer.last = trio.current_time()
        if answer.first is None:
            answer.first = answer.last
        answer.reads += 1
        answer.pieces += len(deltas)
        for delta in deltas:
            fragments = "".join(call.arguments for call in delta.tool_calls)
            self._room -= len((delta.text + delta.reasoning + fragments).encode("utf-8", "replace"))
        if self._room < 0:
            answer.overlong = True
            self._scope.cancel()
        await trio.lowlevel.checkpoint()


async def ask(connection: Connection, endpoint: str, request: ModelRequest, timeout: float) -> Answer:
    """Sends one request and returns what came of it; a failure is part of the answer. `timeout` is in seconds."""
    answer = Answer(endpoint=endpoint, request=request, started=trio.current_time())
    with trio.move_on_after(timeout) as scope:
        try:
            answer.reply = await connection.send(request, _Watcher(answer, scope))
            answer.usage = answer.reply.usage
        except ModelError as error:
            answer.error = error
            answer.usage = error.usage or answer.usage
    answer.ended = trio.current_time()
    if answer.reply is None and answer.error is None and not answer.overlong:
        what = "no answer began" if answer.first is None else "the answer began but was not finished"
        answer.error = CallTimeout(f"{what} within {timeout:g} s (--timeout)")
    return answer
