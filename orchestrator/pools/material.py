"""What a worker is given to drive a run with."""

from collections.abc import Mapping, Sequence
from typing import Any

import trio
from msgspec import Raw

from agents.budget import Scope
from agents.money import Price
from agents.port import Priority
from agents.spec import AgentSpec
from orchestrator.store.base import PAGE, Record, Store
from orchestrator.views.workers import AgentMaterial, RunMaterial, ScopeView


def agent_material(agent: AgentSpec) -> AgentMaterial:
    """The agent, its tools by name."""
    said: dict[str, Any] = {name: getattr(agent, name) for name in AgentMaterial.__struct_fields__}
    said |= {name: dict(value) for name, value in said.items() if isinstance(value, Mapping)}
    said["tools"] = tuple(tool.name for tool in agent.tools)
    return AgentMaterial(**said)


def run_material(
    agent: AgentSpec,
    records: Sequence[Record],
    *,
    generation: int,
    priority: Priority,
    scope: Scope,
    price: Price | None,
) -> RunMaterial:
    """All of it. `records` are those of the run's session, the first to the last; `scope` is the run's own."""
    return RunMaterial(
        agent=agent_material(agent),
        generation=generation,
        number=len(records),
        records=tuple(Raw(record.data) for record in records),
        priority=int(priority),
        above=views_above(scope),
        price=price,
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
