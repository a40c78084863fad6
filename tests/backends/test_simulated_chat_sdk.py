"""The simulated provider's chat completions in the hands of OpenAI's unmodified SDK."""

from typing import Any

import openai
import pytest
import trio
from pydantic import BaseModel

from tests.backends.sim_client import served
from tests.backends.sim_sdk import CHAT, CHAT_TOOL, LEAVES_GENERATORS, openai_client, sim

pytestmark = LEAVES_GENERATORS


class City(BaseModel):
    name: str
    people: int


async def test_several_choices_whole_and_streamed() -> None:
    """Each of n answers is its own, the same in both forms; usage is that of all together."""
    async with openai_client(sim()) as (client, _):
        whole = await client.chat.completions.create(**CHAT, n=3)
        texts = ["", "", ""]
        usages = []
        async for chunk in await client.chat.completions.create(
            **CHAT, n=3, stream=True, stream_options={"include_usage": True}
        ):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
            usages += [chunk.usage] if chunk.usage else []
        one = await client.chat.completions.create(**CHAT)
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert [choice.message.content for choice in whole.choices] == texts
    assert len(set(texts)) == 3
    assert usages == [whole.usage]
    assert one.choices[0].message.content == texts[0]
    assert whole.usage is not None
    assert one.usage is not None
    assert whole.usage.prompt_tokens == one.usage.prompt_tokens
    assert whole.usage.completion_tokens > one.usage.completion_tokens


async def test_log_probabilities() -> None:
    """Every token of the answer has its own, in the document and over the chunks; without asking there are none."""
    async with openai_client(sim()) as (client, _):
        whole = await client.chat.completions.create(**CHAT, logprobs=True, top_logprobs=3)
        stream = await client.chat.completions.create(**CHAT, logprobs=True, stream=True)
        tokens = [
            entry.token
            async for chunk in stream
            for choice in chunk.choices
            if choice.logprobs
            for entry in choice.logprobs.content or []
        ]
        plain = await client.chat.completions.create(**CHAT)
    choice = whole.choices[0]
    assert choice.logprobs is not None
    entries = choice.logprobs.content or []
    assert "".join(entry.token for entry in entries) == choice.message.content
    assert [entry.token for entry in entries] == tokens
    assert all(len(entry.top_logprobs) == 3 for entry in entries)
    assert all(entry.top_logprobs[0].logprob == max(t.logprob for t in entry.top_logprobs) for entry in entries)
    assert plain.choices[0].logprobs is None


async def test_parallel_tool_calls() -> None:
    """Several calls come under indexes of their own; a request can forbid them, or say how many it wants."""
    async with openai_client(sim(parallel_tools=2)) as (client, _):
        whole = await client.chat.completions.create(**CHAT, tools=[CHAT_TOOL])
        async with client.chat.completions.stream(**CHAT, tools=[CHAT_TOOL]) as stream:
            final = await stream.get_final_completion()
        alone = await client.chat.completions.create(**CHAT, tools=[CHAT_TOOL], parallel_tool_calls=False)
        five = await client.chat.completions.create(**CHAT, tools=[CHAT_TOOL], extra_body={"x_sim": {"tool_calls": 5}})
        none = await client.chat.completions.create(**CHAT, tools=[CHAT_TOOL], extra_body={"x_sim": {"tool_calls": 0}})
    calls = whole.choices[0].message.tool_calls or []
    streamed = final.choices[0].message.tool_calls or []
    assert len({call.id for call in calls}) == 2
    assert [call.function.arguments for call in streamed] == [call.function.arguments for call in calls]  # type: ignore[union-attr]
    assert [len(answer.choices[0].message.tool_calls or []) for answer in (alone, five, none)] == [1, 5, 0]


async def test_structured_output_parses() -> None:
    """The SDK's own parse gets an instance of its model."""
    async with openai_client(sim()) as (client, _):
        completion = await client.chat.completions.parse(**CHAT, response_format=City)
    assert isinstance(completion.choices[0].message.parsed, City)


async def test_images_count_as_input() -> None:
    """An image adds its tokens, fewer at low detail; the text beside it is read."""

    def ask(*images: dict[str, str]) -> Any:
        parts = [{"type": "image_url", "image_url": image} for image in images]
        return {"model": "sim", "messages": [{"role": "user", "content": [{"type": "text", "text": "Mill?"}, *parts]}]}

    url = "data:image/png;base64,AAAA"
    async with openai_client(sim()) as (client, _):
        used = [
            (await client.chat.completions.create(**request)).usage.prompt_tokens  # type: ignore[union-attr]
            for request in (ask(), ask({"url": url}), ask({"url": url, "detail": "low"}))
        ]
    assert [tokens - used[0] for tokens in used] == [0, 765, 85]


async def test_members_come_back() -> None:
    """Unknown members do no harm; x_sim comes back in the document and in every chunk, beside the provider's own."""
    given = {"output_tokens": 5, "note": {"deep": [1, None]}}
    async with openai_client(sim()) as (client, _):
        ask: Any = {**CHAT, "user": "u", "extra_body": {"x_sim": given, "brand_new": {"a": 1}}}
        whole = await client.chat.completions.create(**ask)
        chunks = [chunk async for chunk in await client.chat.completions.create(**ask, stream=True)]
    assert whole.x_sim == given  # type: ignore[attr-defined]
    assert all(chunk.x_sim == given for chunk in chunks)  # type: ignore[attr-defined]
    assert (whole.system_fingerprint, whole.service_tier) == ("fp_sim", "default")
    assert all(chunk.usage is None for chunk in chunks)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].image_url"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": []}, "messages"),
        ({"temperature": "hot"}, "temperature"),
    ],
)
async def test_what_the_provider_refuses(change: dict[str, Any], field: str) -> None:
    """A body that makes no sense is a bad request whose error has the field as its param."""
    async with openai_client(sim()) as (client, _):
        with pytest.raises(openai.BadRequestError) as refused:
            await client.post("/chat/completions", cast_to=object, body={**CHAT, **change})
    assert refused.value.param == field


async def test_models_are_listed_and_looked_up() -> None:
    """OpenAI's client sees OpenAI's form of the list; an unknown model is not found."""
    async with openai_client(sim(models=("mill-1", "org/mill-2"))) as (client, _):
        listed = [model.id async for model in client.models.list()]
        one = await client.models.retrieve("org/mill-2")
        with pytest.raises(openai.NotFoundError) as missing:
            await client.models.retrieve("mill-3")
    assert listed == ["mill-1", "org/mill-2"]
    assert (one.id, one.object) == ("org/mill-2", "model")
    assert missing.value.code == "model_not_found"


async def test_the_sync_client_in_a_thread() -> None:
    """The blocking client gets the same answers, whole and streamed."""
    async with served(sim()) as (_, http):

        def talk() -> tuple[str | None, str]:
            with openai.OpenAI(base_url=str(http.base_url), api_key="k", max_retries=0) as client:
                whole = client.chat.completions.create(**CHAT)
                stream = client.chat.completions.create(**CHAT, stream=True)
                text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
                return whole.choices[0].message.content, text

        whole, streamed = await trio.to_thread.run_sync(talk)
    assert whole == streamed != ""
