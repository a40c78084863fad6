"""Trees of runs in front of a real owner whose one endpoint has one slot."""

import trio
import trio.testing

from agents.lifecycle import State
from agents.messages import Delta, ModelReply, ModelRequest
from agents.owner_port import OwnerPort
from agents.port import Flow, ModelPort, Priority
from agents.scripted import Script, ScriptedModel
from orchestrator.backends.base import Connection, Progress
from orchestrator.owner import Owner
from orchestrator.runs.service import RunService
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.delegation.families import catalogue, script
from tests.owner.staged import StagedBackend, one_endpoint, running
from tests.runs.lasting import Kept, wall

Clock = trio.testing.MockClock


class ScriptedBackend(StagedBackend):
    """Answers from the history, and counts how many calls are under way at once."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.model = ScriptedModel(script, latency=1.0)

    def connect(self) -> Connection:
        return _ScriptedConnection(self)


class _ScriptedConnection:
    def __init__(self, backend: ScriptedBackend) -> None:
        self._backend = backend

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        backend = self._backend
        backend.busy += 1
        backend.peak = max(backend.peak, backend.busy)
        try:
            progress.connected()
            progress.written()
            progress.headers(())
            reply = await backend.model.call(request)
            await progress.deltas((Delta(reply.message.content),))
            progress.usage(reply.usage)
            return reply
        finally:
            backend.busy -= 1

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class Owned:
    """Implements `Models` over one owner."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def port(self, flow: Flow, priority: Priority) -> ModelPort:
        return OwnerPort(self._owner.inbox, flow, priority)

    def ended(self, flow: Flow) -> None:
        """The owner lets go of flows by itself."""


async def test_deep_and_wide_trees_share_one_slot(autojump_clock: Clock) -> None:
    """Four chains of nine runs and two chiefs of eight end together, one call at a time, and all books are even."""
    backend, store = ScriptedBackend(script(workers=8)), Kept()
    with trio.fail_after(100_000):
        async with running(one_endpoint(backend)) as owner, trio.open_nursery() as nursery:
            known = catalogue(depth=8)
            service = RunService(nursery, models=Owned(owner), catalogue=lambda: known, store=store, wall=wall)
            diggers = [RunRequest(task="0/8", who=AgentChoice(agent="digger"), tenant=f"t{n}") for n in range(4)]
            chiefs = [RunRequest(task="x", who=AgentChoice(agent="chief"), tenant="wide") for _ in range(2)]
            runs = [(await service.start(request)).run for request in (*diggers, *chiefs)]
            for run in runs:
                assert (await service.wait(run)).state is State.COMPLETED
            assert backend.peak == 1
            assert len(backend.model.requests) == 4 * 17 + 2 * (2 + 8 * 2)
            assert (await service.page(size=100)).total == 4 * 9 + 2 * 9
            await service.end_all()


async def test_cancelling_the_root_empties_the_queue(autojump_clock: Clock) -> None:
    """Children that wait for the slot leave the queue with their root, and the owner's books are even at once."""
    backend = ScriptedBackend(script(workers=8))
    with trio.fail_after(100_000):
        async with running(one_endpoint(backend)) as owner, trio.open_nursery() as nursery:
            known = catalogue()
            service = RunService(nursery, models=Owned(owner), catalogue=lambda: known, store=Kept(), wall=wall)
            run = (await service.start(RunRequest(task="x", who=AgentChoice(agent="chief")))).run
            await trio.sleep(2.5)
            assert owner.statistics().queued == 6
            await service.cancel(run)
            assert (await service.wait(run)).reason == "cancelled"
            assert trio.current_time() == 2.5
            assert (owner.statistics().queued, backend.busy) == (0, 0)
            await service.end_all()
