"""A chain: each step works on what the step before it made, and a check that is no model stands between them.

The check is what makes it a chain and no gamble: what does not pass ends the chain with words, before more is spent.
A simulated backend says what the script does; with `--local` the small model of this machine answers as it likes.
"""

import sys

import trio
from _model import NoAnswer, answer, model_for

from agents.messages import Message
from agents.port import ModelPort
from agents.scripted import say
from agents.spec import AgentSpec

LETTER = """Dear shop, the kettle I bought on 3 March leaks at the handle, and order 4711 has not come at all.
Somebody promised to ring me back. Nobody has."""

MOST_POINTS = 5

READER = AgentSpec(
    name="reader", model="any", system="List the complaints in the letter, one short line for each.", max_tokens=120
)
WRITER = AgentSpec(
    name="writer", model="any", system="Answer the customer: one sentence for each complaint.", max_tokens=200
)


class BrokenChain(Exception):
    """What a step made cannot be worked on; the message says what and why."""


def points_of(listed: str) -> list[str]:
    """The complaints, one a line. Raises `BrokenChain` where there are none or too many to be believed."""
    points = [line.strip(" -*\t") for line in listed.splitlines() if line.strip(" -*\t")]
    if not 1 <= len(points) <= MOST_POINTS:
        raise BrokenChain(f"expected 1 to {MOST_POINTS} complaints, one a line, not {len(points)}")
    return points


async def reply_to(model: ModelPort, letter: str) -> str:
    """The reply to a letter. Raises `BrokenChain`, `NoAnswer`."""
    points = points_of(await answer(model, READER, letter))
    listed = "\n".join(f"{number}. {point}" for number, point in enumerate(points, 1))
    return await answer(model, WRITER, f"The complaints:\n{listed}")


def script(messages: tuple[Message, ...]) -> Message:
    """What the model says next, as a pure function of the transcript."""
    task = messages[-1].content
    if messages[0].content == READER.system:
        wild = "\n".join(f"- perhaps this: {guess}" for guess in ("late", "dear", "loud", "slow", "dull", "hot"))
        return say("- the kettle leaks\n- order 4711 is missing\n" if task == LETTER else wild)
    count = len(task.splitlines()) - 1
    return say(f"We are sorry for all {count} troubles: a new kettle and order 4711 are on their way.")


async def main(local: bool) -> None:
    async with model_for(script, local=local) as model:
        for letter in (LETTER, "I have nothing to complain about."):
            try:
                said = await reply_to(model, letter)
            except (BrokenChain, NoAnswer) as error:
                said = f"left to a person: {error}"
            print(f"{letter.splitlines()[0]}\n  {said}")
            if not local:
                assert (
                    "all 2 troubles"
                    if letter == LETTER
                    else "left to a person: expected 1 to 5 complaints, one a line, not 6"
                ) in said


if __name__ == "__main__":
    trio.run(main, "--local" in sys.argv)
