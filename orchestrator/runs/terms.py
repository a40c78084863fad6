"""What whoever wants a run's result gives it."""

from collections.abc import Callable

from agents.budget import Scope
from agents.port import ModelPort
from agents.spawner import ChildRequest
from agents.spec import AgentSpec


class Terms:
    """What whoever wants a run's result gives it: an agent in place of the one that was asked for, a budget above it in
    place of its tenant's, something around its model. `child` is what a parent's call asks for.
    """

    __slots__ = ("agent", "budget", "child", "model", "through")

    def __init__(
        self,
        *,
        agent: AgentSpec | None = None,
        budget: Scope | None = None,
        through: Callable[[ModelPort], ModelPort] = lambda port: port,
        child: ChildRequest | None = None,
    ) -> None:
        self.agent = agent
        self.child = child
        self.budget = budget
        self.through = through
        self.model: ModelPort | None = None
