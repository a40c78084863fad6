"""A run service as a runtime: what it says of itself, and what it takes."""

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from agents.lifecycle import StopReason
from agents.messages import Message
from agents.port import Priority
from agents.runtime import (
    Capabilities,
    IllegalCapabilities,
    Runtime,
    UnknownRun,
    Unsupported,
    validate_capabilities,
)
from agents.runtime_material import FOREVER, LOOK, material
from orchestrator.catalogue import UnknownAgent
from orchestrator.runs.runtime import ServiceRuntime
from tests.runs.running import AGENTS, CATALOGUE, running
from tests.runtime.runtimes import service_in_memory, service_on_disk

Clock = trio.testing.MockClock


async def test_runs_survive_where_the_store_does(autojump_clock: Clock) -> None:
    """What it says of restarts is what its store says."""
    async with service_in_memory(material(1)) as memory, service_on_disk(material(1)) as disk:
        assert not memory.runtime.capabilities().survives_restart
        assert disk.runtime.capabilities().survives_restart


async def test_an_agent_is_taken_by_its_name(autojump_clock: Clock) -> None:
    """One that is not configured, or otherwise, could not be found again by a later process, and is refused."""
    made = material(1)
    async with service_on_disk(made) as subject:
        stranger = replace(made.agents["looker"], name="stranger")
        with pytest.raises(UnknownAgent, match="stranger"):
            await subject.runtime.start(stranger, LOOK, run="mine")
        with pytest.raises(UnknownAgent, match="looker that is configured here is another one"):
            await subject.runtime.start(replace(made.agents["looker"], seed=3), LOOK, run="mine")
        with pytest.raises(Unsupported, match="a task in words"):
            await subject.runtime.start(made.agents["looker"], (Message("user", LOOK),), run="mine")
        with pytest.raises(UnknownRun):
            await subject.runtime.poll("mine")


async def test_a_run_has_the_expiry_and_priority_it_was_given(autojump_clock: Clock) -> None:
    """The expiry is on trio's clock, as for every runtime, and goes through a restart."""
    made = material(1)
    forever = made.agents["looker"]
    async with service_on_disk(made) as subject:
        run = await subject.runtime.start(forever, FOREVER, expiry=trio.current_time() + 7)
        await trio.sleep(2)
        assert subject.restart is not None
        runtime: Runtime = await subject.restart()
        assert (await runtime.wait(run)).reason is StopReason.EXPIRED
        assert trio.current_time() == pytest.approx(7)
    async with running() as world:
        service = ServiceRuntime(world.service, lambda: CATALOGUE, tenant="guest")
        run = await service.start(AGENTS["seeker"], "x", priority=Priority.BATCH)
        await service.wait(run)
        view = await world.service.view(run)
        assert (view.priority, view.tenant) == ("batch", "guest")


async def test_a_run_that_is_not_kept_any_more_is_unknown(autojump_clock: Clock) -> None:
    """A service in memory keeps so many ended runs; what it let go of, it does not make up."""
    async with running(keep_ended=0) as world:
        service = ServiceRuntime(world.service, lambda: CATALOGUE)
        run = await service.start(AGENTS["seeker"], "x")
        with pytest.raises(UnknownRun):
            await service.wait(run)
        with pytest.raises(UnknownRun):
            await service.poll(run)


def test_capabilities_are_plain_and_not_taken_back() -> None:
    """More may be promised than before, never less, and only in yes and no."""
    little = Capabilities(survives_restart=False, cancels=True, streams=False, scores=False)
    much = replace(little, streams=True)
    validate_capabilities(None, little)
    validate_capabilities(little, much)
    with pytest.raises(IllegalCapabilities, match="streams was promised before"):
        validate_capabilities(much, little)
    with pytest.raises(IllegalCapabilities, match="scores must be true or false, not 'maybe'"):
        validate_capabilities(None, replace(little, scores="maybe"))
