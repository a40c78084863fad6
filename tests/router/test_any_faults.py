"""Any schedule of faults over two backends of three endpoints: every call ends once, and only where all else failed."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest
import trio
import trio.testing
from msgspec import Struct

from agents.errors import CallTimeout, ModelError, Overloaded, QueueTimeout, Refused, Throttled, Truncated, Unavailable
from agents.messages import Delta, Message, ModelReply, ModelRequest, Usage
from agents.port import Flow, Receipt
from orchestrator.attempt import Clocks
from orchestrator.backends.base import Capabilities, Connection, Progress
from orchestrator.catalogue import Catalogue, Target
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.limits import InFlightSpec, LimitSpec
from orchestrator.policy.retry import RetryConfig
from orchestrator.router import RoutedPort, Router
from orchestrator.transitions import Transition
from tests.owner.staged import assert_balanced, request

HEALED = 120.0
"""From then on every endpoint is well."""

CALLS = 12

ERRORS: dict[str, Callable[[], ModelError]] = {
    "refused": lambda: Unavailable("connection refused", worked=False),
    "500": lambda: Unavailable("oops", status=500),
    "529": lambda: Overloaded("full", status=529),
    "503": lambda: Overloaded("later", status=503, retry_after=7.0),
    "429": lambda: Throttled("slow down"),
    "429 and a time": lambda: Throttled("slow down", retry_after=20.0),
    "429 of a limit": lambda: Throttled("out of tokens", retry_after=9.0, exhausted=frozenset({"total_tokens"})),
    "wrong key": lambda: Refused("wrong key", status=401, endpoint_fault=True),
}
FAULTS = [*ERRORS, "silent", "cut", "cut", "adapter", "well", "well", "well"]


class Ill:
    """An endpoint with a schedule: from each time on it does that, until `HEALED`."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name = name
        self.busy = 0
        self._schedule: list[tuple[float, str]] = []
        at = 0.0
        while at < HEALED:
            self._schedule.append((at, rng.choice(FAULTS)))
            at += rng.expovariate(1 / 25.0)
        self._step = rng.choice([0.01, 0.1, 1.0])

    def does(self) -> str:
        now = trio.current_time()
        return "well" if now >= HEALED else [what for at, what in self._schedule if at <= now][-1]

    def capabilities(self) -> Capabilities:
        return Capabilities(dialect="ill")

    def connect(self) -> Connection:
        return _Wire(self)

    async def send(self, progress: Progress) -> ModelReply:
        does = self.does()
        await trio.sleep(self._step)
        if does == "refused":
            raise ERRORS[does]()
        progress.connected()
        progress.written()
        await trio.sleep(self._step)
        if does == "silent":
            await trio.sleep_forever()
        if does == "adapter":
            raise ValueError("a fault of the adapter")
        if does in ERRORS:
            raise ERRORS[does]()
        progress.headers(())
        for word in ("one ", "two ", "three"):
            await progress.deltas((Delta(word),))
            await trio.sleep(self._step)
            if does == "cut":
                raise Truncated("it broke off", partial=word)
        usage = Usage(input=10, output=3)
        progress.usage(usage)
        return ModelReply(Message("assistant", "one two three"), "stop", usage)


class _Wire:
    def __init__(self, endpoint: Ill) -> None:
        self._endpoint = endpoint

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        self._endpoint.busy += 1
        try:
            return await self._endpoint.send(progress)
        finally:
            self._endpoint.busy -= 1

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class Ended(Struct):
    """How one caller's call ended. `text` is what its reader had in the end, None if it did not read."""

    outcome: ModelReply | ModelError
    deadline: float
    at: float
    text: str | None = None
    shown: bool = False


