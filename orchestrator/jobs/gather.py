"""When a job has enough, and how it ends then: a function of its policy and of how its items stand. Pure."""

from typing import Literal

from msgspec import Struct

from agents.debate import Debate
from agents.debate_rounds import Failed
from agents.lifecycle import TERMINAL_STATE, State, StopReason
from orchestrator.views.jobs import GatherRequest


class Counts(Struct, frozen=True, kw_only=True):
    """How a job's items stand: `done` and `failed` in its present attempt, of `total`, which is None while more may
    come. `seconds` have passed since its workers could start. `error` is about some item that failed. Where the items
    are the rounds of a `debate`, it is how that stands.
    """

    done: int
    failed: int
    total: int | None = None
    seconds: float = 0.0
    error: str = ""
    debate: Debate | None = None

    @property
    def over(self) -> int:
        """Items that have ended."""
        return self.done + self.failed

    @property
    def possible(self) -> float:
        """How many can be done at most."""
        return float("inf") if self.total is None else self.total - self.failed


class Close(Struct, frozen=True):
    """The job takes no more items and ends in `phase`; what is live is cancelled."""

    phase: Literal["done", "failed", "stopped"]
    message: str


def judge(gather: GatherRequest, counts: Counts) -> Close | None:
    """What to do while items are live or to come: close the job, or go on (None)."""
    count = gather.count or 0
    match gather.policy:
        case "all" if counts.failed:
            return Close("failed", f"an item failed: {counts.error}")
        case "quorum":
            if counts.done >= count:
                return Close("done", f"{counts.done} items are done, and {count} are enough")
            return _unreachable(count, counts)
        case "first" if counts.over >= count:
            return Close("done" if counts.done else "failed", f"the first {count} items have ended")
        case "deadline":
            if counts.seconds >= (gather.seconds or 0.0):
                return _at_the_deadline(gather, counts)
            return _unreachable(count, counts)
        case "converge" if counts.debate is not None:
            return _of_a_debate(counts.debate)
    return None


def settle(gather: GatherRequest, counts: Counts) -> Close:
    """How the job ends when all its items have ended and nothing closed it before."""
    match gather.policy:
        case "quorum" | "deadline":
            enough = counts.done >= (gather.count or 0)
            return Close("done", "") if enough else Close("failed", _too_few(gather.count or 0, counts))
        case "first":
            return Close("done" if counts.done or not counts.failed else "failed", "")
    return Close("failed" if counts.failed else "done", "")


def _of_a_debate(debate: Debate) -> Close | None:
    """A debate closes its job when it stops; one that a budget around its rounds stopped goes on with a new one."""
    if debate.stop is None:
        return None
    if debate.stop is StopReason.CONVERGED:
        return Close("done", f"converged after {len(debate.turns)} rounds")
    last = debate.turns[-1].content
    if isinstance(last, Failed) and last.final and TERMINAL_STATE[last.reason] is State.STOPPED:
        return Close("stopped", f"its budget is spent: {debate.why}")
    return Close("failed", f"{debate.stop.value}: {debate.why}")


def _unreachable(count: int, counts: Counts) -> Close | None:
    return Close("failed", _too_few(count, counts)) if counts.possible < count else None


def _too_few(count: int, counts: Counts) -> str:
    of = "" if counts.total is None else f" of {counts.total}"
    return f"{count} items have to be done, and no more than {max(counts.possible, 0):g}{of} can be"


def _at_the_deadline(gather: GatherRequest, counts: Counts) -> Close:
    count, after = gather.count or 0, f"after its {gather.seconds:g} seconds"
    if counts.done >= count:
        return Close("done", f"{after} {counts.done} items are done")
    return Close("failed", f"{after} {counts.done} items are done, and {count} have to be")
