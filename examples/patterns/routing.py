"""Routing: a cheap agent says what kind of request it is, and the agent for that kind answers.

The answer of the first is read strictly: what names no clerk goes where people look, never to a guess.
A simulated backend says what the script does; with `--local` the small model of this machine answers as it likes.
"""

import sys
from typing import Literal

import msgspec
import trio
from _model import NoAnswer, answer, model_for, only

from agents.messages import Message
from agents.port import ModelPort
from agents.scripted import say
from agents.spec import AgentSpec

PEOPLE = "people"

CLERKS = {
    "money": AgentSpec(name="money", model="any", system="You answer questions about invoices.", max_tokens=120),
    "repair": AgentSpec(name="repair", model="any", system="You help with things that are broken.", max_tokens=120),
}


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    about: Literal["money", "repair", "other"]


SORTER = AgentSpec(
    name="sorter",
    model="any",
    system='What is it about? Answer with nothing but JSON: {"about": "money" or "repair" or "other"}',
    max_tokens=30,
    temperature=0,
    response_format=only(Route),
)


async def route_of(model: ModelPort, request: str) -> str:
    """The name of the clerk for this request, or `PEOPLE`."""
    try:
        about = msgspec.json.decode(await answer(model, SORTER, request), type=Route).about
    except (NoAnswer, msgspec.DecodeError):
        return PEOPLE
    return PEOPLE if about == "other" else about


async def serve(model: ModelPort, request: str) -> tuple[str, str]:
    """Who took the request, and what they answered. Raises `NoAnswer` where a clerk's run did not complete."""
    route = await route_of(model, request)
    if route == PEOPLE:
        return route, "Somebody will read this and write to you."
    return route, await answer(model, CLERKS[route], request)


def script(messages: tuple[Message, ...]) -> Message:
    """What the model says next, as a pure function of the transcript."""
    role, request = messages[0].content, messages[-1].content
    if role != SORTER.system:
        return say("Paid on 3 March." if role == CLERKS["money"].system else "Screw the lid on tightly.")
    kinds = {"invoice": "money", "leaks": "repair", "window": "other"}
    return say(next((f'{{"about": "{kind}"}}' for word, kind in kinds.items() if word in request), "Hard to say."))


REQUESTS = {
    "Has my invoice been paid?": ("money", "Paid on 3 March."),
    "The kettle leaks.": ("repair", "Screw the lid on tightly."),
    "I liked your shop window.": (PEOPLE, "Somebody will read this and write to you."),
    "So it is.": (PEOPLE, "Somebody will read this and write to you."),
}


async def main(local: bool) -> None:
    async with model_for(script, local=local) as model:
        for request, expected in REQUESTS.items():
            try:
                served = await serve(model, request)
            except NoAnswer as error:
                served = PEOPLE, str(error)
            print(f"{request} -> {served[0]}: {served[1]}")
            assert local or served == expected


if __name__ == "__main__":
    trio.run(main, "--local" in sys.argv)
