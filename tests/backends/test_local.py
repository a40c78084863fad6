"""The real model: what the adapter and the demo rely on, shown on the weights and the server themselves.

Skipped where they are not installed, except in CI, where a missing model is a failure.
"""

import json
import os
import signal
from collections.abc import Iterator

import pytest
import trio

from agents.errors import Refused, Unavailable
from agents.messages import Message, ModelReply, ModelRequest
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.local.config import LocalConfig
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.cli.demo_tasks import DemoItem, DemoTenant, multiply, tenants
from tests.backends.recorder import Recorder
from tests.local_model import local_server

ORDERS, SUPPORT, ARCHIVE = tenants()


@pytest.fixture(scope="module")
def local() -> Iterator[LocalBackend]:
    """One server of two slots for all tests of this file."""
    with local_server(LocalConfig(slots=2)) as backend:
        yield backend


async def send(local: LocalBackend, request: ModelRequest) -> ModelReply:
    connection = local.connect()
    try:
        with trio.fail_after(60):
            return await connection.send(request, Recorder())
    finally:
        await connection.aclose()


async def work(local: LocalBackend, tenant: DemoTenant, item: DemoItem) -> tuple[str, int]:
    """One run of the demo, without the loop around it: the last answer, and how many tool calls it took."""
    messages = tenant.agent.transcript(tenant.prompt(item))
    calls = 0
    for _ in range(3):
        reply = await send(local, tenant.agent.request(messages, tenant.agent.max_tokens))
        messages = (*messages, reply.message)
        if not reply.message.tool_calls:
            break
        for call in reply.message.tool_calls:
            calls += 1
            result = str(multiply(**json.loads(call.arguments)))
            messages = (*messages, Message("tool", result, tool_call_id=call.id))
    return messages[-1].content, calls


async def test_sentiment_keeps_to_the_schema_and_is_right(local: LocalBackend) -> None:
    """Six letters of six are labelled rightly, as JSON objects of the schema's form."""
    for item in SUPPORT.items[:6]:
        answer, _ = await work(local, SUPPORT, item)
        assert set(json.loads(answer)) == {"sentiment"}
        assert SUPPORT.right(item, answer), item.id


async def test_a_tool_is_called_and_its_result_used(local: LocalBackend) -> None:
    """After the demonstration turns three orders of three are worked out with one tool call each."""
    for item in ORDERS.items[:3]:
        answer, calls = await work(local, ORDERS, item)
        assert calls == 1, item.id
        assert ORDERS.right(item, answer), item.id


async def test_a_date_is_found(local: LocalBackend) -> None:
    """Free text: two dates of two are copied out of their notes."""
    for item in ARCHIVE.items[:2]:
        answer, _ = await work(local, ARCHIVE, item)
        assert ARCHIVE.right(item, answer), item.id


async def test_usage_is_reported_and_the_second_time_cached(local: LocalBackend) -> None:
    """Every answer reports its tokens, and a repeated prompt is mostly read from the cache."""
    request = ModelRequest("any", (Message("user", "The river runs past the mill. " * 8),), max_tokens=3)
    await send(local, request)
    usage = (await send(local, request)).usage
    assert usage.output == 3
    assert usage.input is not None
    assert usage.cached is not None
    assert usage.cached > usage.input


async def test_a_cancelled_call_frees_its_slot(local: LocalBackend) -> None:
    """With both slots taken by endless answers, cancelling them lets a third call through in a moment."""
    endless = ModelRequest("any", (Message("user", "Tell a story."),), extra={"ignore_eos": True}, max_tokens=1900)
    async with trio.open_nursery() as nursery:
        flowing = []
        for _ in range(2):
            started = trio.Event()

            async def note(started: trio.Event = started) -> None:
                started.set()

            nursery.start_soon(local.connect().send, endless, Recorder(on_deltas=note))
            flowing.append(started)
        with trio.fail_after(30):
            for started in flowing:
                await started.wait()
        nursery.cancel_scope.cancel()
    with trio.fail_after(10):
        await send(local, ModelRequest("any", (Message("user", "hi"),), max_tokens=1))


async def test_what_does_not_fit_the_context_is_refused(local: LocalBackend) -> None:
    """A prompt beyond a slot's context is the request's own fault and is not retried."""
    with pytest.raises(Refused) as caught:
        await send(local, ModelRequest("any", (Message("user", "word " * 3000),), max_tokens=1))
    assert caught.value.status == 400


async def test_a_stranger_without_the_key_is_refused(local: LocalBackend) -> None:
    """Another program, or a web page's script, that finds the port gets nothing from it."""
    url = str(local.server().url).removesuffix("/chat/completions")
    stranger = OpenAIBackend(OpenAIConfig(name="stranger", base_url=url)).connect()
    with pytest.raises(Refused) as caught:
        await stranger.send(ModelRequest("any", (Message("user", "hi"),), max_tokens=1), Recorder())
    assert caught.value.status == 401
    await stranger.aclose()


async def test_a_killed_server_comes_back(local: LocalBackend) -> None:
    """SIGKILL of the server mid-answer fails that call as the provider's fault; soon after, calls succeed again."""
    endless = ModelRequest("any", (Message("user", "Tell a story."),), extra={"ignore_eos": True}, max_tokens=1900)

    async def kill() -> None:
        assert local.pid is not None
        os.kill(local.pid, signal.SIGKILL)

    connection = local.connect()
    with pytest.raises(Unavailable):
        await connection.send(endless, Recorder(on_deltas=kill))
    with trio.fail_after(60):
        while True:
            try:
                reply = await connection.send(ModelRequest("any", (Message("user", "hi"),), max_tokens=1), Recorder())
                break
            except Unavailable:
                await trio.sleep(0.05)
    assert reply.usage.output == 1
    assert local.crashes == 1
    await connection.aclose()
