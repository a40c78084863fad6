"""Tools on which people decide, people who decide, and what must hold of every log in which they did."""

from collections.abc import Sequence
from typing import Any

import trio

from agents.answered import counts, verdict
from agents.context import ToolContext
from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    CancelRequested,
    Event,
    InputGiven,
    InputRequested,
    ToolFinished,
    ToolStarted,
)
from agents.loop import AgentRun
from agents.origin import RunParked
from agents.person import PersonTool
from agents.result import RunResult
from agents.scripted import Script
from agents.snapshot import RunSnapshot
from agents.spec import AgentSpec
from agents.tools import BaseTool, Tool
from tests.agents.lives import Executor, SessionLog, World, take_up, wall


class AskedWorld(World):
    """`pay` always needs approval, `put` where it puts much, `ask` asks; `write` and `look` are nobody's business."""

    def __init__(self, script: Script, *, expires_in: float | None = None, **more: Any) -> None:
        super().__init__(script, **more)
        self.expires_in = expires_in

    def tools(self) -> tuple[BaseTool, ...]:  # type: ignore[override]
        async def pay(text: str, context: ToolContext) -> str:
            return await self._effect(text, context, 1)

        async def put(text: str, context: ToolContext) -> str:
            return await self._effect(text, context, 0.5)

        async def write(text: str, context: ToolContext) -> str:
            return await self._effect(text, context, 5)

        async def look() -> str:
            await trio.sleep(0.25)
            return "seen"

        async def stop(context: ToolContext) -> str:
            context.cancel_run()
            return await self._effect("stop", context, 0.1)

        return (
            Tool(pay, approval="always", expires_in=self.expires_in),
            Tool(put, idempotent=True, approval='text == "much"', expires_in=self.expires_in),
            Tool(write),
            Tool(look, read_only=True),
            Tool(stop),
            PersonTool("ask", expires_in=self.expires_in),
        )


def agent_of(world: AskedWorld, **spec: Any) -> AgentSpec:
    return AgentSpec(name="agent", model="scripted", tools=world.tools(), **spec)


def decided(key: str, decision: Any = "approved", **fields: Any) -> ApprovalDecided:
    return ApprovalDecided(run="r", key=key, decision=decision, **({"by": "ann", "at": now()} | fields))


def given(key: str, content: str = "blue", **fields: Any) -> InputGiven:
    return InputGiven(run="r", key=key, content=content, **({"by": "ann", "at": now()} | fields))


def now() -> float:
    try:
        return wall()
    except RuntimeError:
        return 0.0


async def begin(world: AskedWorld, journal: Executor, **spec: Any) -> AgentRun:
    """A run that was just created."""
    run = AgentRun(agent_of(world, **spec), "x", model=world, journal=journal, run="r", wall=wall)
    await run.create()
    return run


async def parked(run: AgentRun) -> None:
    """Drives until all that the run waits for is people."""
    try:
        await run.drive()
    except RunParked:
        return
    raise AssertionError(f"the run ended: {run.result}")


async def until_parked(world: AskedWorld, **spec: Any) -> SessionLog:
    """A run's log, as it is when people were asked and have not answered."""
    log = SessionLog()
    await parked(await begin(world, Executor(log), **spec))
    return log


async def go_on(log: SessionLog, world: AskedWorld, *events: Event, **spec: Any) -> RunResult:
    """Somebody says these things, and the run is driven to its end."""
    log.outside(*events)
    return await (await take_up(log, agent_of(world, **spec), world)).drive()


def keys(run: RunSnapshot) -> list[str]:
    """What people are asked, by key."""
    return [asked.key for asked in run.asked]


def names(log: SessionLog) -> list[str]:
    return [str(type(event).__struct_config__.tag) for event in log.events]


def assert_people_had_their_say(events: Sequence[Event]) -> None:
    """What needs approval starts only after the one decision that counts for it; each question has its first answer."""
    for place, event in enumerate(events):
        if not isinstance(event, ToolStarted):
            continue
        before = events[:place]
        assert not any(isinstance(e, CancelRequested) for e in before), "a tool was started after a cancellation"
        asked = [e for e in before if isinstance(e, ApprovalRequested | InputRequested) and e.key == event.key]
        assert len(asked) <= 1, "people were asked twice"
        assert (event.name in ("pay", "ask")) <= bool(asked), f"nobody was asked about {event.name}"
        if not asked:
            assert event.approval == ""
            continue
        behind = before[before.index(asked[0]) :]
        first = next(e for e in behind if isinstance(e, ApprovalDecided | InputGiven) and counts(asked[0], e))
        assert verdict(asked[0], first).goes_on, "it was started against people's word"
        if isinstance(asked[0], ApprovalRequested):
            assert event.approval == event.key
        else:
            assert isinstance(first, InputGiven)
            finished = events[place + 1]
            assert isinstance(finished, ToolFinished)
            assert finished.content == first.content
