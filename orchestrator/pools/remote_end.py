"""The end of a run that no worker has: it was taken away, or has run out of time, and is brought to its end here."""

from collections.abc import Callable, Sequence

from agents.events import Event
from agents.loop import AgentRun
from agents.money import PriceList
from agents.port import ModelPort, Priority
from orchestrator.pools.remote_log import RemoteLog


class _Here:
    """Implements `agents.port.Journal` over the log that the run's workers appended to."""

    def __init__(self, log: RemoteLog, look: Callable[[], None]) -> None:
        self._log = log
        self._look = look

    async def append(self, events: Sequence[Event]) -> None:
        await self._log.append_here(events)
        self._look()


async def ending_of(
    own: AgentRun,
    log: RemoteLog,
    *,
    look: Callable[[], None],
    model: ModelPort,
    generation: int,
    wall: Callable[[], float],
    priority: Priority,
) -> AgentRun:
    """The run as its log has it, to be driven to its end; `own` knows its agent, its clocks and its limits. `look` is
    called when something was appended. Raises `StoreError`.
    """
    await log.whole()
    known = await log.known()
    ending = AgentRun.take_up(
        own.progress.agent,
        known.freeze(),
        model=model,
        journal=_Here(log, look),
        prices=PriceList({}),
        generation=generation,
        number=known.number,
        wall=wall,
        priority=priority,
    )
    # the same clocks to the last digit, or it could begin something in the moment that it seems to have left
    ending.scope.started, ending.scope.limits = own.scope.started, own.scope.limits
    ending.progress.expiry = own.progress.expiry
    return ending
