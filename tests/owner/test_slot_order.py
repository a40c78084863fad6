"""In which order calls reach a backend."""

import trio
import trio.testing

from agents.messages import Message, ModelReply, ModelRequest, Usage
from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.backends.base import Capabilities, Connection, Progress
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.transitions import Transition

AT_ONCE, ROUNDS = 6, 20


class Gate:
    """A backend that notes who comes, and lets all that came go at the same moment."""

    name = "gate"

    def __init__(self) -> None:
        self.came: list[str] = []
        self._open = trio.Event()

    def capabilities(self) -> Capabilities:
        return Capabilities("gate")

    def connect(self) -> Connection:
        return self

    def release(self) -> None:
        gate, self._open = self._open, trio.Event()
        gate.set()

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        self.came.append(request.model)
        progress.written()
        await self._open.wait()
        return ModelReply(Message("assistant", ""), "stop", Usage(1, None, None, 1))

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_calls_reach_the_backend_as_they_were_dispatched(autojump_clock: trio.testing.MockClock) -> None:
    """However trio orders the slots that wake at one moment, calls are sent in the order of the owner's decisions."""
    gate, dispatched = Gate(), list[str]()

    def note(transition: Transition) -> None:
        if transition.kind == "started":
            dispatched.append(transition.model)

    endpoint = Endpoint("gate", gate, concurrency=ConcurrencyConfig(fixed=AT_ONCE))
    owner = Owner(OwnerConfig("gate"), [endpoint], hooks=[note])
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        for number in range(AT_ONCE * ROUNDS):
            run = str(number)
            request = ModelRequest(run, (Message("user", "x"),))
            nursery.start_soon(OwnerPort(owner.inbox, Flow("t", "j", run)).call, request)
        for _ in range(ROUNDS):
            await trio.testing.wait_all_tasks_blocked()
            gate.release()
        await trio.testing.wait_all_tasks_blocked()
        owner.close()
    assert len(gate.came) == AT_ONCE * ROUNDS
    assert gate.came == dispatched
