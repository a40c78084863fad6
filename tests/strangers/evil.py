"""A model and a tool whose every word is meant for the terminal of whoever reads it."""

from agents.messages import Message
from agents.scripted import ask, say
from agents.tools import tool

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\u202egnp.exe\u2066\x7f"
"""Sets the title, clears the screen, colours, overwrites, and turns what follows around."""


@tool()
async def look(what: str) -> str:
    """Looks at something."""
    return f"seen {what} {EVIL}"


@tool()
async def fail(what: str) -> str:
    """Fails."""
    raise ValueError(f"no {what} {EVIL}")


@tool(approval="always")
async def send(to: str) -> str:
    """Sends a letter."""
    return f"sent to {to}"


def script(messages: tuple[Message, ...]) -> Message:
    """A call of each tool, one after the other, then an answer."""
    turns = sum(message.role == "assistant" for message in messages)
    task = next(message.content for message in messages if message.role == "user")
    if "send" in task:
        return ask("send", {"to": EVIL, EVIL: EVIL}) if not turns else say("done")
    if turns < 2:
        return ask("look" if not turns else "fail", {"what": EVIL})
    return say(f"answer {EVIL}")
