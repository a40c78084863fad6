"""A debate at work: each round is a run of its own, and all of them spend one budget.

A run per round keeps what every run has: a log, a budget below the debate's, one stop reason. Its task is the whole
state of the debate, so no speaker's session grows, and rounds need nothing of each other but the fold.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from agents.amounts import UNLIMITED, Amounts, Limits
from agents.budget import Scope
from agents.debate import MOST_ROUNDS, Debate
from agents.debate_rounds import Content, Failed, Malformed
from agents.debate_words import question, read_answer
from agents.lifecycle import StopReason
from agents.loop import UNPRICED, run_agent
from agents.model_need import price_within
from agents.money import Prices
from agents.port import Journal, ModelPort, Priority
from agents.requests import refuse_without_people
from agents.result import RunResult
from agents.spawner import scope_name
from agents.spec import AgentSpec

MALFORMED: Final = frozenset({StopReason.OUTPUT_LIMIT, StopReason.INVALID_ACTION, StopReason.MALFORMED_OUTPUT})
"""Ends of a run that answered, but not with what can be read."""
TAKEN: Final = frozenset({StopReason.CANCELLED, StopReason.INTERRUPTED, StopReason.EXPIRED})


class DebateResult(Struct, frozen=True, kw_only=True):
    """A debate, ended: why, and what it spent. `unknown` may have been spent without the provider saying so."""

    reason: StopReason
    message: str
    debate: Debate
    used: Amounts
    unknown: Amounts

    @property
    def ok(self) -> bool:
        """Whether it converged."""
        return self.reason is StopReason.CONVERGED


async def run_debate(
    subject: str,
    *,
    proposer: AgentSpec,
    critics: Sequence[AgentSpec],
    model: ModelPort,
    journal: Journal,
    limits: Limits = UNLIMITED,
    budget: Scope | None = None,
    prices: Prices = UNPRICED,
    name: str = "",
    priority: Priority | None = None,
    most_rounds: int = MOST_ROUNDS,
    on_round: Callable[[Debate], None] = lambda _: None,
) -> DebateResult:
    """Lets agents debate a subject until it stops; see `agents.debate` for when.

    `limits` are those of all rounds together, `budget` the scope above them. The runs are called `name.1`, `name.2` and
    so on. `on_round` is told the debate after each round. Raises `InvalidLimits` and `NobodyToAsk` before anything is
    asked, `JournalLost` where an event could not be kept, `trio.Cancelled` when the caller is cancelled.
    """
    debate = Debate(proposer=proposer.name, critics=tuple(critic.name for critic in critics), most_rounds=most_rounds)
    scope = Scope("debate", limits, budget)
    speakers = {agent.name: agent for agent in (proposer, *critics)}
    for agent in speakers.values():
        refuse_without_people(agent)
        price_within(scope, agent.model, prices)
    name = name or secrets.token_hex(8)
    while debate.stop is None:
        result = await run_agent(
            speakers[debate.next_speaker],
            question(debate, subject),
            model=model,
            journal=journal,
            budget=scope,
            prices=prices,
            run=f"{name}.{len(debate.turns) + 1}",
            priority=priority,
        )
        debate = debate.after(heard(debate, result))
        on_round(debate)
    return DebateResult(reason=debate.stop, message=debate.why, debate=debate, used=scope.used, unknown=scope.unknown)


def heard(debate: Debate, result: RunResult) -> Content:
    """What a run was for the debate: an answer, one that cannot be read, or none."""
    if result.ok:
        return read_answer(debate, result.answer)
    if result.reason is StopReason.MALFORMED_OUTPUT:
        content = read_answer(debate, result.partial)
        return content if isinstance(content, Malformed) else Malformed(result.message)
    if result.reason in MALFORMED:
        return Malformed(result.message)
    beyond = result.scope not in ("", scope_name(0))
    return Failed(result.reason, result.message, beyond or result.reason in TAKEN or result.next == "human")
