"""Recorded sessions: which call waits for which, and for how long."""

from pathlib import Path

import pytest

from bench.traces.base import Session, TraceError
from bench.traces.find import find_trace, missing
from bench.traces.sessions import RATE, read_sessions
from tests.bench.trace_files import SESSIONS, write


def _ends(session: Session) -> list[float]:
    """When each call ends if every one takes as long as it did."""
    ends: list[float] = []
    for call in session:
        seconds = call.output / RATE if call.seconds is None else call.seconds
        ends.append(max((ends[place] for place in call.after), default=0.0) + call.think + seconds)
    return ends


def test_subagents_work_side_by_side_and_their_parent_waits_for_all_of_them(tmp_path: Path) -> None:
    """Both follow the call that started them, and the parent's next call follows that call and the end of both."""
    session, other = read_sessions(write(tmp_path, SESSIONS))
    assert (session.name, other.name, len(other.calls)) == ("t1", "t2", 1)
    assert [(call.agent, call.after) for call in session] == [
        ("main", ()),
        ("main/1", (0,)),
        ("main/1", (1,)),
        ("main/2", (0,)),
        ("main", (0, 2, 3)),
        ("main/4", (4,)),
        ("main", (4,)),
        ("main", (6,)),
    ]


def test_think_times_put_every_call_where_it_was_recorded(tmp_path: Path) -> None:
    """Played at the recorded durations each call starts when it did; where a duration is missing it is estimated."""
    session = read_sessions(write(tmp_path, SESSIONS))[0]
    thinks = [call.think for call in session]
    assert thinks[1] == pytest.approx(1.0)  # the subagent began at 58 - 50 = 8 s, its parent's call ended at 7 s
    assert thinks[2] == 3.0
    assert thinks[4] == pytest.approx(2.0)  # the later subagent ended at 68 s
    assert thinks[5] == pytest.approx(0.5)
    assert thinks[6] == 4.0
    assert thinks[7] == pytest.approx(10.0 - 50 / RATE)
    assert _ends(session)[-1] == pytest.approx(87.0, abs=10.0)


def test_pauses_can_be_cut_short(tmp_path: Path) -> None:
    """No think time is longer than asked for, and none is made longer."""
    path = write(tmp_path, SESSIONS)
    short = read_sessions(path, longest_think=2.0)[0]
    assert [call.think for call in short] == [min(call.think, 2.0) for call in read_sessions(path)[0]]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (SESSIONS.replace("main/2,0", "main/9,0"), 7, "agent is 'main/9' and should be one that a row of kind"),
        (SESSIONS.replace("0.000,n,m,30", "0.000,x,m,30"), 7, "kind is 'x'"),
        (SESSIONS + "t1,main,7,95.0,n,m,1,1,0,1,1,end_turn\n", 14, "a session's rows stand together"),
    ],
)
def test_sessions_that_make_no_sense_are_refused(tmp_path: Path, text: str, line: int, says: str) -> None:
    """A row that no agent made, of no known kind or out of place is named with its line."""
    with pytest.raises(TraceError) as caught:
        read_sessions(write(tmp_path, text))
    assert caught.value.line == line
    assert says in str(caught.value)


def test_the_public_sessions_keep_all_calls_and_end_about_when_they_did() -> None:
    """All 49,334 calls of 710 sessions are there, and each waits only for calls before it."""
    name = "claudecode_kvct_full.csv.gz"
    path = find_trace(name)
    if path is None:
        pytest.skip(missing(name))
    sessions = read_sessions(path)
    assert (len(sessions), sum(len(session.calls) for session in sessions)) == (710, 49_334)
    for session in sessions:
        assert all(place < own for own, call in enumerate(session) for place in call.after)
    third = next(session for session in sessions if session.name == "trace_0003")
    assert [call.after for call in third if len(call.after) > 1] == [(0, 10), (62, 66)]
