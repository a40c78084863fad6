"""The routes of worker processes, without a wire."""

import msgspec

from orchestrator.api.app import make_app
from orchestrator.api.identity import Client
from orchestrator.views.workers import AppendAnswer, PollAnswer, RunMaterial, WorkerList
from tests.api.surface_rig import ask, make_services
from tests.pools.pooled import LOOKS, Hand, daemon

POLL = b'{"worker":"w","room":3,"seconds":1}'


async def test_a_run_is_polled_for_begun_and_appended_to(autojump_clock):
    """What a worker sends as JSON reaches the pool, and a claim that does not count is a conflict of its own kind."""
    async with daemon(script=LOOKS) as far:
        app = make_app(make_services(workers=far.pool))
        run = await far.start()
        polled = msgspec.json.decode((await ask(app, "POST", "/api/workers/poll", POLL)).body, type=PollAnswer)
        [held] = polled.take
        assert held.run == run
        claim = f'{{"claim":"{held.claim}"}}'.encode()
        begun = await ask(app, "POST", f"/api/workers/runs/{run}/begin", claim)
        material = msgspec.json.decode(begun.body, type=RunMaterial)
        assert (material.agent.name, material.agent.tools, material.number) == ("works", ("post", "look", "pay"), 1)
        body = f'{{"claim":"{held.claim}","batch":"b","after":1,"events":[{{"type":"run_started","run":"{run}"}}]}}'
        appended = await ask(app, "POST", f"/api/workers/runs/{run}/append", body.encode())
        assert msgspec.json.decode(appended.body, type=AppendAnswer).outcome == "appended"
        gone = await ask(app, "POST", f"/api/workers/runs/{run}/begin", b'{"claim":"other"}')
        assert (gone.status, gone.error["kind"]) in {(409, "claim_gone"), (503, "not_yet")}
        seen = msgspec.json.decode((await ask(app, "GET", "/api/workers")).body, type=WorkerList)
        assert [(worker.worker, worker.runs) for worker in seen.workers] == [("w", 1)]
        assert (await ask(app, "GET", "/api/workers/tools")).json["digest"] == "t1"


async def test_a_tenants_key_is_no_workers(autojump_clock):
    """Whoever drives runs sees all that they say, so it takes an admin's key."""
    app = make_app(make_services(identify=lambda headers: Client(tenant="acme", key="k")))
    for method, path, body in (("POST", "/api/workers/poll", POLL), ("GET", "/api/workers", None)):
        refused = await ask(app, method, path, body)
        assert (refused.status, refused.error["kind"]) == (403, "forbidden")


async def test_a_daemon_without_a_pool_says_so():
    """A worker that asks it is told what its configuration would need; nobody is listed."""
    app = make_app(make_services())
    refused = await ask(app, "POST", "/api/workers/poll", POLL)
    assert (refused.status, refused.error["kind"]) == (404, "no_pool")
    assert (await ask(app, "GET", "/api/workers")).json == {"workers": [], "waiting": 0}


async def test_a_child_is_started_once_and_joined(autojump_clock):
    """A run below a run elsewhere is driven by the daemon, under the budget of the run above it."""
    async with daemon(script=LOOKS) as far:
        run = await far.start()
        grip = await Hand(far.pool).take()
        await grip.append(grip.started())
        child = {"run": f"{run}.1.0", "parent": run, "key": f"{run}/1/0", "depth": 1, "agent": "works", "task": "y"}
        app = make_app(make_services(workers=far.pool))
        start = msgspec.json.encode({"claim": grip.claim, "child": child})
        step = msgspec.json.encode({"claim": grip.claim, "child": child["run"], "what": "wait"})
        unknown = await ask(app, "POST", f"/api/workers/runs/{run}/children/step", step)
        assert (unknown.status, unknown.error["kind"]) == (404, "unknown_child")
        for _ in range(2):
            assert (await ask(app, "POST", f"/api/workers/runs/{run}/children", start)).status == 200
        ended = (await ask(app, "POST", f"/api/workers/runs/{run}/children/step", step)).json
        assert ended["result"]["state"] == "completed"
        spent = ended["spent"][0] if isinstance(ended["spent"], list) else ended["spent"]["used"]
        assert spent
        record = far.service._records[run]
        assert record.live is not None
        assert record.live.scope.used.tool_calls == 1
