"""SIGINT and SIGTERM for a command: the first asks for a clean end, the second hurries it."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import trio

from orchestrator.cli.exits import complain


class Endable(Protocol):
    """Something that can be asked to end, and to be quick about it."""

    def end(self, signal_name: str) -> None: ...

    def hurry(self) -> None: ...


class SignalEnd:
    """Listens for as long as a command runs. `received` is the first signal's number, 0 while there was none.

    While `target` is None (the command is still starting, or has nothing to finish), a signal cancels `scope`.
    """

    def __init__(self) -> None:
        self.received = 0
        self.target: Endable | None = None
        self.scope = trio.CancelScope()

    async def listen(self, signals: AsyncIterator[int]) -> None:
        """Acts on signals until cancelled."""
        async for number in signals:
            if self.target is None:
                self.received = self.received or number
                self.scope.cancel()
            elif not self.received:
                self.received = number
                self.target.end(signal.Signals(number).name)
            else:
                self.target.hurry()

    @property
    def exit_code(self) -> int:
        return 128 + self.received


async def until_signalled(work: Callable[[SignalEnd], Awaitable[int]], interrupted: str) -> int:
    """Runs a command's work to its exit code. A signal that cancelled it gives the message and the signal's code."""
    code: int | None = None
    ending = SignalEnd()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ending.listen, signals)
            with ending.scope:
                code = await work(ending)
            nursery.cancel_scope.cancel()
    if code is not None:
        return code
    complain(interrupted)
    return ending.exit_code
