"""Recorded calls made again through a real owner, as it is configured, in virtual time.

The provider answers each call as it was recorded: as many tokens, in as long a time. It enforces the limits that its
endpoints are configured with, or others that it is told.

Known limits: how long an answer takes does not depend on how many there are at once, which is right for an API and
kind to an engine of one's own. Failures that were no 429 are not played. What had been used of a day's limit before the
first call is not known. Clocks do not run: every answer that is played came.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

import trio
from msgspec import Struct

from agents.port import Call, Flow
from bench.play import MakeCall, Played, Recorder
from bench.policies import Policy, served
from bench.recorded import RecordedBackend, recorded
from bench.virtual import in_virtual_time
from bench.whatif.record import Asked
from orchestrator.attempt import Clocks
from orchestrator.backends.simulated.config import SimLimit
from orchestrator.config.backend_tables import SimulatedTable
from orchestrator.config.policy import EndpointRules, dispatch_of, rules_of
from orchestrator.config.schema import Config
from orchestrator.owner import Endpoint, OwnerConfig
from orchestrator.policy.limitspec import LimitSpec

_NO_CLOCKS: Final = Clocks(connect=math.inf, silence=math.inf, whole=math.inf)


class Again(Struct, frozen=True):
    """What became of each call, in the order of the record, and the providers that answered, by endpoint."""

    played: list[Played]
    providers: dict[str, RecordedBackend]


def play_again(
    calls: Sequence[Asked],
    config: Config,
    backend: str,
    policy: Policy,
    *,
    enforced: Config | None = None,
    seed: int = 0,
) -> Again:
    """Plays the calls of one backend to their last answer, the same every time.

    `enforced` is the configuration whose limits the provider enforces, where that is not `config`.
    """
    rules = rules_of(config, backend)
    limits = _enforced(enforced or config, backend)
    owner = OwnerConfig(backend, dispatch_of(config, backend), _NO_CLOCKS)

    async def scenario() -> Again:
        recorder = Recorder()
        providers = {
            name: RecordedBackend(limits.get(name, ()), concurrency=_concurrency(config, backend), seed=seed)
            for name in rules
        }
        endpoints = [_endpoint(name, rules[name], provider) for name, provider in providers.items()]
        async with AsyncExitStack() as stack:
            to = await stack.enter_async_context(served(policy, owner, endpoints, hooks=[recorder], seed=seed))
            await _Play(calls, to.call, recorder).run()
        places = {id(asked.call): place for place, asked in enumerate(calls)}
        return Again(sorted(recorder.played, key=lambda one: places[id(one.call)]), providers)

    return in_virtual_time(scenario, seed=seed)


def _endpoint(name: str, rules: EndpointRules, provider: RecordedBackend) -> Endpoint:
    return Endpoint(
        name=name,
        backend=provider,
        limits=rules.limits,
        in_flight=rules.in_flight,
        concurrency=rules.concurrency,
        breaker=rules.breaker,
        headroom=rules.headroom,
    )


def _enforced(config: Config, backend: str) -> Mapping[str, tuple[SimLimit, ...]]:
    """What the provider enforces, by endpoint. A simulated one may have been told otherwise than its owner."""
    table = config.backends.get(backend)
    if table is None:
        return {}
    if isinstance(table, SimulatedTable) and table.enforces is not None:
        return {backend: table.enforces}
    return {name: tuple(map(_as_enforced, rules.limits)) for name, rules in rules_of(config, backend).items()}


def _as_enforced(limit: LimitSpec) -> SimLimit:
    return SimLimit(
        kind=limit.kind, amount=limit.amount, per=limit.per, counted=limit.counted, free_cached=limit.cached_free
    )


def _concurrency(config: Config, backend: str) -> int | None:
    table = config.backends[backend]
    return table.provider.max_concurrency if isinstance(table, SimulatedTable) else None


class _Play:
    """The calls on their way, each after those that it waits for."""

    def __init__(self, calls: Sequence[Asked], make: MakeCall, recorder: Recorder) -> None:
        self._calls = calls
        self._make = make
        self._recorder = recorder
        self._missing = [len(asked.after) for asked in calls]
        self._followers: dict[int, list[int]] = {}
        for place, asked in enumerate(calls):
            for before in asked.after:
                self._followers.setdefault(before, []).append(place)

    async def run(self) -> None:
        """Returns when the last call has ended."""
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for place, asked in enumerate(self._calls):
                if not asked.after:
                    await trio.sleep_until(began + asked.call.at)
                    nursery.start_soon(self._one, place, nursery)

    async def _one(self, place: int, nursery: trio.Nursery) -> None:
        asked = self._calls[place]
        if asked.after:
            await trio.sleep(asked.think)
        call = asked.call
        request = recorded(
            call.input,
            call.output,
            cached=call.cached,
            max_tokens=call.max_tokens,
            seconds=call.seconds,
            noise=asked.noise,
        )
        flow = Flow(call.tenant, call.job, call.run)
        await self._make(Call(request, flow, call.priority, agent=bool(call.run), key=self._recorder.opened(call)))
        for follower in self._followers.get(place, ()):
            self._missing[follower] -= 1
            if not self._missing[follower]:
                nursery.start_soon(self._one, follower, nursery)
