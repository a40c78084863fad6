"""What the model is told of a tool call that no tool has answered: one answer per call, whatever became of it."""

from typing import Final

NOT_STARTED: Final = "The run ended before this call was started."

NOT_MADE: Final = "This call was not made, since whoever runs it stopped first. Make it again if it is still wanted."

CUT_OFF: Final = "This call was cut off ({why})."

UNKNOWN_EFFECT: Final = (
    "This call was cut off ({why}). Whether it took effect is unknown: look at the state of things before repeating it."
)

EXECUTOR_LOST: Final = "whoever ran it went away"
