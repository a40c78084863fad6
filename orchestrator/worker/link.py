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

T = TypeVar("T")

ANSWER_SECONDS: Final = 10.0
"""How long an answer may take, beyond what a request was allowed to be held for."""

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 2.0


class PatienceOver(HeadraceError):
    """No daemon was there for longer than the worker waits for one."""


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

    async def ask(
        self, type: type[T], method: str, path: str, body: object = None, *, hold: float = 0.0, poll: bool = False
    ) -> T:
        """One request and its answer, however often it has to be sent; `hold` is how long it may be kept waiting.

        Raises `PatienceOver`, and `ClientError` where the daemon says no, or is none.
        """
        pause = FIRST_PAUSE
        content = None if body is None else encode(body)
        while True:
            if not poll:
                await self._there.wait()
            at = self._at
            try:
                answer = await self._once(self._wires[at], type, method, path, content, hold)
            except ClientError as error:
                if not is_gone(error):
                    raise
                self._lost(error, at, poll=poll)
            else:
                self._met(poll=poll)
                return answer
            await trio.sleep(pause / len(self._wires))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _once(self, wire: Wire, type: type[T], method: str, path: str, content: bytes | None, hold: float) -> T:
        with trio.move_on_after(hold + ANSWER_SECONDS):
            return await wire.ask(type, method, path, content=content, headers=None if content is None else JSON)
        raise Quiet(f"the daemon at {wire.url} said nothing for {hold + ANSWER_SECONDS:g} s")

    def _lost(self, error: ClientError, at: int, *, poll: bool) -> None:
        now = trio.current_time()
        self._since = now if self._since is None else self._since
        if self._at == at:
            self._at = (at + 1) % len(self._wires)
        if self._there.is_set():
            self._there = trio.Event()
            if not poll:
                self.on_lost()
        if now - self._since >= self._patience:
            raise PatienceOver(f"{error.message}, and was not there for {self._patience:g} s") from error
        self._outage.gone(f"{error.message}; trying again for {self._patience:g} s")

    def _met(self, *, poll: bool) -> None:
        if poll:
            self._since = None
            self._there.set()
            self._outage.back()

    async def aclose(self) -> None:
        """Closes all connections."""
        for wire in self._wires:
            await wire.aclose()
