"""What the daemon of these tests works with: a model that does what its task says, and a tool that people approve."""

from agents.messages import Message
from agents.scripted import ask, say
from agents.tools import tool

HTML = '<img src=x onerror="window.broken=1"><script>window.broken=1</script><b id="inserted">bold</b>'
"""What must stay text."""

LONG = " ".join(f"word{number}" for number in range(200))


@tool(approval="always")
async def send(to: str) -> str:
    """Sends a letter."""
    return f"sent to {to}"


def script(messages: tuple[Message, ...]) -> Message:
    """The next words, as the first word of the task says."""
    last = messages[-1]
    if last.role == "tool":
        return say(f"done: {last.content}")
    what, _, rest = last.content.partition(" ")
    match what:
        case "send":
            return ask("send", {"to": rest})
        case "ask":
            return ask("ask_people", {"question": "Which river?", "options": ["Glomma", "Otra"]})
        case "free":
            return ask("ask_people", {"question": "What next?"})
        case "html":
            return say(HTML)
        case "long":
            return say(LONG)
    return say(f"You said {last.content}")
