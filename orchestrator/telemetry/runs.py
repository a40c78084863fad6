"""Spans of runs, their steps and their tools, made from the events in their logs.

| span                   | from                          | until                           |
|------------------------|-------------------------------|---------------------------------|
| `invoke_agent AGENT`   | the run was created           | its closing event               |
| `step N`               | its first model call          | the next step's, or the end     |
| `execute_tool TOOL`    | the tool started              | its outcome                     |

A run has the span of whoever asked for it as its parent, a child run that of the tool call that started it. One that an
earlier process began is told in the same trace, from where its log says that it began. Steps and tools that were open
when a process was killed are told by the next one from where it goes on. No text of a prompt, an answer, an argument or
a result is in a span.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agents.events import (
    Event,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunResumed,
    ToolFinished,
    ToolStarted,
)
from agents.lifecycle import State
from agents.snapshot import RunSnapshot
from orchestrator.telemetry.context import span_id
from orchestrator.telemetry.span import Emit, Span, Value
from orchestrator.telemetry.traces import Traces

FAILED: Final = frozenset({State.FAILED, State.EXPIRED})


class _Tool(Struct, frozen=True):
    name: str
    key: str
    since: float
    step: int


class _Run(Struct):
    created: RunCreated | None
    began: float
    step: int = 0
    step_began: float = 0.0
    finish: tuple[str, ...] = ()
    tools: dict[tuple[int, int], _Tool] = {}


class RunSpans:
    """A watcher of runs (`orchestrator.instruments.watched.RunWatcher`)."""

    def __init__(self, traces: Traces, emit: Emit) -> None:
        self._traces = traces
        self._emit = emit
        self._open: dict[str, _Run] = {}
        self._tools: dict[str, str] = {}

    def see(self, event: Event) -> None:
        """Takes in one event that was appended."""
        if isinstance(event, RunCreated):
            self._begins(event)
            return
        run = self._open.get(event.run)
        if run is None:
            run = self._open[event.run] = _Run(None, event.at)
        match event:
            case RunResumed():
                run.step_began = event.at
            case ModelRequested():
                self._step(event.run, run, event.step, event.at)
            case ModelReplied():
                run.finish = (event.reply.finish_reason,)
            case ToolStarted():
                run.tools[event.step, event.index] = _Tool(event.name, event.key, event.at, event.step)
                self._tools[event.key] = event.run
            case ToolFinished():
                self._tool(event, run)
            case RunEnded():
                self._ended(event, run)
            case _:
                pass

    def stands(self, run: RunSnapshot) -> None:
        """This run goes on from here."""
        self._begins(run.created)

    def left(self, run: str) -> None:
        """Nobody here drives it any more."""
        known = self._open.pop(run, None)
        for tool in known.tools.values() if known is not None else ():
            self._tools.pop(tool.key, None)

    def lost(self, run: str) -> None:
        """See `left`."""
        self.left(run)

    def outgoing(self, key: str) -> str:
        """The `traceparent` of what a tool call does elsewhere; empty for one that is not known."""
        run = self._tools.get(key)
        return "" if run is None else replace(self._traces.run(run), span=span_id("tool", key)).header()

    def _begins(self, created: RunCreated) -> None:
        if created.trace:
            self._traces.told("run", created.run, created.trace)
        elif created.parent:
            whole = self._traces.run(created.parent)
            self._traces.told("run", created.run, replace(whole, span=span_id("tool", created.parent_key)).header())
        self._open[created.run] = _Run(created, created.at)

    def _step(self, id: str, run: _Run, step: int, at: float) -> None:
        """The next step begins; a further attempt at one goes on with it."""
        if step == run.step:
            return
        self._step_ends(id, run, at)
        run.step, run.step_began = step, at

    def _step_ends(self, id: str, run: _Run, at: float) -> None:
        if not run.step:
            return
        whole = self._traces.run(id)
        attributes: dict[str, Value | None] = {"headrace.run": id, "headrace.step": run.step}
        self._emit(
            Span(
                name=f"step {run.step}",
                context=replace(whole, span=span_id("step", f"{id}/{run.step}")),
                parent=whole.span,
                start=run.step_began,
                end=at,
                attributes={**attributes, "gen_ai.response.finish_reasons": run.finish or None},
            )
        )
        run.step, run.finish = 0, ()

    def _tool(self, event: ToolFinished, run: _Run) -> None:
        tool = run.tools.pop((event.step, event.index), None)
        if tool is None:
            return
        self._tools.pop(tool.key, None)
        whole = self._traces.run(event.run)
        self._emit(
            Span(
                name=f"execute_tool {tool.name}",
                context=replace(whole, span=span_id("tool", tool.key)),
                parent=span_id("step", f"{event.run}/{tool.step}"),
                start=tool.since,
                end=event.at,
                error="" if event.outcome == "ok" else event.outcome,
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": tool.name,
                    "gen_ai.tool.call.id": event.call,
                    "headrace.run": event.run,
                    "headrace.outcome": event.outcome,
                },
            )
        )

    def _ended(self, event: RunEnded, run: _Run) -> None:
        self._step_ends(event.run, run, event.at)
        created, whole = run.created, self._traces.run(event.run)
        asked = self._traces.parent_of_run(event.run)
        agent = "" if created is None else created.agent
        attributes: dict[str, Value | None] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.request.model": None if created is None else created.model,
            "gen_ai.conversation.id": event.run if created is None else created.session or event.run,
            "gen_ai.usage.input_tokens": event.usage.all_input,
            "gen_ai.usage.output_tokens": event.usage.output,
            "headrace.run": event.run,
            "headrace.tenant": None if created is None else created.tenant,
            "headrace.job": None if created is None else created.job,
            "headrace.state": str(event.state),
            "headrace.reason": str(event.reason),
            "headrace.rounds": event.rounds,
            "headrace.tool_calls": event.tool_calls,
        }
        self._emit(
            Span(
                name=f"invoke_agent {agent}".rstrip(),
                context=whole,
                parent="" if asked is None else asked.span,
                remote=True,
                start=run.began,
                end=event.at,
                error=str(event.reason) if event.state in FAILED else "",
                attributes=attributes,
            )
        )
        self.left(event.run)
        self._traces.forget("run", event.run)
