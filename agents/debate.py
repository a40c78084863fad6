"""A debate: a proposer defends a proposal, critics raise claims against it, until nothing new is said.

The rules, of which this file is the pure fold (no await, no model, no text of prompts):

1. The proposer speaks first. Then a critic speaks, and after one who opened claims the proposer answers; where nothing
   is open there is nothing to answer, and the next critic speaks. Critics take turns.
2. A claim has an id for ever, given here and never by a model. A critic opens claims (new ones) and reopens claims that
   were answered; the proposer answers every open claim by accepting or rejecting it. So nothing is open when a critic
   speaks. A claim in the words of a known one is that one, raised again: it reopens it.
3. A critic's round is quiet if it was valid and opened and reopened nothing. The debate has converged when there were
   at least three valid rounds of critics and the last two rounds of critics were quiet.
4. A round that is malformed or failed is never quiet: it breaks the row of quiet ones, and its speaker is asked again.
   Two malformed ones with no valid one between them stop the debate as `malformed_output`, two failed ones in a row for
   the second one's reason.
5. It stops as `max_rounds` after so many rounds of any kind, and at once for what no further round can mend: a spent
   budget, a cancellation.

Known limits: what is new is decided by words (but for case, spaces and the last full stop), so a critic that says
the same thing in other words is not quiet. That costs rounds and never ends a debate too early.
"""

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from agents.debate_rounds import Content, Critique, Failed, Malformed, Proposal
from agents.errors import HeadraceError, InvalidLimits
from agents.lifecycle import StopReason

LEAST_VALID: Final = 3
"""Valid rounds of critics before a debate can have converged."""
QUIET_IN_A_ROW: Final = 2
BAD_IN_A_ROW: Final = 2
"""Malformed rounds, or failed ones, that stop a debate."""
MOST_ROUNDS: Final = 24


class IllegalTurn(HeadraceError):
    """The debate is over, or it is not this speaker's turn, or the round names claims it cannot: nothing changed."""


class Turn(Struct, frozen=True):
    """One round, as it was spoken. `opened` and `reopened` are the ids of claims that are open because of it."""

    speaker: str
    content: Content
    opened: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()


class Exchange(Struct, frozen=True):
    """One thing said about a claim after it was raised."""

    speaker: str
    verdict: Literal["accept", "reject", "reopen"]
    why: str


class Claim(Struct, frozen=True):
    """A claim, who raised it, and all that was said about it."""

    id: str
    text: str
    where: str
    by: str
    exchanges: tuple[Exchange, ...] = ()

    @property
    def standing(self) -> Literal["open", "accepted", "rejected"]:
        """Where it stands: the last word decides."""
        last = self.exchanges[-1].verdict if self.exchanges else "reopen"
        return "open" if last == "reopen" else "accepted" if last == "accept" else "rejected"


class Debate(Struct, frozen=True, kw_only=True):
    """A debate so far. Raises `InvalidLimits` for speakers or a number of rounds that make no sense."""

    proposer: str
    critics: tuple[str, ...]
    most_rounds: int = MOST_ROUNDS
    proposal: str = ""
    claims: tuple[Claim, ...] = ()
    turns: tuple[Turn, ...] = ()
    valid: int = 0
    quiet: int = 0
    malformed: int = 0
    failed: int = 0
    stop: StopReason | None = None

    def __post_init__(self) -> None:
        if not self.critics:
            raise InvalidLimits("critics", "at least one, since nobody else can say that a debate has converged")
        names = (self.proposer, *self.critics)
        if len(set(names)) < len(names):
            raise InvalidLimits("critics", f"names of their own for all speakers, not {', '.join(names)}")
        if type(self.most_rounds) is not int or self.most_rounds < 1:
            raise InvalidLimits("most_rounds", f"a whole number, 1 or more, not {self.most_rounds!r}")

    @property
    def open(self) -> tuple[Claim, ...]:
        """The claims that the proposer has to answer."""
        return tuple(claim for claim in self.claims if claim.standing == "open")

    @property
    def next_speaker(self) -> str:
        """Who speaks next."""
        if not self.proposal or self.open:
            return self.proposer
        return self.critics[self.valid % len(self.critics)]

    @property
    def why(self) -> str:
        """Why it stopped, in words; empty where it has not, and where it converged."""
        last = self.turns[-1].content if self.turns else None
        if isinstance(last, Failed) and last.reason is self.stop:
            return last.why
        if isinstance(last, Malformed) and self.stop is StopReason.MALFORMED_OUTPUT:
            return last.why
        return f"not converged in {self.most_rounds} rounds" if self.stop is StopReason.MAX_ROUNDS else ""

    def tried_again(self, rounds: int) -> "Debate":
        """The debate with so many rounds more and bad ones forgotten; one that has converged stays as it is."""
        if self.stop is StopReason.CONVERGED:
            return self
        return replace(self, stop=None, malformed=0, failed=0, most_rounds=len(self.turns) + rounds)

    def objection(self, content: Proposal | Critique) -> str | None:
        """What is wrong with a round here, though it can be read; for its speaker."""
        if isinstance(content, Proposal):
            return _wrong_answers(content, [claim.id for claim in self.open])
        return _wrong_claims(content, [claim.id for claim in self.claims])

    def after(self, content: Content) -> "Debate":
        """The debate after one more round, by whoever had to speak. Raises `IllegalTurn`."""
        if self.stop is not None:
            raise IllegalTurn(f"the debate is over: {self.stop}")
        if not isinstance(content, Malformed | Failed):
            if isinstance(content, Proposal) is not (self.next_speaker == self.proposer):
                raise IllegalTurn(f"it is {self.next_speaker}'s turn")
            wrong = self.objection(content)
            if wrong is not None:
                raise IllegalTurn(wrong)
        debate = _said(self, content)
        return replace(debate, stop=_stop(debate))


