"""What each open run waits for, in one word or two: asked for a whole page of runs at once."""

from collections.abc import Iterable, Mapping
from typing import Final

from agents.lifecycle import State
from orchestrator.daemon.owners import Owners
from orchestrator.instruments.tools import Running
from orchestrator.policy.endpoints import CLOSED_OFF
from orchestrator.policy.waits import FAIR_ORDER
from orchestrator.runs.record import RunRecord

BUDGET: Final = "room in a budget"


def waits_for(owners: Owners, running: Iterable[Running], records: Mapping[str, RunRecord]) -> dict[str, str]:
    """By run: what holds its model call in the queue, the tool that works for it, or the budget it waits for.

    What people are asked, and who is to drive a run, is in its state and its message. Costs O(open runs).
    """
    found = {run: BUDGET for run, record in records.items() if _wants_room(record)}
    found |= {call.run: f"tool {call.tool}" for call in running}
    for owner in owners.by_name.values():
        held_by = owner.policy.held_by
        for ticket in owner.unsent():
            if ticket.run:
                # whoever stands behind others waits for them, except where nobody goes
                found[ticket.run] = held_by if held_by in CLOSED_OFF else ticket.held_by or FAIR_ORDER
    return found


def _wants_room(record: RunRecord) -> bool:
    """Whether it has nothing open, and somebody waits for a settlement in one of its budgets: it, most likely."""
    run = record.live
    if run is None or run.state is not State.RUNNING:
        return False
    return any(scope.waiting for scope in run.scope.path())
