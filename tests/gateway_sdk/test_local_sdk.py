"""The official SDKs, unmodified, through the daemon to the real local model.

Skipped where it is not installed, except in CI, where a missing model is a failure.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import openai
import pydantic
import pytest
import trio

from agents.messages import Message
from orchestrator.cli.demo_tasks import tenants
from orchestrator.daemon.daemon import Daemon
from tests.daemon.serving import until
from tests.gateway_sdk.local_daemon import local_daemon
from tests.gateway_sdk.sdk_rig import SDK_LEAVES_GENERATORS

pytestmark = SDK_LEAVES_GENERATORS
ASK: dict[str, Any] = {
    "model": "small",
    "messages": [{"role": "user", "content": "Name a colour."}],
    "max_tokens": 12,
    "temperature": 0.0,
}


class Mood(pydantic.BaseModel):
    """What a structured answer is to be."""

    positive: bool


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, str]]:
    """One daemon and one model for all tests of this file."""
    with local_daemon(tmp_path_factory.mktemp("local")) as both:
        yield both


@pytest.fixture
async def gpt(served: tuple[Daemon, str]) -> AsyncIterator[openai.AsyncOpenAI]:
    """OpenAI's asynchronous client."""
    async with openai.AsyncOpenAI(base_url=f"{served[1]}/v1", api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture
async def claude(served: tuple[Daemon, str]) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """Anthropic's asynchronous client."""
    async with anthropic.AsyncAnthropic(base_url=served[1], api_key="any", max_retries=0) as client:
        yield client


async def test_chat_streamed_is_what_it_is_in_one_piece(gpt: openai.AsyncOpenAI) -> None:
    """At temperature 0 both ways give the same text, with usage."""
    whole = await gpt.chat.completions.create(**ASK, seed=1)
    stream = await gpt.chat.completions.create(**ASK, seed=1, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    assert whole.choices[0].message.content
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert whole.usage is not None
    assert 0 < whole.usage.completion_tokens <= 12
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [whole.usage.completion_tokens]


def test_the_synchronous_client(served: tuple[Daemon, str]) -> None:
    """The blocking client streams from the real model."""
    with openai.OpenAI(base_url=f"{served[1]}/v1", api_key="any", max_retries=0) as client:
        text = "".join(
            chunk.choices[0].delta.content or ""
            for chunk in client.chat.completions.create(**ASK, stream=True)
            if chunk.choices
        )
    assert text


async def test_a_structured_answer_is_parsed(gpt: openai.AsyncOpenAI) -> None:
    """The schema that the SDK makes of a class reaches the engine, which keeps to it."""
    asked = {**ASK, "messages": [{"role": "user", "content": "Is this positive? I love it."}], "max_tokens": 40}
    answer = await gpt.chat.completions.parse(**asked, response_format=Mood)
    assert isinstance(answer.choices[0].message.parsed, Mood)


async def test_log_probabilities(gpt: openai.AsyncOpenAI) -> None:
    """Each token has its log probability, and together the tokens are the text."""
    answer = await gpt.chat.completions.create(**ASK, logprobs=True, top_logprobs=2)
    found = answer.choices[0].logprobs
    assert found is not None
    assert found.content
    assert all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in found.content)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_tool_is_called(gpt: openai.AsyncOpenAI, stream: bool) -> None:
    """After a few turns that show how, the model calls the calculator with numbers for arguments."""
    orders = tenants()[0]
    agent = orders.agent
    turns = [as_sent(message) for message in agent.transcript(orders.prompt(orders.items[0]))]
    tools = [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in agent.request((), 100).tools
    ]
    asked: dict[str, Any] = {"model": "small", "messages": turns, "tools": tools, "temperature": 0, "max_tokens": 80}
    if stream:
        async with gpt.chat.completions.stream(**asked) as events:
            answer: Any = await events.get_final_completion()
    else:
        answer = await gpt.chat.completions.create(**asked)
    (call,) = answer.choices[0].message.tool_calls
    assert call.id
    assert call.function.name == tools[0]["function"]["name"]
    assert all(isinstance(value, int | float) for value in json.loads(call.function.arguments).values())


def as_sent(message: Message) -> dict[str, Any]:
    """A message of a transcript as the SDK takes it."""
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    return sent


async def test_responses(gpt: openai.AsyncOpenAI) -> None:
    """Responses come whole and as events, and both say the same."""
    asked: dict[str, Any] = {"model": "small", "input": "Name a colour.", "max_output_tokens": 12, "temperature": 0}
    whole = await gpt.responses.create(**asked)
    events = [event async for event in await gpt.responses.create(**asked, stream=True)]
    assert whole.output_text
    assert events[0].type == "response.created"
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert events[-1].response.output_text == whole.output_text
    assert events[-1].response.status == whole.status


async def test_messages(claude: anthropic.AsyncAnthropic) -> None:
    """Anthropic's SDK gets the same text whole and streamed, with system blocks, and a stop reason."""
    asked: dict[str, Any] = {**ASK, "system": [{"type": "text", "text": "Be brief."}]}
    whole = await claude.messages.create(**{k: v for k, v in asked.items() if k != "temperature"})
    async with claude.messages.stream(**{k: v for k, v in asked.items() if k != "temperature"}) as stream:
        final = await stream.get_final_message()
    for answer in (whole, final):
        assert answer.content[0].text  # type: ignore[union-attr]
        assert answer.stop_reason in ("end_turn", "max_tokens")
        assert 0 < answer.usage.output_tokens <= 12


async def test_models(gpt: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic) -> None:
    """Both SDKs list the model."""
    assert "small" in [model.id async for model in gpt.models.list()]
    assert "small" in [model.id async for model in claude.models.list()]


async def test_too_long_a_prompt_is_refused(gpt: openai.AsyncOpenAI) -> None:
    """A prompt that the engine could never hold is refused at once, and the next request is served."""
    long = {**ASK, "messages": [{"role": "user", "content": "word " * 20_000}]}
    with pytest.raises(openai.APIStatusError) as refused:
        await gpt.chat.completions.create(**long)
    assert refused.value.status_code == 413
    assert (await gpt.chat.completions.create(**ASK)).choices


async def test_a_closed_stream_frees_the_engine(served: tuple[Daemon, str], gpt: openai.AsyncOpenAI) -> None:
    """Closing a long stream ends the call in the daemon at once."""
    owners = served[0].owners.by_name.values()
    stream = await gpt.chat.completions.create(**{**ASK, "max_tokens": 1500}, stream=True)
    async for _ in stream:
        break
    assert sum(len(owner._open) for owner in owners) == 1
    with trio.fail_after(5):
        await stream.close()
        await until(lambda: sum(len(owner._open) for owner in owners) == 0)
