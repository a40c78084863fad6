"""A session's log that several executors write one after the other, and a world that remembers every effect."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import trio

from agents.context import ToolContext
from agents.events import (
    Event,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    decode,
    encode,
)
from agents.fold import fold, result_of
from agents.loop import AgentRun
from agents.messages import ModelReply, ModelRequest
from agents.port import Newcomers, Priority, Receipt
from agents.result import RunResult
from agents.scripted import Script, ScriptedModel
from agents.snapshot import RunSnapshot
from agents.tools import Tool

EPOCH = 1_700_000_000.0


def wall() -> float:
    """Seconds since the epoch, as virtual time has it."""
    return EPOCH + trio.current_time()


class Killed(Exception):
    """The executor is gone: its log takes nothing any more."""


class SessionLog:
    """What a store keeps of one session. `whole` are the numbers of events with which a batch ended."""

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self.records = [encode(event) for event in events]
        self.whole: set[int] = set()

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(decode(record) for record in self.records)

    def outside(self, *events: Event) -> None:
        """Somebody else appends."""
        self.records += [encode(event) for event in events]

    def snapshot(self) -> RunSnapshot:
        last = fold(self.events).last
        assert last is not None
        return last


class Executor:
    """One executor's journal. It is killed at its append number `dies_at`: before it, or (`late`) behind it."""

    def __init__(self, log: SessionLog, *, dies_at: int | None = None, late: bool = False) -> None:
        self.log = log
        self.known = len(log.records)
        self.appends = 0
        self.dead = False
        self._dies_at = dies_at
        self._late = late

    async def append(self, events: Sequence[Event]) -> None:
        await trio.lowlevel.checkpoint()
        self.before(events)
        if self.known < len(self.log.records):
            newcomers = self.log.events[self.known :]
            self.known = len(self.log.records)
            raise Newcomers(newcomers)
        self.appends += 1
        dies = self.dead or self.appends == self._dies_at
        if not dies or (self._late and not self.dead):
            self.log.records += [encode(event) for event in events]
            self.known = len(self.log.records)
            self.log.whole.add(self.known)
        if dies:
            self.dead = True
            raise Killed("killed")

    def before(self, events: Sequence[Event]) -> None:
        """For what is to happen at just this point."""


class World:
    """Tools whose effects are remembered with their keys, and a model that answers from the history."""

    def __init__(self, script: Script, *, latency: float = 1.0) -> None:
        self.begun: list[tuple[str, str]] = []
        self.ended: list[str] = []
        self.keys: list[str] = []
        self.requests: list[ModelRequest] = []
        self._model = ScriptedModel(script, latency=latency)

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = 0,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        assert receipt is not None
        self.keys.append(receipt.key)
        self.requests.append(request)
        return await self._model.call(request, deadline=deadline)

    def tools(self) -> tuple[Tool, ...]:
        async def write(text: str, context: ToolContext) -> str:
            return await self._effect(text, context, 1)

        async def put(text: str, context: ToolContext) -> str:
            return await self._effect(text, context, 0.5)

        async def look(context: ToolContext) -> str:
            await trio.sleep(0.25)
            return "seen"

        async def broken(context: ToolContext) -> str:
            await self._effect("broken", context, 0.1)
            raise OSError("disk on fire")

        async def stop(context: ToolContext) -> str:
            context.cancel_run()
            return await self._effect("stop", context, 0.1)

        return (
            Tool(write),
            Tool(put, idempotent=True),
            Tool(look, read_only=True),
            Tool(broken, idempotent=True),
            Tool(stop, idempotent=True),
        )

    async def _effect(self, text: str, context: ToolContext, seconds: float) -> str:
        self.begun.append((context.key, text))
        await trio.sleep(seconds)
        self.ended.append(context.key)
        return text


async def take_up(log: SessionLog, agent: Any, world: World, executor: Executor | None = None, **more: Any) -> AgentRun:
    """The run as the next executor has it."""
    journal = executor or Executor(log)
    return AgentRun.take_up(
        agent, log.snapshot(), model=world, journal=journal, generation=2, number=len(log.records), wall=wall, **more
    )


def assert_told_as_driven(log: SessionLog, result: RunResult) -> None:
    """What the log comes to is what whoever drove the run was told."""
    assert result_of(log.snapshot()) == result


def assert_whole_over_lives(events: Sequence[Event]) -> None:
    """One created, one ended; each request and each call has exactly one end; only what is repeatable starts twice."""
    assert isinstance(events[0], RunCreated)
    assert isinstance(events[-1], RunEnded)
    assert sum(isinstance(event, RunEnded) for event in events) == 1
    requested = [(e.step, e.attempt) for e in events if isinstance(e, ModelRequested)]
    replied = Counter((e.step, e.attempt) for e in events if isinstance(e, ModelReplied | ModelFailed))
    assert replied == Counter(requested)
    assert len(set(requested)) == len(requested), "two model calls have one key"
    asked = {
        (e.step, index)
        for e in events
        if isinstance(e, ModelReplied) and e.purpose == "step"
        for index in range(len(e.reply.message.tool_calls))
    }
    ends = Counter((e.step, e.index) for e in events if isinstance(e, ToolFinished | ToolRefused))
    assert ends == Counter(asked)
    starts = Counter((e.step, e.index) for e in events if isinstance(e, ToolStarted) and not e.repeatable)
    assert all(count == 1 for count in starts.values()), "what may not be repeated was started twice"
    for place, event in enumerate(events):
        if isinstance(event, ToolRefused):
            earlier = [e for e in events[:place] if isinstance(e, ToolStarted)]
            assert (event.step, event.index) not in {(e.step, e.index) for e in earlier}


def assert_effects(world: World, events: Sequence[Event]) -> None:
    """What is told as done was done; what may not be repeated was done at most once; a key names one effect."""
    texts: dict[str, set[str]] = {}
    for key, text in world.begun:
        texts.setdefault(key, set()).add(text)
    assert all(len(of_key) == 1 for of_key in texts.values())
    begun = Counter(key for key, _ in world.begun)
    for event in events:
        if isinstance(event, ToolStarted) and not event.repeatable:
            assert begun[event.key] <= 1
    started = {(e.step, e.index): e.key for e in events if isinstance(e, ToolStarted)}
    for event in events:
        if isinstance(event, ToolFinished) and event.outcome == "ok" and event.name != "look":
            assert started[event.step, event.index] in world.ended
        if isinstance(event, ToolRefused):
            assert (event.step, event.index) not in started
    assert set(begun) <= set(started.values())
