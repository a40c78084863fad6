"""How much of its own limits a run has used: pure."""

from collections.abc import Iterator

from msgspec.structs import replace

from agents.amounts import Limits
from orchestrator.views.runs import LimitUse, RunView


def with_limits(view: RunView, limits: Limits, elapsed: float | None) -> RunView:
    """The view with the use of these limits. `elapsed` are the seconds that count to its timeout; None if nobody knows,
    as of a run that waits for people.
    """
    return replace(view, limits=tuple(_uses(view, limits, elapsed)))


def as_used(view: RunView) -> RunView:
    """The view of a run that has ended, with what it used in the end of the limits that stand in it."""
    if view.started is None or view.ended is None:
        return view
    amounts = {**_amounts(view), "timeout": max(0.0, view.ended - view.started)}
    return replace(view, limits=tuple(replace(use, used=amounts[use.limit]) for use in view.limits))


def _uses(view: RunView, limits: Limits, elapsed: float | None) -> Iterator[LimitUse]:
    amounts = _amounts(view)
    if elapsed is not None:
        amounts["timeout"] = elapsed
    for name, amount in amounts.items():
        allowed = getattr(limits, name)
        if allowed is not None:
            yield LimitUse(limit=name, used=amount, allowed=float(allowed))


def _amounts(view: RunView) -> dict[str, float]:
    return {
        "rounds": float(view.rounds),
        "tool_calls": float(view.tool_calls),
        "tokens": float(view.usage.total or 0),
        "micro_dollars": float(view.micro_dollars or 0),
    }
