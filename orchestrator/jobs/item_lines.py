"""How an item's run becomes its line, and what that line does not show of its cost."""

import msgspec

from agents.amounts import Amounts
from agents.lifecycle import StopReason
from agents.result import RunResult
from orchestrator.jobs.inputs import Item
from orchestrator.jobs.item_runs import item_result
from orchestrator.jobs.job import ItemResult
from orchestrator.jobs.record import NEVER_BEGUN, JobLine


def item_line(item: Item, result: RunResult) -> JobLine:
    """The line of an item whose run has ended."""
    return line_of(item_result(item, result), result.micro_dollars)


def line_of(result: ItemResult, micro_dollars: int | None) -> JobLine:
    """A result, and what it cost."""
    return JobLine(**msgspec.structs.asdict(result), micro_dollars=micro_dollars)


def failed_line(item: Item, why: str, problem: str) -> ItemResult:
    """The result of an item that no run has ended of."""
    return ItemResult(item.ordinal, item.origin, "failed", why, error=problem)


def never_begun(ordinal: int, origin: str) -> ItemResult:
    """The result of an item that its job closed before."""
    return ItemResult(ordinal, origin, "failed", StopReason.CANCELLED.value, error=NEVER_BEGUN)


def unknown_of(result: RunResult) -> Amounts:
    """What a run may have used, and runs below it have, beside what its line shows."""
    return Amounts(tokens=result.unknown_tokens, micro_dollars=result.unknown_micro_dollars) + _below(result)


def _below(result: RunResult) -> Amounts:
    """What runs below the item's own have used: its line does not show it, and the job's budget has paid for it.

    Where the cost of the run itself is unknown, theirs is in what all of it has cost at most.
    """
    if result.micro_dollars is None:
        return msgspec.structs.replace(result.below, micro_dollars=0)
    return result.below
