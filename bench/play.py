"""Plays calls through a real owner, and writes down what became of each."""

import math
import random
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import trio
from msgspec import Struct

from agents.errors import CallerGone, ModelError
from agents.messages import ModelReply
from agents.port import Call, Flow
from bench.recorded import recorded
from bench.traces.base import TraceCall
from orchestrator.owner import Owner
from orchestrator.transitions import Transition

MakeCall = Callable[[Call], Awaitable[ModelReply | ModelError]]
"""Makes a call and returns its outcome, which is on the call as well."""


class Played(Struct, frozen=True, kw_only=True, gc=False):
    """What became of one call. Times are in seconds from the beginning; `first_token` is None where none came.

    `waited` is its time in the queue, over all its attempts; `outcome` is `ok` or the error's kind.
    """

    call: TraceCall
    arrived: float
    ended: float
    waited: float
    outcome: str
    attempts: int = 1
    first_token: float | None = None
    held_by: str = ""


class Recorder:
    """A hook that keeps the end of every call that was played, in the order of their ends."""

    wants = frozenset({"first_token", "finished"})

    def __init__(self) -> None:
        self.played: list[Played] = []
        self._open: dict[str, TraceCall] = {}
        self._first: dict[str, float] = {}
        self._count = 0

    def opened(self, call: TraceCall) -> str:
        """The key under which the call is to be made."""
        self._count += 1
        key = str(self._count)
        self._open[key] = call
        return key

    def __call__(self, transition: Transition) -> None:
        if transition.kind == "first_token":
            self._first[transition.key] = transition.at
            return
        call = self._open.pop(transition.key, None)
        if call is None:
            return
        self.played.append(
            Played(
                call=call,
                arrived=transition.at - transition.seconds,
                ended=transition.at,
                waited=transition.waited,
                outcome=transition.outcome,
                attempts=transition.attempt,
                first_token=self._first.pop(transition.key, None),
                held_by=transition.held_by,
            )
        )


async def play(
    calls: Iterable[TraceCall],
    to: Owner | MakeCall,
    recorder: Recorder,
    *,
    noise: float = 0.0,
    seed: int = 0,
    agent: bool = True,
    on_call: Callable[[TraceCall], None] = lambda call: None,
) -> None:
    """Makes each call when its time comes, and returns when the last has ended. `calls` are in the order of arrival.

    `to` is an owner, or whatever else makes calls and tells `recorder`; an owner must run, with `recorder` among its
    hooks. `noise` is the sigma of a log-normal factor between a call's tokens and its bytes: a client counts bytes.
    """
    make = partial(submit, to) if isinstance(to, Owner) else to
    rng = random.Random(f"{seed}/play")
    began = trio.current_time()

    async def one(call: TraceCall) -> None:
        deadline = math.inf if call.deadline is None else trio.current_time() + call.deadline
        factor = rng.lognormvariate(0.0, noise) if noise else 1.0
        request = recorded(
            call.input,
            call.output,
            cached=call.cached,
            max_tokens=call.max_tokens,
            seconds=call.seconds,
            noise=factor,
        )
        made = Call(
            request,
            Flow(call.tenant, call.job, call.run),
            call.priority,
            deadline=deadline,
            agent=agent,
            key=recorder.opened(call),
        )
        await make(made)

    async with trio.open_nursery() as nursery:
        for call in calls:
            await trio.sleep_until(began + call.at)
            on_call(call)
            nursery.start_soon(one, call)


async def submit(owner: Owner, call: Call) -> ModelReply | ModelError:
    """The outcome of a call. Cancelled, it takes the call with it."""
    try:
        try:
            owner.inbox.submit_nowait(call)
        except trio.WouldBlock:
            await owner.inbox.submit(call)
        await call.wait()
    finally:
        if call.outcome is None:
            call.abandoned = True
            owner.inbox.leave(call)
            call.resolve(CallerGone("the caller left before the answer"))
    assert call.outcome is not None
    return call.outcome
