"""Sustained load on an owner in front of the simulated provider, in virtual time."""

from collections.abc import Sequence

import trio
from msgspec import Struct

from agents.errors import ModelError
from agents.messages import Message, ModelRequest
from agents.port import Flow, OwnerPort, Priority
from orchestrator.backends.simulated import SimProvider, SimulatedBackend
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.limits import LimitSpec


class Load(Struct):
    """`agents` of one tenant that call again as soon as they are answered."""

    tenant: str
    agents: int
    words: int = 50
    max_tokens: int = 100
    priority: Priority = Priority.STANDARD


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

    async def agent(load: Load, number: int) -> None:
        port = OwnerPort(owner.inbox, Flow(load.tenant, "job", f"run-{number}"), load.priority)
        for turn in range(1_000_000):
            text = f"{number} {turn} " + "word " * load.words
            try:
                await port.call(ModelRequest("sim", (Message("user", text),), max_tokens=load.max_tokens))
            except ModelError:
                await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        for load in loads:
            for number in range(load.agents):
                nursery.start_soon(agent, load, number)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    return owner
