"""A run service over a scripted model, with everything counted that could be left behind."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
from prometheus_client import CollectorRegistry

from agents.amounts import Limits
from agents.events import Event, decode
from agents.money import Price, PriceList
from agents.port import Flow, Journal, ModelPort, Priority
from agents.scripted import Script, ScriptedModel, ask, in_turn, say
from agents.spec import AgentSpec
from agents.tools import tool
from orchestrator.catalogue import Catalogue, Target, TenantRules
from orchestrator.instruments.runs import MeteredJournal, RunMetrics
from orchestrator.runs.service import RunsConfig, RunService
from orchestrator.views.runs import AgentChoice, RunRequest

EPOCH = 1_700_000_000.0


@tool(read_only=True)
async def search(query: str) -> str:
    """Searches for a minute."""
    await trio.sleep(60)
    return f"pages about {query}"


AGENTS = {
    "seeker": AgentSpec(name="seeker", model="scripted", tools=(search,), limits=Limits(rounds=5, tokens=100_000)),
}
SCRIPT = in_turn(ask("search", {"query": "x"}, text="looking"), say("found"))
SEEKER = AgentChoice(agent="seeker")
MODELS = {"scripted": (Target("sim", "scripted"),), "priced": (Target("sim", "priced"),)}
CATALOGUE = Catalogue(
    models=MODELS,
    default_model="scripted",
    agents=AGENTS,
    tenants={"modest": TenantRules(highest_priority=Priority.STANDARD, default_priority=Priority.BATCH)},
    prices=PriceList({"priced": Price(input=1_000_000, output=1_000_000)}),
)


class ScriptedModels:
    """Implements `Models`; `live` counts the flows that have a port and were not told to have ended."""

    def __init__(self, script: Script, latency: float) -> None:
        self.model: ModelPort = ScriptedModel(script, latency=latency)
        self.live: Counter[Flow] = Counter()
        self.priorities: dict[str, Priority] = {}

    def port(self, flow: Flow, priority: Priority) -> ModelPort:
        self.live[flow] += 1
        self.priorities[flow.run] = priority
        return self.model

    def ended(self, flow: Flow) -> None:
        self.live[flow] -= 1


class SlowJournal:
    """A journal that takes a second for an append."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def append(self, events: Sequence[Event]) -> None:
        await trio.sleep(1)
        await self._journal.append(events)


class Failing:
    """A journal that takes no more after so many appends."""

    def __init__(self, journal: Journal, *, after: int) -> None:
        self._journal = journal
        self._left = after

    async def append(self, events: Sequence[Event]) -> None:
        if not self._left:
            raise OSError("no space left")
        self._left -= 1
        await self._journal.append(events)


class World:
    """A service, what it was made from, and how to ask for runs."""

    def __init__(
        self,
        nursery: trio.Nursery,
        config: RunsConfig,
        script: Script,
        latency: float,
        journal: Callable[[Journal], Journal],
    ) -> None:
        self.models = ScriptedModels(script, latency)
        self.registry = CollectorRegistry()
        self.metrics = RunMetrics(self.registry)
        self.service = RunService(
            nursery,
            models=self.models,
            catalogue=lambda: CATALOGUE,
            config=config,
            journal=lambda log: MeteredJournal(journal(log), self.metrics),
            wall=lambda: EPOCH + trio.current_time(),
        )

    async def start(self, **asked: Any) -> str:
        return (await self.service.start(RunRequest(**{"task": "x", "who": SEEKER} | asked))).run

    async def events(self, run: str) -> list[Event]:
        """Everything the run's log has now."""
        return [decode(record) async for _, record in self.service.events(run, follow=False)]

    def open_in_metrics(self) -> float:
        """How many runs the metrics take for open."""
        return sum(s.value for m in self.registry.collect() if m.name == "headrace_runs" for s in m.samples)

    def finished_in_metrics(self) -> dict[tuple[str, str], float]:
        """How many runs the metrics saw end, by state and reason."""
        return {
            (sample.labels["state"], sample.labels["reason"]): sample.value
            for metric in self.registry.collect()
            if metric.name == "headrace_runs_finished"
            for sample in metric.samples
            if sample.name.endswith("_total")
        }

    def assert_nothing_left(self) -> None:
        """No run is live by anybody's count."""
        said = self.service.statistics()
        assert (said.live, said.driven) == (0, 0)
        assert set(said.states) <= {"completed", "stopped", "failed", "cancelled", "expired"}
        assert not +self.models.live
        assert self.open_in_metrics() == 0


@asynccontextmanager
async def running(
    *,
    script: Script = SCRIPT,
    latency: float = 1.0,
    journal: Callable[[Journal], Journal] = lambda log: log,
    **config: int,
) -> AsyncIterator[World]:
    """A service in a nursery that ends when its runs have. What waits for ever fails, in virtual time."""
    with trio.fail_after(1_000_000):
        async with trio.open_nursery() as nursery:
            yield World(nursery, RunsConfig(**config), script, latency, journal)
