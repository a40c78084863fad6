"""An upstream on a real socket that comes and goes."""

import trio

from tests.backends.payloads import HELLO
from tests.backends.upstream import PATIENCE, Talk


class Flapping:
    """Answers every request while it is up, always at the same port. `served` counts them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.port = 0
        self.served = 0
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self._gone = trio.Event()

    async def up(self) -> None:
        listeners = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        self._scope = trio.CancelScope()
        self._gone = trio.Event()
        self._nursery.start_soon(self._serve, listeners, self._scope)

    async def down(self) -> None:
        """Nobody listens any more, and every connection is cut."""
        self._scope.cancel()
        with trio.fail_after(PATIENCE):
            await self._gone.wait()

    async def _serve(self, listeners: list[trio.SocketListener], scope: trio.CancelScope) -> None:
        with scope:
            await trio.serve_listeners(self._answer, listeners)
        for listener in listeners:
            await listener.aclose()
        self._gone.set()

    async def _answer(self, stream: trio.SocketStream) -> None:
        async with stream:
            talk = Talk(stream)
            while await talk.read_request() is not None:
                self.served += 1
                await talk.send(HELLO)
