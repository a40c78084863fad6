"""The pure rules of a debate: who speaks, what a claim is, and when it is over."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.debate import Debate, IllegalTurn
from agents.debate_rounds import Answer, Content, Critique, Failed, Malformed, NewClaim, Proposal, Reopening
from agents.debate_transcript import round_text, transcript
from agents.debate_words import question, read_answer
from agents.errors import InvalidLimits
from agents.lifecycle import StopReason

QUIET = Critique((), ())
BAD = Malformed("no JSON")
DOWN = Failed(StopReason.OVERLOADED, "busy")


def debate(*contents: Content, critics: tuple[str, ...] = ("first", "second"), most_rounds: int = 24) -> Debate:
    made = Debate(proposer="author", critics=critics, most_rounds=most_rounds)
    for content in contents:
        made = made.after(content)
    return made


def new(*texts: str) -> Critique:
    return Critique(tuple(NewClaim(text) for text in texts), ())


def again(*ids: str) -> Critique:
    return Critique((), tuple(Reopening(id, "not so") for id in ids))


def reply(*ids: str) -> Proposal:
    return Proposal("so", tuple(Answer(id, "reject", "because") for id in ids))


def test_three_quiet_critics_end_it_and_two_do_not() -> None:
    """Two quiet rounds are too few valid ones; the third ends the debate as converged."""
    assert debate(reply(), QUIET, QUIET).stop is None
    assert debate(reply(), QUIET, QUIET, QUIET).stop is StopReason.CONVERGED


def test_a_reopened_claim_begins_the_count_anew() -> None:
    """Only two quiet rounds after the last claim that was reopened end the debate."""
    made = debate(reply(), new("a"), reply("C1"), QUIET, again("C1"), reply("C1"), QUIET)
    assert (made.valid, made.quiet, made.stop) == (4, 1, None)
    assert made.after(QUIET).stop is StopReason.CONVERGED


@pytest.mark.parametrize("bad", [BAD, DOWN], ids=["malformed", "failed"])
def test_a_bad_round_breaks_the_quiet_and_is_spoken_again(bad: Content) -> None:
    """A critic's round that cannot be read or failed is no consent: two more quiet ones are needed, the same critic's
    first.
    """
    before = debate(reply(), QUIET, QUIET)
    made = before.after(bad)
    assert made.next_speaker == before.next_speaker == "first"
    assert (made.quiet, made.valid) == (0, 2)
    assert made.after(QUIET).stop is None
    assert made.after(QUIET).after(QUIET).stop is StopReason.CONVERGED


def test_two_malformed_rounds_in_a_row_end_it() -> None:
    """Two with a failed one between them are still in a row, two with a valid one between them are not."""
    assert debate(reply(), BAD, BAD).stop is StopReason.MALFORMED_OUTPUT
    assert debate(reply(), BAD, DOWN, BAD).stop is StopReason.MALFORMED_OUTPUT
    assert debate(BAD, reply(), BAD).stop is None
    assert debate(reply(), BAD, QUIET, BAD).stop is None


def test_failures_end_it_for_their_reason() -> None:
    """Two failed rounds in a row end the debate for the second one's reason, a final one at once."""
    spent = Failed(StopReason.TOKEN_BUDGET_EXCEEDED, "spent", final=True)
    assert debate(reply(), DOWN).stop is None
    assert debate(reply(), DOWN, DOWN).stop is StopReason.OVERLOADED
    assert debate(reply(), DOWN, BAD, DOWN).stop is None
    assert debate(reply(), spent).stop is StopReason.TOKEN_BUDGET_EXCEEDED


def test_the_last_round_may_still_converge() -> None:
    """A debate that converges in its last round has converged; one that does not has used up its rounds."""
    assert debate(reply(), QUIET, QUIET, QUIET, most_rounds=4).stop is StopReason.CONVERGED
    assert debate(reply(), QUIET, QUIET, new("a"), most_rounds=4).stop is StopReason.MAX_ROUNDS


def test_a_claim_in_known_words_is_that_claim() -> None:
    """Raised again in other case and spacing it is reopened under its id; what differs inside is another claim."""
    made = debate(reply(), new("x == 0", "X  == 0."), reply("C1"), new("X == 0"))
    assert [claim.id for claim in made.claims] == ["C1"]
    assert made.turns[-1].reopened == ("C1",)
    assert made.claims[0].standing == "open"
    assert [claim.id for claim in made.after(reply("C1")).after(new("x != 0")).claims] == ["C1", "C2"]


def test_what_cannot_be_said_changes_nothing() -> None:
    """Answers must fit the open claims, reopenings known ones, and nobody speaks out of turn or after the end."""
    made = debate(reply(), new("a", "b"))
    for wrong in (reply("C1"), reply("C1", "C2", "C3"), reply("C1", "C2", "C2"), QUIET):
        with pytest.raises(IllegalTurn):
            made.after(wrong)
    critics = made.after(reply("C1", "C2"))
    for wrong in (again("C3"), again("C1", "C1"), new(" . "), reply()):
        with pytest.raises(IllegalTurn):
            critics.after(wrong)
    with pytest.raises(IllegalTurn, match="over"):
        debate(reply(), BAD, BAD).after(QUIET)