def _said(debate: Debate, content: Content) -> Debate:
    speaker = debate.next_speaker
    turns = (*debate.turns, Turn(speaker, content))
    quiet = debate.quiet if speaker == debate.proposer else 0
    if isinstance(content, Malformed):
        return replace(debate, turns=turns, quiet=quiet, malformed=debate.malformed + 1, failed=0)
    if isinstance(content, Failed):
        return replace(debate, turns=turns, quiet=quiet, failed=debate.failed + 1)
    debate = replace(debate, malformed=0, failed=0)
    if isinstance(content, Proposal):
        said = {a.claim: Exchange(speaker, a.verdict, a.why) for a in content.answers}
        return replace(debate, turns=turns, proposal=content.proposal, claims=_add(debate.claims, said))
    return _criticised(debate, speaker, content)


def _criticised(debate: Debate, speaker: str, critique: Critique) -> Debate:
    again = {r.claim: Exchange(speaker, "reopen", r.why) for r in critique.reopen}
    known = {_words(claim.text, claim.where): claim.id for claim in debate.claims}
    opened: list[Claim] = []
    for new in critique.new:
        words = _words(new.text, new.where)
        if words not in known:
            claim = Claim(f"C{len(debate.claims) + len(opened) + 1}", new.text, new.where, speaker)
            opened.append(claim)
            known[words] = claim.id
        elif all(known[words] != claim.id for claim in opened):
            again.setdefault(known[words], Exchange(speaker, "reopen", "raised again in the same words"))
    turn = Turn(speaker, critique, tuple(claim.id for claim in opened), tuple(again))
    return replace(
        debate,
        turns=(*debate.turns, turn),
        claims=(*_add(debate.claims, again), *opened),
        valid=debate.valid + 1,
        quiet=0 if opened or again else debate.quiet + 1,
    )


def _stop(debate: Debate) -> StopReason | None:
    last = debate.turns[-1].content
    if isinstance(last, Failed) and (last.final or debate.failed == BAD_IN_A_ROW):
        return last.reason
    if debate.malformed == BAD_IN_A_ROW:
        return StopReason.MALFORMED_OUTPUT
    if debate.valid >= LEAST_VALID and debate.quiet >= QUIET_IN_A_ROW:
        return StopReason.CONVERGED
    return StopReason.MAX_ROUNDS if len(debate.turns) >= debate.most_rounds else None


def _add(claims: tuple[Claim, ...], said: dict[str, Exchange]) -> tuple[Claim, ...]:
    return tuple(
        replace(claim, exchanges=(*claim.exchanges, said[claim.id])) if claim.id in said else claim for claim in claims
    )


def _wrong_answers(content: Proposal, open_ids: list[str]) -> str | None:
    answered = [answer.claim for answer in content.answers]
    missing = [id for id in open_ids if id not in answered]
    if missing:
        return f"answers: no answer to {', '.join(missing)}; every open claim needs one"
    return _wrong_ids("answers", answered, open_ids, "open claim")


def _wrong_claims(content: Critique, ids: list[str]) -> str | None:
    for place, new in enumerate(content.new):
        if not _plain(new.text):
            return f"new[{place}].text: says nothing"
    return _wrong_ids("reopen", [again.claim for again in content.reopen], ids, "claim")


def _wrong_ids(field: str, named: list[str], known: list[str], what: str) -> str | None:
    for place, id in enumerate(named):
        if id not in known:
            return f"{field}[{place}].claim: there is no {what} {id[:40]!r}; there is {', '.join(known) or 'none'}"
        if id in named[:place]:
            return f"{field}[{place}].claim: {id} is named twice"
    return None


def _words(text: str, where: str) -> tuple[str, str]:
    return _plain(text), _plain(where)


def _plain(text: str) -> str:
    """Case, spaces and the punctuation around a text aside; what is inside may be code, and counts."""
    return " ".join(text.casefold().split()).strip(" .,;:!?")
