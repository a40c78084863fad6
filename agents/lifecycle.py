"""The states of a run, its stop reasons, and the one table of transitions between them.

Rules:

1. A run begins as `created` and ends in exactly one terminal state. Nothing follows a terminal state.
2. `created` may be queued or begin at once; a queued run waits for an executor. A run that has not begun may be
   cancelled, expire or fail; only a run that has begun can be completed or stopped by a limit.
3. While a run is active its state says what it has open: tool calls, approvals, questions to a person, child runs, a
   model call. Where several are open, the first of that order names the state; where nothing is, it is `running`.
4. `cancelling` says that the end is decided and what is open is being drained. Nothing is opened any more, nothing
   leads back, and the run is never completed from there.
5. A run ends only when nothing is open: terminal states follow `created`, `queued`, `running` and `cancelling`.
6. An illegal transition changes nothing and raises `IllegalTransition`.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

from agents.errors import HeadraceError


class State(StrEnum):
    """Where a run stands."""

    CREATED = "created"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING_MODEL = "waiting_model"
    WAITING_TOOL = "waiting_tool"
    WAITING_APPROVAL = "waiting_approval"
    WAITING_INPUT = "waiting_input"
    WAITING_CHILDREN = "waiting_children"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class StopReason(StrEnum):
    """Why a run ended; exactly one for each. `TERMINAL_STATE` says which state it leads to."""

    FINAL_ANSWER = "final_answer"
    CONVERGED = "converged"
    MAX_ROUNDS = "max_rounds"
    MAX_TOOL_CALLS = "max_tool_calls"
    TIMEOUT = "timeout"
    TOKEN_BUDGET_EXCEEDED = "token_budget_exceeded"
    COST_BUDGET_EXCEEDED = "cost_budget_exceeded"
    OUTPUT_LIMIT = "output_limit"
    CONTEXT_LIMIT = "context_limit"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    EXPIRED = "expired"
    PLANNER_ERROR = "planner_error"
    TOOL_ERROR = "tool_error"
    INVALID_ACTION = "invalid_action"
    MALFORMED_OUTPUT = "malformed_output"
    REFUSAL = "refusal"
    OVERLOADED = "overloaded"
    LOST = "lost"
    INTERNAL_ERROR = "internal_error"


_ACTIVE: Final = frozenset(
    {
        State.RUNNING,
        State.WAITING_MODEL,
        State.WAITING_TOOL,
        State.WAITING_APPROVAL,
        State.WAITING_INPUT,
        State.WAITING_CHILDREN,
    }
)
TERMINAL: Final = frozenset({State.COMPLETED, State.STOPPED, State.FAILED, State.CANCELLED, State.EXPIRED})
_UNBEGUN_ENDS: Final = frozenset({State.FAILED, State.CANCELLED, State.EXPIRED})

TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.CREATED: frozenset({State.QUEUED, State.RUNNING}) | _UNBEGUN_ENDS,
    State.QUEUED: frozenset({State.RUNNING}) | _UNBEGUN_ENDS,
    State.RUNNING: (_ACTIVE - {State.RUNNING}) | {State.CANCELLING} | TERMINAL,
    State.WAITING_MODEL: (_ACTIVE - {State.WAITING_MODEL}) | {State.CANCELLING},
    State.WAITING_TOOL: (_ACTIVE - {State.WAITING_TOOL}) | {State.CANCELLING},
    State.WAITING_APPROVAL: (_ACTIVE - {State.WAITING_APPROVAL}) | {State.CANCELLING},
    State.WAITING_INPUT: (_ACTIVE - {State.WAITING_INPUT}) | {State.CANCELLING},
    State.WAITING_CHILDREN: (_ACTIVE - {State.WAITING_CHILDREN}) | {State.CANCELLING},
    State.CANCELLING: TERMINAL - {State.COMPLETED},
    State.COMPLETED: frozenset(),
    State.STOPPED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
    State.EXPIRED: frozenset(),
}

TERMINAL_STATE: Final[Mapping[StopReason, State]] = {
    StopReason.FINAL_ANSWER: State.COMPLETED,
    StopReason.CONVERGED: State.COMPLETED,
    StopReason.MAX_ROUNDS: State.STOPPED,
    StopReason.MAX_TOOL_CALLS: State.STOPPED,
    StopReason.TIMEOUT: State.STOPPED,
    StopReason.TOKEN_BUDGET_EXCEEDED: State.STOPPED,
    StopReason.COST_BUDGET_EXCEEDED: State.STOPPED,
    StopReason.OUTPUT_LIMIT: State.STOPPED,
    StopReason.CONTEXT_LIMIT: State.STOPPED,
    StopReason.CANCELLED: State.CANCELLED,
    StopReason.INTERRUPTED: State.CANCELLED,
    StopReason.EXPIRED: State.EXPIRED,
    StopReason.PLANNER_ERROR: State.FAILED,
    StopReason.TOOL_ERROR: State.FAILED,
    StopReason.INVALID_ACTION: State.FAILED,
    StopReason.MALFORMED_OUTPUT: State.FAILED,
    StopReason.REFUSAL: State.FAILED,
    StopReason.OVERLOADED: State.FAILED,
    StopReason.LOST: State.FAILED,
    StopReason.INTERNAL_ERROR: State.FAILED,
}

Opened = Literal["tool", "approval", "input", "children", "model"]

_NAMING: Final[tuple[tuple[Opened, State], ...]] = (
    ("tool", State.WAITING_TOOL),
    ("approval", State.WAITING_APPROVAL),
    ("input", State.WAITING_INPUT),
    ("children", State.WAITING_CHILDREN),
    ("model", State.WAITING_MODEL),
)


class IllegalTransition(HeadraceError):
    """The table has no such transition; the run's state is what it was."""


