"""A debate for tests: what each speaker answers, as a function of what it is asked."""

import msgspec

from agents.amounts import Limits
from orchestrator.views.jobs import DebateRequest, GatherRequest, JobRequest
from orchestrator.views.runs import AgentChoice

REQUEST = JobRequest(
    job="j",
    prompt="Merge {this}?",
    gather=GatherRequest(policy="converge"),
    budget=Limits(tokens=100_000_000),
    debate=DebateRequest(critics=(AgentChoice(system="one"), AgentChoice(system="two"))),
)
ROUNDS = 8
"""Of a debate as `answer` has it; the fourth cannot be read."""


def answer(asked: str) -> str:
    """Two claims, of which one is reopened, and a critic that has to be asked twice."""
    if "You are proposer" in asked:
        return propose(asked)
    if "You are critic-1" in asked:
        return critique() if '"id":"C1"' in asked else critique(new=("shared default", "last page"))
    if "could not be used" in asked:
        return critique(reopen=("C2",))
    return critique() if "it never ends" in asked else "Looks good to me!"


def propose(asked: str) -> str:
    named = asked.split("Open claims: ")[1].split(".")[0]
    open_ids = [] if named == "none" else named.split(", ")
    said = [{"claim": id, "verdict": "reject" if id == "C1" else "accept", "why": "so it is"} for id in open_ids]
    return msgspec.json.encode({"proposal": f"merge, {len(open_ids)} answered", "answers": said}).decode()


def critique(new: tuple[str, ...] = (), reopen: tuple[str, ...] = ()) -> str:
    raised = [{"where": "", "text": text} for text in new]
    again = [{"claim": claim, "why": "it never ends"} for claim in reopen]
    return msgspec.json.encode({"new": raised, "reopen": again}).decode()
