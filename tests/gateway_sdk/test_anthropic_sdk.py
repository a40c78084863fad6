"""Anthropic's SDK, unmodified, through the daemon, to a backend of either dialect."""

from pathlib import Path
from typing import Any

import anthropic
import pydantic
import pytest

from orchestrator.backends.simulated.config import SimConfig
from tests.gateway_sdk.sdk_rig import (
    FAST,
    MODEL,
    PIXEL,
    QUESTION,
    SDK_LEAVES_GENERATORS,
    SHORT,
    WEATHER_SCHEMA,
    Speaks,
    gateway,
    in_thread,
)

pytestmark = SDK_LEAVES_GENERATORS
either = pytest.mark.parametrize("speaks", ["openai", "anthropic"])
TOOL: dict[str, Any] = {"name": "weather", "description": "The weather of a city.", "input_schema": WEATHER_SCHEMA}
ASK: dict[str, Any] = {"model": MODEL, "max_tokens": 200, "messages": QUESTION}


class City(pydantic.BaseModel):
    """What a structured answer is to be."""

    name: str
    inhabitants: int


@either
async def test_an_answer_in_one_piece(tmp_path: Path, speaks: Speaks) -> None:
    """A plain request gets a whole message with text, reason and usage."""
    async with gateway(tmp_path, speaks) as there:
        answer = await there.anthropic.messages.create(**ASK)
    assert answer.type == "message"
    assert answer.role == "assistant"
    assert [block.type for block in answer.content] == ["text"]
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens == 30
    assert answer.usage.input_tokens > 0


@either
async def test_events_of_a_stream_come_in_order(tmp_path: Path, speaks: Speaks) -> None:
    """The raw events open and close message and block in the documented order, and the text is the whole answer's."""
    async with gateway(tmp_path, speaks) as there:
        whole = await there.anthropic.messages.create(**ASK)
        stream = await there.anthropic.messages.create(**ASK, stream=True)
        events = [event async for event in stream if event.type != "ping"]
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")  # type: ignore[union-attr]
    assert text == whole.content[0].text  # type: ignore[union-attr]
    ends = [event for event in events if event.type == "message_delta"]
    assert ends[0].delta.stop_reason == "end_turn"
    assert ends[0].usage.output_tokens == 30


@either
async def test_the_synchronous_client(tmp_path: Path, speaks: Speaks) -> None:
    """The blocking client's answer and its `stream` helper give the same message."""
    async with gateway(tmp_path, speaks) as there:

        def work() -> tuple[Any, Any]:
            with there.sync_anthropic() as client:
                whole = client.messages.create(**ASK)
                with client.messages.stream(**ASK) as stream:
                    text = "".join(stream.text_stream)
                    final = stream.get_final_message()
            assert text == final.content[0].text  # type: ignore[union-attr]
            return whole, final

        whole, final = await in_thread(work)
    assert whole.content[0].text == final.content[0].text
    assert whole.usage.output_tokens == final.usage.output_tokens


@either
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_parallel_tools_and_their_results(tmp_path: Path, speaks: Speaks, stream: bool) -> None:
    """Two tool calls come with ids and arguments of their own, and the answer after them has their results."""
    sim = SimConfig(latency=FAST, length=SHORT, parallel_tools=2)
    async with gateway(tmp_path, speaks, sim) as there:
        if stream:
            async with there.anthropic.messages.stream(**ASK, tools=[TOOL]) as events:
                answer = await events.get_final_message()
        else:
            answer = await there.anthropic.messages.create(**ASK, tools=[TOOL])
        assert answer.stop_reason == "tool_use"
        calls = [block for block in answer.content if block.type == "tool_use"]
        assert len({call.id for call in calls}) == 2
        for call in calls:
            assert call.name == "weather"
            assert set(call.input) == {"city", "days"}  # type: ignore[call-overload]
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": f"sun {number}"}
            for number, call in enumerate(calls)
        ]
        turns = [
            *QUESTION,
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]},
            {"role": "user", "content": results},
        ]
        after = await there.anthropic.messages.create(**{**ASK, "messages": turns}, tools=[TOOL])
    text = "".join(block.text for block in after.content if block.type == "text")
    assert "sun 0" in text
    assert "sun 1" in text