class Lifecycle:
    """Where one run stands. Every method either moves it along the table or raises and changes nothing."""

    __slots__ = ("_open", "_state", "reason")

    def __init__(self) -> None:
        self._state = State.CREATED
        self._open: Counter[Opened] = Counter()
        self.reason: StopReason | None = None

    @property
    def state(self) -> State:
        """Where the run stands, named by the first thing it has open."""
        return self._state

    def queue(self) -> None:
        """The run waits for an executor."""
        self._move(State.QUEUED)

    def begin(self) -> None:
        """An executor took the run up."""
        if self._state not in (State.CREATED, State.QUEUED):
            raise IllegalTransition(f"a run that is {self._state} cannot begin")
        self._move(State.RUNNING)

    def open(self, thing: Opened) -> None:
        """A model call, a tool call, an approval, a question or a child run is under way."""
        if self._state not in _ACTIVE:
            raise IllegalTransition(f"a run that is {self._state} opens no {thing}")
        self._open[thing] += 1
        self._name()

    def close(self, thing: Opened) -> None:
        """One of these has ended, in whatever way."""
        if not self._open[thing]:
            raise IllegalTransition(f"no {thing} is open")
        self._open[thing] -= 1
        if self._state is not State.CANCELLING:
            self._name()

    def cancel(self) -> None:
        """The end is decided; what is open is drained. Repeating it is harmless."""
        if self._state is not State.CANCELLING:
            self._move(State.CANCELLING)

    def end(self, reason: StopReason) -> None:
        """The run is over, for this reason."""
        if self._open.total():
            raise IllegalTransition(f"a run with something open cannot end: {dict(+self._open)}")
        self._move(TERMINAL_STATE[reason])
        self.reason = reason

    def _name(self) -> None:
        named = next((state for thing, state in _NAMING if self._open[thing]), State.RUNNING)
        if named is not self._state:
            self._move(named)

    def _move(self, to: State) -> None:
        if to not in TRANSITIONS[self._state]:
            raise IllegalTransition(f"a run cannot go from {self._state} to {to}")
        self._state = to

    def __repr__(self) -> str:
        reason = "" if self.reason is None else f" {self.reason}"
        return f"<Lifecycle {self._state}{reason} open={dict(+self._open)}>"


def mermaid() -> str:
    """The table as a Mermaid state diagram; an edge that all active states share is drawn once, from their group."""
    lines = ["stateDiagram-v2", "    [*] --> created", "    state active {"]
    lines += [f"        {state}" for state in State if state in _ACTIVE]
    lines += ["    }"]
    edges: dict[str, None] = {}
    for state in State:
        for target in State:
            if target not in TRANSITIONS[state] or (state in _ACTIVE and target in _ACTIVE):
                continue
            shared = state in _ACTIVE and all(target in TRANSITIONS[other] for other in _ACTIVE)
            edges[f"    {'active' if shared else state} --> {target}"] = None
    lines += edges
    lines += [f"    {state} --> [*]" for state in State if not TRANSITIONS[state]]
    return "\n".join(lines) + "\n"
