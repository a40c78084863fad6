"""What a tenant is told of its limits, in the form of the provider whose dialect it speaks."""

import pytest
import trio
import trio.testing

from orchestrator.api.gateway_limits import duration, limit_headers
from orchestrator.policy.admission import AdmissionConfig
from orchestrator.policy.allowance import Allowance, allowances
from orchestrator.policy.config import TenantConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.limitspec import LimitSpec
from tests.api.surface_rig import ask
from tests.gateway.gateway_rig import PATHS, WireBackend, body, gateway, wire_owner
from tests.owner.staged import running

OWN = TenantConfig(
    limits=(
        LimitSpec("requests", 100),
        LimitSpec("requests", 10, per=1),
        LimitSpec("input_tokens", 5_000),
        LimitSpec("output_tokens", 3_000, counted="as_produced"),
    )
)
DISPATCH = DispatchConfig(tenants={"limited": OWN}, admission=AdmissionConfig(tenant_calls=5, calls=8))


def told(answer) -> dict[str, str]:
    """The headers about limits."""
    return {name.decode(): value.decode() for name, value in answer.sent[0]["headers"] if b"ratelimit" in name}


def app_over(owner):
    def now(model: str, tenant: str):
        return allowances(owner.policy, tenant, trio.current_time())

    return gateway(owner, allowances=now, wall=lambda: 0.0)


async def test_a_tenant_without_limits_is_told_its_places_in_the_queue(autojump_clock):
    """Without limits of its own, `remaining` is how many more requests are taken now; the next one is a 429."""
    backend = WireBackend("headers")
    async with running(wire_owner(backend, dispatch=DISPATCH)) as owner, trio.open_nursery() as nursery:
        app = app_over(owner)
        for _ in range(4):
            nursery.start_soon(ask, app, "POST", PATHS["chat"], body("chat"))
            await trio.testing.wait_all_tasks_blocked()
        left = allowances(owner.policy, "default", trio.current_time())
        assert left["requests"].limit == 5
        taken = 0
        for _ in range(left["requests"].remaining):
            nursery.start_soon(ask, app, "POST", PATHS["chat"], body("chat"))
            await trio.testing.wait_all_tasks_blocked()
            taken += 1
        refused = await ask(app, "POST", PATHS["chat"], body("chat"))
        backend.release("headers")
    assert (taken, refused.status) == (2, 429)
    headers = told(refused)
    assert headers["x-ratelimit-limit-requests"] == "5"
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert headers["x-ratelimit-reset-requests"] != "0s"
    assert "x-ratelimit-limit-tokens" not in headers


async def test_the_queues_cap_for_all_is_told_where_it_comes_first(autojump_clock):
    """A tenant that waits for nothing has no more places than the whole queue."""
    backend = WireBackend("headers")
    async with running(wire_owner(backend, dispatch=DISPATCH)) as owner, trio.open_nursery() as nursery:
        app = app_over(owner)
        for number in range(8):
            tenant = {"x-headrace-tenant": f"t{number % 2}"}
            nursery.start_soon(ask, app, "POST", PATHS["chat"], body("chat"), tenant)
            await trio.testing.wait_all_tasks_blocked()
        assert allowances(owner.policy, "new", trio.current_time())["requests"].remaining == 1
        backend.release("headers")


async def test_a_tenants_own_limits_are_told_in_each_providers_form(autojump_clock):
    """A limit of its own stands with what is left of it: the tightest span, tokens by kind where the form has kinds."""
    async with running(wire_owner(WireBackend(), dispatch=DISPATCH)) as owner:
        app, limited = app_over(owner), {"x-headrace-tenant": "limited"}
        first = told(await ask(app, "POST", PATHS["chat"], body("chat", max_tokens=100), limited))
        second = told(await ask(app, "POST", PATHS["messages"], body("messages", stream=True), limited))
    assert first["x-ratelimit-limit-requests"] == "10"
    assert first["x-ratelimit-remaining-requests"] == "9"
    assert first["x-ratelimit-limit-tokens"] == "5000"
    assert int(first["x-ratelimit-remaining-tokens"]) < 5_000
    assert first["x-ratelimit-reset-tokens"] == "1m0s"
    assert second["anthropic-ratelimit-requests-limit"] == "10"
    assert second["anthropic-ratelimit-input-tokens-limit"] == "5000"
    assert second["anthropic-ratelimit-output-tokens-limit"] == "3000"
    assert second["anthropic-ratelimit-input-tokens-reset"] == "1970-01-01T00:01:00Z"
    assert not any(name.startswith("x-ratelimit") for name in second)


async def test_an_answer_before_the_model_is_known_tells_no_limits(autojump_clock):
    """A body that cannot be read is about nobody's limits."""
    async with running(wire_owner(WireBackend(), dispatch=DISPATCH)) as owner:
        assert told(await ask(app_over(owner), "POST", PATHS["chat"], b"{}")) == {}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.0881, "89ms"), (1, "1s"), (59.2, "1m0s"), (360, "6m0s"), (3_661, "1h1m1s"), (86_400, "24h0m0s")],
)
def test_durations_are_written_as_openai_does(seconds, text):
    """A reset is read back by the parser that reads providers' own."""
    assert duration(seconds) == text


def test_tokens_of_both_kinds_come_before_those_of_one():
    """OpenAI's form has one sort of tokens: the limit on all of them, if there is one."""
    left = {"total_tokens": Allowance(7, 5, 1.0), "input_tokens": Allowance(3, 2, 1.0)}
    assert (b"x-ratelimit-limit-tokens", b"7") in limit_headers("chat", left, 0.0)
