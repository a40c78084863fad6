"""The simulated provider speaks Anthropic's messages: the unmodified SDK is the judge."""

import json
from typing import Any

import anthropic
import httpx2
import pytest
import trio
from pydantic import BaseModel

from orchestrator.backends.simulated.backend import SimLimit
from orchestrator.backends.simulated.messages_writer import signature
from orchestrator.backends.simulated.server import anthropic_base
from tests.backends.sim_client import served
from tests.backends.sim_sdk import MESSAGES_TOOL, TURN, anthropic_client, sim

THINK: Any = {"type": "enabled", "budget_tokens": 1024}
USER: Any = {"role": "user", "content": "Hello"}


class City(BaseModel):
    name: str
    people: int


async def test_a_message_whole_and_streamed_is_the_same() -> None:
    """Text, reason, usage and id's form agree between the document and what the SDK builds from the stream."""
    async with anthropic_client(sim()) as (client, provider):
        whole = await client.messages.create(**TURN)
        async with client.messages.stream(**TURN) as stream:
            texts = [text async for text in stream.text_stream]
            final = await stream.get_final_message()
    assert [block.type for block in whole.content] == ["text"]
    assert "".join(texts) == whole.content[0].text  # type: ignore[union-attr]
    assert final.content[0].text == whole.content[0].text  # type: ignore[union-attr]
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)
    assert whole.stop_reason == "end_turn"
    assert whole.usage.input_tokens == final.usage.input_tokens > 0
    assert whole.id.startswith("msg_")
    assert whole._request_id is not None
    assert provider.statistics().completed == 2


async def test_events_come_in_the_order_of_the_reference() -> None:
    """Start with usage, blocks one after the other, one ping, the reason with the final usage, stop."""
    async with anthropic_client(sim()) as (client, _):
        stream = await client.messages.create(
            **{**TURN, "max_tokens": 2000}, thinking=THINK, stream=True, extra_body={"x_sim": {"output_tokens": 9}}
        )
        events = [event async for event in stream]
    kinds = [event.type for event in events]
    assert [kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    start, last = events[0], events[-2]
    assert start.type == "message_start"
    assert last.type == "message_delta"
    assert start.message.usage.input_tokens > 0
    assert start.message.usage.output_tokens == 0
    assert start.message.stop_reason is None
    assert start.message.content == []
    assert last.usage.output_tokens > 9
    signed = [e.delta for e in events if e.type == "content_block_delta" and e.delta.type == "signature_delta"]
    assert len(signed) == 1


async def test_the_first_block_is_followed_by_a_ping() -> None:
    """On the wire a stream has named events, among them a ping, and ends with message_stop alone."""
    async with served(sim()) as (_, client):
        answer = await client.post(
            "/messages", json={**TURN, "stream": True}, headers={"anthropic-version": "2023-06-01"}
        )
    names = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert names[:3] == ["message_start", "content_block_start", "ping"]
    assert names[-1] == "message_stop"
    assert "[DONE]" not in answer.text


async def test_thoughts_are_signed_and_only_their_own_signature_is_taken_back() -> None:
    """A thinking block goes back as it came; a changed one is refused with its path."""
    async with anthropic_client(sim()) as (client, _):
        ask = {**TURN, "max_tokens": 3000, "thinking": THINK}
        first = await client.messages.create(**ask)
        thought = first.content[0]
        assert thought.type == "thinking"
        assert thought.signature == signature(thought.thinking)
        history: Any = [*TURN["messages"], {"role": "assistant", "content": first.content}, USER]
        await client.messages.create(**{**ask, "messages": history})
        history[1] = {"role": "assistant", "content": [{**thought.model_dump(), "thinking": "Something else"}]}
        with pytest.raises(anthropic.BadRequestError, match=r"messages\.1\.content\.0\.thinking\.signature"):
            await client.messages.create(**{**ask, "messages": history})


async def test_tools_are_called_and_answered() -> None:
    """A tool use comes as whole and as fragments; its result comes back in the answer; several can be parallel."""
    async with anthropic_client(sim(parallel_tools=2)) as (client, _):
        whole = await client.messages.create(**TURN, tools=[MESSAGES_TOOL])
        async with client.messages.stream(**TURN, tools=[MESSAGES_TOOL]) as stream:
            fragments = [event.partial_json async for event in stream if event.type == "input_json"]
            final = await stream.get_final_message()
        assert whole.stop_reason == final.stop_reason == "tool_use"
        uses = [block for block in whole.content if block.type == "tool_use"]
        assert len(uses) == 2
        assert len({use.id for use in uses}) == 2
        assert [block.input for block in final.content if block.type == "tool_use"] == [use.input for use in uses]
        assert len(fragments) > 2
        results: Any = [{"type": "tool_result", "tool_use_id": use.id, "content": f"dry {use.id}"} for use in uses]
        history: Any = [*TURN["messages"], {"role": "assistant", "content": uses}, {"role": "user", "content": results}]
        answer = await client.messages.create(**{**TURN, "messages": history}, tools=[MESSAGES_TOOL])
        assert all(use.id in answer.content[0].text for use in uses)  # type: ignore[union-attr]
        alone = await client.messages.create(
            **TURN, tools=[MESSAGES_TOOL], tool_choice={"type": "any", "disable_parallel_tool_use": True}
        )
        assert len(alone.content) == 1


async def test_structured_output_parses() -> None:
    """The SDK's own parse gets an instance of its model, whole and streamed."""
    async with anthropic_client(sim()) as (client, _):
        parsed = await client.messages.parse(**TURN, output_format=City)
        async with client.messages.stream(**TURN, output_format=City) as stream:
            final = await stream.get_final_message()
    assert isinstance(parsed.parsed_output, City)
    assert final.parsed_output == parsed.parsed_output


async def test_why_an_answer_ended() -> None:
    """Max tokens and stop sequences are told apart, the sequence by name."""
    async with anthropic_client(sim()) as (client, _):
        cut = await client.messages.create(**{**TURN, "max_tokens": 3})
        stopped = await client.messages.create(**TURN, stop_sequences=["never there", "mills"])
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 3)
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "mills")


