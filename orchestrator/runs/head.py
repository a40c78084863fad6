"""What the index of runs says of a run: the view that its events come to, written as it is created, begins and ends.

While a run is open only its executor knows more.

Known limit: what was granted to a run while it worked is not among the limits that the index has.
"""

from collections.abc import Iterable
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from agents.events import Event, RunCreated, RunEnded, RunStarted
from agents.lifecycle import State
from agents.messages import Usage
from agents.observation import observed
from agents.port import Priority
from orchestrator.runs.limit_use import as_used, with_limits
from orchestrator.runs.priorities import PRIORITY_NAMES
from orchestrator.store.base import RunRow
from orchestrator.views.runs import RunView

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(RunView)


class Head:
    """One run's view, as its events tell it. `after` is the number of the event before its first."""

    __slots__ = ("after", "view")

    def __init__(self, view: RunView, after: int) -> None:
        self.view = view
        self.after = after

    @classmethod
    def of(cls, created: RunCreated, after: int) -> Self:
        """The head of a run that was just created."""
        priority = Priority.STANDARD if created.priority is None else Priority(created.priority)
        view = RunView(
            run=created.run,
            session=created.session or created.run,
            agent=created.agent,
            model=created.model,
            tenant=created.tenant,
            job=created.job,
            priority=PRIORITY_NAMES[priority],
            state=State.CREATED,
            observed=observed(State.CREATED),
            reason=None,
            created=created.at,
            started=None,
            ended=None,
            rounds=0,
            tool_calls=0,
            usage=Usage(),
            micro_dollars=0,
            message="",
            parent=created.parent,
        )
        return cls(with_limits(view, created.limits, 0.0), after)

    @classmethod
    def stored(cls, row: RunRow) -> Self:
        """The head in a row of the index."""
        return cls(view_of(row), row.after)

    @property
    def ended(self) -> bool:
        return self.view.reason is not None

    def then(self, events: Iterable[Event]) -> "Head":
        """The head after these events of the run."""
        view = self.view
        for event in events:
            if isinstance(event, RunStarted) and view.started is None:
                view = replace(view, started=event.at, state=State.RUNNING, observed=observed(State.RUNNING))
            elif isinstance(event, RunEnded):
                view = _ended(view, event)
        return Head(view, self.after)

    def row(self) -> RunRow:
        """The row that the index keeps."""
        view = self.view
        return RunRow(
            run=view.run,
            session=view.session,
            tenant=view.tenant,
            job=view.job,
            state=view.state,
            open=not self.ended,
            after=self.after,
            created=view.created,
            head=_encoder.encode(view),
        )


def view_of(row: RunRow) -> RunView:
    """The view in a row of the index."""
    return _decoder.decode(row.head)


def _ended(view: RunView, event: RunEnded) -> RunView:
    return as_used(
        replace(
            view,
            state=event.state,
            observed=observed(event.state),
            reason=event.reason,
            ended=event.at,
            rounds=event.rounds,
            tool_calls=event.tool_calls,
            usage=event.usage,
            micro_dollars=event.micro_dollars,
            message=event.message,
        )
    )
