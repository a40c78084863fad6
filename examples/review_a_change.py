"""A code change under review: its author defends it, two critics look for what is wrong, until nothing new is said.

Every claim has an id, and the review ends only when at least three valid rounds of critics were heard and the last two
raised nothing new and reopened nothing. An answer that cannot be read is no consent: its critic is asked again. All
rounds spend one budget.

No model server is needed: a simulated backend says what the script does. `--local` lets the small local model try
instead (`make local`).
"""

import sys
from pathlib import Path

import msgspec
import trio

from agents.amounts import Limits
from agents.debate import Debate
from agents.debate_rounds import Critique, Malformed, Proposal
from agents.debate_run import DebateResult, run_debate
from agents.debate_transcript import outcome, round_text
from agents.debate_words import answer_format
from agents.journal import MemoryJournal
from agents.lifecycle import StopReason
from agents.messages import Message
from agents.port import Flow, ModelPort
from agents.scripted import say
from agents.spec import AgentSpec
from orchestrator.backend_choice import BackendChoice
from orchestrator.embedded import EmbeddedConfig, open_embedded

CHANGE = Path(__file__).with_suffix(".diff").read_text()
BUDGET = Limits(tokens=60_000)


def script(messages: tuple[Message, ...]) -> Message:
    """What each speaker says, as a pure function of what it is asked."""
    asked = messages[-1].content
    if "You are author" in asked:
        return author(asked)
    if "You are correctness" in asked:
        return critique() if '"id":"C1"' in asked else critique(new=(DEFAULT, LAST_PAGE))
    if '"id":"C3"' in asked:
        return critique()
    if "could not be used" in asked:
        return critique(new=(QUOTING,), reopen=(("C2", "with one page, page is 2 when compared: it never ends"),))
    return say("Looks good to me!")


DEFAULT = ("found=[]", "The default list is shared by all calls, so one customer gets another's invoices.")
LAST_PAGE = ("page += 1", "The page is raised before it is compared, so the last page is never read.")
QUOTING = ("client.get", "The customer is put into the address without being quoted.")


def author(asked: str) -> Message:
    if "Open claims: C1, C2." in asked:
        return proposal(
            "Merge, with `found` as a local list.",
            ("C1", "accept", "found becomes a local list"),
            ("C2", "reject", "pages are counted from 1, so the numbers meet at the last one"),
        )
    if "Open claims: C2, C3." in asked:
        return proposal(
            "Merge, with `found` as a local list, and `if page > answer['pages']`.",
            ("C2", "accept", "compare with > after raising the page"),
            ("C3", "reject", "customer is an int, which needs no quoting"),
        )
    return proposal("Merge as it is.")


def proposal(text: str, *answers: tuple[str, str, str]) -> Message:
    said = [{"claim": claim, "verdict": verdict, "why": why} for claim, verdict, why in answers]
    return say(msgspec.json.encode({"proposal": text, "answers": said}).decode())


def critique(new: tuple[tuple[str, str], ...] = (), reopen: tuple[tuple[str, str], ...] = ()) -> Message:
    raised = [{"where": where, "text": text} for where, text in new]
    again = [{"claim": claim, "why": why} for claim, why in reopen]
    return say(msgspec.json.encode({"new": raised, "reopen": again}).decode())


async def review(model: ModelPort, name: str) -> DebateResult:
    """The review, told as it goes."""

    def tell(debate: Debate) -> None:
        print(round_text(debate, len(debate.turns)))

    author = AgentSpec(
        name="author",
        model=name,
        system="You wrote this code change and want it merged, but not with mistakes in it.",
        response_format=answer_format(Proposal),
        max_tokens=600,
    )
    critics = [
        AgentSpec(name=critic, model=name, system=system, response_format=answer_format(Critique), max_tokens=600)
        for critic, system in (
            ("correctness", "You review code for wrong results and for loops that never end."),
            ("interfaces", "You review code for how it treats its callers and other systems."),
        )
    ]
    result = await run_debate(
        CHANGE, proposer=author, critics=critics, model=model, journal=MemoryJournal(), limits=BUDGET, on_round=tell
    )
    print(outcome(result.debate))
    print(f"{result.used.tokens:,} of {BUDGET.tokens:,} tokens; {result.reason} {result.message}")
    return result


def assert_what_the_script_leads_to(result: DebateResult) -> None:
    assert result.reason is StopReason.CONVERGED
    assert {claim.id: claim.standing for claim in result.debate.claims} == {
        "C1": "accepted",
        "C2": "accepted",  # rejected first, and reopened
        "C3": "rejected",
    }
    assert [number for number, turn in enumerate(result.debate.turns, 1) if isinstance(turn.content, Malformed)] == [4]
    assert "answer['pages']" in result.debate.proposal


async def main(local: bool) -> None:
    backend = BackendChoice(kind="local" if local else "simulated")
    async with open_embedded(EmbeddedConfig(backend=backend, script=script)) as embedded:
        result = await review(embedded.port(Flow(job="review")), embedded.model)
    assert 0 < result.used.tokens <= (BUDGET.tokens or 0)
    if not local:
        assert_what_the_script_leads_to(result)


if __name__ == "__main__":
    trio.run(main, "--local" in sys.argv)
