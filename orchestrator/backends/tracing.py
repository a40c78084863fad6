"""The trace context that goes out with a request: whoever sends one in this task says so before, if anybody traces."""

from contextvars import ContextVar
from typing import Final

TRACEPARENT: Final[ContextVar[str]] = ContextVar("traceparent", default="")
"""The header's value (W3C Trace Context); empty, and no header is sent."""
