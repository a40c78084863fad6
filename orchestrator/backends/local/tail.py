"""What the server printed last, for the message that says how it ended."""

from collections import deque
from typing import Final

import trio

TAIL_LINES: Final = 30
TAIL_LINE_BYTES: Final = 400


class Tail:
    """The last lines a process printed, bounded in number and length."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)

    async def follow(self, stream: trio.abc.ReceiveStream) -> None:
        """Reads until the stream ends, so that the process never blocks on a full pipe."""
        rest = b""
        async for chunk in stream:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.add(line)
            rest = rest[:TAIL_LINE_BYTES]
        if rest:
            self.add(rest)

    def add(self, line: bytes) -> None:
        text = line[:TAIL_LINE_BYTES].decode("utf-8", "replace").rstrip()
        if text:
            self._lines.append(text)

    def last(self, count: int) -> str:
        """The last `count` lines, indented; a remark if nothing was printed."""
        lines = list(self._lines)[-count:]
        return "\n".join(f"  {line}" for line in lines) if lines else "  (it printed nothing)"
