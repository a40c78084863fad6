"""What is said in one round of a debate: a proposal with its answers, a critique, or nothing that can be used.

The structs are at once the form of a speaker's JSON, so they refuse what they do not know, and are bounded.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from agents.lifecycle import StopReason

MOST_CLAIMS: Final = 8
"""Claims that one round may raise, and reopen."""

Text = Annotated[str, Meta(min_length=1, max_length=2_000)]
LongText = Annotated[str, Meta(min_length=1, max_length=16_000)]
Verdict = Literal["accept", "reject"]


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """What the proposer says to one open claim."""

    claim: str
    verdict: Verdict
    why: Text


class Proposal(Struct, frozen=True, forbid_unknown_fields=True):
    """A valid round of the proposer: the whole proposal as it is now, and an answer to every open claim."""

    proposal: LongText
    answers: tuple[Answer, ...] = ()


class NewClaim(Struct, frozen=True, forbid_unknown_fields=True):
    """What a critic holds against the proposal; `where` says which place it is about."""

    text: Text
    where: Annotated[str, Meta(max_length=200)] = ""


class Reopening(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a critic is not content with the answer to a claim."""

    claim: str
    why: Text


class Critique(Struct, frozen=True, forbid_unknown_fields=True):
    """A valid round of a critic. Both lists must be there, so that an empty object is no consent."""

    new: Annotated[tuple[NewClaim, ...], Meta(max_length=MOST_CLAIMS)]
    reopen: Annotated[tuple[Reopening, ...], Meta(max_length=MOST_CLAIMS)]


class Malformed(Struct, frozen=True):
    """A round whose answer cannot be read, and why, in words for its speaker."""

    why: str


class Failed(Struct, frozen=True):
    """A round without an answer. `final` says that no further round can help."""

    reason: StopReason
    why: str
    final: bool = False


Content = Proposal | Critique | Malformed | Failed
