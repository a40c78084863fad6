"""What a model would say in the library, as a pure function of the conversation: the simulated backend's script."""

from agents.messages import Message
from agents.scripted import ask, say, turns_taken

PLAN = '{"subtasks": [{"text": "Borrow the document."}, {"text": "Name its licence."}]}'


def answer(messages: tuple[Message, ...]) -> Message:
    """The planner's, a reader's or the librarian's next words."""
    role, last = messages[0].content, messages[-1].content
    if role.startswith("You plan"):
        return say(PLAN)
    if role.startswith("You say what the library holds"):
        return say(f"Of {last}.") if turns_taken(messages) else ask("count_loans")
    if turns_taken(messages):
        return say(f"The licence is {last.partition(',')[0]}." if last != "none" else "It names no licence.")
    return ask("borrow", {"document": last.rpartition(" ")[2].removesuffix("?")})
