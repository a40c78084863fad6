"""Whose call it is: keys, budgets and what waits in memory, as programs meet them."""

import json

import pytest
import trio
import trio.testing

from agents.money import PriceList
from orchestrator.api.errors import Unauthorized
from orchestrator.budgets import TenantBudget, TenantBudgets
from orchestrator.policy.admission import AdmissionConfig
from orchestrator.policy.dispatch import DispatchConfig
from tests.api.surface_rig import ask
from tests.gateway.gateway_rig import PATHS, STREAMED, WireBackend, body, gateway, wire_owner
from tests.owner.staged import running


def budgets(tokens: int) -> TenantBudgets:
    return TenantBudgets({"default": TenantBudget(tokens=tokens)}, prices=PriceList, wall=lambda: 1e9)


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_key_that_does_not_hold_is_401_in_the_providers_shape(dialect, autojump_clock):
    """Who sends no key that holds is told so as each SDK expects it, and nothing reaches the queue."""

    def nobody(headers):
        raise Unauthorized("a key is needed here")

    async with running(wire_owner(backend := WireBackend())) as owner:
        answer = await ask(gateway(owner, identify=nobody), "POST", PATHS[dialect], body(dialect))
    assert answer.status == 401
    if dialect in ("messages", "count_tokens"):
        assert answer.error["type"] == "authentication_error"
    else:
        assert answer.error["code"] == "invalid_api_key"
    assert not backend.sent


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", STREAMED)
async def test_a_spent_budget_is_429_that_is_not_tried_again(dialect, stream, autojump_clock):
    """A call that the budget has no room for is refused before it is queued, and the SDKs do not try again."""
    async with running(wire_owner(backend := WireBackend())) as owner:
        app = gateway(owner, budgets=budgets(50))
        answer = await ask(app, "POST", PATHS[dialect], body(dialect, "x" * 1_000, stream=stream))
    assert (answer.status, answer.header("x-should-retry")) == (429, "false")
    assert not backend.sent


async def test_a_call_that_says_no_bound_is_bounded_to_what_was_reserved(autojump_clock):
    """Where a program names no bound, the one that its budget has room for goes upstream with its request."""
    async with running(wire_owner(backend := WireBackend())) as owner:
        app = gateway(owner, budgets=budgets(2_000))
        assert (await ask(app, "POST", PATHS["chat"], body("chat", n=2))).status == 200
    sent = backend.sent[0]
    bound = json.loads(bytes(sent.wire.fields["max_tokens"]))
    assert 0 < bound < 1_000
    assert sent.max_tokens == 2 * bound


async def test_what_a_call_used_is_what_its_budget_pays(autojump_clock):
    """Behind a call its reservation is gone, and its reported usage stands in its place."""
    held = budgets(100_000)
    async with running(wire_owner(WireBackend())) as owner:
        app = gateway(owner, budgets=held)
        for stream in (True, False):
            assert (await ask(app, "POST", PATHS["chat"], body("chat", stream=stream))).status == 200
        assert (await ask(app, "POST", PATHS["embeddings"], body("embeddings"))).status == 200
    scope = held.scope("default")
    assert scope is not None
    assert (scope.used.tokens, scope.reserved.tokens, scope.unknown.tokens) == (36, 0, 0)


async def test_images_count_with_their_bytes_for_what_may_wait_in_memory(autojump_clock):
    """A picture is small as input and large in memory: the cap on waiting bytes counts what is held."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * 250_000}}
    backend = WireBackend("headers")
    dispatch = DispatchConfig(admission=AdmissionConfig(tenant_bytes=2_500_000))
    request = body("messages", messages=[{"role": "user", "content": [picture]}])
    async with running(wire_owner(backend, dispatch=dispatch)) as owner, trio.open_nursery() as nursery:
        app = gateway(owner)
        for _ in range(3):
            nursery.start_soon(ask, app, "POST", PATHS["messages"], request)
            await trio.testing.wait_all_tasks_blocked()
        refused = await ask(app, "POST", PATHS["messages"], request)
        backend.release("headers")
    assert refused.status == 429
    assert backend.sent[0].input_bytes() < 5_000
