"""A debate as people read it: round by round, and what its claims came to. Pure."""

from agents.debate import Claim, Debate, Turn
from agents.debate_rounds import Critique, Failed, Malformed, Proposal


def transcript(debate: Debate, standing: str = "") -> str:
    """The whole debate, as far as it has come. `standing` says how it stands to who knows more than its rounds do."""
    rounds = [round_text(debate, number) for number in range(1, len(debate.turns) + 1)]
    return "\n".join([*rounds, outcome(debate, standing)])


def round_text(debate: Debate, number: int) -> str:
    """One round; the first has the number 1."""
    turn = debate.turns[number - 1]
    return "\n".join([f"{number}. {turn.speaker}", *(f"   {line}" for line in _said(debate, turn))])


def outcome(debate: Debate, standing: str = "") -> str:
    """How it stands, and each claim with its last word."""
    stand = standing or ("going on" if debate.stop is None else f"ended as {debate.stop}")
    head = f"{stand} after {_many(len(debate.turns), 'round')}, {_many(len(debate.claims), 'claim')}"
    return "\n".join([head, *(f"   {claim.id} {claim.standing}: {_claim(claim)}" for claim in debate.claims)])


def _said(debate: Debate, turn: Turn) -> list[str]:
    content = turn.content
    if isinstance(content, Malformed):
        return [f"could not be read: {_line(content.why)}"]
    if isinstance(content, Failed):
        return [f"failed as {content.reason}: {_line(content.why)}"]
    if isinstance(content, Proposal):
        return [
            *(f"{answer.verdict}s {answer.claim}: {_line(answer.why)}" for answer in content.answers),
            f"proposes: {_line(content.proposal)}",
        ]
    return _criticised(debate, turn, content) or ["has nothing to add"]


def _criticised(debate: Debate, turn: Turn, content: Critique) -> list[str]:
    why = {again.claim: again.why for again in content.reopen}
    claims = {claim.id: claim for claim in debate.claims}
    return [
        *(f"reopens {id}: {_line(why.get(id, 'raised again in the same words'))}" for id in turn.reopened),
        *(f"raises {id}: {_claim(claims[id])}" for id in turn.opened),
    ]


def _claim(claim: Claim) -> str:
    return _line(f"{claim.where}: {claim.text}" if claim.where else claim.text)


def _line(text: str) -> str:
    """On one line: a model's line break must not look like the transcript's own."""
    return " ".join(text.split())


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
