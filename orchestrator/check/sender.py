"""Sends requests to endpoints, and counts them: never more than it was given.

It waits for a limit that the last headers said is used up, instead of running into it, and once for a refusal that
names a time; for two minutes in all. Where a server refuses a request as it is, it asks in another way, and keeps to
that way afterwards.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import trio
from msgspec import Struct

from agents.errors import ModelError, Refused, Throttled
from agents.messages import ModelRequest
from orchestrator.backends.base import Backend, Connection
from orchestrator.backends.openai.backend import OpenAIBackend
from orchestrator.check import advice
from orchestrator.check.answer import Answer, ask
from orchestrator.check.probes import Ask, Change
from orchestrator.check.report import Setting
from orchestrator.dialects.base import Untranslatable

LONGEST_WAIT = 120.0
_REFUSED_AS_IT_IS = (400, 422)


class Step(Struct, frozen=True, kw_only=True):
    """Something to tell the one who watches: a request that is sent (`seconds` None), its end, or a wait.

    `number` is the request's, `count` how many go out together.
    """

    number: int
    endpoint: str
    title: str = ""
    count: int = 1
    seconds: float | None = None
    problem: str = ""
    waiting: float | None = None


class Sender:
    """Connections to the endpoints under check, and the books of what was sent.

    `all` are all answers in order of their end, `settings` the lines that other ways of asking stand for.
    """

    def __init__(
        self, endpoints: Sequence[Backend], *, sent: int, most: int, timeout: float, on_step: Callable[[Step], None]
    ) -> None:
        self.backends = {backend.name: backend for backend in endpoints}
        self.sent = sent
        self.all: list[Answer] = []
        self.settings: list[Setting] = []
        self._most = most
        self._timeout = timeout
        self._on_step = on_step
        self._waited = 0.0
        self._request_changes: dict[str, Any] = {}
        self._connections: dict[tuple[str, int], Connection] = {}

    @property
    def left(self) -> int:
        """How many requests may still be sent."""
        return self._most - self.sent

    async def aclose(self) -> None:
        """Closes all connections, also under cancellation."""
        with trio.CancelScope(shield=True):
            for connection in self._connections.values():
                await connection.aclose()

    async def send(self, endpoint: str, one: Ask, request: ModelRequest) -> Sequence[Answer]:
        """The answers to one ask, in the first way in which the server takes it."""
        request = msgspec.structs.replace(request, **self._request_changes)
        found = await self._together(endpoint, one.title, [request] * one.at_once)
        if self.left >= len(found) and await self._sit_out(endpoint, found):
            found = await self._together(endpoint, one.title, [request] * one.at_once)
        for change in one.changes:
            if self.left < 1 or not all(_refused_as_it_is(answer.error) for answer in found):
                break
            if self.can(endpoint, change):
                other = await self.otherwise(endpoint, one.title, change, request, at_once=one.at_once)
                found = other if other is not None else found
        return found

    def can(self, endpoint: str, change: Change) -> bool:
        """Whether asking so would be anything new."""
        backend = self.backends[endpoint]
        if not change.endpoint:
            return True
        if not isinstance(backend, OpenAIBackend):
            return False
        return any(getattr(backend.config, name) != value for name, value in change.endpoint.items())

    async def otherwise(
        self,
        endpoint: str,
        title: str,
        change: Change,
        request: ModelRequest,
        *,
        at_once: int = 1,
        works: Callable[[Sequence[Answer]], bool] | None = None,
    ) -> Sequence[Answer] | None:
        """The answers to a request asked in another way, which is kept if it works; None if it does not."""
        before = self.backends[endpoint]
        await self._refit(endpoint, change.endpoint)
        other = msgspec.structs.replace(request, **change.request)
        found = await self._together(endpoint, f"{title}, asked otherwise", [other] * min(at_once, self.left))
        if (works or _answered)(found):
            self._request_changes.update(change.request)
            self.settings += [Setting(advice.line(name, value), change.why) for name, value in change.endpoint.items()]
            return found
        self.backends[endpoint] = before
        await self._forget(endpoint)
        return None

    async def _together(self, endpoint: str, title: str, requests: Sequence[ModelRequest]) -> Sequence[Answer]:
        await self._wait_for_room(endpoint, len(requests))
        step = Step(number=self.sent + 1, endpoint=endpoint, title=title, count=len(requests))
        self.sent += len(requests)
        self._on_step(step)
        found: dict[int, Answer] = {}

        async def send(index: int) -> None:
            connection = self._connection(endpoint, index)
            found[index] = await ask(connection, endpoint, requests[index], self._timeout)
            self.all.append(found[index])

        async with trio.open_nursery() as nursery:
            for index in range(len(requests)):
                nursery.start_soon(send, index)
        answers = [found[index] for index in sorted(found)]
        # what an adapter has no words for was never sent
        self.sent -= sum(isinstance(answer.error, Untranslatable) for answer in answers)
        problem = next((answer.error.message for answer in answers if answer.error is not None), "")
        seconds = max(answer.seconds for answer in answers)
        self._on_step(msgspec.structs.replace(step, seconds=seconds, problem=problem))
        return answers

    def _connection(self, endpoint: str, index: int) -> Connection:
        key = (endpoint, index)
        if key not in self._connections:
            self._connections[key] = self.backends[endpoint].connect()
        return self._connections[key]

    async def _refit(self, endpoint: str, changes: Mapping[str, Any]) -> None:
        backend = self.backends[endpoint]
        if changes and isinstance(backend, OpenAIBackend):
            self.backends[endpoint] = OpenAIBackend(msgspec.structs.replace(backend.config, **changes))
            await self._forget(endpoint)

    async def _forget(self, endpoint: str) -> None:
        for key in [key for key in self._connections if key[0] == endpoint]:
            await self._connections.pop(key).aclose()

    async def _wait_for_room(self, endpoint: str, needed: int) -> None:
        """Waits where the last headers said that fewer requests than needed are left."""
        last = next((answer for answer in reversed(self.all) if answer.endpoint == endpoint), None)
        for reading in last.readings if last is not None else ():
            if reading.kind != "requests" or reading.remaining is None:
                continue
            if reading.remaining < min(needed, reading.limit or needed):
                await self._wait(endpoint, reading.reset)

    async def _sit_out(self, endpoint: str, found: Sequence[Answer]) -> bool:
        """Waits as long as a server asked for that refused them all by a limit."""
        throttled = [answer.error for answer in found if isinstance(answer.error, Throttled)]
        if len(throttled) < len(found):
            return False
        waits = [error.retry_after for error in throttled if error.retry_after is not None]
        return await self._wait(endpoint, max(waits, default=None))

    async def _wait(self, endpoint: str, seconds: float | None) -> bool:
        if seconds is None or self._waited + seconds > LONGEST_WAIT:
            return False
        self._waited += seconds
        self._on_step(Step(number=self.sent, endpoint=endpoint, waiting=seconds))
        await trio.sleep(seconds)
        return True


def _answered(found: Sequence[Answer]) -> bool:
    return any(answer.error is None for answer in found)


def _refused_as_it_is(error: ModelError | None) -> bool:
    """Whether the same thing asked another way may be taken."""
    return isinstance(error, Refused) and not error.endpoint_fault and error.status in _REFUSED_AS_IT_IS
