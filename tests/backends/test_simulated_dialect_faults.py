"""Limits and faults of the simulated provider as the unmodified SDKs meet them, in every dialect."""

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import anthropic
import httpx2
import openai
import pytest
import trio
import trio.testing

from orchestrator.backends.simulated.backend import FaultRule, SimLimit
from orchestrator.backends.simulated.messages_writer import tool_id
from tests.backends.sim_client import served
from tests.backends.sim_sdk import (
    CHAT,
    LEAVES_GENERATORS,
    MESSAGES_TOOL,
    RESPONSE,
    TURN,
    anthropic_client,
    openai_client,
    sim,
)

VERSION = {"anthropic-version": "2023-06-01"}
ASKED = {"/chat/completions": CHAT, "/responses": RESPONSE, "/messages": TURN}
WAITING = 40.0
"""How fast the clock goes while a client waits as it was told; before that, at its usual pace, limits stay full."""
paths = pytest.mark.parametrize("path", list(ASKED))


async def lines(path: str, **config: Any) -> tuple[int, list[str]]:
    """The lines of one streamed answer as they stand on the wire."""
    async with served(sim(**config)) as (_, client):
        answer = await client.post(path, json={**ASKED[path], "stream": True}, headers=VERSION)
    return answer.status_code, [line for line in answer.text.split("\n") if line]


async def test_anthropic_rate_limits_apart() -> None:
    """429 is rate_limit_error with both limits in the headers, their sum, a moment of reset, and when to come back."""
    limits = (
        SimLimit(kind="requests", amount=50),
        SimLimit(kind="input_tokens", amount=20),
        SimLimit(kind="output_tokens", amount=1000, counted="as_produced"),
    )
    async with anthropic_client(sim(limits=limits)) as (client, provider):
        first = await client.messages.with_raw_response.create(**TURN)
        with pytest.raises(anthropic.RateLimitError) as refused:
            await client.messages.create(**TURN)
    assert refused.value.body["error"]["type"] == "rate_limit_error"  # type: ignore[index]
    headers = refused.value.response.headers
    used = int(provider.statistics().input_tokens.total)
    assert headers["anthropic-ratelimit-input-tokens-remaining"] == str(20 - used)
    assert int(headers["anthropic-ratelimit-output-tokens-remaining"]) < 1000
    assert headers["anthropic-ratelimit-tokens-limit"] == "1020"
    assert headers["anthropic-ratelimit-requests-remaining"] == "49"
    assert datetime.fromisoformat(headers["anthropic-ratelimit-requests-reset"]).tzinfo is not None
    assert 1 <= int(headers["retry-after"]) <= 60
    assert headers["request-id"].startswith("req_")
    assert first.headers["anthropic-ratelimit-input-tokens-limit"] == "20"


async def test_a_client_that_waits_as_told_succeeds_anthropic(mock_clock: trio.testing.MockClock) -> None:
    """The SDK's own retry comes back after retry-after and is admitted at its first try."""
    mock_clock.rate = 1.0
    async with anthropic_client(sim(limits=(SimLimit(kind="requests", amount=1, per=10.0),))) as (client, provider):
        await client.messages.create(**TURN)
        mock_clock.rate = WAITING
        await client.with_options(max_retries=2).messages.create(**TURN)
    assert (provider.statistics().completed, provider.statistics().throttled) == (2, 1)


@pytest.mark.parametrize("resource", ["chat", "responses", "embeddings"])
async def test_a_client_that_waits_as_told_succeeds_openai(resource: str, mock_clock: trio.testing.MockClock) -> None:
    """The SDK's own retry comes back after retry-after-ms and is admitted at its first try."""
    mock_clock.rate = 1.0
    async with openai_client(sim(limits=(SimLimit(kind="requests", amount=1, per=10.0),))) as (client, provider):

        async def ask(client: openai.AsyncOpenAI) -> object:
            if resource == "chat":
                return await client.chat.completions.create(**CHAT)
            if resource == "responses":
                return await client.responses.create(**RESPONSE)
            return await client.embeddings.create(model="e", input="a")

        await ask(client)
        with pytest.raises(openai.RateLimitError) as refused:
            await ask(client)
        assert refused.value.type == "requests"
        assert "retry-after-ms" in refused.value.response.headers
        patient = client.with_options(max_retries=2)
        mock_clock.rate = WAITING
        await ask(patient)
    assert (provider.statistics().completed, provider.statistics().throttled) == (2, 2)


@pytest.mark.parametrize(
    ("status", "kind", "raised"),
    [
        (401, "authentication_error", anthropic.AuthenticationError),
        (403, "permission_error", anthropic.PermissionDeniedError),
        (413, "request_too_large", anthropic.APIStatusError),
        (429, "rate_limit_error", anthropic.RateLimitError),
        (500, "api_error", anthropic.InternalServerError),
        (529, "overloaded_error", anthropic.InternalServerError),
    ],
)
async def test_anthropic_errors_have_their_own_words(
    status: int, kind: str, raised: type[anthropic.APIStatusError]
) -> None:
    """A scripted status has the type that Anthropic gives it, and the SDK the error that belongs to it."""
    async with anthropic_client(sim(faults=(FaultRule(fault="status", status=status),))) as (client, _):
        with pytest.raises(raised) as failed:
            await client.messages.create(**TURN)
    assert failed.value.status_code == status
    assert failed.value.body["error"]["type"] == kind  # type: ignore[index]


async def _texts(stream: AsyncIterator[Any], text_of: Callable[[Any], str | None], found: list[str]) -> None:
    async for event in stream:
        text = text_of(event)
        if text:
            found.append(text)


