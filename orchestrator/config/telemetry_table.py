"""`[telemetry]`: traces for an OpenTelemetry collector."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from agents.errors import InvalidLimits
from orchestrator.backends.secret import Secret
from orchestrator.telemetry.config import TelemetryConfig

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TelemetryTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[telemetry]`.

    With `enabled`, spans of runs and calls go to `endpoint`, an OTLP collector's address for traces over HTTP; not
    said, what OpenTelemetry's own variables say, or `http://localhost:4318/v1/traces`. `headers_env` maps names of
    headers to the environment variables that hold them. `sample` is the part of traces that are kept, where whoever
    asked did not decide already. Needs the extra `otel`.
    """

    enabled: bool = False
    endpoint: str = ""
    headers_env: dict[str, str] = {}
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0
    service_name: str = "headrace"

    def __post_init__(self) -> None:
        address = urlsplit(self.endpoint)
        if self.endpoint and (address.scheme not in ("http", "https") or not address.netloc):
            raise InvalidLimits("endpoint", f"must be an http or https address, not {self.endpoint[:80]!r}")
        for header, variable in self.headers_env.items():
            if not _VARIABLE.fullmatch(variable):
                # not quoted: it may well be the secret itself
                raise InvalidLimits(f"headers_env.{header}", "must be the name of an environment variable")

    def config(self, environ: Mapping[str, str] = os.environ) -> TelemetryConfig:
        """Raises `InvalidLimits` where a variable is not set."""
        headers = {}
        for header, variable in self.headers_env.items():
            if not environ.get(variable):
                raise InvalidLimits(f"telemetry.headers_env.{header}", f"the variable {variable} is not set")
            headers[header] = Secret(environ[variable])
        return TelemetryConfig(
            endpoint=self.endpoint, headers=headers, sample=self.sample, service_name=self.service_name
        )
