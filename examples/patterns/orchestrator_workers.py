"""Orchestrator and workers: a planner makes subtasks, workers do them at once, one more run puts it all together.

The plan is read strictly; what is wrong with its shape is said to the planner once, in the same conversation. A worker
that fails leaves a gap that the last run is told of. All of them share one budget.
A simulated backend says what the script does; with `--local` the small model of this machine answers as it likes.
"""

import sys
from typing import Annotated

import msgspec
import trio
from _model import NoAnswer, answer, model_for, only

from agents.amounts import NOTHING, Limits
from agents.budget import Scope
from agents.messages import Message
from agents.port import ModelPort
from agents.scripted import say
from agents.spec import AgentSpec

AT_ONCE = 2
MOST = 4


class Subtask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str


Plan = Annotated[list[Subtask], msgspec.Meta(min_length=1, max_length=MOST)]

PLANNER = AgentSpec(
    name="planner",
    model="any",
    system=f'Divide the task into at most {MOST} parts. Answer with nothing but JSON: [{{"text": "..."}}, ...]',
    max_tokens=400,
    temperature=0,
    response_format=only(Plan),
)
WORKER = AgentSpec(name="worker", model="any", system="Do this one part of a larger task, briefly.", max_tokens=120)
EDITOR = AgentSpec(name="editor", model="any", system="Make one text of these parts.", max_tokens=200)


def parse_plan(text: str) -> list[str]:
    """The subtasks. Raises `ValueError` with what is wrong."""
    try:
        parts: list[Subtask] = msgspec.json.decode(text, type=Plan)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return [part.text for part in parts]


async def plan(model: ModelPort, task: str, budget: Scope) -> list[str]:
    """The subtasks, after one repair at most. Raises `ValueError`, `NoAnswer`."""
    said = await answer(model, PLANNER, task, budget=budget)
    try:
        return parse_plan(said)
    except ValueError as wrong:
        repair = Message("user", f"That cannot be used: {wrong}. Answer again, with nothing but the JSON list.")
        asked = (Message("user", task), Message("assistant", said), repair)
        return parse_plan(await answer(model, PLANNER, asked, budget=budget))


async def work(model: ModelPort, parts: list[str], budget: Scope) -> list[str | None]:
    """What became of each part, in the plan's order; None where its worker failed."""
    done: list[str | None] = [None] * len(parts)
    room = trio.CapacityLimiter(AT_ONCE)

    async def worker(place: int) -> None:
        async with room:
            try:
                done[place] = await answer(model, WORKER, parts[place], budget=budget)
            except NoAnswer as error:
                print(f"  {error}")

    async with trio.open_nursery() as nursery:
        for place in range(len(parts)):
            nursery.start_soon(worker, place)
    return done


async def write(model: ModelPort, task: str, budget: Scope) -> str:
    """The whole text. Raises `ValueError` for a plan of no use, `NoAnswer`."""
    parts = await plan(model, task, budget)
    done = await work(model, parts, budget)
    table = "\n".join(f"{part}: {text or 'nobody could do this'}" for part, text in zip(parts, done, strict=True))
    print(table)
    return await answer(model, EDITOR, table, budget=budget)


def script(messages: tuple[Message, ...]) -> Message:
    """What the model says next, as a pure function of the transcript."""
    role, last = messages[0].content, messages[-1].content
    if role == PLANNER.system:
        if "cannot be used" not in last:
            return say('["the sky", "the sea", "the land"]')
        return say('[{"text": "the sky"}, {"text": "the sea"}, {"text": "the land"}]')
    if role == WORKER.system:
        return say("" if last == "the land" else f"{last} is blue")
    return say("; ".join(line.partition(": ")[2] for line in last.splitlines()))


async def main(local: bool) -> None:
    budget = Scope("task", Limits(tokens=50_000))
    async with model_for(script, local=local) as model:
        try:
            text = await write(model, "Describe the view.", budget)
        except (ValueError, NoAnswer) as error:
            text = f"no text: {error}"
    print(f"=> {text} ({budget.used.tokens} tokens)")
    assert budget.reserved == NOTHING
    if not local:
        assert text == "the sky is blue; the sea is blue; nobody could do this"


if __name__ == "__main__":
    trio.run(main, "--local" in sys.argv)
