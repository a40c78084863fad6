"""One run, being folded: what each of its events does to it.

A step stays open until the run has gone on from it: its reply and its results join the transcript when the next model
call is announced, or when the run has ended. Messages from outside join it with the next step's request, behind the
results, since that request is the first to have them.

The first end of anything counts. A second result of a call, a reply to a request that has ended, a word for a run that
is over: such events are evidence, kept in the log, and change nothing.

The time from `run_waiting` to whatever goes on with the run is added up apart, since it counts to no timeout.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from agents.amounts import Amounts, Limits
from agents.compaction import summary_message
from agents.errors import HeadraceError
from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    BudgetGranted,
    CancelRequested,
    ChildStarted,
    Compacted,
    Event,
    Finish,
    InputGiven,
    InputRequested,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    Refusal,
    RunCreated,
    RunEnded,
    RunResumed,
    RunStarted,
    RunWaiting,
    ToolFinished,
    ToolLate,
    ToolRefused,
    ToolStarted,
)
from agents.fold_calls import answered_by_people, asked_about, unanswered, with_call, with_child
from agents.messages import Message, Usage
from agents.people_events import Answered, Asked, Reason
from agents.snapshot import CallSnapshot, RunSnapshot, StepSnapshot
from agents.step_messages import raised, step_messages


class BrokenLog(HeadraceError):
    """Events that no run can have written in this order: going on would mean guessing."""


class Folding:
    """A run's snapshot while events are added to it; its fields are those of `RunSnapshot`."""

    __slots__ = tuple(RunSnapshot.__struct_fields__)

    created: RunCreated
    limits: Limits
    started: float | None
    messages: list[Message]
    opening: int
    inbox: tuple[str, ...]
    open_step: StepSnapshot | None
    open_request: ModelRequested | None
    attempts: int
    context: int | None
    rounds: int
    tool_calls: int
    usage: Usage
    micro_dollars: int | None
    partial: str
    unknown_effects: tuple[str, ...]
    used: Amounts
    unknown: Amounts
    cancel: CancelRequested | None
    resumes: int
    waited: float
    waiting: tuple[Reason, ...]
    waiting_since: float
    late: tuple[ToolLate, ...]
    children: tuple[str, ...]
    below: Amounts
    ended: RunEnded | None

    def __init__(self, start: RunSnapshot) -> None:
        for field in RunSnapshot.__struct_fields__:
            setattr(self, field, getattr(start, field))
        self.messages = list(start.messages)

    def freeze(self) -> RunSnapshot:
        """The snapshot as of now; adding may go on afterwards."""
        fields = {field: getattr(self, field) for field in RunSnapshot.__struct_fields__}
        return RunSnapshot(**(fields | {"messages": tuple(self.messages)}))

    def add(self, event: Event) -> None:
        """One more event of this run."""
        if self.ended is None:
            if not isinstance(event, _NO_END_OF_WAITING):
                self._end_waiting(event.at)
            _ADD[type(event)](self, event)
        elif isinstance(event, MessageAdded):
            self._message_added(event)
        elif isinstance(event, ToolLate):
            self._late(event)

    def _started(self, event: RunStarted) -> None:
        if self.started is None:
            self.started = event.at

    def _resumed(self, event: RunResumed) -> None:
        self.resumes += 1

    def _requested(self, event: ModelRequested) -> None:
        self._go_on()
        if event.purpose == "step":
            self.messages += [Message("user", content) for content in self.inbox]
            self.inbox = ()
        self.open_request = event
        self.attempts += 1

    def _replied(self, event: ModelReplied) -> None:
        request = self._end_request(event)
        if request is None:
            return
        usage = event.reply.usage
        self._pay(event, usage, event.micro_dollars)
        if event.purpose == "compact":
            return
        self.used += Amounts(rounds=1)
        self.rounds += 1
        self.attempts = self.resumes = 0
        self.context = usage.total
        message = event.reply.message
        self.partial = message.content if message.content.strip() else self.partial
        calls = tuple(CallSnapshot(index=index, call=call) for index, call in enumerate(message.tool_calls))
        self.open_step = StepSnapshot(number=event.step, reply=event.reply, shrunk_by=request.shrunk_by, calls=calls)

    def _failed(self, event: ModelFailed) -> None:
        if self._end_request(event) is None:
            return
        # Where nothing was used and nothing stays held, the provider did no work, and that costs nothing for certain.
        idle = event.usage == Usage() and not event.unknown_tokens and not event.unknown_micro_dollars
        self._pay(event, event.usage, 0 if idle else event.micro_dollars)
        self.partial = event.partial or self.partial

    def _compacted(self, event: Compacted) -> None:
        first, last = self.opening, self.opening + event.messages
        if not 0 < event.messages <= len(self.messages) - first:
            raise BrokenLog(
                f"a summary stands for {event.messages} messages of run {event.run}, which has "
                f"{len(self.messages) - first} that one can stand for"
            )
        if self.messages[last : last + 1] and self.messages[last].role == "tool":
            raise BrokenLog(f"a summary in run {event.run} takes a tool call away from its result")
        self.messages[first:last] = [summary_message(event.summary)]
        self.context = None

    def _refused(self, event: ToolRefused) -> None:
        self._answer(event.step, event.index, event.outcome, event.content, limit=event.limit)

    def _people_asked(self, event: Asked) -> None:
        call = self._unanswered(event.step, event.index)
        if call is not None:
            self._put(asked_about(call, event))

    def _people_answered(self, event: Answered) -> None:
        call = self._asked_as(event.key)
        answered = None if call is None else answered_by_people(call, event)
        if answered is not None:
            self._end_waiting(event.at)
            self._put(answered)

    def _waits(self, event: RunWaiting) -> None:
        self.waiting, self.waiting_since, self.resumes = event.reasons, event.at, 0

    def _end_waiting(self, at: float) -> None:
        if self.waiting:
            self.waited += max(0.0, at - self.waiting_since)
            self.waiting, self.waiting_since = (), 0.0

    def _late(self, event: ToolLate) -> None:
        self.late += (event,)

    def _child_started(self, event: ChildStarted) -> None:
        call = self._unanswered(event.step, event.index)
        if event.child not in self.children:
            self.children += (event.child,)
        if call is not None:
            self._put(with_child(call, event.child))

    def _tool_started(self, event: ToolStarted) -> None:
        call = self._unanswered(event.step, event.index)
        if call is None:
            return
        if not call.started:
            self.tool_calls += 1
            self.used += Amounts(tool_calls=1)
        self._put(replace(call, key=event.key, started=True, repeatable=event.repeatable))

    def _tool_finished(self, event: ToolFinished) -> None:
        call = self._answer(event.step, event.index, event.outcome, event.content)
        if call is None:
            return
        self.used += event.used
        self.below += event.used
        self.unknown += event.unknown
        if event.outcome == "unknown_effect":
            self.unknown_effects += (call.key,)

    def _cancel_requested(self, event: CancelRequested) -> None:
        if self.cancel is None:
            self.cancel = event

    def _message_added(self, event: MessageAdded) -> None:
        self.inbox += (event.content,)

    def _granted(self, event: BudgetGranted) -> None:
        self.limits = raised(self.limits, event.limits)

    def _ended(self, event: RunEnded) -> None:
        self._go_on()
        self.open_request = None
        self.ended = event

    def _go_on(self) -> None:
        if self.open_step is not None:
            self.messages += step_messages(self.open_step)
            self.open_step = None

    def _end_request(self, event: ModelReplied | ModelFailed) -> ModelRequested | None:
        request = self.open_request
        if request is None or (request.step, request.attempt) != (event.step, event.attempt):
            return None
        self.open_request = None
        return request

    def _pay(self, event: ModelReplied | ModelFailed, usage: Usage, cost: int | None) -> None:
        tokens = (usage.all_input or 0) + (usage.output or 0)
        self.used += Amounts(tokens=tokens, micro_dollars=cost or 0)
        self.unknown += Amounts(tokens=event.unknown_tokens, micro_dollars=event.unknown_micro_dollars)
        self.usage += usage
        known = cost is not None and self.micro_dollars is not None
        self.micro_dollars = (self.micro_dollars or 0) + (cost or 0) if known else None

    def _unanswered(self, number: int, index: int) -> CallSnapshot | None:
        step = self.open_step
        return None if step is None or step.number != number else unanswered(step, index)

    def _asked_as(self, key: str) -> CallSnapshot | None:
        """The call about which people are asked under this key; none once the run was taken away."""
        calls = () if self.open_step is None or self.cancel is not None else self.open_step.calls
        return next((call for call in calls if call.asked is not None and call.asked.key == key), None)

    def _answer(
        self, number: int, index: int, outcome: Finish | Refusal, content: str, **more: Any
    ) -> CallSnapshot | None:
        call = self._unanswered(number, index)
        if call is not None:
            call = replace(call, outcome=outcome, content=content, **more)
            self._put(call)
        return call

    def _put(self, call: CallSnapshot) -> None:
        assert self.open_step is not None
        self.open_step = with_call(self.open_step, call)


_NO_END_OF_WAITING: Final = (RunWaiting, ApprovalDecided, InputGiven, ToolLate)
"""Events that may come while a run waits for people, and do not by themselves go on with it."""

_ADD: Final[dict[type, Callable[[Folding, Any], None]]] = {
    RunStarted: Folding._started,
    RunResumed: Folding._resumed,
    ModelRequested: Folding._requested,
    ModelReplied: Folding._replied,
    ModelFailed: Folding._failed,
    Compacted: Folding._compacted,
    ToolRefused: Folding._refused,
    ApprovalRequested: Folding._people_asked,
    ApprovalDecided: Folding._people_answered,
    InputRequested: Folding._people_asked,
    InputGiven: Folding._people_answered,
    RunWaiting: Folding._waits,
    ToolStarted: Folding._tool_started,
    ToolFinished: Folding._tool_finished,
    ToolLate: Folding._late,
    ChildStarted: Folding._child_started,
    CancelRequested: Folding._cancel_requested,
    MessageAdded: Folding._message_added,
    BudgetGranted: Folding._granted,
    RunEnded: Folding._ended,
}
