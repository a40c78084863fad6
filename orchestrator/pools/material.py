"""What a worker is given to drive a run with."""

from collections.abc import Mapping

import trio

from agents.budget import Scope
from agents.spec import AgentSpec
from orchestrator.store.base import PAGE, Record, Store
from orchestrator.views.workers import AgentMaterial, ScopeView


def agent_material(agent: AgentSpec) -> AgentMaterial:
    """The agent, its tools by name."""
    return AgentMaterial(
        name=agent.name,
        model=agent.model,
        system=agent.system,
        tools=tuple(tool.name for tool in agent.tools),
        limits=agent.limits,
        demonstration=agent.demonstration,
        max_tokens=agent.max_tokens,
        output_floor=agent.output_floor,
        temperature=agent.temperature,
        seed=agent.seed,
        stop=agent.stop,
        tool_choice=dict(agent.tool_choice) if isinstance(agent.tool_choice, Mapping) else agent.tool_choice,
        response_format=None if agent.response_format is None else dict(agent.response_format),
        on_tool_error=agent.on_tool_error,
        tool_concurrency=agent.tool_concurrency,
        extra=dict(agent.extra),
        compact_at=agent.compact_at,
        compact_keep=agent.compact_keep,
    )


def views_above(own: Scope) -> tuple[ScopeView, ...]:
    """The budgets above a run, with what all others have in them. A share may be below nothing: a budget of today does
    not have what the run used yesterday, and the worker adds the run's own to it.
    """
    now = trio.current_time()
    return tuple(
        ScopeView(
            name=scope.name,
            limits=scope.limits,
            used=scope.used - own.used,
            reserved=scope.reserved - own.reserved,
            unknown=scope.unknown - own.unknown,
            elapsed=None if scope.started is None else now - scope.started,
        )
        for scope in own.path()[:-1]
    )


async def records_after(store: Store, session: str, number: int) -> list[Record]:
    """All records of a session behind a number."""
    found: list[Record] = []
    while True:
        page = await store.read(session, number)
        found += page
        if len(page) < PAGE:
            return found
        number = page[-1].number
