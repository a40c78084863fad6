"""What people's answers are worth: which of them counts, and what it means for the call.

An approval is bound to one call and to what would run: a decision that names another digest decides nothing. One that
was given after it had expired lets nothing run. Pure.
"""

from hashlib import sha256
from typing import Final

from msgspec import Struct

from agents.messages import ToolCall
from agents.people_events import Answered, ApprovalDecided, ApprovalRequested, Asked, InputGiven, InputRequested

_DENIED: Final = "Not run: {by} denied it{note}."
_EXPIRED: Final = "Not run: nobody approved it in time."
_DECLINED: Final = "Not answered: {by} declined to answer{note}."
_UNANSWERED: Final = "Not answered: nobody answered in time."


class Verdict(Struct, frozen=True):
    """What an answer means: the call goes on (then `content` is what a question was answered), or is refused."""

    goes_on: bool
    content: str = ""


def digest_of(call: ToolCall) -> str:
    """What an approval is bound to: the tool and its arguments, as the model wrote them. Hexadecimal SHA-256."""
    return sha256(f"{call.name}\0{call.arguments}".encode("utf-8", "surrogatepass")).hexdigest()


def counts(asked: Asked, answered: Answered) -> bool:
    """Whether this is an answer to that."""
    if answered.key != asked.key:
        return False
    if isinstance(answered, InputGiven):
        return isinstance(asked, InputRequested)
    if isinstance(asked, InputRequested):
        return answered.decision != "approved"
    return answered.digest in ("", asked.digest)


def verdict(asked: Asked, answered: Answered) -> Verdict:
    """What an answer that counts means for its call."""
    late = asked.expires is not None and answered.at > asked.expires
    if isinstance(answered, InputGiven):
        return Verdict(False, _UNANSWERED) if late else Verdict(True, answered.content)
    if isinstance(asked, ApprovalRequested):
        return _on_approval(answered, late=late)
    if answered.decision == "expired":
        return Verdict(False, _UNANSWERED)
    return Verdict(False, _DECLINED.format(by=answered.by, note=_note(answered)))


def _on_approval(decided: ApprovalDecided, *, late: bool) -> Verdict:
    if decided.decision == "denied":
        return Verdict(False, _DENIED.format(by=decided.by, note=_note(decided)))
    if decided.decision == "expired" or late:
        return Verdict(False, _EXPIRED)
    return Verdict(True)


def _note(decided: ApprovalDecided) -> str:
    return f", saying: {decided.note.rstrip('.')}" if decided.note.strip() else ""
