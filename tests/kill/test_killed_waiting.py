"""A daemon is killed while its runs wait for people, and while tools of each kind work: what comes after the restart.

What people were asked stays asked, what they said holds, and no call that may not be repeated is made twice.
"""

import os
import signal
from collections import Counter
from pathlib import Path

from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    InputGiven,
    InputRequested,
    RunEnded,
    ToolFinished,
    ToolRefused,
    ToolStarted,
)
from agents.lifecycle import StopReason
from tests.kill.deeds import done
from tests.kill.every_kind import WITH_A_SERVER, let_go
from tests.kill.waiting_daemon import Left, is_gone, life, what_is_left


def test_approvals_asked_before_kill_9_are_answered_after_it(tmp_path: Path) -> None:
    """What was asked is listed by the next daemon: an approved call runs once, a denied one never does and the model
    reads why; killed in the middle of the approved one, its effect is unknown and told, and what may be repeated is."""
    with life(tmp_path) as first:
        for run in ("yes", "no", "cut"):
            first.start("sender", run)
        for run in ("yes", "no", "cut"):
            first.until(run, "waiting_approval")
        first.kill()
    assert not done(tmp_path, "sent")

    let_go(tmp_path, "yes")
    with life(tmp_path) as second:
        listed = second.command("approvals")
        assert all(f"{run}/1/0" in listed for run in ("yes", "no", "cut"))
        assert "yes/1/0 is approved by ann" in second.command("approve", "yes", "--as", "ann")
        second.command("approve", "cut/1/0", "--as", "ann")
        second.command("deny", "no/1/0", "--as", "ann", "--note", "not before Monday")
        assert second.until("yes", "completed")["tool_calls"] == 1
        denied = second.until("no", "completed")
        assert "not before Monday" in next(one for one in denied["messages"] if one["role"] == "tool")["content"]
        second.start("putter", "again")
        second.until_done("sent", 2)
        second.until_done("put", 1)
        assert second.approvals() == []
        second.kill()

    let_go(tmp_path)
    with life(tmp_path) as third:
        cut = third.until("cut", "completed")
        third.until("again", "completed")
        assert cut["unknown_effects"] == ["cut/1/0"]
        shown = third.command("show", "cut")
        assert "needs a look" in shown
        assert "cut/1/0" in shown
        assert "was approved by ann" in third.command("deny", "cut/1/0", code=2)
        third.end()

    assert done(tmp_path, "sent") == {"yes/1/0": 1, "cut/1/0": 1}
    assert done(tmp_path, "put") == {"again/1/0": 2}
    runs = what_is_left(tmp_path)
    assert runs["yes"].result.unknown_effects == ()
    told = runs["cut"].finished("unknown_effect")[0].content
    assert told in [message.content for message in runs["cut"].result.messages if message.role == "tool"]
    hold_to_the_rules(runs)


def test_children_and_questions_go_on_after_kill_9(tmp_path: Path) -> None:
    """A child run that worked goes on and answers its parent once, one that waits for approval still waits and is
    approved, and a question that an earlier daemon asked is answered."""
    with life(tmp_path) as first:
        first.start("giver", "parent")
        first.start("sender_of_senders", "above")
        first.start("asker", "curious")
        first.until("curious", "waiting_input")
        first.wait(lambda: len(first.approvals()) == 2, "the child to ask")
        first.until_done("put", 1)
        first.kill()

    with life(tmp_path) as second:
        second.until_done("put", 2)
        asked = sorted(second.approvals(), key=lambda id: id.startswith("curious"))
        let_go(tmp_path)
        second.command("answer", "curious", "the one in the north", "--as", "bob")
        second.command("approve", asked[0], "--as", "bob")
        for run in ("parent", "above", "curious"):
            second.until(run, "completed")
        second.end()

    runs = what_is_left(tmp_path)
    hold_to_the_rules(runs)
    assert len(runs) == 5, "each call has one child"
    assert list(done(tmp_path, "put").values()) == [2]
    assert done(tmp_path, "sent") == {asked[0]: 1}
    assert [event.content for event in runs["curious"].finished()] == ["the one in the north"]
    for parent in ("parent", "above"):
        child = next(run for run in runs if run.startswith(parent) and run != parent)
        assert [event.content for event in runs[parent].finished("ok")] == [runs[child].result.answer]