class World:
    """Two backends of three endpoints, and callers of every kind."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.endpoints = [Ill(f"{backend}{n}", rng) for backend in "ab" for n in range(3)]
        retry = RetryConfig(attempts=rng.choice([2, 6]))
        clocks = Clocks(connect=5.0, silence=5.0)
        self.owners = {
            name: Owner(
                OwnerConfig(name, DispatchConfig(retry=retry), clocks),
                [self._endpoint(ill) for ill in self.endpoints if ill.name.startswith(name)],
                hooks=[self._note],
            )
            for name in "ab"
        }
        catalogue = Catalogue(models={"any": (Target("a", "any"), Target("b", "any"))})
        self.router = Router(self.owners, lambda: catalogue)
        self.finished: Counter[tuple[str, str]] = Counter()
        self.failed_by: defaultdict[str, set[str]] = defaultdict(set)
        self.ended: dict[str, Ended] = {}
        self.left: set[str] = set()

    def _endpoint(self, ill: Ill) -> Endpoint:
        return Endpoint(
            ill.name,
            ill,
            (LimitSpec("total_tokens", 5000.0), LimitSpec("requests", 300.0)),
            InFlightSpec(calls=6),
            self.rng.choice([ConcurrencyConfig(fixed=2), ConcurrencyConfig(initial=3, at_most=6)]),
        )

    def _note(self, transition: Transition) -> None:
        if transition.kind == "finished":
            self.finished[transition.backend, transition.flow.run] += 1
            if transition.outcome != "ok":
                self.failed_by[transition.flow.run].add(transition.backend)

    async def caller(self, run: str) -> None:
        rng = self.rng
        await trio.sleep(rng.uniform(0, HEALED))
        port = self.router.port(Flow(rng.choice(["acme", "globex"]), "job", run), agent=rng.random() < 0.7)
        deadline = trio.current_time() + rng.choice([math.inf, math.inf, 2.0, 30.0])
        patience = rng.choice([math.inf, math.inf, math.inf, 3.0, 20.0])
        kind = rng.choice(["whole", "read", "read without resets"])
        with trio.move_on_after(patience) as scope:
            ended = await self._ask(port, kind, deadline)
            ended.at = trio.current_time()
            assert run not in self.ended
            self.ended[run] = ended
        if scope.cancelled_caught:
            self.left.add(run)

    async def _ask(self, port: RoutedPort, kind: str, deadline: float) -> Ended:
        if kind == "whole":
            receipt = Receipt()
            try:
                outcome: ModelReply | ModelError = await port.call(request(), deadline=deadline, receipt=receipt)
            except ModelError as error:
                outcome = error
            assert receipt.sent is not None
            return Ended(outcome, deadline, 0.0)
        text, shown = "", False
        try:
            async with port.stream(request(), deadline=deadline, restartable=kind == "read") as stream:
                async for batch in stream:
                    for delta in batch:
                        shown = shown or bool(delta.text)
                        assert not (delta.reset and kind == "read without resets")
                        text = "" if delta.reset else text + delta.text
                outcome = await stream.reply()
        except ModelError as error:
            outcome = error
        return Ended(outcome, deadline, 0.0, text, shown and kind == "read without resets")

    async def run(self, calls: int) -> None:
        async with trio.open_nursery() as nursery:
            for owner in self.owners.values():
                await nursery.start(owner.run)
            async with trio.open_nursery() as callers:
                for n in range(calls):
                    callers.start_soon(self.caller, str(n))
            await trio.testing.wait_all_tasks_blocked()
            for owner in self.owners.values():
                assert_balanced(owner)
            nursery.cancel_scope.cancel()

    def check(self, calls: int) -> None:
        assert len(self.ended) + len(self.left) == calls
        assert set(self.finished.values()) <= {1}
        assert sum(endpoint.busy for endpoint in self.endpoints) == 0
        for run, ended in self.ended.items():
            if isinstance(ended.outcome, ModelReply):
                assert ended.text in (None, "one two three")
                continue
            late = isinstance(ended.outcome, CallTimeout | QueueTimeout) or ended.at >= ended.deadline
            assert late or ended.shown or self.failed_by[run] == {"a", "b"}, (run, ended)
            assert not isinstance(ended.outcome, CallTimeout) or ended.deadline < math.inf


@pytest.mark.parametrize("batch", range(4))
def test_whatever_fails_every_call_ends_once_and_only_where_all_failed_it(batch: int) -> None:
    """Fifty schedules each: nothing is leaked, answered twice or shown twice, and no backend is left untried."""
    served = failed = 0
    for seed in range(batch * 50, batch * 50 + 50):
        world = World(seed)
        trio.run(world.run, CALLS, clock=trio.testing.MockClock(autojump_threshold=0))
        try:
            world.check(CALLS)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        served += sum(isinstance(ended.outcome, ModelReply) for ended in world.ended.values())
        failed += sum(isinstance(ended.outcome, ModelError) for ended in world.ended.values())
    assert served > failed > 0
