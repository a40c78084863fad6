"""A run as it is seen from outside, and what may follow what.

Seen from outside a run is `pending`, then `running`, then `done` (completed) or `failed` (every other terminal state,
with its reason). Whoever polls a runtime holds each observation against the one before it: a runtime that takes a
terminal state back, goes backwards or forgets settled usage is broken, and it is better to say so than to go on.
"""

from typing import Final, Literal

from msgspec import Struct

from agents.errors import HeadraceError
from agents.lifecycle import TERMINAL, State, StopReason
from agents.messages import Usage

Observed = Literal["pending", "running", "done", "failed"]

_RANK: Final = {"pending": 0, "running": 1, "done": 2, "failed": 2}


def observed(state: State) -> Observed:
    """The state as it is seen from outside."""
    if state in (State.CREATED, State.QUEUED):
        return "pending"
    if state is State.COMPLETED:
        return "done"
    return "failed" if state in TERMINAL else "running"


class Observation(Struct, frozen=True):
    """What a poll sees. `usage` is settled usage only; `reason` is set exactly on a terminal state."""

    run: str
    state: State
    reason: StopReason | None = None
    usage: Usage = Usage()

    @property
    def observed(self) -> Observed:
        return observed(self.state)

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL


class IllegalObservation(HeadraceError):
    """A runtime reports what cannot follow what it reported before."""


def validate_observation(previous: Observation | None, current: Observation) -> None:
    """Raises `IllegalObservation` where `current` cannot follow `previous` (None: nothing was seen before)."""
    if current.terminal != (current.reason is not None):
        raise IllegalObservation(f"run {current.run}: a reason belongs to a terminal state, and to no other")
    if previous is None:
        return
    if previous.run != current.run:
        raise IllegalObservation(f"run {previous.run} was observed before, and now {current.run}")
    if previous.terminal and (previous.state, previous.reason) != (current.state, current.reason):
        raise IllegalObservation(
            f"run {current.run} had ended as {previous.state} ({previous.reason}) and is now {current.state}"
        )
    if _RANK[current.observed] < _RANK[previous.observed]:
        raise IllegalObservation(f"run {current.run} went back from {previous.observed} to {current.observed}")
    shrunk = _shrunk(previous.usage, current.usage)
    if shrunk is not None:
        raise IllegalObservation(f"run {current.run}: settled {shrunk} tokens shrank")


def _shrunk(before: Usage, after: Usage) -> str | None:
    for field in Usage.__struct_fields__:
        old, new = getattr(before, field), getattr(after, field)
        if old is not None and (new is None or new < old):
            return field
    return None
