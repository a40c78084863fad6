"""Exit codes of the commands, and the one way an error reaches a person."""

import sys
from typing import Final

DONE: Final = 0
SOME_FAILED: Final = 1
USAGE: Final = 2
"""Wrong usage, inputs or configuration: nothing was started."""
BACKEND: Final = 3
"""The backend, or the store, cannot be used or not any more: the same again may work later."""
INTERRUPTED: Final = 130
"""Ctrl-C; other signals give 128 and their number likewise."""


def complain(message: str) -> None:
    """One message on standard error."""
    say(f"headrace: {message}")


def say(line: str) -> None:
    """A line for the one who watches; standard output is for results."""
    print(line, file=sys.stderr, flush=True)
