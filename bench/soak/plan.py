"""How much a soak does, and the daemon that it does it to."""

from typing import Final

from msgspec import Struct

HEADROOM: Final = 0.98
"""The part of the provider's limit that the daemon is told of."""

CONFIG: Final = """
[backends.provider]
kind = "openai"
base_url = "{provider}"
rpm = {rpm}
concurrency = {{ initial = 64, at_most = 512 }}
clocks = {{ silence = 10 }}

[models.m]
backends = ["provider"]

[tools.look]
function = "bench.pool_tool:look"
read_only = true

[agents.worker]
model = "m"
tools = ["look"]
max_tokens = 32

[tenants.agents]
weight = 1

[tenants.people]
weight = 4

[daemon]
max_live_runs = 20000
runs_per_tenant = 20000
keep_ended_runs = 1000000
"""


class Plan(Struct, frozen=True, kw_only=True):
    """`seconds` under load, after a `warm_up` that is not judged: its agents all began at once, and caches fill.

    `agents` live at all times, `clients` with a call at a time each, half of them streaming. One call in fifty is left
    by its client. The provider allows `rpm` requests a minute.
    """

    seconds: float = 60.0
    agents: int = 200
    clients: int = 30
    rpm: float = 3_000.0
    warm_up: float = 0.0

    def file(self, provider: str) -> str:
        """The daemon's configuration."""
        return CONFIG.format(provider=provider.rstrip("/"), rpm=self.rpm * HEADROOM)
