"""OpenAI's SDK, unmodified: chat completions through the daemon, to a backend of either dialect."""

import json
from pathlib import Path
from typing import Any

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
    Speaks,
    gateway,
    in_thread,
    weather_tool,
)

pytestmark = SDK_LEAVES_GENERATORS
either = pytest.mark.parametrize("speaks", ["openai", "anthropic"])


class City(pydantic.BaseModel):
    """What a structured answer is to be."""

    name: str
    inhabitants: int


@either
async def test_an_answer_in_one_piece(tmp_path: Path, speaks: Speaks) -> None:
    """A plain request gets a whole answer with its text, its end and its usage."""
    async with gateway(tmp_path, speaks) as there:
        answer = await there.openai.chat.completions.create(model=MODEL, messages=QUESTION)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 30
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 30


@either
async def test_a_stream_is_the_same_answer(tmp_path: Path, speaks: Speaks) -> None:
    """The chunks of a stream come to what the same request gets in one piece; usage comes once, and only if asked."""
    async with gateway(tmp_path, speaks) as there:
        whole = await there.openai.chat.completions.create(model=MODEL, messages=QUESTION)
        stream = await there.openai.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)
        plain = [chunk async for chunk in stream]
        stream = await there.openai.chat.completions.create(
            model=MODEL, messages=QUESTION, stream=True, stream_options={"include_usage": True}
        )
        asked = [chunk async for chunk in stream]
    for chunks in (plain, asked):
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == whole.choices[0].message.content
        ends = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
        assert [end for end in ends if end] == ["stop"]
    assert [chunk.usage for chunk in plain if chunk.usage] == []
    assert [chunk.usage.total_tokens for chunk in asked if chunk.usage] == [whole.usage.total_tokens]
    assert not asked[-1].choices


@either
async def test_the_synchronous_client(tmp_path: Path, speaks: Speaks) -> None:
    """The blocking client gets the same, in one piece and as a stream."""
    async with gateway(tmp_path, speaks) as there:

        def work() -> tuple[str | None, str]:
            with there.sync_openai() as client:
                whole = client.chat.completions.create(model=MODEL, messages=QUESTION)
                with client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True) as stream:
                    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
            return whole.choices[0].message.content, text

        whole, streamed = await in_thread(work)
    assert whole
    assert whole == streamed


@either
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_parallel_tools_and_their_results(tmp_path: Path, speaks: Speaks, stream: bool) -> None:
    """Two tool calls come with ids and arguments of their own, and the answer after them has their results."""
    sim = SimConfig(latency=FAST, length=SHORT, parallel_tools=2)
    async with gateway(tmp_path, speaks, sim) as there:
        asked: dict[str, Any] = {"model": MODEL, "tools": [weather_tool()]}
        if stream:
            async with there.openai.chat.completions.stream(messages=QUESTION, **asked) as events:
                answer = await events.get_final_completion()
        else:
            answer = await there.openai.chat.completions.create(messages=QUESTION, **asked)
        message = answer.choices[0].message
        assert answer.choices[0].finish_reason == "tool_calls"
        assert message.tool_calls is not None
        assert len({call.id for call in message.tool_calls}) == 2
        for call in message.tool_calls:
            assert call.function.name == "weather"
            assert set(json.loads(call.function.arguments)) == {"city", "days"}
        turn = {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
                for call in message.tool_calls
            ],
        }
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": f"sun {number}"}
            for number, call in enumerate(message.tool_calls)
        ]
        after = await there.openai.chat.completions.create(messages=[*QUESTION, turn, *results], **asked)
    assert "sun 0" in (after.choices[0].message.content or "")
    assert "sun 1" in (after.choices[0].message.content or "")


@either
async def test_one_tool_call_at_a_time(tmp_path: Path, speaks: Speaks) -> None:
    """A request that forbids parallel calls reaches the provider as one that does."""
    sim = SimConfig(latency=FAST, length=SHORT, parallel_tools=2)
    async with gateway(tmp_path, speaks, sim) as there:
        answer = await there.openai.chat.completions.create(
            model=MODEL, messages=QUESTION, tools=[weather_tool()], parallel_tool_calls=False, tool_choice="required"
        )
    assert answer.choices[0].message.tool_calls is not None
    assert len(answer.choices[0].message.tool_calls) == 1


@either
async def test_a_structured_answer_is_parsed(tmp_path: Path, speaks: Speaks) -> None:
    """The SDK's own `parse` gets an instance of the class that it asked for."""
    async with gateway(tmp_path, speaks) as there:
        answer = await there.openai.chat.completions.parse(model=MODEL, messages=QUESTION, response_format=City)
    assert isinstance(answer.choices[0].message.parsed, City)


async def test_several_choices_with_log_probabilities(tmp_path: Path) -> None:
    """`n` and `logprobs` come back as the provider gives them, in one piece and as a stream."""
    asked: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "n": 2, "logprobs": True, "top_logprobs": 1}
    async with gateway(tmp_path) as there:
        answer = await there.openai.chat.completions.create(**asked)
        stream = await there.openai.chat.completions.create(**asked, stream=True)
        texts = ["", ""]
        tokens = [0, 0]
        async for chunk in stream:
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
                tokens[choice.index] += len((choice.logprobs and choice.logprobs.content) or ())
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert [choice.message.content for choice in answer.choices] == texts
    for choice, count in zip(answer.choices, tokens, strict=True):
        assert choice.logprobs is not None
        assert choice.logprobs.content is not None
        assert "".join(token.token for token in choice.logprobs.content) == choice.message.content
        assert count == len(choice.logprobs.content)


@either
async def test_an_image_in_the_content(tmp_path: Path, speaks: Speaks) -> None:
    """A picture as a data URL counts as input beyond the words that stand beside it."""
    words = {"type": "text", "text": "What is this?"}
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    async with gateway(tmp_path, speaks) as there:
        create = there.openai.chat.completions.create
        without = await create(model=MODEL, messages=[{"role": "user", "content": [words]}])
        with_it = await create(model=MODEL, messages=[{"role": "user", "content": [words, picture]}])
    assert without.usage is not None
    assert with_it.usage is not None
    assert with_it.usage.prompt_tokens > without.usage.prompt_tokens


async def test_unknown_fields_pass_both_ways(tmp_path: Path) -> None:
    """What neither the SDK nor the daemon knows reaches the provider, here a size of the answer that only it knows."""
    async with gateway(tmp_path) as there:
        answer = await there.openai.chat.completions.create(
            model=MODEL, messages=QUESTION, extra_body={"x_sim": {"output_tokens": 7}}
        )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 7


@either
async def test_an_answer_cut_short_says_so(tmp_path: Path, speaks: Speaks) -> None:
    """`max_tokens` and `max_completion_tokens` bound the answer, whose end is `length`."""
    async with gateway(tmp_path, speaks) as there:
        for bound in ({"max_tokens": 5}, {"max_completion_tokens": 5}):
            answer = await there.openai.chat.completions.create(model=MODEL, messages=QUESTION, **bound)
            assert answer.choices[0].finish_reason == "length"
            assert answer.usage is not None
            assert answer.usage.completion_tokens == 5
