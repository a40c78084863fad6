"""The simulated provider: one key's worth of a model API, without a wire.

It admits or refuses a call, works it at the modelled speed, and tells a `Sink` what would go over the wire; the
in-process backend and the HTTP server are two such sinks. Several connections, endpoints and servers may share one
provider: that is "the same key". It runs on trio's clock, so under a virtual clock hours pass in seconds.

A call's way here: arrival (counted somewhere within `latency.arrival`), faults, the request's own validity, limits,
headers, prefill, tokens. Whatever ends it, limits are settled with what was produced by then.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeVar

import trio

from agents.messages import Delta, Message, ModelReply, ModelRequest, Usage
from orchestrator.backends.simulated.answer import Answer, Sink
from orchestrator.backends.simulated.cache import Cached, PrefixCache
from orchestrator.backends.simulated.config import SimConfig
from orchestrator.backends.simulated.engine import Engine
from orchestrator.backends.simulated.errors import Hangup, SimError, invalid, throttled
from orchestrator.backends.simulated.faults import CallFaults, Faults
from orchestrator.backends.simulated.limits import EnforcedLimit, Enforcer, Grant, Refusal
from orchestrator.backends.simulated.model import SimModel
from orchestrator.backends.simulated.plan import Plan
from orchestrator.backends.simulated.script import Script
from orchestrator.backends.simulated.stats import SimStatistics
from orchestrator.backends.simulated.wishes import NONE, Wishes
from orchestrator.policy.feedback import Reading

__all__ = ["Answer", "SimProvider", "Sink"]

T = TypeVar("T")

_INSTANT_MESSAGE = Message("assistant", "done")
_INSTANT_TOKENS = 1


class SimProvider:
    """The provider's shared state. `clock` gives seconds; the times in fault rules are on it.

    `script` says the answers, which an `instant` provider does not ask it for.
    """

    def __init__(
        self,
        config: SimConfig | None = None,
        *,
        clock: Callable[[], float] = trio.current_time,
        script: Script | None = None,
    ) -> None:
        self.config = config if config is not None else SimConfig()
        self.faults = Faults(self.config.faults, self.config.seed)
        self.now = clock
        self.script = script
        self._stats = SimStatistics()
        self._model = SimModel(self.config, script)
        self._cache = PrefixCache(self.config.prefix_cache)
        self._enforcer = Enforcer(self.config.limits, self.config.max_concurrency)
        self._engine = Engine(self.config.latency, clock)
        self._connects = 0

    def __repr__(self) -> str:
        stats = self._stats
        return (
            f"<SimProvider {stats.admitted} admitted, {stats.refused.total()} refused,"
            f" {stats.in_flight} in flight, peak {stats.peak_in_flight}>"
        )

    def statistics(self) -> SimStatistics:
        """Live counters, for tests and the curious."""
        return self._stats

    @property
    def limits(self) -> tuple[EnforcedLimit, ...]:
        """The enforced limits in the configuration's order, for their `utilisation` and `peak`."""
        return self._enforcer.limits

    def readings(self) -> tuple[Reading, ...]:
        """What a response's headers would say of the limits now."""
        return self._enforcer.readings(self.now())

    def refuses_connection(self) -> bool:
        """Counts one connection attempt; True if a fault refuses it."""
        self._connects += 1
        if not self.config.faults or not self.faults.refuses(self._connects, self.now()):
            return False
        self._stats.faults["refuse"] += 1
        return True

    def count_invalid(self, error: SimError) -> None:
        """Counts a request that makes no sense, and puts the limits on its answer like on any other."""
        self._stats.refused["invalid"] += 1
        error.readings = self.readings()

    async def serve(self, request: ModelRequest, sink: Sink, wishes: Wishes = NONE) -> Answer:
        """Works one call. Raises `SimError` and `Hangup`; cancelling it is the client going away."""
        if self.config.instant:
            await trio.lowlevel.checkpoint()
            reply = self.serve_instantly(request)
            sink.admitted(Usage(reply.usage.input, None, None, 0))
            await sink.headers(self.readings())
            await sink.deltas((Delta(reply.message.content),))
            return Answer(reply, 1)
        return await self._serve(lambda: self._admit(request, wishes), request.model, sink)

    async def embed(self, model: str, tokens: int, sink: Sink) -> Answer:
        """Works a call that has input alone: counted by the limits and struck by faults like any other."""
        if self.config.instant:
            await trio.lowlevel.checkpoint()
        return await self._serve(lambda: self._admit_input(model, tokens), model, sink)

    async def count(self, request: ModelRequest, sink: Sink, wishes: Wishes = NONE) -> int:
        """Counts a request's input tokens, which no limit is about; faults strike as ever."""
        await self._serve(lambda: self._admit_counting(request, wishes), request.model, sink)
        return self._model.count_input(request, wishes)

    def count_text(self, text: str) -> int:
        """The tokens of a text, as this provider counts them."""
        return self._model.count_text(text)

    def pieces(self, text: str) -> list[str]:
        """The tokens of a text, in order."""
        return self._model.pieces(text)

    def check_model(self, model: str) -> None:
        """Raises `SimError` 404 for a model that is not served."""
        if self.config.models and model not in self.config.models:
            raise invalid(f"the model {model!r} does not exist", "model_not_found", 404, param="model")

    async def _serve(self, admit: Callable[[], tuple[Plan, Grant]], model: str, sink: Sink) -> Answer:
        stats = self._stats
        stats.arrived += 1
        number = stats.arrived
        rng = Random(f"{self.config.seed}/wire/{number}")
        latency = self.config.latency
        await trio.sleep(rng.uniform(*latency.arrival))
        faults = self.faults.of_call(number, self.now())
        stats.faults.update(faults.keys())
        await self._silence(faults)
        self._refuse_by_fault(faults, (401, 429))
        plan, grant = admit()
        try:
            answer = await self._work(model, plan, grant, faults, rng.uniform(*latency.headers), sink)
        except (SimError, Hangup):
            stats.failed += 1
            raise
        except BaseException:
            stats.aborted += 1
            raise
        else:
            stats.completed += 1
            return answer
        finally:
            stats.in_flight -= 1
            self._enforcer.settle(grant, self.now())

    def serve_instantly(self, request: ModelRequest) -> ModelReply:
        """The answer of an `instant` provider: enforced and counted like any other, without delay or faults."""
        self._stats.arrived += 1
        given = self._model.count_input(request) if self._enforcer.limits else request.input_bytes() // 4 + 1
        now, output = self.now(), _INSTANT_TOKENS
        grant = self._grant(now, given, request.max_tokens or self.config.length.default_max)
        self._enforcer.produced(grant, now, output)
        self._enforcer.settle(grant, now)
        self._stats.output_tokens.add(now, output)
        self._stats.in_flight -= 1
        self._stats.completed += 1
        return ModelReply(_INSTANT_MESSAGE, "stop", Usage(given, None, None, output), request.model)

    async def _silence(self, faults: CallFaults) -> None:
        rule = faults.get("silence")
        if rule is None:
            return
        if rule.seconds == 0:
            await trio.sleep_forever()
        await trio.sleep(rule.seconds)
        raise Hangup(reset=rule.reset)

    def _refuse_by_fault(self, faults: CallFaults, only: tuple[int, ...] = ()) -> None:
        rule = faults.get("status")
        if rule is not None and (not only or rule.status in only):
            raise SimError(rule.status, "a scripted fault", code=rule.code)

    def _admit(self, request: ModelRequest, wishes: Wishes) -> tuple[Plan, Grant]:
        plan = self._valid(lambda: self._plan(request, wishes))
        cached = Cached()
        if self.config.prefix_cache:
            cached = self._cache.lookup(request, self._model.count_input, wishes.cache_upto)
        grant = self._grant(self.now(), plan.input_tokens, plan.max_output * wishes.choices, cached.read)
        self._cache.remember(cached)
        plan.cached, plan.written = cached.read, cached.written
        return plan, grant

    def _admit_input(self, model: str, tokens: int) -> tuple[Plan, Grant]:
        self._valid(lambda: self.check_model(model))
        return _without_output(tokens), self._grant(self.now(), tokens, 0)

    def _admit_counting(self, request: ModelRequest, wishes: Wishes) -> tuple[Plan, Grant]:
        self._valid(lambda: self.check_model(request.model))
        grant = self._enforcer.exempt(0)
        self._entered()
        return _without_output(self._model.count_input(request, wishes)), grant

    def _valid(self, check: Callable[[], T]) -> T:
        try:
            return check()
        except SimError as error:
            self.count_invalid(error)
            raise

    def _plan(self, request: ModelRequest, wishes: Wishes) -> Plan:
        context = self.config.length.context
        self.check_model(request.model)
        if not request.messages:
            raise invalid("messages: at least one is needed", param="messages")
        if request.max_tokens is not None and request.max_tokens < 1:
            raise invalid("max_tokens: at least 1 is needed", param="max_tokens")
        try:
            plan = self._model.plan(request, wishes)
        except ValueError as error:
            raise invalid(str(error)) from None
        if context is not None and plan.input_tokens + (request.max_tokens or 1) > context:
            message = f"{plan.input_tokens} input tokens and max_tokens exceed the context of {context} tokens"
            raise invalid(message, "context_length_exceeded")
        return plan

    def _grant(self, now: float, given: int, max_output: int, cached: int = 0) -> Grant:
        stats = self._stats
        grant = self._enforcer.admit(now, given, max_output, cached)
        if isinstance(grant, Refusal):
            stats.refused[grant.reason] += 1
            raise throttled(grant, self._enforcer.readings(now))
        self._entered()
        stats.input_tokens.add(now, given)
        return grant

    def _entered(self) -> None:
        stats = self._stats
        stats.admitted += 1
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)

    async def _work(
        self, model: str, plan: Plan, grant: Grant, faults: CallFaults, headers_after: float, sink: Sink
    ) -> Answer:
        try:
            self._refuse_by_fault(faults)
        except SimError:
            self._enforcer.settle(grant, self.now(), worked=False)
            raise
        slow = faults.get("slow_headers")
        if slow is not None:
            headers_after += slow.seconds
        if headers_after:
            await trio.sleep(headers_after)
        sink.admitted(self._usage(plan, faults, 0))
        await sink.headers(self.readings())
        beat = faults["heartbeats"].seconds if "heartbeats" in faults else 0.0
        uncached = plan.input_tokens - plan.cached
        await self._engine.pause(plan.delay + uncached / self.config.latency.input_rate, beat, sink)
        produced = partial(self._produced, grant)
        await self._engine.decode(plan, faults, beat, sink, produced)
        for other in plan.others:
            await self._engine.decode(other, {}, beat, sink, produced)
        return self._answer(model, plan, faults)

    def _produced(self, grant: Grant, tokens: int) -> None:
        now = self.now()
        self._enforcer.produced(grant, now, tokens)
        self._stats.output_tokens.add(now, tokens)

    def _usage(self, plan: Plan, faults: CallFaults, output: int) -> Usage:
        if "no_usage" in faults:
            return Usage()
        cached = plan.cached if self.config.prefix_cache else None
        return Usage(plan.input_tokens - plan.cached - (plan.written or 0), cached, plan.written, output)

    def _answer(self, model: str, plan: Plan, faults: CallFaults) -> Answer:
        usage = self._usage(plan, faults, plan.output_tokens)
        reply = ModelReply(plan.message(), plan.finish_reason, usage, model, plan.malformed())
        others = tuple(
            [ModelReply(p.message(), p.finish_reason, model=model, malformed=p.malformed()) for p in plan.others]
        )
        reports = 0 if "no_usage" in faults else 1 + ("duplicate_usage" in faults)
        thinking = plan.thinking + sum(other.thinking for other in plan.others)
        return Answer(reply, reports, others, thinking, plan.stopped_by)


def _without_output(tokens: int) -> Plan:
    return Plan(tokens, 0, [], "stop", 0.0, 1.0)
