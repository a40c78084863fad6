"""Sustained load on an owner in front of the simulated provider, in virtual time."""

from collections.abc import Sequence

import trio
from msgspec import Struct, field

from agents.errors import ModelError
from agents.messages import Message, ModelRequest
from agents.owner_port import OwnerPort
from agents.port import Flow, Priority
from orchestrator.backends.simulated.backend import SimProvider, SimulatedBackend
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.limits import LimitSpec


class Waits(Struct):
    """The calls of one load that were answered, and the seconds they took."""

    count: int = 0
    total: float = 0.0
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)

    @property
    def mean(self) -> float:
        return self.total / self.count


class Load(Struct):
    """`agents` of one tenant that call again `think` seconds after they were answered, as a new run if `fresh`."""

    tenant: str
    agents: int
    words: int = 50
    max_tokens: int = 100
    priority: Priority = Priority.STANDARD
    think: float = 0.0
    fresh: bool = False
    waits: Waits = field(default_factory=Waits)


async def run_load(
    provider: SimProvider,
    loads: Sequence[Load],
    *,
    seconds: float,
    limits: Sequence[LimitSpec] = (),
    dispatch: DispatchConfig | None = None,
    slots: int = 256,
) -> Owner:
    """Runs the agents for so many virtual seconds; returns the owner, for its statistics."""
    endpoint = Endpoint(
        "sim", SimulatedBackend("sim", provider), tuple(limits), concurrency=ConcurrencyConfig(fixed=slots)
    )
    owner = Owner(OwnerConfig("sim", dispatch or DispatchConfig()), [endpoint])
    await drive(owner, loads, seconds=seconds)
    return owner


async def drive(owner: Owner, loads: Sequence[Load], *, seconds: float) -> None:
    """Runs the owner and the agents for so many virtual seconds."""

    async def agent(load: Load, number: int) -> None:
        for turn in range(1_000_000):
            run = f"run-{number}-{turn}" if load.fresh else f"run-{number}"
            port = OwnerPort(owner.inbox, Flow(load.tenant, "job", run), load.priority)
            text = f"{number} {turn} " + "word " * load.words
            began = trio.current_time()
            try:
                await port.call(ModelRequest("sim", (Message("user", text),), max_tokens=load.max_tokens))
                load.waits.add(trio.current_time() - began)
                await trio.sleep(load.think)
            except ModelError:
                await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        for load in loads:
            for number in range(load.agents):
                nursery.start_soon(agent, load, number)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
