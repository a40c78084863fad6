"""Two tenants and an admin before one daemon, over real sockets."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
import trio

from agents.errors import InvalidLimits
from orchestrator.daemon.daemon import Daemon
from orchestrator.key_file import change_keys
from tests.daemon.serving import SECONDS, config


class Tenants:
    """Who asks the daemon at `url`: `acme`, `web`, and `ops`, who is an admin."""

    def __init__(self, url: str, keys: dict[str, str]) -> None:
        self.url = url
        self.keys = keys

    async def ask(self, who: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.keys[who]}"} if who else {}
        async with httpx2.AsyncClient(base_url=self.url, trust_env=False, timeout=SECONDS) as http:
            return await http.request(method, path, json=body, headers=headers)

    async def send(self, who: str, method: str, path: str, content: bytes) -> httpx2.Response:
        """A body that is no JSON."""
        headers = {"authorization": f"Bearer {self.keys[who]}"}
        async with httpx2.AsyncClient(base_url=self.url, trust_env=False, timeout=SECONDS) as http:
            return await http.request(method, path, content=content, headers=headers)


@asynccontextmanager
async def tenants(folder: Path, text: str = "") -> AsyncGenerator[Tenants, None]:
    keys = {
        "acme": change_keys(folder, lambda ring: ring.add("acme", 0.0)).text,
        "web": change_keys(folder, lambda ring: ring.add("web", 0.0)).text,
        "late": change_keys(folder, lambda ring: ring.add("web", 0.0, highest_priority="batch")).text,
        "ops": change_keys(folder, lambda ring: ring.add("ops", 0.0, role="admin")).text,
    }
    daemon = Daemon(config(folder, text))
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            urls: list[str] = await nursery.start(daemon.run)
            yield Tenants(urls[0], keys)
            daemon.hurry()


async def test_a_run_of_another_tenant_is_not_there(tmp_path: Path) -> None:
    """Shown, waited for, cancelled, followed: for another tenant's key it is 404, word for word as an unknown id."""
    async with tenants(tmp_path) as they:
        made = await they.ask("acme", "POST", "/api/runs", {"task": "x", "run": "r1"})
        assert (made.status_code, made.json()["tenant"]) == (201, "acme")
        for method, path in (
            ("GET", "/api/runs/{}"),
            ("GET", "/api/runs/{}?wait=5"),
            ("POST", "/api/runs/{}/cancel"),
            ("GET", "/api/runs/{}/events"),
        ):
            foreign = await they.ask("web", method, path.format("r1"))
            unknown = await they.ask("web", method, path.format("r2"))
            assert foreign.status_code == unknown.status_code == 404
            assert foreign.text.replace("r1", "r2") == unknown.text
        for who in ("acme", "ops"):
            assert (await they.ask(who, "GET", "/api/runs/r1?wait=20")).json()["state"] == "completed"


async def test_lists_show_what_is_the_keys_own(tmp_path: Path) -> None:
    """A tenant's list and its counts hold its own runs, a filter by another tenant finds nothing; an admin sees all."""
    async with tenants(tmp_path) as they:
        for who, run in (("acme", "a1"), ("acme", "a2"), ("web", "w1")):
            await they.ask(who, "POST", "/api/runs", {"task": "x", "run": run})
            await they.ask(who, "GET", f"/api/runs/{run}?wait=20")
        own = (await they.ask("acme", "GET", "/api/runs")).json()
        assert {view["run"] for view in own["runs"]} == {"a1", "a2"}
        assert (own["total"], own["states"]) == (2, {"completed": 2})
        foreign = (await they.ask("acme", "GET", "/api/runs?tenant=web")).json()
        assert (foreign["runs"], foreign["total"]) == ([], 0)
        every = (await they.ask("ops", "GET", "/api/runs")).json()
        assert every["states"] == {"completed": 3}


async def test_a_start_for_another_tenant_is_refused(tmp_path: Path) -> None:
    """Runs, jobs and calls that name another tenant are 403; an admin's are that tenant's; a key's cap holds."""
    message = {"messages": [{"role": "user", "content": "x"}], "model": "", "max_tokens": 5}
    async with tenants(tmp_path) as they:
        for path, body in (
            ("/api/runs", {"task": "x"}),
            ("/api/jobs", {"prompt": "{text}"}),
            ("/api/calls", {"request": message}),
        ):
            refused = await they.ask("acme", "POST", path, {**body, "tenant": "web"})
            assert (refused.status_code, refused.json()["error"]["kind"]) == (403, "forbidden")
            assert (await they.ask("acme", "POST", path, {**body, "tenant": "acme"})).status_code in (200, 201)
        made = await they.ask("ops", "POST", "/api/runs", {"task": "x", "tenant": "web"})
        assert made.json()["tenant"] == "web"
        for wanted in ({}, {"priority": "interactive"}):
            for path, body in (("/api/runs", {"task": "x"}), ("/api/jobs", {"prompt": "{text}"})):
                late = await they.ask("late", "POST", path, {**body, **wanted})
                assert (late.json()["tenant"], late.json()["priority"]) == ("web", "batch")


