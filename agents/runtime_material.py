"""What the runtime suite works with: agents, what their model says, and a runtime opened for one rule.

A rule looks at a runtime from outside only, through `Case`, which waits for nothing longer than it has to.
"""

from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

import trio
from msgspec import Struct

from agents.amounts import Limits
from agents.errors import ModelError
from agents.messages import Message
from agents.observation import Observation, validate_observation
from agents.result import RunResult
from agents.runtime import Runtime, UnknownRun
from agents.scripted import Answer, Script, ask, say, turns_taken
from agents.spec import AgentSpec
from agents.tools import tool

T = TypeVar("T")

ANSWER = "found"
"""What a run of the task `look` comes to."""
LOOK = "look"
"""A task: an answer that asks for a tool, the tool, a second answer."""
FAIL = "fail"
"""A task at which the model fails."""
FOREVER = "forever"
"""A task that only a limit ends."""

MOST_PACES = 60
"""How many paces any run of the suite may take to end."""


class Material(Struct, frozen=True):
    """What the runs of the suite are made of.

    A runtime must know all of `agents`, if it knows agents by name. Their model is called `scripted`, has no price,
    and answers as `script` says, `pace` seconds after it is asked; the script looks at nothing but the transcript, so
    any process can answer. `touched` tells which tool calls were made that no one had allowed.
    """

    agents: dict[str, AgentSpec]
    script: Script
    pace: float
    touched: list[str]


class Subject(Struct, frozen=True):
    """A runtime under test.

    `restart` ends the process that the runtime's runs live in, or what stands for it, without a word of warning, and
    gives the runtime to ask from then on; None where that cannot be tried.
    """

    runtime: Runtime
    restart: Callable[[], Awaitable[Runtime]] | None = None


class RuleBroken(Exception):
    """A rule found the runtime doing what it must not; the message says what."""


def material(pace: float) -> Material:
    """New material; `pace` is how many seconds each answer and each tool call takes."""
    touched: list[str] = []

    @tool(read_only=True)
    async def look(where: str) -> str:
        """Looks somewhere."""
        await trio.sleep(pace)
        return f"seen {where}"

    @tool(approval="always")
    async def touch(what: str) -> str:
        """Changes something, if a person lets it."""
        touched.append(what)
        return "touched"

    agents = (
        AgentSpec(name="looker", model="scripted", tools=(look,)),
        AgentSpec(name="limited", model="scripted", tools=(look,), limits=Limits(rounds=2)),
        AgentSpec(name="toucher", model="scripted", tools=(touch,)),
    )
    return Material({agent.name: agent for agent in agents}, _script, pace, touched)


def _script(messages: tuple[Message, ...]) -> Answer:
    task = next(message.content for message in messages if message.role == "user")
    if task == FAIL:
        return ModelError("the model is gone")
    if task == "touch":
        return say("done") if turns_taken(messages) else ask("touch", {"what": "it"})
    if task == FOREVER or not turns_taken(messages):
        return ask("look", {"where": "there"}, text="looking")
    return say(ANSWER)


class Case:
    """One rule's view of a runtime."""

    def __init__(self, subject: Subject, made: Material) -> None:
        self.runtime = subject.runtime
        self.restart = subject.restart
        self.material = made
        self.pace = made.pace
        self.looker = made.agents["looker"]

    async def prompt(self, what: str, call: Awaitable[T]) -> T:
        """What the call gives. It may take half a pace: what waits for a model's answer takes longer."""
        with trio.move_on_after(self.pace / 2):
            return await call
        raise RuleBroken(f"{what} took longer than {self.pace / 2:g} s: it waits for what the run does")

    async def start(self, task: str = LOOK, *, agent: str = "looker", run: str = "") -> str:
        """Starts one of the material's agents."""
        return await self.prompt("start", self.runtime.start(self.material.agents[agent], task, run=run))

    async def poll(self, run: str, before: Observation | None = None) -> Observation:
        """One look, held against the one before."""
        seen = await self.prompt("poll", self.runtime.poll(run))
        if seen.run != run:
            raise RuleBroken(f"run {run} was asked for, and the answer is about {seen.run}")
        validate_observation(before, seen)
        return seen

    async def watch(self, run: str, before: Observation | None = None) -> list[Observation]:
        """All that is seen of a run until its end and some time after it, each held against the one before."""
        seen = [await self.poll(run, before)]
        until = trio.current_time() + MOST_PACES * self.pace
        while not seen[-1].terminal:
            if trio.current_time() > until:
                raise RuleBroken(f"run {run} is {seen[-1].state} and never ends")
            await trio.sleep(self.pace / 5)
            seen.append(await self.poll(run, seen[-1]))
        for _ in range(3):
            await trio.sleep(self.pace / 2)
            seen.append(await self.poll(run, seen[-1]))
        return seen

    async def result(self, run: str) -> RunResult:
        """How it ended, which every wait says alike, and every poll."""
        with trio.move_on_after(MOST_PACES * self.pace):
            result = await self.runtime.wait(run)
            last = await self.poll(run)
            said = Observation(result.run, result.state, result.reason, result.usage)
            if said != last:
                raise RuleBroken(f"wait and poll differ over run {run}: {said} and {last}")
            return result
        raise RuleBroken(f"run {run} never ends, or waiting for it does not")

    async def unknown(self, run: str) -> None:
        """Nobody knows this id, by whatever call it is asked for."""
        calls: dict[str, Callable[[str], Awaitable[object]]] = {
            "poll": self.runtime.poll,
            "cancel": self.runtime.cancel,
            "wait": self.runtime.wait,
        }
        for name, call in calls.items():
            try:
                answer = await self.prompt(f"{name} of an unknown run", call(run))
            except UnknownRun as error:
                if error.kind != "unknown_run":
                    raise RuleBroken(f"the kind of {name}'s error must be unknown_run, not {error.kind}") from error
            else:
                _known(run, name, answer)


def _known(run: str, name: str, answer: object) -> NoReturn:
    what = answer.state if isinstance(answer, Observation) else "an answer"
    raise RuleBroken(f"nobody knows run {run}, and {name} gives {what} where it must raise UnknownRun")
