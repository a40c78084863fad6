"""Spans of model calls, made from their transitions: the call, its waits in queue, and each attempt.

| span           | from                        | until                     |
|----------------|-----------------------------|---------------------------|
| `chat MODEL`   | the call reached its owner  | it ended                  |
| `queue`        | it was eligible             | an attempt was sent       |
| `attempt`      | it was sent                 | the attempt ended         |

A call of an agent is below its step, any other below whoever asked for it. Attributes are those of OpenTelemetry's
semantic conventions for generative AI (`gen_ai.*`), and `headrace.*` for what those have no word for. There is no
prompt and no answer among them: a transition has none.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.telemetry.context import TraceContext, span_id
from orchestrator.telemetry.span import Emit, Span, Value
from orchestrator.telemetry.traces import Traces, is_agents, step_of
from orchestrator.transitions import Transition, TransitionKind

PRIORITIES: Final = ("interactive", "standard", "batch")


class _Open(Struct):
    """A call that has not ended. Times on the owner's clock."""

    arrived: float
    run: str = ""
    sent: float = 0.0
    attempt: int = 0
    endpoint: str = ""
    first_token: float | None = None


class CallSpans:
    """Implements `orchestrator.transitions.Hook`. `wall` gives a time on the owner's clock as seconds since the epoch.

    `providers` says what kind of model server a backend is, in the conventions' words.
    """

    wants: frozenset[TransitionKind] = frozenset({"queued", "started", "first_token", "attempt_failed", "finished"})

    def __init__(
        self, traces: Traces, emit: Emit, *, wall: Callable[[float], float], providers: Callable[[str], str]
    ) -> None:
        self._traces = traces
        self._emit = emit
        self._wall = wall
        self._providers = providers
        self._open: dict[str, _Open] = {}

    def __call__(self, transition: Transition) -> None:
        key = transition.key
        if not key:
            return
        kind = transition.kind
        if kind == "queued":
            self._open[key] = _Open(transition.at, transition.flow.run)
            return
        known = self._open.get(key)
        if known is None:
            if kind != "finished":
                return
            known = _Open(transition.at - transition.seconds, transition.flow.run)
        if kind == "started":
            self._started(transition, known)
        elif kind == "first_token":
            known.first_token = transition.at
        elif kind == "attempt_failed":
            self._attempt(transition, known, transition.outcome)
        else:
            self._finished(transition, known)

    def outgoing(self, key: str, attempt: int) -> str:
        """The `traceparent` of a request to a provider: its attempt's span. Empty for a call without a key."""
        known = self._open.get(key)
        if known is None:
            return ""
        return replace(self._traces.call(key, known.run), span=span_id("attempt", f"{key}#{attempt}")).header()

    def _context(self, transition: Transition) -> TraceContext:
        """The call's own span. One that went on to another backend has one for each of them."""
        whole = self._traces.call(transition.key, transition.flow.run)
        return replace(whole, span=span_id("call", f"{transition.key}@{transition.backend}"))

    def _started(self, transition: Transition, known: _Open) -> None:
        known.sent, known.attempt, known.endpoint = transition.at, transition.attempt, transition.endpoint
        known.first_token = None
        context = self._context(transition)
        self._emit(
            Span(
                name="queue",
                context=replace(context, span=span_id("queue", f"{transition.key}#{transition.attempt}")),
                parent=context.span,
                start=self._wall(transition.at - transition.waited),
                end=self._wall(transition.at),
                attributes={"headrace.held_by": transition.held_by, "headrace.attempt": transition.attempt},
            )
        )

    def _attempt(self, transition: Transition, known: _Open, error: str) -> None:
        if not known.sent:
            return
        context = self._context(transition)
        usage = transition.usage
        first = known.first_token
        self._emit(
            Span(
                name="attempt",
                kind="client",
                context=replace(context, span=span_id("attempt", f"{transition.key}#{known.attempt}")),
                parent=context.span,
                start=self._wall(known.sent),
                end=self._wall(transition.at),
                error=error,
                attributes={
                    "gen_ai.provider.name": self._providers(transition.backend),
                    "gen_ai.request.model": transition.model,
                    "headrace.backend": transition.backend,
                    "headrace.endpoint": known.endpoint,
                    "headrace.attempt": known.attempt,
                    "gen_ai.usage.input_tokens": None if usage is None else usage.all_input,
                    "gen_ai.usage.output_tokens": None if usage is None else usage.output,
                },
                events=() if first is None else (("gen_ai.first_token", self._wall(first)),),
            )
        )
        known.sent = 0.0

    def _finished(self, transition: Transition, known: _Open) -> None:
        key, run = transition.key, transition.flow.run
        error = "" if transition.outcome == "ok" else transition.outcome
        self._attempt(transition, known, error)
        self._open.pop(key, None)
        context = self._context(transition)
        asked = self._traces.parent_of_call(key)
        agents = is_agents(key, run)
        self._emit(
            Span(
                name=f"chat {transition.model}",
                context=context,
                parent=span_id("step", step_of(key)) if agents else "" if asked is None else asked.span,
                remote=not agents,
                start=self._wall(known.arrived),
                end=self._wall(transition.at),
                error=error,
                attributes=self._attributes(transition),
            )
        )
        self._traces.forget("call", key)

    def _attributes(self, transition: Transition) -> dict[str, Value | None]:
        flow, usage = transition.flow, transition.usage
        attributes: dict[str, Value | None] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._providers(transition.backend),
            "gen_ai.request.model": transition.model,
            "gen_ai.conversation.id": flow.run,
            "headrace.call": transition.key,
            "headrace.tenant": flow.tenant,
            "headrace.job": flow.job,
            "headrace.run": flow.run,
            "headrace.priority": PRIORITIES[transition.priority],
            "headrace.backend": transition.backend,
            "headrace.attempts": transition.attempt,
            "headrace.waited": round(transition.waited, 6),
        }
        if usage is not None:
            attributes |= {
                "gen_ai.usage.input_tokens": usage.all_input,
                "gen_ai.usage.output_tokens": usage.output,
                "gen_ai.usage.cache_read.input_tokens": usage.cached,
            }
        for held_by, seconds in transition.waits:
            attributes[f"headrace.waits.{held_by}"] = round(seconds, 6)
        return attributes
