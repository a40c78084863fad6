"""What clients see of a run that is open, from what whoever drives it knows, or what its log came to. Pure."""

from msgspec.structs import asdict, replace

from agents.snapshot import RunSnapshot
from orchestrator.runs.driven import Progress
from orchestrator.runs.limit_use import with_limits
from orchestrator.views.runs import RunDetail, RunView


def so_far(view: RunView, known: Progress | RunSnapshot, now: float) -> RunView:
    """The view with what the run has done and used up to `now`, on trio's clock."""
    if isinstance(known, RunSnapshot):
        limits, elapsed = known.limits, None
    else:
        started = known.scope.started
        limits, elapsed = known.scope.limits, 0.0 if started is None else max(0.0, now - started)
    return with_limits(
        replace(
            view,
            rounds=known.rounds,
            tool_calls=known.tool_calls,
            usage=known.usage,
            micro_dollars=known.micro_dollars,
        ),
        limits,
        elapsed,
    )


def driven_detail(view: RunView, progress: Progress, events: int) -> RunDetail:
    """A run that somebody drives, whole, with so many `events`."""
    return RunDetail(
        **asdict(view),
        unknown_tokens=progress.scope.unknown.tokens,
        unknown_effects=tuple(progress.unknown_effects),
        events=events,
        messages=tuple(progress.messages),
    )


def listed(detail: RunDetail) -> RunView:
    """What a list shows of a run of which all is known."""
    return RunView(**{field: getattr(detail, field) for field in RunView.__struct_fields__})
