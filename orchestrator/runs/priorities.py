"""Priorities by the names that clients know them by."""

from typing import Final

from agents.port import Priority
from orchestrator.views.runs import PriorityName

PRIORITY_NAMES: Final[dict[Priority, PriorityName]] = {
    Priority.INTERACTIVE: "interactive",
    Priority.STANDARD: "standard",
    Priority.BATCH: "batch",
}
PRIORITIES: Final[dict[PriorityName, Priority]] = {name: priority for priority, name in PRIORITY_NAMES.items()}
