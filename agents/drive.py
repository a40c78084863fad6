"""One run at work: it waits for a place among the live ones, then goes from step to step until something stops it."""

import trio

from agents.origin import RunLeft
from agents.result import Stop
from agents.run_state import RunState
from agents.steps import begin


async def until_stopped(state: RunState, room: trio.CapacityLimiter | None) -> Stop:
    """Why the run stopped; where there is a `room` for live runs, it is queued until it has a place there.

    Raises `JournalLost`, `RunLeft` where it is left open, `RunParked` where it waits for people alone, and
    `trio.Cancelled` when whoever drives it is cancelled.
    """
    if state.cancel is not None:
        return state.cancel
    state.work.deadline = state.expiry
    with state.work:
        await trio.lowlevel.checkpoint()
        if room is None:
            return await begin(state)
        await _enter(state, room)
        try:
            return await begin(state)
        finally:
            room.release_on_behalf_of(state)
    ended = state.interrupted_by(trio.current_time())
    if ended is None and state.leaving:
        raise RunLeft(f"run {state.run} was left open")
    assert ended is not None, "the run's scope was cancelled by nobody"
    return ended


async def _enter(state: RunState, room: trio.CapacityLimiter) -> None:
    try:
        room.acquire_on_behalf_of_nowait(state)
    except trio.WouldBlock:
        state.lifecycle.queue()
        await room.acquire_on_behalf_of(state)
