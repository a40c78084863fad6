"""What the SDKs' programs see when something is wrong: the exception classes that they expect, and their own retry."""

import time
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
import trio

from orchestrator.backends.simulated.config import FaultRule, SimConfig
from tests.daemon.serving import until
from tests.gateway_sdk.key_help import add_key
from tests.gateway_sdk.sdk_rig import (
    FAST,
    MODEL,
    QUESTION,
    SDK_LEAVES_GENERATORS,
    SHORT,
    SLOW,
    Gateway,
    Speaks,
    gateway,
)

pytestmark = SDK_LEAVES_GENERATORS
either = pytest.mark.parametrize("speaks", ["openai", "anthropic"])
ONE_AT_A_TIME = "concurrency = 1\ndefault_max_tokens = 30\n"
ONE_MAY_WAIT = "[daemon]\nadmission = { tenant_calls = 1 }\n"


def always(**fault: Any) -> SimConfig:
    return SimConfig(latency=FAST, length=SHORT, faults=(FaultRule(**fault),))


async def chat(there: Gateway, **more: Any) -> Any:
    return await there.openai.chat.completions.create(**{"model": MODEL, "messages": QUESTION, **more})


async def message(there: Gateway, **more: Any) -> Any:
    return await there.anthropic.messages.create(**{"model": MODEL, "messages": QUESTION, "max_tokens": 99, **more})


async def test_an_unknown_model_is_not_found(tmp_path: Path) -> None:
    """A model that no backend serves is `NotFoundError` in both SDKs, with OpenAI's code for it."""
    async with gateway(tmp_path, text='[models.water]\nbackends = ["up"]\n') as there:
        with pytest.raises(openai.NotFoundError) as unknown:
            await chat(there, model="wine")
        with pytest.raises(anthropic.NotFoundError, match="wine"):
            await message(there, model="wine")
    assert unknown.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"messages": "hello"}, "messages"),
        ({"messages": []}, "messages"),
        ({"n": 0}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"stream": "yes"}, "stream"),
    ],
)
async def test_a_bad_field_is_named(tmp_path: Path, wrong: dict[str, Any], param: str) -> None:
    """What cannot be is `BadRequestError`, and `param` is the field's path; the next request is served."""
    async with gateway(tmp_path) as there:
        with pytest.raises(openai.BadRequestError) as refused:
            await chat(there, extra_body=wrong)
        assert refused.value.param == param
        assert (await chat(there)).choices


async def test_a_bad_field_is_named_to_anthropics_sdk(tmp_path: Path) -> None:
    """The message of a `BadRequestError` begins with the field's path, and its type is the provider's."""
    async with gateway(tmp_path, "anthropic") as there:
        with pytest.raises(anthropic.BadRequestError) as refused:
            await message(there, extra_body={"messages": []})
    assert "messages" in refused.value.message
    assert refused.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]


@either
async def test_what_the_provider_refuses_stays_refused(tmp_path: Path, speaks: Speaks) -> None:
    """A 400 of the provider is a `BadRequestError` of both SDKs after one try."""
    async with gateway(tmp_path, speaks, always(fault="status", status=400, code="bad_thing")) as there:
        with pytest.raises(openai.BadRequestError):
            await chat(there)
        with pytest.raises(anthropic.BadRequestError):
            await message(there)
        assert there.provider.statistics().arrived == 2


@either
async def test_an_error_inside_a_stream_ends_it_with_an_exception(tmp_path: Path, speaks: Speaks) -> None:
    """A provider that fails in mid-stream is an `APIError` for whoever reads the stream, never a short answer."""
    sim = SimConfig(
        latency=SLOW, length=SHORT, faults=(FaultRule(fault="error_event", after_tokens=3, status=400, code="odd"),)
    )
    async with gateway(tmp_path, speaks, sim) as there:
        with pytest.raises(openai.APIError):
            async for _ in await chat(there, stream=True):
                pass
        with pytest.raises(anthropic.APIError):
            async for _ in await message(there, stream=True):
                pass


async def test_keys_are_asked_for(tmp_path: Path) -> None:
    """Once there are keys, none and a wrong one are `AuthenticationError`, and the right one is served."""
    key = add_key(tmp_path, "gold")
    async with gateway(tmp_path) as there:
        with pytest.raises(openai.AuthenticationError) as wrong:
            await chat(there)
        with pytest.raises(anthropic.AuthenticationError):
            await message(there)
        right = there.openai.with_options(api_key=key)
        assert (await right.chat.completions.create(model=MODEL, messages=QUESTION)).choices
        also = there.anthropic.with_options(api_key=key)
        assert (await also.messages.create(model=MODEL, messages=QUESTION, max_tokens=9)).content
    assert wrong.value.code == "invalid_api_key"