@LEAVES_GENERATORS
async def test_an_error_inside_a_stream_is_raised_by_the_sdks() -> None:
    """Overload after three tokens of a stream of status 200: each SDK raises, after the text that came."""
    fault = FaultRule(fault="error_event", after_tokens=3, status=529)
    found: list[str] = []
    async with anthropic_client(sim(faults=(fault,))) as (client, _):
        stream: Any = await client.messages.create(**TURN, stream=True)
        with pytest.raises(anthropic.APIStatusError) as failed:
            await _texts(stream, lambda e: e.delta.text if e.type == "content_block_delta" else None, found)
    assert failed.value.body["error"]["type"] == "overloaded_error"  # type: ignore[index]
    async with openai_client(sim(faults=(fault,))) as (other, _):
        chat: Any = await other.chat.completions.create(**CHAT, stream=True)
        with pytest.raises(openai.APIError, match="scripted fault"):
            await _texts(chat, lambda e: e.choices[0].delta.content, found)
        response: Any = await other.responses.create(**RESPONSE, stream=True)
        with pytest.raises(openai.APIError, match="scripted fault"):
            await _texts(response, lambda e: e.delta if e.type == "response.output_text.delta" else None, found)
    assert found[:2] == found[2:4] == found[4:]


@paths
async def test_an_error_event_is_the_last_one(path: str) -> None:
    """Nothing that closes a good answer follows an error in its stream."""
    _, found = await lines(path, faults=(FaultRule(fault="error_event", after_tokens=2, status=500),))
    closing = ("message_stop", "message_delta", "response.completed", '"finish_reason":"stop"')
    assert not any(word in line for line in found for word in closing)
    assert '"error"' in [line for line in found if line.startswith("data: {")][-1]


async def _read(client: httpx2.AsyncClient, path: str, found: list[bytes]) -> None:
    async with client.stream("POST", path, json={**ASKED[path], "stream": True}, headers=VERSION) as answer:
        async for data in answer.aiter_raw():
            found.append(data)  # noqa: PERF401


@paths
@pytest.mark.parametrize("reset", [False, True])
async def test_a_truncated_stream_lacks_its_end(path: str, reset: bool) -> None:
    """Cut by FIN or RST, the stream has text, no end, and the call is settled."""
    fault = FaultRule(fault="truncate", after_tokens=4, reset=reset)
    async with served(sim(faults=(fault,))) as (provider, client):
        text: list[bytes] = []
        with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
            await _read(client, path, text)
        assert provider.statistics().in_flight == 0
    assert b"data: " in b"".join(text) or reset
    assert not any(end in b"".join(text) for end in (b"[DONE]", b"message_stop", b"response.completed"))


@paths
async def test_heartbeats_are_not_answers(path: str, mock_clock: trio.testing.MockClock) -> None:
    """While nothing comes there are comments, to Anthropic's clients pings."""
    mock_clock.rate = 100.0
    stall = FaultRule(fault="stall", after_tokens=2, seconds=3.5)
    _, found = await lines(path, faults=(stall, FaultRule(fault="heartbeats", seconds=1.0)))
    beat = "event: ping" if path == "/messages" else ": still working"
    assert found.count(beat) == 3 + (path == "/messages")


@paths
async def test_usage_twice_and_not_at_all(path: str) -> None:
    """Usage is in one event, in two, or nowhere, as the fault has it."""
    asked = {**ASKED[path], "stream": True}
    if path == "/chat/completions":
        asked["stream_options"] = {"include_usage": True}

    async def reports(*kinds: Any) -> int:
        async with served(sim(faults=tuple(FaultRule(fault=kind) for kind in kinds))) as (_, client):
            text = (await client.post(path, json=asked, headers=VERSION)).text
        return sum('"usage":{' in line and "message_start" not in line for line in text.split("\n"))

    assert [await reports(), await reports("duplicate_usage"), await reports("no_usage")] == [1, 2, 0]


@paths
async def test_silence_ends_without_a_word(path: str, mock_clock: trio.testing.MockClock) -> None:
    """The request is read, nothing is answered, and the connection closes."""
    mock_clock.rate = 100.0
    async with served(sim(faults=(FaultRule(fault="silence", seconds=2.0),))) as (provider, client):
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post(path, json=ASKED[path], headers=VERSION)
    assert provider.statistics().faults == {"silence": 1}


async def test_the_same_conversation_gets_the_same_answer_in_every_dialect() -> None:
    """What the model says depends on what is asked, not on the dialect: a translated request can be held against it."""
    turn: Any = {**TURN, "system": "Be brief."}
    async with anthropic_client(sim()) as (client, _):
        message = await client.messages.create(**turn)
        use = (await client.messages.create(**turn, tools=[MESSAGES_TOOL])).content[0]
    async with openai_client(sim()) as (other, _):
        asked: Any = {**CHAT, "messages": [{"role": "system", "content": "Be brief."}, *CHAT["messages"]]}
        chat = await other.chat.completions.create(**asked)
        response = await other.responses.create(**RESPONSE, instructions="Be brief.")
        tool: Any = {
            "type": "function",
            "function": {"name": "weather", "description": "d", "parameters": MESSAGES_TOOL["input_schema"]},
        }
        call = ((await other.chat.completions.create(**asked, tools=[tool])).choices[0].message.tool_calls or [])[0]
    assert message.content[0].text == chat.choices[0].message.content == response.output_text  # type: ignore[union-attr]
    assert chat.usage is not None
    assert message.usage.input_tokens == chat.usage.prompt_tokens
    assert use.id == tool_id(call.id)  # type: ignore[union-attr]