async def test_a_job_of_another_tenant_is_not_there(tmp_path: Path) -> None:
    """All that can be done with a job is 404 for another tenant's key, and changes nothing."""
    async with tenants(tmp_path) as they:
        made = await they.ask("acme", "POST", "/api/jobs", {"prompt": "{text}", "job": "j1"})
        assert made.status_code == 201
        for method, path in (
            ("GET", ""),
            ("GET", "/events"),
            ("GET", "/results"),
            ("PATCH", "/inputs?offset=0"),
            ("POST", "/inputs/complete"),
            ("POST", "/cancel"),
            ("POST", "/retry"),
            ("DELETE", ""),
        ):
            foreign = await they.ask("web", method, f"/api/jobs/j1{path}")
            unknown = await they.ask("web", method, f"/api/jobs/j2{path}")
            assert (method, path, foreign.status_code) == (method, path, 404)
            assert foreign.text.replace("j1", "j2") == unknown.text
        assert (await they.ask("web", "GET", "/api/jobs")).json() == {"jobs": []}
        for who in ("acme", "ops"):
            assert [view["job"] for view in (await they.ask(who, "GET", "/api/jobs")).json()["jobs"]] == ["j1"]
        assert (await they.ask("acme", "GET", "/api/jobs/j1")).json()["phase"] == "running"


async def test_the_queue_shows_a_tenant_its_own_rows(tmp_path: Path) -> None:
    """Neither another tenant's name nor its figures, nor sums that give them away; an admin sees everything."""
    async with tenants(tmp_path, "[tenants.web]\nweight = 3\n[tenants.acme]\nweight = 1\n") as they:
        for who in ("acme", "web", "web"):
            made = await they.ask(who, "POST", "/api/runs", {"task": "x"})
            await they.ask(who, "GET", f"/api/runs/{made.json()['run']}?wait=20")
        own = (await they.ask("acme", "GET", "/api/queue")).json()
        assert [row["tenant"] for row in own["backends"][0]["tenants"]] == ["acme"]
        assert (own["backends"][0]["endpoints"], own["backends"][0]["hidden_tenants"]) == ([], 0)
        assert own["runs"] == {"completed": 1}
        assert "web" not in (await they.ask("acme", "GET", "/api/queue")).text
        every = (await they.ask("ops", "GET", "/api/queue")).json()
        assert {row["tenant"] for row in every["backends"][0]["tenants"]} == {"acme", "web"}
        assert (every["runs"], len(every["backends"][0]["endpoints"])) == ({"completed": 3}, 1)
        assert (await they.ask("acme", "GET", "/api/capabilities")).json()["tenants"] == ["acme"]
        assert set((await they.ask("ops", "GET", "/api/capabilities")).json()["tenants"]) == {"acme", "web"}


async def test_a_tenant_hears_why_no_run_gets_a_worker(tmp_path: Path) -> None:
    """That none is connected is said to everybody, how many runs of all tenants wait for one to an admin."""
    pool = '[tenants.web]\n[tenants.acme]\n[pool]\nkind = "workers"\n'
    async with tenants(tmp_path, pool) as they:
        run = (await they.ask("acme", "POST", "/api/runs", {"task": "x"})).json()["run"]
        own = (await they.ask("web", "GET", "/api/queue")).json()["pool"]
        assert own == {"problem": (await they.ask("ops", "GET", "/api/queue")).json()["pool"]["problem"]}
        assert own["problem"].startswith("no worker is connected; start one: headrace worker --daemon ")
        while (await they.ask("ops", "GET", "/api/queue")).json()["pool"].get("waiting") != 1:
            pass
        seen = (await they.ask("acme", "GET", f"/api/runs/{run}")).json()
        assert (seen["state"], seen["message"]) == ("queued", own["problem"])
        await they.ask("acme", "POST", f"/api/runs/{run}/cancel")


async def test_a_program_is_known_by_its_key(tmp_path: Path) -> None:
    """A chat completion with a tenant's key counts as that tenant's; with none it is 401 and reaches no backend."""
    body = {"model": "x", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
    async with tenants(tmp_path) as they:
        assert (await they.ask("", "POST", "/v1/chat/completions", body)).status_code == 401
        assert (await they.ask("acme", "POST", "/v1/chat/completions", body)).status_code == 200
        rows = (await they.ask("ops", "GET", "/api/queue")).json()["backends"][0]["tenants"]
        assert [row["tenant"] for row in rows if row["calls_per_minute"] > 0] == ["acme"]


async def test_the_first_key_closes_an_open_daemon_without_a_restart(tmp_path: Path) -> None:
    """A daemon without keys lets everybody in; a reload after the first key asks for it."""
    daemon = Daemon(config(tmp_path))
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            urls: list[str] = await nursery.start(daemon.run)
            they = Tenants(urls[0], {})
            assert (await they.ask("", "GET", "/api/runs")).status_code == 200
            they.keys["acme"] = change_keys(tmp_path, lambda ring: ring.add("acme", 0.0)).text
            with structlog.testing.capture_logs():
                await daemon.reload()
            assert (await they.ask("", "GET", "/api/runs")).status_code == 401
            assert (await they.ask("acme", "GET", "/api/runs")).status_code == 200
            daemon.hurry()


async def test_another_address_than_this_machines_needs_keys(tmp_path: Path) -> None:
    """Without a key the daemon refuses to start there and says how to make one; with one it serves."""
    text = '[daemon]\nhost = "0.0.0.0"\n'
    with pytest.raises(InvalidLimits, match="headrace keys add TENANT"):
        await Daemon(config(tmp_path, text)).run()
    async with tenants(tmp_path, text) as they:
        they.url = they.url.replace("0.0.0.0", "127.0.0.1")
        assert (await they.ask("", "GET", "/api/runs")).status_code == 401
        assert (await they.ask("acme", "GET", "/api/runs")).status_code == 200
