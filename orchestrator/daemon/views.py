"""What the daemon shows of itself as a whole."""

import time
from collections.abc import Callable

import trio

from orchestrator.board import Board
from orchestrator.catalogue import Catalogue
from orchestrator.daemon.owners import Owners
from orchestrator.jobs.service import JobService
from orchestrator.pools.pool import Pool
from orchestrator.runs.service import RunService
from orchestrator.tools.mcp import McpServers
from orchestrator.version import version
from orchestrator.views.queue import AgentFacts, CapabilitiesView, ModelFacts, QueueView, ToolServerView


class Views:
    """The queue and the capabilities of one daemon. `draining` says whether it is ending."""

    def __init__(
        self,
        *,
        board: Board,
        owners: Owners,
        servers: McpServers,
        runs: RunService,
        jobs: JobService,
        catalogue: Callable[[], Catalogue],
        draining: Callable[[], bool],
        pool: Pool | None,
    ) -> None:
        self._board = board
        self._owners = owners
        self._servers = servers
        self._runs = runs
        self._jobs = jobs
        self._catalogue = catalogue
        self._draining = draining
        self._pool = pool
        self._began = trio.current_time()

    async def queue(self) -> QueueView:
        """Everything at this moment."""
        now = trio.current_time()
        return QueueView(
            now=time.time(),
            uptime=now - self._began,
            version=version(),
            draining=self._draining(),
            backends=self._board.backends(tuple(self._owners.by_name.values()), now),
            runs=await self._runs.states(),
            jobs=self._jobs.live,
            pool=None if self._pool is None else self._pool.view(),
        )

    def capabilities(self) -> CapabilitiesView:
        """What there is by name, and what a run can rely on."""
        catalogue = self._catalogue()
        return CapabilitiesView(
            version=version(),
            survives_restart=self._runs.store.durable,
            cancels=True,
            streams=True,
            models=tuple(catalogue.models),
            default_model=catalogue.default_model,
            agents=tuple(catalogue.agents),
            tenants=tuple(catalogue.tenants),
            tool_servers=tuple(
                ToolServerView(
                    name=server.name,
                    state=server.state,
                    tools=server.tools,
                    starts=server.starts,
                    problem=server.problem,
                    next_try=server.next_try,
                )
                for server in self._servers.status()
            ),
            model_facts={model: _model_facts(catalogue, model) for model in catalogue.models},
            agent_facts={name: _agent_facts(catalogue, name) for name in catalogue.agents},
        )


def _model_facts(catalogue: Catalogue, model: str) -> ModelFacts:
    price = catalogue.prices.price(model)
    return ModelFacts(
        backends=tuple(target.backend for target in catalogue.targets(model)),
        max_output=catalogue.longest(model),
        input_price=None if price is None else price.input,
        output_price=None if price is None else price.output,
    )


def _agent_facts(catalogue: Catalogue, name: str) -> AgentFacts:
    agent = catalogue.agents[name]
    return AgentFacts(
        model=agent.model,
        max_tokens=agent.max_tokens,
        system_bytes=len(agent.system.encode()),
        tools=len(agent.tools) + len(catalogue.elsewhere.get(name, ())),
    )
