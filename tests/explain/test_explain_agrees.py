"""What is explained agrees with what a test has arranged, in a whole daemon."""

from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest
import trio

from orchestrator.backends.secret import Secret
from orchestrator.client.client import open_client
from orchestrator.client.errors import Refusal
from orchestrator.views.explain import CallExplanation
from tests.daemon.serving import Serving, config, serving, until
from tests.gateway_sdk.key_help import add_key

ONE_SLOT = """
[backends.sim]
kind = "simulated"
speed = 400
concurrency = 1
latency = { first_token = 20.0, spread = 0.0 }
faults = [{ fault = "slow_headers", nth = [1, 2], seconds = 0.8 }]

[tenants.lab]
weight = 3
"""
"""Each of the first two calls holds the only slot for most of a second, in which others come."""

A_LIMIT = """
[backends.sim]
kind = "simulated"
speed = 400
limits = [{ kind = "requests", amount = 1, per = 1.0 }]
"""

OWN_LIMIT = """
[backends.sim]
kind = "simulated"
speed = 400

[tenants.web]
limits = [{ kind = "requests", amount = 1, per = 1.0 }]
"""

FAILS_ONCE = """
[backends.sim]
kind = "simulated"
speed = 400
faults = [{ fault = "status", nth = [1], status = 500 }]
"""

Sent = tuple[str, dict[str, str]]
"""A name for a call, and its headers without `x-headrace-`."""

ALSO = {"key": "x-api-key"}
"""A header that is not Headrace's own."""


async def keys_of(one: Serving, calls: Sequence[Sent]) -> dict[str, str]:
    """Sends the calls, each when the one before it is in the queue, and returns their keys when all are answered."""
    keys: dict[str, str] = {}
    (owner,) = one.daemon.owners.by_name.values()

    async def call(name: str, said: dict[str, str]) -> None:
        async with httpx2.AsyncClient(timeout=30) as client:
            answer = await client.post(
                f"{one.url}/v1/chat/completions",
                json={"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]},
                headers={ALSO.get(header, f"x-headrace-{header}"): value for header, value in said.items()},
            )
        assert answer.status_code == 200
        keys[name] = answer.headers["x-headrace-call"]

    async with trio.open_nursery() as nursery:
        for sent, (name, said) in enumerate(calls):
            nursery.start_soon(call, name, said)
            await until(lambda sent=sent: owner.statistics().held + len(keys) > sent)
    return keys


def rules(explained: CallExplanation) -> dict[str, int]:
    """How many calls went first by each rule."""
    sums: dict[str, int] = {}
    for group in explained.ahead:
        sums[group.rule] = sums.get(group.rule, 0) + group.calls
    return sums


async def test_each_who_went_first_did_so_by_the_rule_that_was_arranged(tmp_path: Path) -> None:
    """The last of a run's calls is passed by a priority, a tenant, a job and a run, and goes after its own."""
    web = {"tenant": "web", "job": "j", "run": "a"}
    async with serving(config(tmp_path, ONE_SLOT)) as one:
        await keys_of(one, [("served", web)])  # so that its run has had more than others of its job
        keys = await keys_of(
            one,
            [
                ("holds", web),
                ("second", web),
                ("last", web),
                ("run", {**web, "run": "b"}),
                ("job", {**web, "job": "k"}),
                ("tenant", {"tenant": "lab"}),
                ("urgent", {"tenant": "desk", "priority": "interactive"}),
            ],
        )
        explained = await one.client.explain_call(keys["last"])
        urgent = await one.client.explain_call(keys["urgent"])
    assert rules(explained) == {"priority": 1, "fair_tenants": 1, "fair_jobs": 1, "run_order": 1, "arrival": 1}
    assert {group.rule: group.tenant for group in explained.ahead} == {
        "priority": "desk",
        "fair_tenants": "lab",
        "fair_jobs": "web",
        "run_order": "web",
        "arrival": "web",
    }
    words = "\n".join(explained.words)
    assert "1 of lab (standard, weight 3;" in words
    assert "Tenant web has weight 1." in words
    assert sum(part.seconds for part in explained.waits) == pytest.approx(explained.waited, abs=0.01)
    assert rules(urgent) == {}


async def test_a_tenant_hears_nothing_of_others(tmp_path: Path) -> None:
    """To a tenant's key another's call is not there, and whoever went before its own is one of the other tenants."""
    web, rival = add_key(tmp_path, "web"), add_key(tmp_path, "rival")
    async with serving(config(tmp_path, ONE_SLOT)) as one, open_client(one.url, key=Secret(web)) as client:
        keys = await keys_of(
            one,
            [
                ("holds", {"key": web}),
                ("own", {"key": web}),
                ("other", {"key": rival, "job": "plan-x", "priority": "interactive"}),
            ],
        )
        explained = await client.explain_call(keys["own"])
        slowest = await client.slowest(60.0)
        with pytest.raises(Refusal) as refused:
            await client.explain_call(keys["other"])
        with pytest.raises(Refusal) as forbidden:
            await client.slowest(60.0, tenant="rival")
    assert refused.value.status == 404
    assert forbidden.value.status == 403
    assert [(group.rule, group.tenant) for group in explained.ahead] == [("priority", "other tenants")]
    assert {call.call for call in slowest.calls} == {keys["holds"], keys["own"]}
    assert "rival" not in repr((explained, slowest))
    assert "plan-x" not in repr((explained, slowest))


async def test_a_full_limit_is_named_with_its_size(tmp_path: Path) -> None:
    """Of two calls under one request a second, the second waited for that limit."""
    async with serving(config(tmp_path, A_LIMIT)) as one:
        keys = await keys_of(one, [("first", {"tenant": "web"}), ("second", {"tenant": "lab"})])
        explained = await one.client.explain_call(keys["second"])
    assert explained.waits[0].held_by.startswith("requests/")
    assert explained.waits[0].seconds == pytest.approx(explained.waited, abs=0.2)
    assert f"because the limit {explained.waits[0].held_by} (1) was used up" in "\n".join(explained.words)


async def test_a_tenants_own_limit_is_told_from_the_backends(tmp_path: Path) -> None:
    """A call that waits for its tenant's own limit says so, and others went for that reason, not by weight."""
    async with serving(config(tmp_path, OWN_LIMIT)) as one:
        keys = await keys_of(
            one, [("first", {"tenant": "web"}), ("second", {"tenant": "web"}), ("other", {"tenant": "lab"})]
        )
        explained = await one.client.explain_call(keys["second"])
    assert explained.waits[0].held_by.startswith("tenant requests/")
    assert rules(explained) == {"own_limit": 1}
    assert explained.words[-1] == "To shorten it: raise that limit of tenant web."


async def test_a_retry_is_a_wait_of_its_own(tmp_path: Path) -> None:
    """A call that failed once and was tried again waited for the retry, and says that it had two attempts."""
    async with serving(config(tmp_path, FAILS_ONCE)) as one:
        keys = await keys_of(one, [("only", {"tenant": "web"})])
        explained = await one.client.explain_call(keys["only"])
    assert explained.attempts == 2
    assert [part.held_by for part in explained.waits] == ["retry"]
    assert "it waited to be tried again after a failure" in "\n".join(explained.words)
