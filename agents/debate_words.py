"""The words of a debate: what a speaker is asked, and what its answer says. Pure.

An answer is one JSON object, read strictly: nothing is repaired, since what was meant is a guess, and a guessed consent
would end a debate. What is wrong is told back to the speaker, who is asked once more.

Claims and proposals are other models' words. They are shown as JSON, so that none of them can pass for another part of
the request; what a model makes of their content, no quoting can decide.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from agents.argument_text import bad_arguments, check_text, raw_object, why_refused
from agents.arguments import schema_of
from agents.debate import Claim, Debate
from agents.debate_rounds import Critique, Malformed, Proposal
from agents.errors import HeadraceError

Said = TypeVar("Said", Proposal, Critique)

PROPOSE: Final = """\
You are {speaker}, who makes and defends a proposal; critics raise claims against it.
Write the whole proposal as it is now, changed by every claim that you accept. Answer every open claim once: accept \
it, or reject it with a reason that its critic can check.
Write one JSON object and nothing else, in this form:
{{"proposal": "...", "answers": [{form}]}}"""

CRITICISE: Final = """\
You are {speaker}, a critic of a proposal.
Raise as new what is wrong or missing and is not among the claims yet, one claim for each, and say where. Reopen a \
claim by its id if its answer does not hold, and say why. Where you have nothing of a kind, leave its list empty.
Write one JSON object and nothing else, in this form:
{{"new": [{{"where": "...", "text": "..."}}], "reopen": [{form}]}}"""

ANSWER: Final = '{{"claim": "{claim}", "verdict": "accept" or "reject", "why": "..."}}'
REOPEN: Final = '{{"claim": "{claim}", "why": "..."}}'


def question(debate: Debate, subject: str) -> str:
    """What the next speaker is asked; `subject` is what the debate is about."""
    speaker = debate.next_speaker
    parts = [f"The subject:\n{subject}"]
    parts.append(f"The proposal:\n{_json(debate.proposal)}" if debate.proposal else "There is no proposal yet.")
    if debate.claims:
        parts.append("The claims so far:\n" + "\n".join(_json(_shown(claim)) for claim in debate.claims))
    if speaker == debate.proposer:
        parts.append(f"Open claims: {', '.join(claim.id for claim in debate.open) or 'none'}.")
        form = ", ".join(ANSWER.format(claim=claim.id) for claim in debate.open)
        parts.append(PROPOSE.format(speaker=speaker, form=form))
    else:
        form = REOPEN.format(claim=debate.claims[0].id) if debate.claims else ""
        parts.append(CRITICISE.format(speaker=speaker, form=form))
    last = debate.turns[-1].content if debate.turns else None
    if isinstance(last, Malformed):
        parts.append(f"Your last answer could not be used: {last.why}. Write it anew.")
    return "\n\n".join(parts)


def read_answer(debate: Debate, text: str) -> Proposal | Critique | Malformed:
    """What the next speaker said."""
    content: Proposal | Critique
    try:
        content = _decode(text, Proposal) if debate.next_speaker == debate.proposer else _decode(text, Critique)
    except HeadraceError as error:
        return Malformed(error.message.removeprefix("bad arguments for the debate: "))
    wrong = debate.objection(content)
    return content if wrong is None else Malformed(wrong)


def proposal_in(text: str) -> str:
    """The proposal that a valid answer of the proposer has."""
    return _decode(text, Proposal).proposal


def answer_format(kind: type[Proposal] | type[Critique]) -> Mapping[str, Any]:
    """The `response_format` of a speaker whose backend can hold a model to a JSON schema."""
    return {"type": "json_schema", "json_schema": {"name": kind.__name__.lower(), "schema": schema_of(kind, {})}}


def _decode(text: str, kind: type[Said]) -> Said:
    checked = check_text("the debate", text)
    try:
        content = msgspec.json.decode(checked, type=kind)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise bad_arguments("the debate", why_refused(checked, error)) from error
    raw_object("the debate", checked)
    return content


def _shown(claim: Claim) -> dict[str, object]:
    said = [{"by": said.speaker, "said": said.verdict, "why": said.why} for said in claim.exchanges]
    return {"id": claim.id, "by": claim.by, "where": claim.where, "text": claim.text, "answers": said}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
