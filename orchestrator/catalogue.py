"""What the daemon knows by name: models, agents, tenants, prices. Built from the configuration, replaced at a reload.

Whoever starts something looks it up once and keeps what it got, so a reload never changes a run under way.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from agents.errors import HeadraceError, InvalidLimits, UnknownModel
from agents.money import PriceList, Prices
from agents.port import Priority
from agents.spec import DEFAULT_MAX_TOKENS, AgentSpec
from agents.tools import BaseTool
from orchestrator.views.runs import AgentChoice


class ToolSource(Protocol):
    """Where tools come from that are not known before somebody asks for them."""

    def named(self, names: Iterable[str]) -> tuple[BaseTool, ...]:
        """The tools of these names. Raises `HeadraceError` where they cannot be had now."""
        ...


ANY_MODEL = "*"
"""In `models`: any name that is not there, sent on as it is."""


LONGEST_MODEL = 256
"""Characters in the name of a model that is not configured; known ones have at most half as many."""


class UnknownAgent(HeadraceError):
    """No agent of this name is configured."""


class Target(Struct, frozen=True):
    """One backend that serves a model, and what the model is called there."""

    backend: str
    model: str


class TenantRules(Struct, frozen=True):
    """What a tenant's calls may ask for, and what they get if they ask for nothing."""

    highest_priority: Priority = Priority.INTERACTIVE
    default_priority: Priority = Priority.STANDARD


class Catalogue(Struct, frozen=True, kw_only=True):
    """Everything by name. `models` gives for each model its backends in order of preference, `max_output` how many
    tokens its answers can have, where that is known. `elsewhere` gives, for agents that have such, what they name of
    tools that are only known when a run needs them: MCP servers, and single tools of theirs.
    """

    models: Mapping[str, Sequence[Target]] = {}
    default_model: str = ""
    agents: Mapping[str, AgentSpec] = {}
    tenants: Mapping[str, TenantRules] = {}
    prices: Prices = field(default_factory=PriceList)
    max_output: Mapping[str, int] = {}
    elsewhere: Mapping[str, tuple[str, ...]] = {}
    source: ToolSource | None = None

    def targets(self, model: str) -> Sequence[Target]:
        """Where a model's calls go, the first choice first. Raises `UnknownModel`."""
        name = model or self.default_model
        known = self.models.get(name)
        if known is not None:
            return known
        wild = self.models.get(ANY_MODEL)
        if wild is None:
            names = ", ".join(sorted(self.models)) or "none"
            raise UnknownModel(f"no model is called {name[:LONGEST_MODEL]!r}; there are: {names}", status=404)
        if len(name) > LONGEST_MODEL:  # it would stand in every list
            raise UnknownModel(f"no model has a name of more than {LONGEST_MODEL} characters", status=404)
        return [Target(target.backend, name if target.model == ANY_MODEL else target.model) for target in wild]

    def longest(self, model: str) -> int:
        """The most tokens that a model's answer can have, as far as is known."""
        named = model in self.models
        return self.max_output.get(model if named else ANY_MODEL, DEFAULT_MAX_TOKENS)

    def agent(self, choice: AgentChoice) -> AgentSpec:
        """The agent a request asks for, with all its tools.

        Raises `UnknownAgent`, `UnknownModel`, `InvalidLimits`, and what the source of tools raises.
        """
        if not choice.agent:
            model = choice.model or self.default_model
            self.targets(model)
            return AgentSpec(
                name="plain",
                model=model,
                system=choice.system,
                max_tokens=choice.max_tokens,
                temperature=choice.temperature,
                seed=choice.seed,
            )
        spec = self.agents.get(choice.agent)
        if spec is None:
            there = ", ".join(sorted(self.agents)) or "none"
            raise UnknownAgent(f"no agent is called {choice.agent!r}; there are: {there}")
        for field_ in ("model", "system", "max_tokens", "temperature", "seed"):
            if getattr(choice, field_) not in ("", None):
                raise InvalidLimits(field_, "an agent has its own; give this or the agent, not both")
        names = self.elsewhere.get(choice.agent)
        if names and self.source is not None:
            return replace(spec, tools=(*spec.tools, *self.source.named(names)))
        return spec

    def priority(self, tenant: str, wanted: Priority | None) -> Priority:
        """The priority of a tenant's work that asks for `wanted`, no higher than the tenant may use."""
        rules = self.tenants.get(tenant, TenantRules())
        return max(rules.default_priority if wanted is None else wanted, rules.highest_priority)
