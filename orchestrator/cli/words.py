"""What is said on the command line: a text there, or on standard input where a dash stands for it; and by whom."""

import getpass
import sys

from orchestrator.cli.options import WrongOption


def own_name() -> str:
    """Who sits here, as far as this machine knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


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
