"""The routes of runs, asked under virtual time."""

import json
from typing import Any

import pytest
import trio
import trio.testing

from tests.runs.asking import Asking
from tests.runs.running import EPOCH, running

Clock = trio.testing.MockClock
WHO = {"agent": "seeker"}


async def test_a_run_is_started_and_found_where_its_answer_says(autojump_clock: Clock) -> None:
    """201, the run as JSON, and its address; the same id again is a conflict."""
    async with running() as world:
        http = Asking(world.service)
        made = await http.ask("POST", "/api/runs", {"task": "x", "who": WHO, "run": "mine", "tenant": "acme"})
        assert (made.status, made.headers["location"]) == (201, "/api/runs/mine")
        assert made.json()["observed"] == "pending"
        shown = await http.ask("GET", made.headers["location"])
        assert (shown.status, shown.json()["tenant"], shown.json()["created"]) == (200, "acme", EPOCH)
        again = await http.ask("POST", "/api/runs", {"task": "x", "who": WHO, "run": "mine"})
        assert (again.status, again.json()["error"]["kind"]) == (409, "duplicate_run")


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "task"),
        ({"task": "x", "tenent": "acme"}, 400, "tenant"),
        ({"task": "x", "run": "a b"}, 400, "run: must be"),
        ({"task": "x", "budget": {"rounds": 0}}, 400, "rounds: a whole number"),
        ({"task": "x", "who": {"agent": "nobody"}}, 404, "there are: seeker"),
        ({"task": "x", "who": {"model": "nothing"}}, 404, "no model is called 'nothing'"),
    ],
)
async def test_what_makes_no_sense_is_told_in_a_sentence(
    body: Any, status: int, words: str, autojump_clock: Clock
) -> None:
    """The status says whose turn it is, the message what was wrong."""
    async with running() as world:
        answer = await Asking(world.service).ask("POST", "/api/runs", body)
        assert answer.status == status
        assert words in answer.json()["error"]["message"]


async def test_a_full_tenant_is_told_when_to_come_back(autojump_clock: Clock) -> None:
    """429 with `Retry-After`; after that time there is room. While draining it is 503."""
    async with running(per_tenant=2) as world:
        http = Asking(world.service)
        for _ in range(2):
            assert (await http.ask("POST", "/api/runs", {"task": "x"})).status == 201
        refused = await http.ask("POST", "/api/runs", {"task": "x"})
        assert (refused.status, refused.json()["error"]["kind"]) == (429, "queue_full")
        assert "tenant default has 2 runs" in refused.json()["error"]["message"]
        assert (await http.ask("POST", "/api/runs", {"task": "x", "tenant": "acme"})).status == 201
        await trio.sleep(int(refused.headers["retry-after"]))
        await trio.sleep(70)
        assert (await http.ask("POST", "/api/runs", {"task": "x"})).status == 201
        world.service.close()
        late = await http.ask("POST", "/api/runs", {"task": "x"})
        assert (late.status, late.json()["error"]["kind"]) == (503, "draining")


async def test_runs_are_listed_by_state_tenant_and_job(autojump_clock: Clock) -> None:
    """The newest first, in pages, with counts; a state may be repeated."""
    async with running(max_live=2) as world:
        http = Asking(world.service)
        runs = [await world.start(tenant="acme" if n % 2 else "other", job="j" if n > 2 else "") for n in range(6)]
        await world.service.cancel(runs[5])
        await world.service.wait(runs[5])

        async def listed(query: str) -> list[int]:
            answer = await http.ask("GET", f"/api/runs?{query}")
            assert answer.status == 200
            return [runs.index(view["run"]) for view in answer.json()["runs"]]

        assert await listed("") == [5, 4, 3, 2, 1, 0]
        assert await listed("tenant=acme") == [5, 3, 1]
        assert await listed("tenant=acme&job=j") == [5, 3]
        assert await listed("state=running") == [1, 0]
        assert await listed("state=failed&state=pending") == [5, 4, 3, 2]
        first = (await http.ask("GET", "/api/runs?size=4")).json()
        assert (first["total"], sum(first["states"].values())) == (6, 6)
        assert await listed(f"size=4&cursor={first['next']}") == [1, 0]
        for wrong in ("size=0", "size=1001", "cursor=x", "cursor=-1", "state=happy", "tenent=acme"):
            assert (await http.ask("GET", f"/api/runs?{wrong}")).status == 400


