"""A text that stands on the command line, or is read from standard input where there is a dash in its place."""

import sys

from orchestrator.cli.options import WrongOption


def read_text(given: str, what: str) -> str:
    """The text; `what` it is to be begins a message. Raises `WrongOption`."""
    if given != "-":
        if not given.strip():
            raise WrongOption(f"{what} is empty")
        return given
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise WrongOption(f"standard input is not UTF-8 at byte offset {error.start}") from None
    if not text.strip():
        raise WrongOption(f"standard input is empty; it was to be {what}")
    return text
