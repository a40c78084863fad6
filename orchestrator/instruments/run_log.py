"""Structured logs of runs: one line for each of their events, in words, with the ids that lead to everything else.

| what happened                                                        | level   |
|----------------------------------------------------------------------|---------|
| a run failed, or its log could not be kept                           | warning |
| a tool ran into its timeout, or nobody knows what it did             | warning |
| a run waits for people, hears from them, is taken up again           | info    |
| a limit beyond its own stopped a run: its job's, its tenant's        | info    |
| a run that belongs to no job was created, or ended                   | info    |
| everything else: model calls, tools, runs of jobs                    | debug   |

No line has a prompt, an answer, arguments or results of tools, or what people said: of texts it says how long they are.
Of equal lines at most `BURST` in `SPAN` seconds are written (see `log`).
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    BudgetGranted,
    CancelRequested,
    ChildStarted,
    Compacted,
    Event,
    InputGiven,
    InputRequested,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunResumed,
    RunWaiting,
    ToolFinished,
    ToolLate,
    ToolRefused,
    ToolStarted,
)
from agents.lifecycle import State
from agents.snapshot import RunSnapshot
from orchestrator.instruments.log import LEVELS, Bursts, Level

Fields = dict[str, object]

OWN: Final = "run"
"""What a run's own scope is called (`agents.budget.Scope`)."""

ALARMING: Final = frozenset({"timeout", "unknown_effect"})
"""Outcomes of tool calls that somebody should look at."""


class _Whose(Struct, frozen=True):
    tenant: str
    job: str
    agent: str


class RunLog:
    """Writes a line for each event that was appended to a run's log. What is below `level` is not even put together."""

    def __init__(self, log: FilteringBoundLogger, level: Level = "info", *, bursts: Bursts | None = None) -> None:
        self._log = log
        self._least = LEVELS[level]
        self._bursts = Bursts() if bursts is None else bursts
        self._open: dict[str, _Whose] = {}

    def see(self, event: Event) -> None:
        """Takes in one event that was appended."""
        if isinstance(event, RunCreated):
            self._open[event.run] = _Whose(event.tenant, event.job, event.agent)
        whose = self._open.get(event.run)
        level = level_of(event, in_job=whose is not None and whose.job != "")
        if LEVELS[level] >= self._least:
            self._write(level, event, whose)
        if isinstance(event, RunEnded):
            self._open.pop(event.run, None)

    def stands(self, run: RunSnapshot) -> None:
        """This run goes on from here."""
        created = run.created
        self._open[created.run] = _Whose(created.tenant, created.job, created.agent)

    def left(self, run: str) -> None:
        """Nobody here drives this run for now."""
        self._open.pop(run, None)

    def lost(self, run: str) -> None:
        """An event of this run could not be kept."""
        whose = self._open.pop(run, None)
        self._log.warning("run lost: its log took no more", **_ids(run, whose))

    def _write(self, level: Level, event: Event, whose: _Whose | None) -> None:
        said = FIELDS.get(type(event), _nothing)(event)
        kind = str(said.get("outcome") or said.get("reason") or said.get("error") or "")
        more = {} if level == "debug" else self._bursts.next((type(event).__name__, kind, level), event.at)
        if more is not None:
            write = getattr(self._log, level)
            write(WORDS[type(event)], **_ids(event.run, whose), **said, **more)


def level_of(event: Event, *, in_job: bool) -> Level:
    """How much an operator wants to know of it."""
    match event:
        case RunEnded(state=State.FAILED):
            return "warning"
        case ToolFinished(outcome=outcome) if outcome in ALARMING:
            return "warning"
        case RunEnded(limit=limit, scope=scope) if limit and scope != OWN:
            return "info"
        case RunCreated() | RunEnded():
            return "debug" if in_job else "info"
        case RunResumed() | RunWaiting() | CancelRequested() | BudgetGranted() | MessageAdded() | ToolLate():
            return "info"
        case ApprovalRequested() | ApprovalDecided() | InputRequested() | InputGiven():
            return "info"
        case _:
            return "debug"


def _ids(run: str, whose: _Whose | None) -> Fields:
    ids: Fields = {"run": run}
    if whose is not None:
        ids |= {"tenant": whose.tenant, "job": whose.job, "agent": whose.agent}
    return {name: value for name, value in ids.items() if value}


def _nothing(event: Event) -> Fields:
    return {}


def _created(event: RunCreated) -> Fields:
    fields: Fields = {"model": event.model, "session": event.session, "parent": event.parent}
    return {name: value for name, value in fields.items() if value}


def _replied(event: ModelReplied) -> Fields:
    usage = event.reply.usage
    return {
        "call": f"{event.run}/{event.step}/{event.attempt}",
        "input": usage.all_input,
        "output": usage.output,
        "tools": len(event.reply.message.tool_calls),
        "micro_dollars": event.micro_dollars,
    }


def _ended(event: RunEnded) -> Fields:
    fields: Fields = {
        "state": str(event.state),
        "reason": str(event.reason),
        "rounds": event.rounds,
        "tool_calls": event.tool_calls,
        "input": event.usage.all_input,
        "output": event.usage.output,
        "micro_dollars": event.micro_dollars,
    }
    if event.limit:
        fields |= {"scope": event.scope, "limit": event.limit, "allowed": event.allowed, "observed": event.observed}
    return fields


def _limits(event: BudgetGranted) -> Fields:
    granted = {name: getattr(event.limits, name) for name in event.limits.__struct_fields__}
    return {name: value for name, value in granted.items() if value is not None}


WORDS: Final[Mapping[type, str]] = {kind: kind.__struct_config__.tag.replace("_", " ") for kind in Event.__args__}
"""What a line says, by the kind of event: its name in the log."""

FIELDS: Final[Mapping[type, Callable[..., Fields]]] = {
    RunCreated: _created,
    RunResumed: lambda event: {"generation": event.generation},
    ModelRequested: lambda event: {"call": event.key, "purpose": event.purpose, "reserved": event.reserved_tokens},
    ModelReplied: _replied,
    ModelFailed: lambda event: {"call": f"{event.run}/{event.step}/{event.attempt}", "error": event.kind},
    ToolRefused: lambda event: {"tool": event.name, "outcome": event.outcome},
    ToolStarted: lambda event: {"tool": event.name, "call": event.key},
    ToolFinished: lambda event: {"tool": event.name, "outcome": event.outcome, "characters": len(event.content)},
    ToolLate: lambda event: {"tool": event.name, "call": event.key, "outcome": event.outcome},
    ApprovalRequested: lambda event: {"tool": event.name, "request": event.key, "why": event.why},
    ApprovalDecided: lambda event: {"request": event.key, "outcome": event.decision, "by": event.by},
    InputRequested: lambda event: {"tool": event.name, "request": event.key},
    InputGiven: lambda event: {"request": event.key, "by": event.by, "characters": len(event.content)},
    RunWaiting: lambda event: {"reason": ", ".join(event.reasons)},
    ChildStarted: lambda event: {"call": event.key, "child": event.child},
    CancelRequested: lambda event: {"source": event.source, "reason": event.reason},
    MessageAdded: lambda event: {"characters": len(event.content)},
    BudgetGranted: _limits,
    Compacted: lambda event: {"messages": event.messages},
    RunEnded: _ended,
}
"""What a line says beside its ids, by the kind of event."""
