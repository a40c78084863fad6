"""What tracing is told: where spans go, with what headers, how many of them."""

from collections.abc import Mapping

from msgspec import Struct

from agents.errors import HeadraceError
from orchestrator.backends.secret import Secret


class TelemetryConfig(Struct, frozen=True, kw_only=True):
    """`endpoint` is an OTLP collector's address for traces over HTTP; empty, what OpenTelemetry's own variables say, or
    `http://localhost:4318/v1/traces`. `sample` is the part of traces without a parent that are kept, 0 to 1.
    """

    endpoint: str = ""
    headers: Mapping[str, Secret] = {}
    sample: float = 1.0
    service_name: str = ""


class TelemetryNotInstalled(HeadraceError):
    """The packages for traces are not there."""

    def __init__(self) -> None:
        super().__init__('[telemetry] is on, and OpenTelemetry is not installed: pip install "headrace[otel]"')
