"""What a session's events come to: its runs, and where the last of them stands. Pure: same events, same bytes.

A run is a segment of its session's log, and begins where the transcript of the one before it ends; so a fold goes
through all of them, and keeps the last. Events may be folded in pieces: folding the rest onto the snapshot of a prefix
gives what folding them all does.

Where an executor was lost, the log just stops. The snapshot then says what is open (a model call, calls of tools), and
`transcript` answers for each open call, so that what it gives is valid after any prefix.
"""

from collections.abc import Iterable

from agents.errors import HeadraceError
from agents.events import VERSION, Event, RunCreated, UnknownEvent
from agents.folding import BrokenLog, Folding
from agents.messages import Message
from agents.result import RunResult, at_most
from agents.snapshot import RunSnapshot, SessionSnapshot
from agents.step_messages import answered_messages, raised, step_messages

__all__ = ["BrokenLog", "StillOpen", "fold", "raised", "result_of", "transcript"]


class StillOpen(HeadraceError):
    """The run has not ended, so it has no result."""


def fold(events: Iterable[Event], onto: SessionSnapshot | None = None) -> SessionSnapshot:
    """The session after these events, which follow those of `onto`.

    Raises `UnknownEvent` for a run of another version, `BrokenLog` for an order in which no run writes its events.
    """
    before = onto or SessionSnapshot()
    runs = list(before.runs)
    last = None if before.last is None else Folding(before.last)
    count = before.events
    for event in events:
        count += 1
        if isinstance(event, RunCreated):
            last = Folding(_created(event, runs, None if last is None else last.freeze()))
            runs.append(event.run)
        elif last is None:
            raise BrokenLog(f"the log begins with {event.__struct_config__.tag}; the first event must be run_created")
        elif event.run == last.created.run:
            last.add(event)
        elif event.run not in runs:
            raise BrokenLog(f"event {count} of the log is of run {event.run}, which was never created there")
    return SessionSnapshot(runs=tuple(runs), last=None if last is None else last.freeze(), events=count)


def _created(event: RunCreated, runs: list[str], before: RunSnapshot | None) -> RunSnapshot:
    if event.version != VERSION:
        raise UnknownEvent(
            f"run {event.run} was written in version {event.version} of the events; this is version {VERSION}"
        )
    if event.run in runs:
        raise BrokenLog(f"run {event.run} was created twice")
    if before is None:
        return RunSnapshot(created=event, limits=event.limits, messages=event.messages, opening=event.opening)
    if before.ended is None:
        raise BrokenLog(f"run {event.run} was created while run {before.created.run} of its session was open")
    return RunSnapshot(
        created=event,
        limits=event.limits,
        messages=transcript(before) + event.messages,
        opening=before.opening,
        context=before.context,
    )


def transcript(run: RunSnapshot) -> tuple[Message, ...]:
    """All that was said so far: valid, since each tool call has exactly one answer, whatever is still open."""
    step = () if run.open_step is None else step_messages(run.open_step)
    return run.messages + step + tuple(Message("user", content) for content in run.inbox)


def said_so_far(run: RunSnapshot) -> tuple[Message, ...]:
    """Like `transcript`, but calls that have no answer yet have none: for whoever looks at a run that is open."""
    step = () if run.open_step is None else answered_messages(run.open_step)
    return run.messages + step + tuple(Message("user", content) for content in run.inbox)


def result_of(run: RunSnapshot) -> RunResult:
    """How the run ended, as whoever drove it was told. Raises `StillOpen` for a run that has not."""
    ended = run.ended
    if ended is None:
        raise StillOpen(f"run {run.created.run} has not ended")
    shared = set(ended.__struct_fields__) & set(RunResult.__struct_fields__)
    return RunResult(
        **{field: getattr(ended, field) for field in shared},
        agent=run.created.agent,
        unknown_tokens=run.unknown.tokens,
        below=run.below,
        unknown_micro_dollars=at_most(ended.micro_dollars, run.used, run.unknown),
        messages=transcript(run),
    )
