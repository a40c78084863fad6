"""The simulated prefix cache: which leading messages of a request the provider has worked before."""

from collections.abc import Callable

from agents.messages import ModelRequest


class PrefixCache:
    """Remembers the last `size` message prefixes, by use. A prefix ends after a message; tools are part of it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: dict[int, None] = {}

    def lookup(self, request: ModelRequest, count: Callable[[ModelRequest], int]) -> int:
        """The cached input tokens of a request, which is remembered from now on. Never the whole input."""
        longest = 0
        prefix = hash((request.model, tuple(tool.name for tool in request.tools)))
        for length, message in enumerate(request.messages, 1):
            prefix = hash((prefix, message))
            if prefix in self._known:
                del self._known[prefix]
                longest = length
            self._known[prefix] = None
        while len(self._known) > self._size:
            del self._known[next(iter(self._known))]
        if longest == 0:
            return 0
        head = ModelRequest(request.model, request.messages[:longest], tools=request.tools)
        return min(count(head), count(request) - 1)
