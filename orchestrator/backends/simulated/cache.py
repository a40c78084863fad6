"""The simulated prefix cache: which leading messages of a request the provider has worked before."""

from collections.abc import Callable

from msgspec import Struct

from agents.messages import ModelRequest


class Cached(Struct, frozen=True):
    """What the cache means for one request: tokens read from it, tokens written to it, and what to remember.

    `written` is None where the provider caches on its own and does not say what it writes.
    """

    read: int = 0
    written: int | None = None
    prefixes: tuple[int, ...] = ()


class PrefixCache:
    """Remembers the last `size` message prefixes, by use. A prefix ends after a message; tools are part of it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: dict[int, None] = {}

    def lookup(self, request: ModelRequest, count: Callable[[ModelRequest], int], upto: int | None = None) -> Cached:
        """What is cached of a request; never its whole input. With `upto` only that many messages may be, explicitly.

        Changes nothing: a request that is refused afterwards has not been worked.
        """
        messages = request.messages if upto is None else request.messages[:upto]
        longest = 0
        prefixes = []
        prefix = hash((request.model, tuple(tool.name for tool in request.tools)))
        for length, message in enumerate(messages, 1):
            prefix = hash((prefix, message))
            if prefix in self._known:
                longest = length
            prefixes.append(prefix)
        most = count(request) - 1
        read = min(self._head(request, longest, count), most)
        if upto is None:
            return Cached(read, None, tuple(prefixes))
        written = min(self._head(request, len(messages), count), most) - read
        return Cached(read, written, tuple(prefixes[-1:]))

    def remember(self, cached: Cached) -> None:
        """The request is worked: what it began with is known from now on."""
        for prefix in cached.prefixes:
            self._known.pop(prefix, None)
            self._known[prefix] = None
        while len(self._known) > self._size:
            del self._known[next(iter(self._known))]

    def _head(self, request: ModelRequest, length: int, count: Callable[[ModelRequest], int]) -> int:
        if length == 0:
            return 0
        return count(ModelRequest(request.model, request.messages[:length], tools=request.tools))