@either
async def test_one_tool_that_must_be_called(tmp_path: Path, speaks: Speaks) -> None:
    """`tool_choice` with a name, without parallel calls, is one call of that tool."""
    sim = SimConfig(latency=FAST, length=SHORT, parallel_tools=2)
    choice = {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
    async with gateway(tmp_path, speaks, sim) as there:
        answer = await there.anthropic.messages.create(**ASK, tools=[TOOL], tool_choice=choice)
    assert [block.type for block in answer.content] == ["tool_use"]


@either
async def test_system_blocks_and_images_count_as_input(tmp_path: Path, speaks: Speaks) -> None:
    """A system prompt as text or as blocks, and a picture, each add to what the provider counts."""
    blocks = [{"type": "text", "text": "You are a miller."}, {"type": "text", "text": "Be brief and kind."}]
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    words = {"type": "text", "text": QUESTION[0]["content"]}
    seen = [{"role": "user", "content": [{"type": "image", "source": source}, words]}]
    async with gateway(tmp_path, speaks) as there:
        create = there.anthropic.messages.create
        plain = (await create(**ASK)).usage.input_tokens
        text = (await create(**ASK, system="You are a miller.")).usage.input_tokens
        more = (await create(**ASK, system=blocks)).usage.input_tokens
        picture = (await create(**{**ASK, "messages": seen})).usage.input_tokens
    assert plain < text < more
    assert plain < picture


async def test_cache_control_reaches_the_provider(tmp_path: Path) -> None:
    """A marked prefix is written to the provider's cache and then read from it, and both are told in the usage."""
    sim = SimConfig(latency=FAST, length=SHORT, prefix_cache=8)
    system = [{"type": "text", "text": "A long introduction. " * 300, "cache_control": {"type": "ephemeral"}}]
    async with gateway(tmp_path, "anthropic", sim) as there:
        first = await there.anthropic.messages.create(**ASK, system=system)
        second = await there.anthropic.messages.create(**ASK, system=system)
    assert (first.usage.cache_creation_input_tokens or 0) > 100
    assert (second.usage.cache_read_input_tokens or 0) > 100


async def test_cache_control_means_nothing_to_another_dialect(tmp_path: Path) -> None:
    """A hint about a cache is no reason to refuse a request whose backend has no words for it."""
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    async with gateway(tmp_path, "openai") as there:
        answer = await there.anthropic.messages.create(**ASK, system=system)
    assert answer.stop_reason == "end_turn"


async def test_thinking_comes_before_the_answer(tmp_path: Path) -> None:
    """Thinking blocks come signed before the text, in one piece and as a stream, and can be sent back."""
    thinking = {"type": "enabled", "budget_tokens": 1024}
    asked: dict[str, Any] = {**ASK, "max_tokens": 2048, "thinking": thinking}
    async with gateway(tmp_path, "anthropic") as there:
        whole = await there.anthropic.messages.create(**asked)
        async with there.anthropic.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        turns = [
            *QUESTION,
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in whole.content]},
            {"role": "user", "content": "And then?"},
        ]
        after = await there.anthropic.messages.create(**{**asked, "messages": turns})
    for answer in (whole, streamed):
        assert [block.type for block in answer.content] == ["thinking", "text"]
        assert answer.content[0].signature  # type: ignore[union-attr]
    assert whole.content[0].thinking == streamed.content[0].thinking  # type: ignore[union-attr]
    assert after.stop_reason == "end_turn"


async def test_tokens_are_counted_before(tmp_path: Path) -> None:
    """A count grows with the input, and is what the answer's usage then says."""
    asked = {name: ASK[name] for name in ("model", "messages")}
    async with gateway(tmp_path, "anthropic") as there:
        count = (await there.anthropic.messages.count_tokens(**asked)).input_tokens
        more = (await there.anthropic.messages.count_tokens(**asked, system="You are a miller. " * 20)).input_tokens
        used = (await there.anthropic.messages.create(**ASK)).usage.input_tokens
    assert 0 < count < more
    assert count == used


@either
async def test_stop_sequences(tmp_path: Path, speaks: Speaks) -> None:
    """An answer that a stop sequence ended is cut before it."""
    async with gateway(tmp_path, speaks) as there:
        whole = await there.anthropic.messages.create(**ASK)
        word = whole.content[0].text.split()[8]  # type: ignore[union-attr]
        cut = await there.anthropic.messages.create(**ASK, stop_sequences=[word])
    assert word not in cut.content[0].text  # type: ignore[union-attr]
    assert cut.stop_reason in ("stop_sequence", "end_turn")
    if speaks == "anthropic":
        assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", word)


@either
async def test_an_answer_cut_short_says_so(tmp_path: Path, speaks: Speaks) -> None:
    """`max_tokens` bounds the answer, whose end says that."""
    async with gateway(tmp_path, speaks) as there:
        answer = await there.anthropic.messages.create(**{**ASK, "max_tokens": 5})
    assert (answer.stop_reason, answer.usage.output_tokens) == ("max_tokens", 5)


async def test_unknown_fields_pass(tmp_path: Path) -> None:
    """What neither the SDK nor the daemon knows reaches the provider, here a size of the answer that only it knows."""
    async with gateway(tmp_path, "anthropic") as there:
        answer = await there.anthropic.messages.create(**ASK, extra_body={"x_sim": {"output_tokens": 7}})
    assert answer.usage.output_tokens == 7


async def test_an_unknown_field_without_a_translation_is_refused_by_name(tmp_path: Path) -> None:
    """What has no counterpart in the backend's dialect is a 400 that names the field, and never dropped in silence."""
    async with gateway(tmp_path, "openai") as there:
        with pytest.raises(anthropic.BadRequestError, match="top_k"):
            await there.anthropic.messages.create(**ASK, extra_body={"top_k": 5})


async def test_models_are_listed_in_its_own_shape(tmp_path: Path) -> None:
    """Anthropic's SDK lists and retrieves models from the same address."""
    async with gateway(tmp_path, text='[models.water]\nbackends = ["up"]\n') as there:
        listed = [model.id async for model in there.anthropic.models.list()]
        found = await there.anthropic.models.retrieve("water")
        with pytest.raises(anthropic.NotFoundError):
            await there.anthropic.models.retrieve("wine")
    assert "water" in listed
    assert (found.id, found.type) == ("water", "model")
