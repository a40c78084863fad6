"""Tracing as a daemon has it: hooks for calls and runs, `traceparent` in and out, and an end."""

import importlib
from collections.abc import Callable, Mapping
from typing import Final

import trio

from agents.port import Call
from orchestrator.telemetry.calls import CallSpans
from orchestrator.telemetry.config import TelemetryConfig, TelemetryNotInstalled
from orchestrator.telemetry.runs import RunSpans
from orchestrator.telemetry.span import Emit
from orchestrator.telemetry.traces import Traces

LAST_SECONDS: Final = 3.0
"""How long spans have to get away when a daemon ends."""


class Telemetry:
    """`calls` is a hook for owners, `runs` watches logs. `emit` takes spans instead of an exporter, for tests.

    Raises `TelemetryNotInstalled`.
    """

    def __init__(
        self,
        config: TelemetryConfig,
        *,
        wall: Callable[[], float],
        providers: Callable[[str], str] = str,
        emit: Emit | None = None,
    ) -> None:
        self._close: Callable[[float], None] | None = None
        if emit is None:
            try:
                export = importlib.import_module("orchestrator.telemetry.export")
            except ModuleNotFoundError as missing:
                if missing.name is None or not missing.name.startswith("opentelemetry"):
                    raise
                raise TelemetryNotInstalled from None
            exporter = export.Exporter(config)
            emit, self._close = exporter.emit, exporter.close
        self._wall = wall
        self._traces = Traces(config.sample)
        assert emit is not None
        self.calls = CallSpans(self._traces, emit, wall=self._at, providers=providers)
        self.runs = RunSpans(self._traces, emit)

    def told(self, kind: str, id: str, headers: Mapping[str, str]) -> None:
        """A run or a call was asked for by a request with these headers."""
        parent = headers.get("traceparent", "")
        if parent:
            self._traces.told(kind, id, parent, headers.get("tracestate", ""))

    def outgoing(self, call: Call) -> str:
        """The `traceparent` of the request that goes out for a call now."""
        return self.calls.outgoing(call.key, call.ticket.attempts)

    async def close(self) -> None:
        """Sends what is left."""
        if self._close is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._close, LAST_SECONDS, abandon_on_cancel=True)

    def _at(self, at: float) -> float:
        """A time on trio's clock as the wall's."""
        return self._wall() - trio.current_time() + at
