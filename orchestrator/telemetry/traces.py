"""Which trace each open run and call belongs to, and whether it is kept."""

from orchestrator.telemetry.context import TraceContext, is_sampled, read_context, span_id, trace_id

MOST = 100_000
"""Calls and runs whose parents are remembered; the oldest are forgotten, and then begin traces of their own."""


class Traces:
    """`sample` is the part of traces without a parent that are kept; a parent's word holds otherwise."""

    def __init__(self, sample: float) -> None:
        self._sample = sample
        self._runs: dict[str, TraceContext] = {}
        self._calls: dict[str, TraceContext] = {}

    def told(self, kind: str, id: str, parent: str, state: str = "") -> None:
        """A run or a call was asked for with this `traceparent`."""
        context = read_context(parent, state)
        if context is None:
            return
        known = self._runs if kind == "run" else self._calls
        if len(known) >= MOST:
            known.pop(next(iter(known)))
        known[id] = context

    def forget(self, kind: str, id: str) -> None:
        """It has ended."""
        (self._runs if kind == "run" else self._calls).pop(id, None)

    def parent_of_run(self, run: str) -> TraceContext | None:
        """The span of whoever asked for a run."""
        return self._runs.get(run)

    def parent_of_call(self, key: str) -> TraceContext | None:
        """The span of whoever asked for a single call."""
        return self._calls.get(key)

    def run(self, run: str) -> TraceContext:
        """A run's own span."""
        return self._below(self._runs.get(run), run, span_id("run", run))

    def call(self, key: str, run: str) -> TraceContext:
        """A call's own span: of an agent's call in its run's trace, of another one in its own."""
        span = span_id("call", key)
        if is_agents(key, run):
            whole = self.run(run)
            return TraceContext(whole.trace, span, whole.sampled, whole.state)
        return self._below(self._calls.get(key), key, span)

    def _below(self, parent: TraceContext | None, id: str, span: str) -> TraceContext:
        if parent is not None:
            return TraceContext(parent.trace, span, parent.sampled, parent.state)
        trace = trace_id(id)
        return TraceContext(trace, span, is_sampled(trace, self._sample))


def is_agents(key: str, run: str) -> bool:
    """Whether a call with this key is one of a run of this daemon; programs may name runs of their own."""
    return bool(run) and key.startswith(f"{run}/")


def step_of(key: str) -> str:
    """The id of the step that an agent's call (`run/step/attempt`) belongs to."""
    return key.rpartition("/")[0]
