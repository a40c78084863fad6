"""Every operation of the surface, asked for by somebody whose it is not: found by the routes, so a new one is too."""

import re
from pathlib import Path
from typing import Any

import httpx2

from orchestrator.api.app import OPEN
from orchestrator.api.operations import Operation
from tests.keys.test_scoping import Tenants
from tests.strangers.before import OPERATIONS, worked

UNKNOWN = {"run": "nobody", "session": "nobody", "job": "nobody", "call": "call-" + 24 * "0", "step": "1", "index": "0"}
CLAIM = {"claim": "c"}
BODIES: dict[str, Any] = {
    "/api/workers/runs/{run}/append": {**CLAIM, "batch": "b", "after": 0, "events": [{}]},
    "/api/workers/runs/{run}/begin": CLAIM,
    "/api/workers/runs/{run}/call": {**CLAIM, "key": "r1/1/1", "request": {"model": "m", "messages": []}},
    "/api/workers/runs/{run}/call/leave": {**CLAIM, "key": "r1/1/1"},
    "/api/workers/runs/{run}/children": {
        **CLAIM,
        "child": {"run": "c1", "parent": "r1", "key": "k", "depth": 1, "agent": "clerk", "task": "x"},
    },
    "/api/workers/runs/{run}/children/step": {**CLAIM, "child": "x", "what": "wait"},
    "/api/workers/runs/{run}/late": {"event": {}},
    "/api/workers/runs/{run}/left": CLAIM,
    "/api/workers/runs/{run}/room": {**CLAIM, "need": {}},
    "/api/runs/{run}/messages": {"content": "x"},
    "/api/runs/{run}/grant": {"limits": {"rounds": 9}},
    "/api/approvals/{run}/{step}/{index}/decide": {"decision": "approved"},
    "/api/approvals/{run}/{step}/{index}/answer": {"content": "x"},
}
QUERIES = {"/api/jobs/{job}/inputs": "?offset=0"}
"""What passes each operation's own check, so that it comes to whose the thing is."""

TENANTS = frozenset({"run", "session", "job", "call"})
ADMINS = re.compile(r"/metrics|/api/workers|/api/prune")
WHOEVER = re.compile(r"/api/(queue|runs|approvals|jobs|sessions|calls|capabilities|openapi\.json)|/v1/")


def parameters(operation: Operation) -> set[str]:
    return set(re.findall(r"\{(\w+)", operation.path))


def filled(operation: Operation, ids: dict[str, str]) -> str:
    path = re.sub(r"\{(\w+)(:path)?\}", lambda found: ids.get(found[1], "x"), operation.path)
    return path + QUERIES.get(operation.path, "")


async def ask(they: Tenants, who: str, operation: Operation, ids: dict[str, str]) -> httpx2.Response:
    return await they.ask(who, operation.method, filled(operation, ids), BODIES.get(operation.path))


async def test_nothing_is_done_without_a_key_or_with_a_wrong_one(tmp_path: Path) -> None:
    """Every operation but the page's and health answers 401, the same for every thing that is there and is not."""
    async with worked(tmp_path) as (they, ids):
        they.keys["thief"] = they.keys["acme"][:-4] + "AAAA"
        for operation in OPERATIONS:
            if operation.path in OPEN or operation.path.startswith("/page/"):
                continue
            for who in ("", "thief"):
                answers = [await ask(they, who, operation, them) for them in (ids, UNKNOWN)]
                assert [answer.status_code for answer in answers] == [401, 401], operation.path
                assert _without_ids(answers[0]) == _without_ids(answers[1])
                assert they.keys["thief"] not in answers[0].text
        run = (await they.ask("acme", "GET", "/api/runs/r1")).json()
        assert run["state"] == "waiting_approval"


async def test_another_tenants_things_are_not_there(tmp_path: Path) -> None:
    """Whatever names a thing answers another tenant's key 404, word for word as for one that nobody has, and does
    nothing; for what only admins may do it is 403, whatever is named."""
    async with worked(tmp_path) as (they, ids):
        asked = 0
        for operation in OPERATIONS:
            if not parameters(operation) & TENANTS:
                continue
            foreign = await ask(they, "web", operation, ids)
            unknown = await ask(they, "web", operation, UNKNOWN)
            expected = 403 if ADMINS.match(operation.path) else 404
            assert (foreign.status_code, unknown.status_code) == (expected, expected), (operation.path, foreign.text)
            words = foreign.text
            for name, value in ids.items():
                words = words.replace(value, UNKNOWN[name]) if name in TENANTS else words
            assert words == unknown.text, operation.path
            asked += 1
        assert asked >= 20
        assert (await they.ask("acme", "GET", "/api/runs/r1")).json()["state"] == "waiting_approval"
        assert (await they.ask("acme", "GET", "/api/jobs/j1")).json()["phase"] == "running"


async def test_what_names_nothing_is_known_to_be_for_tenants_or_for_admins(tmp_path: Path) -> None:
    """A tenant's key gets 403 from what is for admins; and of every operation somebody has said whose it is."""
    async with worked(tmp_path) as (they, ids):
        for operation in OPERATIONS:
            if operation.path in OPEN or operation.path.startswith("/page/"):
                continue
            if ADMINS.match(operation.path):
                answer = await ask(they, "web", operation, ids)
                assert answer.status_code in (400, 403), (operation.path, answer.text)
            else:
                assert WHOEVER.match(operation.path), f"whose is {operation.path}?"


async def test_lists_tell_nothing_of_others(tmp_path: Path) -> None:
    """No list, count or view that another tenant's key gets names anything of this one's."""
    async with worked(tmp_path) as (they, ids):
        listing = [o for o in OPERATIONS if o.method == "GET" and not parameters(o) and not o.events]
        assert len(listing) >= 8
        for operation in listing:
            if ADMINS.match(operation.path) or operation.path in OPEN:
                continue
            text = (await they.ask("web", "GET", operation.path)).text
            found = [word for word in ("acme", "anna", ids["call"]) if word in text]
            assert not found, (operation.path, found)


def _without_ids(answer: httpx2.Response) -> str:
    return re.sub(r"req_[0-9a-f]{24}", "", answer.text)
