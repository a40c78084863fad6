"""A worker's way to its daemon: one of several addresses, and as many tries as it has patience for.

A daemon that is away is looked for at each address in turn. Whoever comes back may be another process, which does not
know yet what this worker holds: so once it was lost, all requests wait until a poll has been answered.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import trio

from agents.errors import HeadraceError
from orchestrator.client.errors import ClientError, Quiet, is_gone
from orchestrator.client.patience import Outage, Tell
from orchestrator.client.wire import JSON, Wire, encode
from orchestrator.views.workers import PollAnswer, PollRequest

T = TypeVar("T")

ANSWER_SECONDS: Final = 10.0
"""How long an answer may take, beyond what a request was allowed to be held for."""

POLL: Final = "/api/workers/poll"

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 2.0


class PatienceOver(HeadraceError):
    """No daemon was there for longer than the worker waits for one."""


class _Pauses:
    """Pauses between tries, the longer the more there were; several addresses share one."""

    def __init__(self, addresses: int) -> None:
        self._addresses = addresses
        self._pause = FIRST_PAUSE

    async def next(self) -> None:
        await trio.sleep(self._pause / self._addresses)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)


class Link:
    """Asks one daemon through the `wires` to its addresses. `on_lost` is called when another request than a poll has
    lost it.
    """

    def __init__(self, wires: Sequence[Wire], patience: float, tell: Tell) -> None:
        self._wires = tuple(wires)
        self._at = 0
        self._patience = patience
        self._outage = Outage(tell)
        self._since: float | None = None
        self._there = trio.Event()
        self.on_lost: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        """Where the daemon was last looked for."""
        return self._wires[self._at].url

    @property
    def there(self) -> bool:
        """Whether the last poll was answered, and nothing was lost since."""
        return self._there.is_set()

    async def ask(self, type: type[T], method: str, path: str, body: object = None, *, hold: float = 0.0) -> T:
        """One request and its answer, however often it has to be sent; `hold` is how long it may be kept waiting.

        Raises `PatienceOver`, and `ClientError` where the daemon says no, or is none.
        """
        pauses = _Pauses(len(self._wires))
        content = None if body is None else encode(body)
        while True:
            await self._there.wait()
            at = self._at
            try:
                return await self._once(self._wires[at], type, method, path, content, hold)
            except ClientError as error:
                if self._lost(error, at):
                    self.on_lost()
            await pauses.next()

    async def poll(self, request: Callable[[], PollRequest]) -> PollAnswer:
        """A poll and its answer; `request` is made anew for each try. Raises as `ask` does.

        None is repeated as it was: held anew for as long, it would be long ago that the worker gave a sign of life.
        """
        pauses = _Pauses(len(self._wires))
        while True:
            at, asked = self._at, request()
            try:
                answer = await self._once(
                    self._wires[at], PollAnswer, "POST", POLL, encode(asked), asked.seconds, repeat=False
                )
            except ClientError as error:
                self._lost(error, at)
            else:
                self._since = None
                self._there.set()
                self._outage.back()
                return answer
            await pauses.next()

    async def _once(
        self,
        wire: Wire,
        type: type[T],
        method: str,
        path: str,
        content: bytes | None,
        hold: float,
        *,
        repeat: bool = True,
    ) -> T:
        headers = None if content is None else JSON
        with trio.move_on_after(hold + ANSWER_SECONDS):
            return await wire.ask(type, method, path, content=content, headers=headers, repeat=repeat)
        raise Quiet(f"the daemon at {wire.url} said nothing for {hold + ANSWER_SECONDS:g} s")

    def _lost(self, error: ClientError, at: int) -> bool:
        """Whether this is the first to find out; raises the error where it is none of a daemon that is away."""
        if not is_gone(error):
            raise error
        now, found_out = trio.current_time(), self.there
        self._since = now if self._since is None else self._since
        if self._at == at:
            self._at = (at + 1) % len(self._wires)
        if found_out:
            self._there = trio.Event()
        if now - self._since >= self._patience:
            so_long = f", and was not there for {self._patience:g} s" if self._patience else ""
            raise PatienceOver(f"{error.message}{so_long}") from error
        self._outage.gone(f"{error.message}; trying again for {self._patience:g} s")
        return found_out

    async def aclose(self) -> None:
        """Closes all connections."""
        for wire in self._wires:
            await wire.aclose()