async def test_a_marked_beginning_is_written_once_and_read_afterwards() -> None:
    """Cache control decides what is cached; reads and writes are reported apart, and nothing without a mark."""
    system: Any = [{"type": "text", "text": "You are a miller. " * 20, "cache_control": {"type": "ephemeral"}}]
    async with anthropic_client(sim(prefix_cache=10)) as (client, _):
        first = (await client.messages.create(**TURN, system=system)).usage
        async with client.messages.stream(**TURN, system=system) as stream:
            again = (await stream.get_final_message()).usage
        plain = (await client.messages.create(**TURN, system="You are a miller. " * 20)).usage
    assert first.cache_creation_input_tokens
    assert first.cache_read_input_tokens == 0
    assert (again.cache_creation_input_tokens, again.cache_read_input_tokens) == (0, first.cache_creation_input_tokens)
    assert again.input_tokens == first.input_tokens
    assert plain.cache_creation_input_tokens == plain.cache_read_input_tokens == 0
    assert plain.input_tokens == first.input_tokens + first.cache_creation_input_tokens


async def test_cached_reads_are_free_of_the_input_limit() -> None:
    """With a limit that leaves out cached input, a cached beginning fits again and again; one written does not."""
    system: Any = [{"type": "text", "text": "You are a miller. " * 40, "cache_control": {"type": "ephemeral"}}]
    limit = SimLimit(kind="input_tokens", amount=400, free_cached=True)
    async with anthropic_client(sim(prefix_cache=10, limits=(limit,))) as (client, provider):
        for _ in range(6):
            await client.messages.create(**TURN, system=system)
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(**TURN, system="Another beginning. " * 60)
    assert provider.statistics().refused == {"input_tokens": 1}


