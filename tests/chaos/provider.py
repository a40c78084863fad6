"""Endpoints that do what their schedule says, and count what they were asked."""

from collections.abc import Callable, Sequence

import trio

from agents.errors import ModelError, Overloaded, Throttled, Truncated, Unavailable
from agents.messages import Delta, Message, ModelReply, ModelRequest, Usage
from agents.scripted import Answer
from orchestrator.backends.base import Capabilities, Connection, Progress
from tests.chaos.schedule import Spell, now_of

ERRORS: dict[str, Callable[[], ModelError]] = {
    "refused": lambda: Unavailable("connection refused", worked=False),
    "500": lambda: Unavailable("oops", status=500),
    "529": lambda: Overloaded("full", status=529),
    "503 and a time": lambda: Overloaded("later", status=503, retry_after=7.0),
    "429": lambda: Throttled("slow down"),
    "429 and a time": lambda: Throttled("slow down", retry_after=20.0),
    "429 of a limit": lambda: Throttled("out of tokens", retry_after=9.0, exhausted=frozenset({"total_tokens"})),
}
LINGER = 30.0
"""How long a silent or dripping answer takes, where nobody ends it."""


class Ill:
    """One endpoint. `busy` are the requests under way, at `most` so many; `sent` the times of all there were."""

    def __init__(
        self, name: str, spells: Sequence[Spell], step: float, script: Callable[[ModelRequest], Answer]
    ) -> None:
        self.name = name
        self.busy = self.most = 0
        self.sent: list[float] = []
        self._spells = spells
        self._step = step
        self._script = script

    def capabilities(self) -> Capabilities:
        return Capabilities(dialect="ill")

    def connect(self) -> Connection:
        return _Wire(self)

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        does = now_of(self._spells, trio.current_time())
        await trio.sleep(self._step)
        if does == "refused":
            raise ERRORS[does]()
        progress.connected()
        progress.written()
        self.sent.append(trio.current_time())
        await trio.sleep(self._step)
        if does == "silent":
            await trio.sleep_forever()
        if does == "garbage":
            raise ValueError("an answer that no adapter understands")
        if does in ERRORS:
            raise ERRORS[does]()
        progress.headers(())
        answer = self._script(request)
        assert isinstance(answer, Message)
        for word in ("one ", "two "):
            await progress.deltas((Delta(word),))
            await trio.sleep(LINGER / 10 if does == "drip" else self._step)
            if does == "cut":
                raise Truncated("it broke off", partial=word)
        usage = Usage() if does == "no usage" else Usage(input=20, output=10)
        progress.usage(usage)
        return ModelReply(answer, "tool_calls" if answer.tool_calls else "stop", usage)


class _Wire:
    def __init__(self, endpoint: Ill) -> None:
        self._endpoint = endpoint

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        endpoint = self._endpoint
        endpoint.busy += 1
        endpoint.most = max(endpoint.most, endpoint.busy)
        try:
            return await self._endpoint.send(request, progress)
        finally:
            self._endpoint.busy -= 1

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
