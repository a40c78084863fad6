"""How a run starts others below it: the port, and what is asked of it.

A child is a run like any other, with a log of its own. It belongs to one tool call of its parent and is found by an id
that derives from that call's key, so a call that is made again after a restart finds the child of the first time: under
way, to be taken up, or ended long ago. It is driven only for as long as that call waits for it.
"""

from typing import Protocol

from msgspec import Struct

from agents.amounts import UNLIMITED, Amounts, Limits
from agents.result import RunResult


def scope_name(depth: int) -> str:
    """How the budget of a run is called in results, where this many runs are above it."""
    return f"run at depth {depth}" if depth else "run"


class ChildRequest(Struct, frozen=True, kw_only=True):
    """A run for the tool call `key` of the run `parent`; `depth` counts the runs above it.

    `limits` lower those that `agent` has of its own; whatever the child uses is counted in its parent's budget as well.
    """

    run: str
    parent: str
    key: str
    depth: int
    agent: str
    task: str
    limits: Limits = UNLIMITED


class Spent(Struct, frozen=True):
    """What a child, and all below it, has used of its parent's budget, and may have used besides."""

    used: Amounts = Amounts()
    unknown: Amounts = Amounts()


class Child(Protocol):
    """One child run under way."""

    async def wait(self) -> RunResult:
        """Its result.

        Raises `agents.origin.RunLeft` where it was left open, since its executor leaves all its runs, and
        `HeadraceError` as `Spawner.start` does.
        """
        ...

    async def cancel(self) -> None:
        """Takes it away, and waits for its end."""
        ...

    async def leave(self) -> None:
        """Lets go of it and leaves it open, for whoever makes the call again; waits till nobody drives it."""
        ...

    def spent(self) -> Spent:
        """What it has come to so far."""
        ...


class Spawner(Protocol):
    """Starts the child runs of one run."""

    async def start(self, child: ChildRequest) -> Child:
        """The child of this id: a new run, or what became of it.

        Raises `HeadraceError` with the reason where there can be none: no such agent, no such model, limits that make
        no sense, a run of this id that is not this child.
        """
        ...
