"""Plays sessions through a real owner in a closed loop: a call comes when those before it have ended, and not before.

So a late answer makes everything after it late, as it does for an agent. A session's calls carry its name as their
run, its subagents' as well: what is ordered is the session, Autellix's program.
"""

from collections.abc import Sequence
from typing import Final

import trio
from msgspec import Struct

from agents.errors import ModelError
from agents.port import Call, Flow
from bench.play import MakeCall
from bench.policies import Policy, served
from bench.recorded import RecordedBackend, recorded
from bench.sessions.workload import SPEED, Setting, Started
from bench.virtual import in_virtual_time
from orchestrator.attempt import Clocks
from orchestrator.backends.simulated.config import SimLimit
from orchestrator.owner import Endpoint, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.limitspec import LimitSpec
from orchestrator.transitions import Transition

UNLIMITED: Final = 1024
"""Calls in flight where only tokens are limited."""

_LIMIT: Final = "total_tokens"


class Ended(Struct, frozen=True, gc=False):
    """How one session went, in seconds: from its start to the end of its last call, on an idle backend, and what its
    calls waited, the longest and in all. `failed` counts those of its `calls` that got no answer.
    """

    seconds: float
    idle: float
    longest: float
    waited: float
    failed: int
    calls: int

    @property
    def slowdown(self) -> float:
        return self.seconds / self.idle


class Outcome(Struct, frozen=True):
    """A workload's sessions in the order of their starts, until when the last worked, and how many 429s there were."""

    sessions: list[Ended]
    seconds: float
    refused: int


def run_sessions(workload: Sequence[Started], policy: Policy, setting: Setting, *, seed: int = 0) -> Outcome:
    """Plays a workload to its end, in virtual time."""
    return in_virtual_time(lambda: play_sessions(workload, policy, setting, seed=seed), seed=seed)


async def play_sessions(workload: Sequence[Started], policy: Policy, setting: Setting, *, seed: int = 0) -> Outcome:
    """The same, in the time that there is."""
    backend, endpoint = _endpoint(setting, seed)
    # nothing comes of an answer before its end here, and agents have no deadline
    clocks = Clocks(silence=float("inf"), whole=float("inf"))
    config = OwnerConfig("sessions", DispatchConfig(), clocks)
    waits = _Waits()
    began = trio.current_time()
    async with served(policy, config, [endpoint], hooks=[waits], seed=seed) as to:
        plays = [_Play(number, one, to.call, waits, began) for number, one in enumerate(workload)]
        async with trio.open_nursery() as nursery:
            for play in plays:
                await trio.sleep_until(began + play.started.at)
                play.start(nursery)
    return Outcome([play.ended() for play in plays], max(play.last for play in plays) - began, backend.refused)


def _endpoint(setting: Setting, seed: int) -> tuple[RecordedBackend, Endpoint]:
    amount, calls = setting.tokens_per_minute, setting.concurrency
    backend = RecordedBackend(
        [] if amount is None else [SimLimit(kind=_LIMIT, amount=amount, free_cached=True)],
        concurrency=calls,
        speed=SPEED,
        tells_input=True,
        seed=seed,
    )
    limits = () if amount is None else (LimitSpec(_LIMIT, amount, cached_free=True),)
    concurrency = ConcurrencyConfig(fixed=calls or UNLIMITED)
    return backend, Endpoint("recorded", backend, limits, concurrency=concurrency)


class _Waits:
    """A hook that keeps what each session's calls waited. A call's key begins with its session's number."""

    wants = frozenset({"finished"})

    def __init__(self) -> None:
        self.longest: dict[int, float] = {}
        self.waited: dict[int, float] = {}

    def __call__(self, transition: Transition) -> None:
        session, waited = int(transition.key.partition("/")[0]), transition.waited
        self.longest[session] = max(waited, self.longest.get(session, 0.0))
        self.waited[session] = self.waited.get(session, 0.0) + waited


class _Play:
    """One session at work."""

    def __init__(self, number: int, started: Started, call: MakeCall, waits: _Waits, began: float) -> None:
        self.number = number
        self.started = started
        self.last = self._start = began + started.at
        self._call = call
        self._waits = waits
        self._failed = 0
        calls = started.session.calls
        self._missing = [len(set(call.after)) for call in calls]
        self._followers: list[list[int]] = [[] for _ in calls]
        for place, one in enumerate(calls):
            for before in set(one.after):
                self._followers[before].append(place)

    def start(self, nursery: trio.Nursery) -> None:
        for place, missing in enumerate(self._missing):
            if not missing:
                nursery.start_soon(self._chain, place, nursery)

    async def _chain(self, place: int, nursery: trio.Nursery) -> None:
        """Makes one call after the other; where several follow, all but the first go their own way."""
        ready = [place]
        while ready:
            place, *others = ready
            for other in others:
                nursery.start_soon(self._chain, other, nursery)
            await self._make(place)
            self.last = trio.current_time()
            ready = []
            for follower in self._followers[place]:
                self._missing[follower] -= 1
                if not self._missing[follower]:
                    ready.append(follower)

    async def _make(self, place: int) -> None:
        session = self.started.session
        call = session.calls[place]
        if call.think > 0.0:
            await trio.sleep(call.think)
        made = Call(
            recorded(call.input, call.output, cached=call.cached, seconds=call.seconds),
            Flow(session.tenant, session.job, f"{self.number}/{session.name}"),
            key=f"{self.number}/{place}",
        )
        if isinstance(await self._call(made), ModelError):
            self._failed += 1

    def ended(self) -> Ended:
        return Ended(
            self.last - self._start,
            self.started.idle,
            self._waits.longest.get(self.number, 0.0),
            self._waits.waited.get(self.number, 0.0),
            self._failed,
            len(self.started.session.calls),
        )
