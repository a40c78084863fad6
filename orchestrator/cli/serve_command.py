"""What `headrace serve` does, from a configuration to an exit code: signals, and words for whoever started it.

| signal          | what it does                                                                           |
|-----------------|----------------------------------------------------------------------------------------|
| SIGTERM, SIGINT | takes nothing new, lets what is live end, and exits; before it is up, it exits at once |
| the same again  | exits without waiting                                                                  |
| SIGHUP          | reads the configuration again: all of it or nothing                                    |
"""

import resource
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import structlog
import trio

from agents.errors import HeadraceError
from orchestrator.backend_choice import BackendError
from orchestrator.backends.anthropic.backend import AnthropicBackend
from orchestrator.backends.base import Backend
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.openai.backend import OpenAIBackend
from orchestrator.backends.simulated.backend import SimulatedBackend
from orchestrator.cli.exits import BACKEND, DONE, USAGE, complain, say
from orchestrator.config.schema import Config
from orchestrator.daemon.daemon import Daemon
from orchestrator.daemon.notify import notify
from orchestrator.daemon.standby import LeaseLost
from orchestrator.groups import only
from orchestrator.instruments.log import configure_logging
from orchestrator.store.errors import StoreAway, StoreUnreachable
from orchestrator.version import version

Load = Callable[[], Config]


async def serve(config: Config, load: Load) -> int:
    """Runs a daemon until a signal ends it; `load` reads the configuration again for a reload."""
    allow_many_files()
    configure_logging(json=config.daemon.log == "json", level=config.daemon.log_level)
    try:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            return await _Serving(Daemon(config, load=load)).run(signals)
    except HeadraceError as error:
        return _fail(error)
    except BaseExceptionGroup as group:
        cause = only(group, HeadraceError)
        if cause is None:
            raise
        return _fail(cause)


def allow_many_files() -> None:
    """Takes as many open files as the system allows: a connection is one, and the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a sandbox may forbid it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _fail(error: HeadraceError) -> int:
    complain(error.message)
    return BACKEND if isinstance(error, BackendError | LeaseLost | StoreAway | StoreUnreachable) else USAGE


class _Serving:
    """One daemon and the signals that it gets."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._log = structlog.get_logger("headrace")
        self._up = False
        self._ending = False
        self._interrupted = 0
        self._scope = trio.CancelScope()

    async def run(self, signals: AsyncIterator[int]) -> int:
        """Serves until it has ended."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, signals)
            with self._scope:
                async with trio.open_nursery() as daemon:
                    urls = await daemon.start(self._daemon.run)
                    self._up = True
                    self._greet(urls)
                    notify("READY=1")
            nursery.cancel_scope.cancel()
        return 128 + self._interrupted if self._interrupted else DONE

    async def _listen(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                if self._up:
                    await self._daemon.reload()
            elif not self._up:
                self._interrupted = number
                self._scope.cancel()
            elif self._ending:
                self._log.warning("ending at once", signal=signal.Signals(number).name)
                self._daemon.hurry()
            else:
                self._ending = True
                self._log.info("ending, once more to end at once", signal=signal.Signals(number).name)
                notify("STOPPING=1")
                self._daemon.end()

    def _greet(self, urls: Sequence[str]) -> None:
        config = self._daemon.config
        say(f"headrace {version()} serves {', '.join(urls)}, configured by {config.source or 'its options'}")
        for owner in self._daemon.owners.by_name.values():
            for endpoint in owner.endpoints:
                limits = ", ".join(f"{spec.amount:g} {spec.name}" for spec in endpoint.limits) or "no limits"
                name = (
                    owner.config.name if endpoint.name == owner.config.name else f"{owner.config.name}.{endpoint.name}"
                )
                say(f"  {name}: {_place(endpoint.backend)}, {limits}")


def _place(backend: Backend) -> str:
    """Where answers come from, for a person."""
    if isinstance(backend, OpenAIBackend | AnthropicBackend):
        return backend.config.base_url
    if isinstance(backend, LocalBackend):
        return f"a llama.cpp server of its own with {backend.slots} slots"
    if isinstance(backend, SimulatedBackend):
        return "the simulated provider"
    return backend.capabilities().dialect
