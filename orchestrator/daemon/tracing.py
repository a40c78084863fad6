"""Traces as the configuration says, plugged into what makes them; where they are off, nothing is."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from orchestrator.config.backend_tables import AnthropicTable, LocalTable, OpenAITable, SimulatedTable
from orchestrator.config.schema import Config
from orchestrator.instruments.watched import RunWatcher
from orchestrator.telemetry.telemetry import Telemetry
from orchestrator.transitions import Hook

PROVIDERS: Final[Mapping[type, str]] = {
    OpenAITable: "openai",
    AnthropicTable: "anthropic",
    LocalTable: "llama.cpp",
    SimulatedTable: "simulated",
}
"""What kind of model server a backend is, for `gen_ai.provider.name`."""


def telemetry_of(config: Config) -> Telemetry | None:
    """None where it is off. Raises `TelemetryNotInstalled`, `InvalidLimits`."""
    if not config.telemetry.enabled:
        return None
    kinds = {name: PROVIDERS.get(type(table), "custom") for name, table in config.backends.items()}
    return Telemetry(config.telemetry.config(), wall=time.time, providers=lambda backend: kinds.get(backend, backend))


def calls_traced(telemetry: Telemetry | None) -> list[Hook]:
    """Hooks for owners."""
    return [] if telemetry is None else [telemetry.calls]


def runs_traced(telemetry: Telemetry | None) -> tuple[RunWatcher, ...]:
    """Watchers of runs."""
    return () if telemetry is None else (telemetry.runs,)


def tools_traced(telemetry: Telemetry | None) -> Callable[[str], str]:
    """What goes with a tool call to its server."""
    return (lambda key: "") if telemetry is None else telemetry.runs.outgoing


def requests_traced(telemetry: Telemetry | None) -> Callable[[str, Mapping[str, str]], None]:
    """What a call's request says of its trace."""
    if telemetry is None:
        return lambda key, headers: None
    return lambda key, headers: telemetry.told("call", key, headers)
