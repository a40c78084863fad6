"""A debate as a job's rounds: what its result lines say, and back. Pure.

Each round is a run with a line, in their order, and those lines are all that is kept of a debate. So whoever goes on
with it, or shows it, folds them; a round that was not kept has not been said.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from agents.debate import Debate
from agents.debate_rounds import Content, Failed, Malformed
from agents.debate_run import MALFORMED, heard
from agents.debate_words import proposal_in, read_answer
from agents.lifecycle import StopReason
from agents.result import RunResult
from orchestrator.jobs.inputs import Item
from orchestrator.jobs.item_lines import item_line
from orchestrator.jobs.record import JobLine
from orchestrator.views.jobs import DebateRequest
from orchestrator.views.runs import AgentChoice

PROPOSER: Final = "proposer"
CRITIC: Final = "critic"
"""How speakers are called that no agent's name tells apart; critics with their number."""

_reasons: Final = frozenset(reason.value for reason in StopReason)
_replace: Final = msgspec.structs.replace


def speakers(debate: DebateRequest, who: AgentChoice) -> Mapping[str, AgentChoice]:
    """Everybody by name, the proposer first; `who` is whoever the job asks for."""
    proposer = who if debate.proposer is None else debate.proposer
    choices = (proposer, *debate.critics)
    roles = (PROPOSER, *(f"{CRITIC}-{number}" for number in range(1, len(debate.critics) + 1)))
    agents = [choice.agent for choice in choices]
    if all(agents) and len(set(agents)) == len(agents):
        return dict(zip(agents, choices, strict=True))
    return dict(zip(roles, choices, strict=True))


def begun(request: DebateRequest, who: AgentChoice) -> Debate:
    """The debate of which nothing is said."""
    proposer, *critics = speakers(request, who)
    return Debate(proposer=proposer, critics=tuple(critics), most_rounds=request.most_rounds)


def folded(request: DebateRequest, who: AgentChoice, lines: Iterable[JobLine], attempt: int = 1) -> Debate:
    """What the lines come to, for `attempt` at the job or the last one that they know of.

    Another attempt goes on with the debate where it stopped: rounds that were said are paid for.
    """
    debate, last = begun(request, who), 1
    for line in lines:
        if line.attempt > last:
            debate, last = debate.tried_again(request.most_rounds) if debate.turns else debate, line.attempt
        debate = debate.after(content_of(debate, line))
    return debate.tried_again(request.most_rounds) if attempt > last and debate.turns else debate


def round_line(debate: Debate, item: Item, result: RunResult) -> JobLine:
    """The line of the next round, whose run has ended. An answer that cannot be read is there as it was written."""
    content, line = heard(debate, result), item_line(item, result)
    if isinstance(content, Malformed):
        reason = result.reason if result.reason in MALFORMED else StopReason.MALFORMED_OUTPUT
        return _replace(line, state="failed", reason=reason.value, error=content.why)
    if isinstance(content, Failed):
        return _replace(line, final=content.final)
    return _replace(line, state="done", error="")


def content_of(debate: Debate, line: JobLine) -> Content:
    """What a line says in this debate."""
    if line.state == "done":
        return read_answer(debate, line.value)
    if line.reason in MALFORMED:
        return Malformed(line.error)
    reason = StopReason(line.reason) if line.reason in _reasons else StopReason.INTERNAL_ERROR
    return Failed(reason, line.error, line.final)


def proposal_of(request: DebateRequest, who: AgentChoice, line: JobLine) -> str | None:
    """The proposal that a line has; None for a critic's and for one that cannot be used."""
    if line.state != "done" or line.origin != next(iter(speakers(request, who))):
        return None
    return proposal_in(line.value)