async def test_a_long_poll_ends_with_the_run_or_the_time(autojump_clock: Clock) -> None:
    """Within `wait` the answer comes when the run has ended, else as it stands then."""
    async with running() as world:
        http = Asking(world.service)
        run = await world.start()
        early = await http.ask("GET", f"/api/runs/{run}?wait=30")
        assert (early.json()["state"], trio.current_time()) == ("waiting_tool", 30)
        late = await http.ask("GET", f"/api/runs/{run}?wait=300")
        assert (late.json()["answer"], trio.current_time()) == ("found", pytest.approx(62))


async def test_a_long_poll_ends_when_its_client_leaves(autojump_clock: Clock) -> None:
    """The handler is over at once, with no answer, and the run goes on."""
    async with running() as world:
        run = await world.start()
        async with Asking(world.service).asking("GET", f"/api/runs/{run}?wait=300") as asked:
            await trio.sleep(5)
            asked.leave()
        assert (trio.current_time(), asked.status) == (5, 0)
        assert (await world.service.wait(run)).answer == "found"


async def test_a_cancel_is_acknowledged_with_its_reason(autojump_clock: Clock) -> None:
    """Also of a run that has ended, which stays as it was."""
    async with running() as world:
        http = Asking(world.service)
        run = await world.start()
        await trio.sleep(30)
        answer = await http.ask("POST", f"/api/runs/{run}/cancel?reason=interrupted")
        assert (answer.status, answer.json()["state"]) == (200, "cancelling")
        assert (await world.service.wait(run)).reason == "interrupted"
        assert (await http.ask("POST", f"/api/runs/{run}/cancel")).json()["reason"] == "interrupted"
        assert (await http.ask("POST", f"/api/runs/{run}/cancel?reason=tired")).status == 400


async def test_events_are_followed_and_taken_up_again(autojump_clock: Clock) -> None:
    """Each event has its number as id and its type as name; a client that comes back goes on where it was."""
    async with running() as world:
        http = Asking(world.service)
        run = await world.start()
        async with http.asking("GET", f"/api/runs/{run}/events") as asked:
            await asked.until_events(4)
            asked.leave()
        seen = asked.events()
        assert asked.headers["content-type"].startswith("text/event-stream")
        again = await http.ask("GET", f"/api/runs/{run}/events", headers={"last-event-id": seen[-1]["id"]})
        assert again.ended
        whole = seen + again.events()
        assert [event["id"] for event in whole] == [str(number + 1) for number in range(len(whole))]
        assert [whole[0]["event"], whole[-1]["event"]] == ["run_created", "run_ended"]
        assert all(json.loads(event["data"])["type"] == event["event"] for event in whole)
        behind = await http.ask("GET", f"/api/runs/{run}/events?after=3")
        assert behind.events() == whole[3:]


async def test_what_there_is_can_be_had_without_waiting(autojump_clock: Clock) -> None:
    """`follow=false` answers the events so far and ends, although the run goes on."""
    async with running() as world:
        run = await world.start()
        await trio.sleep(30)
        asked = await Asking(world.service).ask("GET", f"/api/runs/{run}/events?follow=false")
        assert (trio.current_time(), asked.ended) == (30, True)
        assert [event["event"] for event in asked.events()][-1] == "tool_started"


async def test_an_unknown_run_is_a_404_everywhere(autojump_clock: Clock) -> None:
    """Shown, waited for, followed or cancelled."""
    async with running() as world:
        http = Asking(world.service)
        for method, path in (("GET", ""), ("GET", "?wait=9"), ("GET", "/events"), ("POST", "/cancel")):
            answer = await http.ask(method, f"/api/runs/nobody{path}")
            assert (answer.status, answer.json()["error"]["kind"]) == (404, "unknown_run")