async def test_images_count_as_input() -> None:
    """An image adds its tokens to what is counted beforehand, also inside of a tool's result."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "x"}]}
    seen = {**result, "content": [*result["content"], image]}  # type: ignore[misc]

    def turns(last: Any) -> Any:
        return [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [last]}]

    async with anthropic_client(sim()) as (client, _):
        text = await client.messages.count_tokens(model="sim", messages=turns(result))
        more = await client.messages.count_tokens(model="sim", messages=turns(seen))
    assert more.input_tokens - text.input_tokens == 1100


async def test_counted_tokens_are_those_that_are_charged() -> None:
    """What count_tokens says is the input that usage reports; no limit is about it."""
    limits = (SimLimit(kind="requests", amount=1),)
    async with anthropic_client(sim(limits=limits)) as (client, provider):
        ask = {"model": "sim", "messages": TURN["messages"], "system": "Be brief.", "tools": [MESSAGES_TOOL]}
        counts = [(await client.messages.count_tokens(**ask)).input_tokens for _ in range(3)]
        message = await client.messages.create(**ask, max_tokens=50)
    assert set(counts) == {message.usage.input_tokens}
    assert provider.statistics().in_flight == 0


async def test_models_are_listed_and_looked_up() -> None:
    """Anthropic's client sees Anthropic's form of the list; an unknown model is not found."""
    async with anthropic_client(sim(models=("mill-1", "org/mill-2"))) as (client, _):
        listed = [model.id async for model in client.models.list()]
        one = await client.models.retrieve("org/mill-2")
        with pytest.raises(anthropic.NotFoundError) as missing:
            await client.messages.create(**TURN)
    assert listed == ["mill-1", "org/mill-2"]
    assert (one.id, one.type) == ("org/mill-2", "model")
    assert missing.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "I"}]}, "messages.0.role"),
        ({"messages": [{"role": "robot", "content": "I"}]}, "role"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "messages.0.content.0.text"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages.0.content.0.image.source"),
        ({"messages": [USER, {"role": "assistant", "content": "So: "}]}, "trailing whitespace"),
        ({"temperature": 1.5}, "temperature"),
        ({"stop_sequences": [" "]}, "stop_sequences.0"),
        ({"tools": [{"name": "f"}]}, "tools.0.custom.input_schema"),
        ({"tools": [{"name": "f", "input_schema": {}}]}, "tools.0.custom.input_schema.type"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [MESSAGES_TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
        ({"thinking": {"type": "enabled"}}, "budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 10}}, "budget_tokens"),
        ({"thinking": THINK}, "max_tokens"),
        ({"max_tokens": 2000, "thinking": THINK, "temperature": 0.5}, "temperature"),
        ({"system": [{"type": "image"}]}, "system.0.type"),
        ({"system": 7}, "system"),
    ],
)
async def test_what_the_provider_refuses(change: dict[str, Any], field: str) -> None:
    """A body that makes no sense is an invalid request of 400 that names the field."""
    body = {name: value for name, value in {**TURN, **change}.items() if value is not None}
    async with served(sim()) as (provider, client):
        answer = await client.post("/messages", json=body, headers={"anthropic-version": "2023-06-01"})
    error = answer.json()
    assert answer.status_code == 400
    assert (error["type"], error["error"]["type"]) == ("error", "invalid_request_error")
    assert field in error["error"]["message"]
    assert error["request_id"] == answer.headers["request-id"]
    assert provider.statistics().refused == {"invalid": 1}


async def test_tool_results_answer_the_turn_before_them() -> None:
    """A result without its use, and a use without its result, are refused; turns of one role in a row are one."""
    use: Any = {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in "ab"]}
    results: Any = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": i}]} for i in "ab"]
    async with anthropic_client(sim()) as (client, _):
        for messages in ([USER, results[0]], [USER, use, results[0]], [USER, use], [USER, use, *results, results[0]]):
            accepted = messages[-1] is results[0] and len(messages) == 5
            if accepted:
                await client.messages.create(**{**TURN, "messages": messages})
                continue
            with pytest.raises(anthropic.BadRequestError, match="tool_"):
                await client.messages.create(**{**TURN, "messages": messages})


async def test_the_version_and_the_key_are_asked_for() -> None:
    """Without a version 400, with a wrong key 401 in Anthropic's words; a bearer token is a key as well."""
    async with served(sim(api_keys=("sesame",))) as (_, client):

        async def ask(**headers: str) -> httpx2.Response:
            return await client.post("/messages", json=TURN, headers=headers)

        version = {"anthropic-version": "2023-06-01"}
        unversioned = await ask(**{"x-api-key": "sesame"})
        strange = await ask(**{"x-api-key": "sesame", "anthropic-version": "now"})
        unknown = await ask(**{"x-api-key": "open", **version})
        assert [r.status_code for r in (unversioned, strange, unknown)] == [400, 400, 401]
        assert "anthropic-version" in unversioned.json()["error"]["message"]
        assert unknown.json()["error"]["type"] == "authentication_error"
        assert (await ask(**{"x-api-key": "sesame", **version})).status_code == 200
        assert (await ask(**{"authorization": "Bearer sesame", **version})).status_code == 200


async def test_a_body_too_large_is_refused_in_its_dialect() -> None:
    """413 comes as request_too_large, before the body is read."""
    async with served(sim()) as (_, client), await trio.open_tcp_stream("127.0.0.1", client.base_url.port) as stream:  # type: ignore[arg-type]
        head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"
        await stream.send_all(head)
        answer = b"".join([data async for data in stream])
    assert answer.startswith(b"HTTP/1.1 413")
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"]["type"] == "request_too_large"


async def test_unknown_members_do_no_harm_and_one_comes_back() -> None:
    """Members that the provider doesn't know are ignored; x_sim stands in the answer as it was sent."""
    given = {"output_tokens": 5, "note": {"deep": [1, None]}}
    async with anthropic_client(sim()) as (client, _):
        whole = await client.messages.create(**TURN, extra_body={"x_sim": given, "brand_new": True})
        async with client.messages.stream(**TURN, extra_body={"x_sim": given}) as stream:
            final = await stream.get_final_message()
    assert whole.x_sim == final.x_sim == given  # type: ignore[attr-defined]
    assert whole.usage.output_tokens == 5


async def test_the_sync_client_in_a_thread() -> None:
    """The blocking client gets the same answers, whole and streamed."""
    async with served(sim()) as (_, http):
        base = anthropic_base(str(http.base_url).rstrip("/"))

        def talk() -> tuple[str, str]:
            with anthropic.Anthropic(base_url=base, api_key="k", max_retries=0) as client:
                whole = client.messages.create(**TURN)
                with client.messages.stream(**TURN) as stream:
                    return whole.content[0].text, stream.get_final_text()  # type: ignore[union-attr]

        whole, streamed = await trio.to_thread.run_sync(talk)
    assert whole == streamed != ""
