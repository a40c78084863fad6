"""A run service over a pool, workers that are real or speak for themselves, all in one process and in virtual time."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing
from msgspec import Raw

from agents.amounts import Limits
from agents.budget import Scope
from agents.events import Event, ModelReplied, ModelRequested, RunStarted, decode, encode
from agents.messages import Message, ModelReply, ModelRequest, Usage
from agents.money import Price, PriceList
from agents.port import Journal
from agents.scripted import Script, ask, in_turn, say
from agents.spec import AgentSpec
from agents.tools import BaseTool, tool
from orchestrator.catalogue import Catalogue, Target
from orchestrator.pools.pool import Pool
from orchestrator.runs.service import RunsConfig, RunService
from orchestrator.store.memory import MemoryStore
from orchestrator.views.runs import AgentChoice, RunRequest
from orchestrator.views.workers import (
    AppendAnswer,
    AppendRequest,
    ClaimRequest,
    Holding,
    PollAnswer,
    PollRequest,
    RunMaterial,
    ToolTables,
    WorkerCallRequest,
)
from orchestrator.worker.config import WorkerConfig
from orchestrator.worker.worker import Worker
from tests.runs.lasting import Kept, Link, wall
from tests.runs.running import ScriptedModels
from tests.worker.pool_wire import URL, PoolTransport

LEASE = 30.0
MADE: list[str] = []
"""What was begun, call by call."""


@tool()
async def post(text: str) -> str:
    """Sends a letter, which takes a minute."""
    MADE.append(f"post {text}")
    await trio.sleep(60)
    return f"sent {text}"


@tool(read_only=True)
async def look(where: str) -> str:
    """Looks somewhere for a second."""
    MADE.append(f"look {where}")
    await trio.sleep(1)
    return f"seen {where}"


@tool(approval="always")
async def pay(amount: str) -> str:
    """Pays, if people allow it."""
    MADE.append(f"pay {amount}")
    return f"paid {amount}"


LOOKS = in_turn(ask("look", {"where": "a"}), say("done"))
POSTS = in_turn(ask("post", {"text": "a"}), say("done"))
PAYS = in_turn(ask("pay", {"amount": "1"}), say("done"))

TOOLS = (post, look, pay)
WORKS = AgentSpec(name="works", model="scripted", tools=TOOLS)
PRICED = AgentSpec(name="priced", model="priced", tools=(look,), max_tokens=100)
CATALOGUE = Catalogue(
    models={name: (Target("sim", name),) for name in ("scripted", "priced")},
    default_model="scripted",
    agents={"works": WORKS, "priced": PRICED},
    prices=PriceList({"priced": Price(input=1_000_000, output=1_000_000)}),
)
TABLES = ToolTables(digest="t1", tools={tool.name: {} for tool in TOOLS})


class Daemon:
    """A service and its pool over a store, until it is killed: from then on nothing of it reaches the store."""

    def __init__(self, nursery: trio.Nursery, store: MemoryStore, script: Script, config: dict[str, Any]) -> None:
        self.link = Link(store)
        self.store = store
        self.models = ScriptedModels(script, 1.0)
        self.tables = TABLES
        self.pool = Pool(lambda: self.tables, config.pop("lease", LEASE))
        journal: Callable[[Journal], Journal] = config.pop("journal", lambda log: log)
        self.service = RunService(
            nursery,
            models=self.models,
            catalogue=lambda: CATALOGUE,
            store=self.link,  # type: ignore[arg-type]
            config=RunsConfig(**config),
            journal=journal,
            wall=wall,
            pool=self.pool,
        )

    async def start(self, *, budget: Scope | None = None, who: str = "works", **asked: Any) -> str:
        request = RunRequest(**{"task": "x", "who": AgentChoice(agent=who)} | asked)
        return (await self.service.start(request, budget=budget)).run

    async def log(self, run: str) -> list[Event]:
        return [decode(record.data) for record in await self.store.read(run)]

    async def kinds(self, run: str) -> list[str]:
        """The events of its log, by name."""
        return [str(event.__struct_config__.tag) for event in await self.log(run)]


@asynccontextmanager
async def daemon(
    store: MemoryStore | None = None,
    *,
    script: Script = LOOKS,
    transport: PoolTransport | None = None,
    resume: bool = True,
    **config: Any,
) -> AsyncIterator[Daemon]:
    """A daemon until the block is left; then it is killed."""
    with trio.fail_after(1_000_000):
        async with trio.open_nursery() as nursery:
            made = Daemon(nursery, store or Kept(), script, config)
            await made.service.recover()
            if resume:
                await made.service.resume_rest()
            if transport is not None:
                transport.serve(made.pool)
            yield made
            if transport is not None:
                transport.serve(None)
            made.link.broken = True
            nursery.cancel_scope.cancel()


class Net(PoolTransport):
    """The way to a daemon; each `branch` of it can be cut off for itself."""

    def __init__(self, trunk: "Net | None" = None) -> None:
        super().__init__(None if trunk is None else trunk.pool)
        self._trunk = trunk
        self._branches: list[Net] = []

    def serve(self, pool: Any) -> None:
        super().serve(pool)
        for branch in self._branches:
            branch.serve(pool)

    def branch(self) -> "Net":
        made = Net(self)
        self._branches.append(made)
        return made

    def cut(self) -> None:
        if self._trunk is not None:
            self._trunk._branches.remove(self)
        self.serve(None)


@asynccontextmanager
async def workers(
    transport: Net, *names: str, own: Iterable[BaseTool] = TOOLS, runs: int = 64
) -> AsyncIterator[list[Worker]]:
    """Worker processes of these names; killed when the block is left: nothing that they do then reaches a daemon."""
    async with trio.open_nursery() as nursery:
        made, way = [], transport.branch()
        for name in names:
            worker = Worker(WorkerConfig(daemons=(URL,), name=name, runs=runs), wires=[way.wire()], own=own, wall=wall)
            nursery.start_soon(worker.run)
            made.append(worker)
        yield made
        way.cut()
        nursery.cancel_scope.cancel()


class Hand:
    """A worker that does what a test says, step by step."""

    def __init__(self, pool: Pool, name: str = "hand", instance: str = "") -> None:
        self.pool = pool
        self.name = name
        self.instance = instance
        self.held: list[Holding] = []
        self.heard = 0
        self._batches = 0

    async def poll(self, room: int = 10, *, seconds: float = 0.0, ends: bool = False) -> PollAnswer:
        await trio.testing.wait_all_tasks_blocked()  # what was just started wants a worker only now
        request = PollRequest(
            worker=self.name,
            instance=self.instance,
            room=room,
            holding=tuple(self.held),
            heard=self.heard,
            seconds=seconds,
            ends=ends,
        )
        answer = await self.pool.poll(request)
        self.heard = answer.heard
        known = {(one.run, one.claim) for one in self.held}
        self.held += [one for one in answer.take if (one.run, one.claim) not in known]
        self.held = [one for one in self.held if one.run not in answer.leave]
        return answer

    async def take(self) -> "Grip":
        """The next run that is given, begun."""
        while not (answer := await self.poll(seconds=10.0)).take:
            pass
        return await self.grip(answer.take[0])

    async def grip(self, held: Holding) -> "Grip":
        return Grip(self.pool, held, await self.pool.begin(held.run, ClaimRequest(claim=held.claim)))


class Grip:
    """One run in a hand."""

    def __init__(self, pool: Pool, held: Holding, material: RunMaterial) -> None:
        self.pool = pool
        self.run, self.claim = held.run, held.claim
        self.material = material
        self.number = material.number
        self._batches = 0

    async def append(self, *events: Event, batch: str = "", after: int | None = None) -> AppendAnswer:
        self._batches += 1
        request = AppendRequest(
            claim=self.claim,
            batch=batch or f"{self.claim}-{self._batches}",
            after=self.number if after is None else after,
            events=tuple(Raw(encode(event)) for event in events),
        )
        answer = await self.pool.append(self.run, request)
        if answer.outcome == "appended" and after is None:
            self.number += len(events)
        self.number += len(answer.newcomers)
        return answer

    def started(self) -> RunStarted:
        return RunStarted(run=self.run, at=wall())

    def requested(self, *, step: int = 1, attempt: int = 1, tokens: int = 100) -> ModelRequested:
        return ModelRequested(
            run=self.run, at=wall(), step=step, attempt=attempt, reserved_tokens=tokens, reserved_micro_dollars=0
        )

    def replied(self, *, step: int = 1, attempt: int = 1, used: int = 10, text: str = "well") -> ModelReplied:
        reply = ModelReply(Message("assistant", text), "stop", Usage(input=used - 2, output=2))
        return ModelReplied(run=self.run, at=wall(), step=step, attempt=attempt, reply=reply)

    def asks(self, *, step: int = 1, attempt: int = 1, seconds: float = 20.0) -> WorkerCallRequest:
        request = ModelRequest(model="scripted", messages=(Message("user", "x"),))
        return WorkerCallRequest(claim=self.claim, key=f"{self.run}/{step}/{attempt}", request=request, seconds=seconds)


def limited(**limits: Any) -> Scope:
    """A job's budget."""
    return Scope("job", Limits(**limits))


def kinds_of(events: Sequence[Event]) -> list[str]:
    return [str(event.__struct_config__.tag) for event in events]
