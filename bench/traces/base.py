"""What every trace is read into: calls with a time of arrival, or sessions whose calls follow one another."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from agents.port import Priority


class TraceError(Exception):
    """A trace cannot be read. The message names file and line, says what is wrong there, and what would be right."""

    def __init__(self, path: Path | str, line: int | None, problem: str) -> None:
        place = f"{path}" if line is None else f"{path}, line {line}"
        super().__init__(f"{place}: {problem}")
        self.path = str(path)
        self.line = line


class TraceCall(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One model call that arrives at `at`, whatever becomes of those before it.

    Times are in seconds from the trace's beginning, sizes in tokens. `cached` is the part of `input` that a cache could
    have served. `max_tokens` is what its caller allowed, `output` what it came to; None allows just that.
    `seconds` is how long it took where it was recorded, from its sending to its end, None where nobody knows.
    """

    at: float
    input: int
    output: int
    tenant: str = "default"
    job: str = ""
    run: str = ""
    cached: int = 0
    priority: Priority = Priority.STANDARD
    max_tokens: int | None = None
    deadline: float | None = None
    seconds: float | None = None


class SessionCall(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One call of a session: it is made `think` seconds after the last of those in `after` has ended, or after the
    session's start where there are none. `after` are places in the session's list, all before its own.

    `agent` says which of the session's agents makes it: subagents work side by side.
    """

    input: int
    output: int
    think: float = 0.0
    after: tuple[int, ...] = ()
    agent: str = ""
    cached: int = 0
    seconds: float | None = None


class Session(Struct, frozen=True, kw_only=True):
    """One agent's work on one task: calls that wait for one another."""

    name: str
    calls: tuple[SessionCall, ...]
    tenant: str = "default"
    job: str = ""

    def __iter__(self) -> Iterator[SessionCall]:
        return iter(self.calls)