async def test_a_full_queue_is_a_rate_limit_error(tmp_path: Path) -> None:
    """Beyond its cap a client gets `RateLimitError` at once, with a wait that the SDK obeys (at most 120 s)."""
    sim = SimConfig(latency=SLOW, length=SHORT)
    one = gateway(tmp_path, sim=sim, backend=ONE_AT_A_TIME, text=ONE_MAY_WAIT)
    async with one as there, trio.open_nursery() as nursery:
        nursery.start_soon(chat, there)
        await until(lambda: there.provider.statistics().in_flight == 1)
        nursery.start_soon(chat, there)
        await until(lambda: there.busy() == 3)
        with pytest.raises(openai.RateLimitError) as full:
            await chat(there)
        with pytest.raises(anthropic.RateLimitError):
            await message(there)
        nursery.cancel_scope.cancel()
    assert 1 <= int(full.value.response.headers["retry-after"]) <= 120
    assert full.value.code == "rate_limit_exceeded"


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
async def test_the_sdks_own_retry_succeeds_at_the_first_try(tmp_path: Path, sdk: str) -> None:
    """After our 429 the unmodified SDK waits as long as it was told, tries once more, and is served."""
    sim = SimConfig(latency=SLOW, length=SHORT)
    text = "[daemon]\nadmission = { tenant_calls = 1, retry_after_at_most = 2.0 }\n"
    async with gateway(tmp_path, sim=sim, backend=ONE_AT_A_TIME, text=text) as there:
        statuses: list[int] = []

        async def seen(response: Any) -> None:
            statuses.append(response.status_code)

        client: Any = there.openai if sdk == "openai" else there.anthropic
        client._client.event_hooks = {"response": [seen]}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other_chat, there)
            await until(lambda: there.provider.statistics().in_flight == 1)
            nursery.start_soon(other_chat, there)
            await until(lambda: there.busy() == 3)
            began = time.monotonic()
            if sdk == "openai":
                await there.openai.with_options(max_retries=1).chat.completions.create(model=MODEL, messages=QUESTION)
            else:
                await there.anthropic.with_options(max_retries=1).messages.create(
                    model=MODEL, messages=QUESTION, max_tokens=5
                )
            assert time.monotonic() - began >= 2
    assert statuses == [429, 200]


async def other_chat(there: Gateway) -> None:
    """A request of some other program."""
    async with openai.AsyncOpenAI(base_url=f"{there.url}/v1", api_key="any", max_retries=0) as client:
        await client.chat.completions.create(model=MODEL, messages=QUESTION)


@either
async def test_a_closed_stream_frees_its_slot_at_once(tmp_path: Path, speaks: Speaks) -> None:
    """Closing a stream of either SDK aborts the call at the provider and leaves nothing in the daemon."""
    sim = SimConfig(latency=SLOW, length=SHORT)
    async with gateway(tmp_path, speaks, sim) as there:
        for ask in (chat, message):
            stream = await ask(there, stream=True)
            async for _ in stream:
                break
            assert there.provider.statistics().in_flight == 1
            with trio.fail_after(2):
                await stream.close()
                await until(lambda: there.busy() == 0)
        assert there.provider.statistics().aborted == 2


async def test_a_program_that_gives_up_waiting_leaves_nothing(tmp_path: Path) -> None:
    """A request whose SDK timed out while it was queued never reaches the provider."""
    sim = SimConfig(latency=SLOW, length=SHORT)
    async with gateway(tmp_path, sim=sim, backend=ONE_AT_A_TIME) as there:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other_chat, there)
            await until(lambda: there.provider.statistics().in_flight == 1)
            with pytest.raises(openai.APITimeoutError):
                await there.openai.with_options(timeout=0.2).chat.completions.create(model=MODEL, messages=QUESTION)
            await until(lambda: there.busy() == 2)
            nursery.cancel_scope.cancel()
        await until(lambda: there.busy() == 0)
        assert there.provider.statistics().arrived == 1


async def test_an_upstream_that_is_down_is_an_internal_server_error(tmp_path: Path) -> None:
    """While no endpoint can serve at all the answer is a 5xx, never a 429."""
    backend = "retry = { attempts = 1 }\n"
    sim = SimConfig(latency=FAST, faults=(FaultRule(fault="status", status=500),))
    async with gateway(tmp_path, sim=sim, backend=backend) as there:
        with pytest.raises(openai.InternalServerError):
            await chat(there)
        with pytest.raises(anthropic.InternalServerError):
            await message(there)
