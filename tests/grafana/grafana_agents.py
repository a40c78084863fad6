"""What the daemon of these tests works with: a model that does what its task says, and tools of every kind."""

import time

import trio

from agents.messages import Message
from agents.scripted import ask, say


async def lookup(what: str) -> str:
    """Looks something up."""
    await trio.sleep(0.3)
    return f"found {what}"


async def send(to: str) -> str:
    """Sends a letter."""
    return f"sent to {to}"


def hang(seconds: int) -> str:
    """Takes long, in a thread."""
    time.sleep(seconds)
    return "at last"


def script(messages: tuple[Message, ...]) -> Message:
    """The next words, as the first word of the task says."""
    last = messages[-1]
    if last.role == "tool":
        return say("done")
    what, _, rest = last.content.partition(" ")
    match what:
        case "lookup":
            return ask("lookup", {"what": rest})
        case "send":
            return ask("send", {"to": rest})
        case "hang":
            return ask("hang", {"seconds": int(rest)})
        case "box":
            return ask("box__add", {"a": 1})
    return say("Some words that answer what was asked, at the length of a short sentence or two.")
