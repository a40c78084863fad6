"""A client that leaves: noticing it, and ending what was done for it.

The server tells an application of a client's departure in one way only: `receive` yields `http.disconnect`. So
something has to wait for it all the time. While a handler works, a sibling task does, and cancels the handler.

Known limits: a client that has sent its next request already (pipelining) is not seen leaving before its first answer
is out, since the server reads no further; and one that closes only its sending half counts as gone.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
from starlette.types import Receive

T = TypeVar("T")


class ClientLeft(Exception):
    """The client is gone: there is nobody to answer."""


async def departure(receive: Receive) -> None:
    """Returns when the client has left. What it still sends of a body is dropped."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return


async def until_left(receive: Receive, work: Callable[[], Awaitable[T]]) -> T:
    """What `work` returns or raises. Cancels it and raises `ClientLeft` when the client leaves first.

    The request's body must have been read: until this returns, `receive` belongs to the watcher.
    """
    results: list[T] = []
    error: Exception | None = None
    left = False
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            nonlocal left
            await departure(receive)
            # the departure is told once: from here on nobody may wait for it again
            left = True
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        try:
            results.append(await work())
        except Exception as failure:
            # raised outside, since a nursery would wrap it
            error = failure
        nursery.cancel_scope.cancel()
    if left:
        raise ClientLeft
    if error is not None:
        raise error
    return results[0]
