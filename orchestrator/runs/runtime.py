"""A run service as a runtime, for programs that have the agents themselves and want to start, poll and cancel runs.

Runs outlive the process where the service's store does: then the next service over that store takes them up, and finds
their agents by name. So an agent is only taken here if the service knows it by its name, and as the same.
"""

import math
import secrets
from collections.abc import Callable
from typing import Literal

import trio

from agents.budget import Scope
from agents.fold import result_of
from agents.messages import Message
from agents.observation import Observation
from agents.port import Priority
from agents.result import RunResult
from agents.runtime import Capabilities, Need, UnknownRun, Unsupported
from agents.spec import AgentSpec
from orchestrator.catalogue import Catalogue, UnknownAgent
from orchestrator.runs.priorities import PRIORITY_NAMES
from orchestrator.runs.reading import read_run
from orchestrator.runs.service import RunService
from orchestrator.views.runs import AgentChoice, RunRequest, RunView


class ServiceRuntime:
    """Implements `agents.runtime.Runtime` over a service, for one tenant. `catalogue` is the service's own.

    A `budget` given to `start` counts in this process: a run that another one takes up is below its tenant's.
    """

    def __init__(self, service: RunService, catalogue: Callable[[], Catalogue], *, tenant: str = "default") -> None:
        self._service = service
        self._catalogue = catalogue
        self._tenant = tenant

    def capabilities(self) -> Capabilities:
        durable = self._service.store.durable
        return Capabilities(survives_restart=durable, cancels=True, streams=False, scores=False)

    async def start(
        self,
        agent: AgentSpec,
        task: str | tuple[Message, ...],
        *,
        run: str = "",
        needs: frozenset[Need] = frozenset(),
        budget: Scope | None = None,
        priority: Priority | None = None,
        expiry: float = math.inf,
    ) -> str:
        """As every runtime does; also raises what `RunService.start` raises, `UnknownAgent` among it."""
        lacking = self.capabilities().lacks(needs)
        if lacking:
            raise Unsupported(f"this run service cannot do this: {', '.join(lacking)}")
        if not isinstance(task, str):
            raise Unsupported("a run service takes a task in words; go on with a session to go on with a conversation")
        if self._catalogue().agent(AgentChoice(agent=agent.name)) != agent:
            raise UnknownAgent(f"the agent {agent.name} that is configured here is another one")
        request = RunRequest(
            task=task,
            who=AgentChoice(agent=agent.name),
            run=run or secrets.token_hex(8),
            tenant=self._tenant,
            priority=None if priority is None else PRIORITY_NAMES[priority],
            expires_in=None if math.isinf(expiry) else expiry - trio.current_time(),
        )
        return (await self._service.start(request, budget=budget)).run

    async def poll(self, run: str) -> Observation:
        return _seen(await self._service.view(run))

    async def cancel(self, run: str, reason: Literal["cancelled", "interrupted"] = "cancelled") -> Observation:
        return _seen(await self._service.cancel(run, reason))

    async def wait(self, run: str) -> RunResult:
        """The result, when the run has ended. Raises `UnknownRun`, and `Draining` where this process ends before it."""
        await self._service.wait(run)
        row = await self._service.store.run(run)
        if row is None:
            raise UnknownRun(f"run {run} has ended, and is not kept any more")
        return result_of((await read_run(self._service.store, row)).snapshot)

    def __repr__(self) -> str:
        return f"<ServiceRuntime {self._service!r}>"


def _seen(view: RunView) -> Observation:
    return Observation(view.run, view.state, view.reason, view.usage)
