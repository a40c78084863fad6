"""`headrace approvals`, `approve`, `deny`, `answer`, and what `run` and `show` say of a run that waits for people."""

import json
import threading
from collections.abc import Callable, Iterator

import httpx2
import pytest

from agents.scripted import Script
from orchestrator.cli.words import own_name
from tests.approvals.asking_people import ONE, QUESTION, TWO
from tests.approvals.desk_thread import DeskThread
from tests.client.daemon_thread import headrace

Serve = Callable[[Script], DeskThread]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves runs of a script until the test is over."""
    threads: list[DeskThread] = []

    def begin(script: Script) -> DeskThread:
        threads.append(DeskThread(script))
        return threads[-1]

    yield begin
    for thread in threads:
        thread.close()


def test_what_is_open_is_listed_and_shown(serve: Serve) -> None:
    """The list has each request with its arguments and id, `show` has them with the way to answer, JSON has all."""
    desk = serve(TWO)
    desk.start("letters")
    listed = headrace(desk.url, "approvals")
    assert listed.exit_code == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["ID", "letters/1/0", "letters/1/1"]
    assert 'send {"to":"bert"}' in listed.stdout
    found = json.loads(headrace(desk.url, "approvals", "--json").stdout)
    assert [view["id"] for view in found["approvals"]] == ["letters/1/0", "letters/1/1"]
    shown = headrace(desk.url, "show", "letters").stdout
    assert "waiting_approval" in shown
    assert "headrace approve letters/1/1, or headrace deny letters/1/1" in shown
    one = headrace(desk.url, "approvals", "letters/1/1").stdout
    assert '{"to":"bert"}' in one
    assert "because: always" in one


def test_approving_and_denying(serve: Serve) -> None:
    """Each decision is confirmed with who decided, and a second one is told what holds, with exit code 2."""
    desk = serve(TWO)
    desk.start("letters")
    approved = headrace(desk.url, "approve", "letters/1/1", "--as", "anna")
    assert (approved.exit_code, approved.stdout) == (0, "letters/1/1 is approved by anna\n")
    denied = headrace(desk.url, "deny", "letters", "--note", "not today")
    assert (denied.exit_code, denied.stdout) == (0, f"letters/1/0 is denied by {own_name()}\n")
    desk.until_ended("letters")
    assert desk.desk.sent == {"bert": 1}
    late = headrace(desk.url, "approve", "letters/1/0")
    assert (late.exit_code, late.stderr) == (2, f"headrace: letters/1/0 was denied by {own_name()}\n")
    assert "not today" in headrace(desk.url, "show", "letters").stdout
    assert headrace(desk.url, "approvals").stderr == "nobody is asked anything\n"


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("letters", "run letters asks 2 things, so name one of them: letters/1/0, letters/1/1"),
        ("nobody", "there is no run nobody"),
        ("letters/9/9", "nobody was asked under letters/9/9; `headrace approvals` lists what is open"),
        ("letters/1", "nobody was asked under letters/1/-"),
    ],
)
def test_what_cannot_be_approved(serve: Serve, named: str, said: str) -> None:
    """A run that asks several things, or nothing, and an id that nobody knows are refused in a sentence."""
    desk = serve(TWO)
    desk.start("letters")
    result = headrace(desk.url, "approve", named)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_question_is_answered(serve: Serve) -> None:
    """The answer may come from standard input, and is the tool's result word for word."""
    desk = serve(QUESTION)
    desk.start("rivers")
    assert "Which river? (Glomma / Otra)" in headrace(desk.url, "approvals").stdout
    answered = headrace(desk.url, "answer", "rivers", "-", input="Otra, I think")
    assert (answered.exit_code, answered.stdout) == (0, f"rivers/1/0 is answered by {own_name()}\n")
    desk.until_ended("rivers")
    assert "Otra, I think" in headrace(desk.url, "show", "rivers").stdout


@pytest.mark.parametrize("quiet", [False, True])
def test_run_says_that_it_waits_and_for_what(serve: Serve, quiet: bool) -> None:
    """Where nobody can be asked, `run` prints the commands that answer, waits, and ends with the answer."""
    desk = serve(ONE)
    id = ""

    def approve() -> None:
        nonlocal id
        while not id:
            views = httpx2.get(f"{desk.url}/api/approvals", trust_env=False).json()["approvals"]
            id = views[0]["id"] if views else ""
        httpx2.post(f"{desk.url}/api/approvals/{id}/decide", json={"decision": "approved"}, trust_env=False)

    thread = threading.Thread(target=approve)
    thread.start()
    result = headrace(desk.url, "run", "clerk", "write to anna", *(["--quiet"] if quiet else []))
    thread.join()
    assert (result.exit_code, result.stdout) == (0, "done\n"), result.stderr
    assert f'send {{"to":"anna"}} needs approval (always); to answer: headrace approve {id}' in result.stderr
    assert desk.desk.sent == {"anna": 1}
