"""Cells that are runs on a daemon: started, waited for, judged by a pattern in their answer.

Their numbers are rounds, tool calls, tokens, micro-dollars where they are known, and the seconds from their start to
their end by the daemon's clock.
"""

import re
from typing import Final

import trio

from agents.amounts import Limits
from agents.errors import HeadraceError
from agents.lifecycle import StopReason
from bench.experiment.cells import Cell
from bench.experiment.outcome import Outcome, broken
from bench.experiment.placeholders import filled
from bench.experiment.spec import DaemonRun, SpecError
from orchestrator.cli.connect import own_key
from orchestrator.client.client import Client, open_client
from orchestrator.client.patience import patiently
from orchestrator.client.requests import new_id
from orchestrator.views.runs import AgentChoice, RunDetail, RunRequest

NOBODYS_FAULT: Final = frozenset(
    {
        StopReason.CANCELLED,
        StopReason.INTERRUPTED,
        StopReason.EXPIRED,
        StopReason.OVERLOADED,
        StopReason.LOST,
        StopReason.INTERNAL_ERROR,
        StopReason.PLANNER_ERROR,
    }
)
"""Ends that say nothing about the arm: such a cell is broken, and run again."""
_GIVE_BACK_SECONDS: Final = 5.0


class DaemonRunner:
    """Runs each cell on the daemon of its file, with the key of the environment."""

    def __init__(self, how: DaemonRun) -> None:
        self._how = how

    def check(self, cell: Cell) -> None:
        """Raises `SpecError` where no request can be made up for a cell."""
        self._request(cell)
        self._pattern(cell)

    async def run(self, cell: Cell) -> Outcome:
        """Runs it to its end; where it is cancelled here, there too."""
        request = self._request(cell)
        try:
            async with open_client(filled(self._how.url, cell), key=own_key()) as client:
                detail = await _ended(client, request)
        except HeadraceError as error:
            return broken(error.message)
        return judged(detail, self._pattern(cell))

    def _request(self, cell: Cell) -> RunRequest:
        how = self._how
        agent = filled(how.agent, cell)
        who = (
            AgentChoice(agent=agent)
            if agent
            else AgentChoice(model=filled(how.model, cell), system=filled(how.system, cell), seed=cell.seed)
        )
        budget = Limits() if how.rounds is None else Limits(rounds=how.rounds)
        return RunRequest(task=filled(how.prompt, cell), who=who, tenant=how.tenant, budget=budget, run=new_id())

    def _pattern(self, cell: Cell) -> re.Pattern[str]:
        text = filled(self._how.expect, cell)
        try:
            return re.compile(text)
        except re.error as error:
            raise SpecError(f"expect = {text!r} is no regular expression: {error}") from None


def judged(detail: RunDetail, expected: re.Pattern[str]) -> Outcome:
    """What a run that has ended comes to."""
    if detail.reason is None or detail.reason in NOBODYS_FAULT:
        return broken(f"run {detail.run} ended with {detail.reason}: {detail.message}")
    numbers: dict[str, float] = {
        "rounds": detail.rounds,
        "tool_calls": detail.tool_calls,
    }
    if detail.usage.total is not None:
        numbers["tokens"] = detail.usage.total
    if detail.micro_dollars is not None:
        numbers["micro_dollars"] = detail.micro_dollars
    if detail.started is not None and detail.ended is not None:
        numbers["seconds"] = detail.ended - detail.started
    return Outcome(state="done", success=int(expected.search(detail.answer) is not None), numbers=numbers)


async def _ended(client: Client, request: RunRequest) -> RunDetail:
    await patiently(lambda: client.start_run(request), lambda _: None)
    try:
        async for _ in client.events(request.run):
            pass
        return await client.run(request.run)
    except trio.Cancelled:
        with trio.move_on_after(_GIVE_BACK_SECONDS, shield=True):
            await client.cancel_run(request.run)
        raise