def test_a_run_with_a_tool_of_each_kind_is_killed_twice(tmp_path: Path) -> None:
    """Killed while four kinds of tools work and people are asked, and killed again when only people are left to wait
    for: every call comes to its one end, and those that were cut off need a look."""
    with life(tmp_path, WITH_A_SERVER) as first:
        first.start("everything", "all")
        first.wait(lambda: first.get("runs/all")["rounds"] == 1, "the first answer")
        calls = Counter(call["name"] for call in first.get("runs/all")["messages"][-1]["tool_calls"])
        assert calls.keys() == {"send", "put", "press", "box__store", "give", "ask"}, "another task calls all"
        first.until_done("put", calls["put"] + calls["give"])
        first.until_done("pressed", calls["press"])
        first.until_done("stored", calls["box__store"])
        first.wait(lambda: len(first.approvals("all")) == calls["send"] + calls["ask"], "people to be asked")
        asked = first.approvals("all")
        first.kill()
        server = int(next(iter(done(tmp_path, "servers"))))
        first.wait(lambda: is_gone(server), "the MCP server to end with its daemon")

    let_go(tmp_path)
    with life(tmp_path, WITH_A_SERVER) as second:
        second.until("all", "waiting_approval", "waiting_input")
        second.wait(lambda: len(second.get("runs?state=running")["runs"]) == 1, "all children to end")
        assert second.approvals("all") == asked
        second.kill()

    with life(tmp_path, WITH_A_SERVER) as third:
        assert third.approvals("all") == asked
        for view in third.get("approvals")["approvals"]:
            answer = {"content": "so be it"} if view["kind"] == "input" else {"decision": "approved"}
            third.decide(view["id"], answer)
        third.until("all", "completed")
        shown = third.command("show", "all")
        third.end()

    runs = what_is_left(tmp_path)
    hold_to_the_rules(runs)
    run = runs["all"]
    ends = Counter((event.name, event.outcome) for event in run.finished())
    cut_off = {"press", "box__store"}
    assert ends == {(name, "unknown_effect" if name in cut_off else "ok"): count for name, count in calls.items()}
    assert shown.count("needs a look") == calls["press"] + calls["box__store"]
    assert set(done(tmp_path, "put").values()) == {2}
    assert set(done(tmp_path, "sent").values()) == {1}
    assert len(done(tmp_path, "sent")) == calls["send"]
    assert len(runs) == 1 + calls["give"]


def test_an_mcp_server_is_killed_in_the_middle_of_a_call(tmp_path: Path) -> None:
    """The call's effect is unknown and the model is told; the next one is answered by another server process."""
    with life(tmp_path, WITH_A_SERVER) as only:
        only.start("storer", "stored")
        only.until_done("stored", 1)
        os.kill(int(next(iter(done(tmp_path, "servers")))), signal.SIGKILL)
        only.until_done("stored", 2)
        let_go(tmp_path)
        ended = only.until("stored", "completed")
        assert ended["unknown_effects"] == ["stored/1/0"]
        only.end()
    run = what_is_left(tmp_path)["stored"]
    assert [event.outcome for event in run.finished()] == ["unknown_effect", "ok"]
    assert len(done(tmp_path, "servers")) == 2
    assert done(tmp_path, "stored") == {"stored/1/0": 1, "stored/2/0": 1}


def hold_to_the_rules(runs: dict[str, Left]) -> None:
    """Each run completed once; each call has one end; what may not be repeated started once, and only as approved."""
    for run, left in runs.items():
        assert left.result.reason is StopReason.FINAL_ANSWER, (run, left.result.message)
        assert left.count(RunEnded) == 1
        started = [event for event in left.events if isinstance(event, ToolStarted)]
        ends = [event for event in left.events if isinstance(event, ToolFinished | ToolRefused)]
        assert max(Counter((end.step, end.index) for end in ends).values()) == 1
        assert {(one.step, one.index) for one in started} <= {(end.step, end.index) for end in ends}
        assert max(Counter(one.key for one in started if not one.repeatable).values(), default=0) <= 1
        asked = [event.key for event in left.events if isinstance(event, ApprovalRequested | InputRequested)]
        answers = [event.key for event in left.events if isinstance(event, ApprovalDecided | InputGiven)]
        assert sorted(asked) == sorted(answers) == sorted(set(asked))
        approved = {
            event.key for event in left.events if isinstance(event, ApprovalDecided) and event.decision == "approved"
        }
        assert {one.approval for one in started if one.name == "send"} == approved
