"""Jobs through the real run service and a real owner."""

from contextlib import aclosing
from pathlib import Path

import msgspec
import trio
import trio.testing

from agents.errors import Refused
from agents.messages import ModelRequest
from agents.owner_port import OwnerPort
from agents.port import Flow, Priority
from orchestrator.jobs.service import JobService
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.runs.service import RunService
from orchestrator.views.runs import AgentChoice
from tests.jobs_daemon.fake_runs import CATALOGUE, REQUEST, feed, lines, read, until_ended
from tests.owner.staged import StagedBackend, running

replace = msgspec.structs.replace


SHORT = AgentChoice(max_tokens=2)
"""Answers of a known length, so that no learning what they cost stands between weights and shares."""


class Models:
    """One owner behind every model."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def port(self, flow: Flow, priority: Priority) -> OwnerPort:
        return OwnerPort(self._owner.inbox, flow, priority)

    def ended(self, flow: Flow) -> None:
        self._owner.forget(flow)


def _owner(backend: StagedBackend) -> Owner:
    return Owner(OwnerConfig("b", DispatchConfig()), [Endpoint("e", backend, concurrency=ConcurrencyConfig(fixed=4))])


async def test_two_jobs_of_one_tenant_share_by_weight(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """With weights 3 and 1, three quarters of the calls served while both have work are the heavy job's."""
    owner = _owner(StagedBackend(step=0.1))
    async with running(owner), trio.open_nursery() as nursery:
        runs = RunService(nursery, models=Models(owner), catalogue=lambda: CATALOGUE)
        service = JobService(
            nursery,
            tmp_path,
            runs=runs,
            catalogue=lambda: CATALOGUE,
            on_weight=owner.policy.fair.set_job_weight,
        )
        await service.open()
        for job, weight in (("heavy", 3.0), ("light", 1.0)):
            await service.create(replace(REQUEST, job=job, tenant="acme", weight=weight, workers=30, who=SHORT))
        for job in ("light", "heavy"):
            await feed(service, job, lines(range(240)))
        async with aclosing(service.watch("heavy")) as views:
            async for view in views:
                if view.done >= 200:
                    break
        done = service.view("light").done
        heavy = service.view("heavy").done
        assert heavy / 3 * 0.85 <= done <= heavy / 3 * 1.15
        assert (await until_ended(service, "light")).done == 240
        view = service.view("heavy")
        assert (view.phase, view.done, view.usage.output) == ("done", 240, 480)
        assert (await runs.page(job="heavy")).total == 240
        assert {line.value for line in await read(service, "heavy")} == {"one two"}


async def test_a_wrong_key_ends_a_job_through_the_real_way_of_a_call(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The fuse sees what the owner made of the provider's refusal, and one message ends the job."""
    backend = StagedBackend(step=0.1)

    def refuse(n: int, request: ModelRequest) -> Refused:
        return Refused("401: the key is wrong", status=401, endpoint_fault=True)

    backend.plan = refuse
    owner = _owner(backend)
    async with running(owner), trio.open_nursery() as nursery:
        runs = RunService(nursery, models=Models(owner), catalogue=lambda: CATALOGUE)
        service = JobService(nursery, tmp_path, runs=runs, catalogue=lambda: CATALOGUE)
        await service.open()
        await service.create(replace(REQUEST, workers=8))
        await feed(service, "j", lines(range(500)))
        view = await until_ended(service, "j")
        assert view.phase == "stopped"
        assert "401: the key is wrong" in view.message
        assert view.done + view.failed + view.cancelled <= 20
        assert runs.statistics().live == 0
