"""Which trace things belong to: W3C Trace Context (https://www.w3.org/TR/trace-context/), and derived ids. Pure.

Runs and calls have ids of their own that never change, so the ids of their spans are hashes of those: whoever knows a
run knows its span, also after a restart and in another process. The spans that a killed daemon never sent are missing;
all that follows is in the same trace, below the same run.
"""

import re
from hashlib import blake2b
from typing import Final

from msgspec import Struct

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_STATE_BYTES: Final = 512


class TraceContext(Struct, frozen=True):
    """A span that others may have as their parent. Ids are lower-case hex, as on the wire."""

    trace: str
    span: str
    sampled: bool = True
    state: str = ""

    def header(self) -> str:
        """As `traceparent`."""
        return f"00-{self.trace}-{self.span}-{'01' if self.sampled else '00'}"


def read_context(parent: str, state: str = "") -> TraceContext | None:
    """What the headers `traceparent` and `tracestate` say; None where the first is missing or is none.

    As the specification asks for, a header that cannot be read is as good as none, and fails no request.
    """
    found = _PARENT.fullmatch(parent.strip())
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(span, 16):
        return None
    printable = state.isascii() and state.isprintable() and len(state) <= _STATE_BYTES
    return TraceContext(trace, span, bool(int(flags, 16) & 1), state if printable else "")


def trace_id(of: str) -> str:
    """The trace of a run or a call that nobody gave one."""
    return _hash("trace", of, 16)


def span_id(kind: str, key: str) -> str:
    """The span of this kind of a thing with this id."""
    return _hash(kind, key, 8)


def _hash(kind: str, key: str, size: int) -> str:
    return blake2b(f"{kind}\0{key}".encode("utf-8", "replace"), digest_size=size).hexdigest()


def is_sampled(trace: str, ratio: float) -> bool:
    """Whether a trace without a parent is kept: by its id, so that all parts of it are or none.

    As OpenTelemetry's `TraceIdRatioBased` decides it.
    """
    return int(trace[16:], 16) < ratio * 2**64
