"""Backend, owner and instruments in one process, for as long as one job lasts: the daemon of the embedded mode.

Nothing here survives the process, and `capabilities` says so. Everything is started in one nursery and is gone when
the block is left, whatever the reason: the owner finishes the calls it holds, a local server's process is stopped.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio
from msgspec import Struct, field

from agents.errors import HeadraceError
from agents.owner_port import OwnerPort
from agents.port import Flow, Priority
from orchestrator.backend_choice import BackendChoice, check_reachable, make_backend, make_endpoint
from orchestrator.backends.base import Backend
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.simulated.script import Script
from orchestrator.groups import only
from orchestrator.local_service import serve_local
from orchestrator.owner import Owner, OwnerConfig
from orchestrator.policy.dispatch import DispatchConfig, TenantConfig
from orchestrator.policy.retry import RetryConfig
from orchestrator.transitions import Hook


class EmbeddedConfig(Struct, frozen=True, kw_only=True):
    """One backend, and the tenants that share it. `retries` are tries after the first.

    `script` says the simulated backend's answers.
    """

    backend: BackendChoice
    script: Script | None = None
    tenants: Mapping[str, TenantConfig] = {}
    retries: int = 5
    default_max_tokens: int = 1024


class EmbeddedCapabilities(Struct, frozen=True):
    """What the embedded mode can do for a run."""

    survives_restart: bool = False
    cancels: bool = True
    streams: bool = True


class Embedded(Struct, frozen=True):
    """What is running: hand `port` to agents."""

    owner: Owner
    backend: Backend
    model: str
    capabilities: EmbeddedCapabilities = field(default_factory=EmbeddedCapabilities)

    def port(self, flow: Flow, priority: Priority = Priority.STANDARD) -> OwnerPort:
        """A model for one run."""
        return OwnerPort(self.owner.inbox, flow, priority)

    def ended(self, flow: Flow) -> None:
        """The run of this flow makes no more calls."""
        self.owner.forget(flow)


@asynccontextmanager
async def open_embedded(
    config: EmbeddedConfig,
    *,
    hooks: Sequence[Hook] = (),
    on_turn: Callable[[float], None] | None = None,
    on_lost: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[Embedded, None]:
    """Starts the backend and its owner, and stops them on leaving.

    `on_turn` is told the seconds of each of the owner's turns. `on_lost` is told why, if a local server is given up
    after it had started; calls then fail as `Unavailable`.
    Raises `BackendError` where the backend cannot be reached or started, `InvalidLimits` for a bad configuration.
    """
    backend = make_backend(config.backend, config.script)
    endpoint = make_endpoint(config.backend, backend)
    await check_reachable(config.backend)
    owner = Owner(
        OwnerConfig(
            name=backend.name,
            dispatch=DispatchConfig(
                tenants=config.tenants,
                retry=RetryConfig(attempts=config.retries + 1),
                default_max_tokens=config.default_max_tokens,
            ),
        ),
        [endpoint],
        hooks=hooks,
        on_turn=on_turn,
    )
    try:
        async with trio.open_nursery() as nursery:
            if isinstance(backend, LocalBackend):
                await nursery.start(serve_local, backend, on_lost)
            await nursery.start(owner.run)
            yield Embedded(owner, backend, config.backend.model_name)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error = only(group, HeadraceError)
        if error is None:
            raise
        raise error from None
