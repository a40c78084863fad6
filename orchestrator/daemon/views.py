"""What the daemon shows of itself as a whole."""

import time
from collections import Counter
from collections.abc import Callable, Sequence

import trio

from orchestrator.board import Board
from orchestrator.catalogue import Catalogue
from orchestrator.daemon.owners import Owners
from orchestrator.instruments.tools import Running
from orchestrator.jobs.service import JobService
from orchestrator.pools.pool import Pool
from orchestrator.runs.service import RunService
from orchestrator.tools.mcp import McpServers
from orchestrator.version import version
from orchestrator.views.queue import (
    AgentFacts,
    BudgetView,
    CapabilitiesView,
    ModelFacts,
    QueueView,
    ToolServerView,
    ToolWorkView,
)


class Views:
    """The queue and the capabilities of one daemon. `draining` says whether it is ending; `running` are the tool calls
    at work, the longest first.
    """

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
        budgets: Callable[[], list[BudgetView]],
        running: Callable[[], list[Running]],
    ) -> None:
        self._board = board
        self._owners = owners
        self._servers = servers
        self._runs = runs
        self._jobs = jobs
        self._catalogue = catalogue
        self._draining = draining
        self._pool = pool
        self._budgets = budgets
        self._running = running
        self._began = trio.current_time()

    async def queue(self) -> QueueView:
        """Everything at this moment."""
        now = trio.current_time()
        approvals, oldest = self._runs.approvals.standing()
        return QueueView(
            now=time.time(),
            uptime=now - self._began,
            version=version(),
            draining=self._draining(),
            backends=self._board.backends(tuple(self._owners.by_name.values()), now),
            runs=await self._runs.states(),
            jobs=self._jobs.live,
            pool=None if self._pool is None else self._pool.view(),
            approvals=approvals,
            oldest_approval=oldest,
            budgets=tuple(self._budgets()),
            tools=tools_at_work(self._running(), now),
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


def tools_at_work(running: Sequence[Running], now: float) -> tuple[ToolWorkView, ...]:
    """Each tool that works, with its longest call; of calls that are given the longest first."""
    counts = Counter(call.tool for call in running)
    longest = {call.tool: call for call in reversed(running)}
    views = [
        ToolWorkView(tool=tool, running=count, longest=max(0.0, now - longest[tool].since), run=longest[tool].run)
        for tool, count in counts.items()
    ]
    return tuple(sorted(views, key=lambda view: (-view.longest, view.tool)))


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
