"""Agents on their way to a worker."""

from types import MappingProxyType

import msgspec

from agents.amounts import Limits
from agents.messages import Message
from agents.spec import AgentSpec
from agents.tools import tool
from orchestrator.pools.material import agent_material
from orchestrator.views.workers import AgentMaterial


@tool()
def ring() -> str:
    """Rings."""
    return "rung"


def test_nothing_of_an_agent_is_left_behind() -> None:
    """Whatever an agent is made of has a place in what a worker is told."""
    assert set(AgentMaterial.__struct_fields__) == set(AgentSpec.__struct_fields__)


def test_an_agent_arrives_as_it_was() -> None:
    """Read back from JSON it says the same, with its tools by name."""
    agent = AgentSpec(
        name="bell",
        model="small",
        system="Ring.",
        tools=(ring,),
        limits=Limits(rounds=3),
        demonstration=(Message("user", "ring"),),
        response_format=MappingProxyType({"type": "json_object"}),
        extra={"top_k": 3},
    )
    back = msgspec.json.decode(msgspec.json.encode(agent_material(agent)), type=AgentMaterial)
    assert back.tools == ("ring",)
    for field in set(AgentSpec.__struct_fields__) - {"tools"}:
        assert getattr(back, field) == getattr(agent, field), field