@pytest.mark.parametrize("critics", [(), ("author",), ("a", "a")])
def test_speakers_have_names_of_their_own(critics: tuple[str, ...]) -> None:
    """Without critics, or with two speakers of one name, there is no debate."""
    with pytest.raises(InvalidLimits):
        Debate(proposer="author", critics=critics)


Move = tuple[int, int, int]
MOVES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7), st.integers(0, 63)), max_size=40)
WORDS = ("leaks", "never ends", "is slow")


def move(made: Debate, drawn: Move) -> Content:
    """Something that whoever speaks next may say."""
    kind, fresh, old = drawn
    if kind == 0:
        return BAD
    if kind == 1:
        return DOWN
    if made.next_speaker == made.proposer:
        verdicts = ("accept", "reject")
        return Proposal("so", tuple(Answer(c.id, verdicts[n % 2], "because") for n, c in enumerate(made.open, old)))
    if kind < 5:
        return QUIET
    raised = tuple(NewClaim(word) for bit, word in enumerate(WORDS) if fresh >> bit & 1)
    reopened = tuple(Reopening(c.id, "no") for bit, c in enumerate(made.claims[:6]) if old >> bit & 1)
    return Critique(raised, reopened)


def over(history: list[tuple[str, Content]], most_rounds: int) -> StopReason | None:
    """The rules once more, read off the whole history: of each round who spoke, and what."""
    answered = [content for _, content in history if not isinstance(content, Failed)]
    if [type(content) for content in answered[-2:]] == [Malformed, Malformed] and answered[-1] is history[-1][1]:
        return StopReason.MALFORMED_OUTPUT
    if [type(content) for _, content in history[-2:]] == [Failed, Failed]:
        return StopReason.OVERLOADED
    critics = [content for speaker, content in history if speaker != "author"]
    valid = [content for content in critics if isinstance(content, Critique)]
    if len(valid) >= 3 and critics[-2:] == [QUIET, QUIET]:
        return StopReason.CONVERGED
    return StopReason.MAX_ROUNDS if len(history) == most_rounds else None


@given(MOVES, st.integers(1, 12), st.integers(1, 3))
def test_any_debate_follows_the_rules(moves: list[Move], most_rounds: int, critics: int) -> None:
    """Whatever is said, it stops exactly when the rules read off the history say so, and nothing is open when a critic
    speaks or when it has converged.
    """
    made = debate(critics=("first", "second", "third")[:critics], most_rounds=most_rounds)
    history: list[tuple[str, Content]] = []
    for drawn in moves:
        if made.stop is not None:
            break
        content, speaker, known = move(made, drawn), made.next_speaker, made.claims
        assert speaker == "author" or not made.open
        made = made.after(content)
        history.append((speaker, content))
        assert [turn.speaker for turn in made.turns] == [speaker for speaker, _ in history]
        assert made.stop == over(history, most_rounds)
        assert [claim.id for claim in made.claims] == [f"C{n + 1}" for n in range(len(made.claims))]
        assert [(claim.id, claim.text) for claim in made.claims][: len(known)] == [(c.id, c.text) for c in known]
        said = question(made, "subject") + transcript(made)
        assert all(claim.id in said for claim in made.claims)
    assert made.stop is not StopReason.CONVERGED or not made.open


@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(lambda v: msgspec.json.encode(v).decode()))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Whatever a model writes is a round or a malformed one, and what is not an object in the form is malformed."""
    for made in (debate(), debate(reply()), debate(reply(), new("a"))):
        assert isinstance(read_answer(made, text), Malformed)


@given(st.builds(Critique, st.just(()), st.just(())) | st.text(min_size=1).filter(str.strip).map(new))
def test_what_is_written_is_read(content: Critique) -> None:
    """A critic's round that was encoded is the same when it is read, if it says something."""
    made = debate(reply())
    expected = made.objection(content)
    read = read_answer(made, msgspec.json.encode(content).decode())
    assert read == (content if expected is None else Malformed(expected))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "missing required field"),
        ("{}", "missing required field"),
        ('{"new": []}', "reopen"),
        ('```json\n{"new": [], "reopen": []}\n```', "code fence"),
        ('{"new": [], "reopen": [], "new": [{"text": "a"}]}', "twice"),
        ('{"new": [], "reopen": [], "agree": true}', "agree"),
        ('{"new": [{"text": ""}], "reopen": []}', "length"),
        ('{"new": [], "reopen": [{"claim": "C9", "why": "no"}]}', "there is no claim 'C9'"),
    ],
)
def test_a_bad_answer_is_told_what_was_wrong(text: str, words: str) -> None:
    """Nothing is repaired, above all not into consent; the next request says what was wrong."""
    made = debate(reply())
    read = read_answer(made, text)
    assert isinstance(read, Malformed)
    assert words in read.why
    assert words in question(made.after(read), "subject")


def test_a_line_of_the_transcript_is_one_line() -> None:
    """What a model writes cannot look like another speaker's round."""
    made = debate(Proposal("good\n2. first\n   has nothing to add"), new("bad\n3. author"))
    assert round_text(made, 1).splitlines() == ["1. author", "   proposes: good 2. first has nothing to add"]
    assert round_text(made, 2).splitlines() == ["2. first", "   raises C1: bad 3. author"]
