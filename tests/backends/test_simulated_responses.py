"""The simulated provider speaks OpenAI's responses: the unmodified SDK is the judge."""

from typing import Any

import openai
import pytest
import trio
from pydantic import BaseModel

from tests.backends.sim_client import served
from tests.backends.sim_sdk import RESPONSE, RESPONSES_TOOL, openai_client, sim


class City(BaseModel):
    name: str
    people: int


async def test_a_response_whole_and_streamed_is_the_same() -> None:
    """Text, usage and status agree between the document and what the SDK builds from the stream."""
    async with openai_client(sim()) as (client, _):
        whole = await client.responses.create(**RESPONSE)
        async with client.responses.stream(**RESPONSE) as stream:
            deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            final = await stream.get_final_response()
    assert "".join(deltas) == whole.output_text == final.output_text != ""
    assert whole.status == final.status == "completed"
    assert whole.usage == final.usage
    assert whole.usage is not None
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens


async def test_events_are_numbered_and_in_the_order_of_the_reference() -> None:
    """Every item is opened, filled and closed before the next; the numbers have no gap; nothing follows completed."""
    async with openai_client(sim()) as (client, _):
        stream = await client.responses.create(
            **RESPONSE, tools=[RESPONSES_TOOL], reasoning={"summary": "auto"}, stream=True
        )
        events = [event async for event in stream]
    kinds = [event.type.removeprefix("response.") for event in events]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before] == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


async def test_functions_are_called_and_answered() -> None:
    """Calls come with ids of their own beside the items'; what they returned comes back in the next answer."""
    ask: Any = {**RESPONSE, "tools": [RESPONSES_TOOL]}
    async with openai_client(sim(parallel_tools=2)) as (client, _):
        first = await client.responses.create(**ask)
        calls = [item for item in first.output if item.type == "function_call"]
        assert len({call.call_id for call in calls}) == len(calls) == 2
        history: Any = [{"role": "user", "content": RESPONSE["input"]}, *first.output]
        history += [{"type": "function_call_output", "call_id": c.call_id, "output": f"dry {c.call_id}"} for c in calls]
        second = await client.responses.create(**{**ask, "input": history})
        assert all(call.call_id in second.output_text for call in calls)
        alone = await client.responses.create(**ask, tool_choice="required", parallel_tool_calls=False)
        assert len(alone.output) == 1
        named = await client.responses.create(**ask, tool_choice={"type": "function", "name": "weather"})
        assert [item.type for item in named.output] == ["function_call"]


async def test_structured_output_parses() -> None:
    """The SDK's own parse gets an instance of its model, whole and streamed."""
    async with openai_client(sim()) as (client, _):
        parsed = await client.responses.parse(**RESPONSE, text_format=City)
        async with client.responses.stream(**RESPONSE, text_format=City) as stream:
            final = await stream.get_final_response()
    assert isinstance(parsed.output_parsed, City)
    assert final.output_parsed == parsed.output_parsed


async def test_thoughts_are_an_item_and_counted_apart() -> None:
    """Where a summary is asked for there is a reasoning item before the message, and its tokens are told."""
    async with openai_client(sim()) as (client, _):
        thinking = await client.responses.create(**RESPONSE, reasoning={"effort": "low", "summary": "auto"})
        again: Any = [{"role": "user", "content": "Hello"}, *thinking.output, {"role": "user", "content": "And?"}]
        follow = await client.responses.create(model="sim", input=again)
    assert [item.type for item in thinking.output] == ["reasoning", "message"]
    assert thinking.usage is not None
    assert 0 < thinking.usage.output_tokens_details.reasoning_tokens < thinking.usage.output_tokens
    assert follow.status == "completed"


async def test_an_answer_cut_short_is_incomplete() -> None:
    """Both forms say incomplete and why, in the response and in its last item."""
    async with openai_client(sim()) as (client, _):
        whole = await client.responses.create(**RESPONSE, max_output_tokens=3)
        stream = await client.responses.create(**RESPONSE, max_output_tokens=3, stream=True)
        last = [event async for event in stream][-1]
    assert last.type == "response.incomplete"
    for response in (whole, last.response):
        assert response.status == "incomplete"
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == "max_output_tokens"
        assert response.output[-1].status == "incomplete"  # type: ignore[union-attr]


async def test_log_probabilities_where_they_are_included() -> None:
    """Every token of the text has its own, with the rivals that were asked for."""
    include: Any = ["message.output_text.logprobs"]
    async with openai_client(sim()) as (client, _):
        response = await client.responses.create(**RESPONSE, include=include, top_logprobs=2)
    part = response.output[0].content[0]  # type: ignore[union-attr]
    assert "".join(entry.token for entry in part.logprobs) == part.text  # type: ignore[union-attr]
    assert all(len(entry.top_logprobs) == 2 for entry in part.logprobs)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"input": []}, "input"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": ""}]}, "input[0].call_id"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"temperature": "hot"}, "temperature"),
    ],
)
async def test_what_the_provider_refuses(change: dict[str, Any], field: str) -> None:
    """A body that makes no sense is a bad request whose error has the field as its param."""
    async with openai_client(sim()) as (client, provider):
        with pytest.raises(openai.BadRequestError) as refused:
            await client.post("/responses", cast_to=object, body={**RESPONSE, **change})
    assert refused.value.param == field
    assert field in str(refused.value)
    assert provider.statistics().refused == {"invalid": 1}


async def test_members_come_back() -> None:
    """What the request said of itself stands in the response; unknown members do no harm, x_sim comes back."""
    given = {"output_tokens": 5, "note": [1]}
    async with openai_client(sim()) as (client, _):
        response = await client.responses.create(
            **RESPONSE, instructions="Be brief.", metadata={"a": "b"}, extra_body={"x_sim": given, "brand_new": True}
        )
    assert (response.instructions, response.metadata) == ("Be brief.", {"a": "b"})
    assert response.x_sim == given  # type: ignore[attr-defined]
    assert response.usage is not None
    assert response.usage.output_tokens == 5


async def test_the_sync_client_in_a_thread() -> None:
    """The blocking client gets the same answers, whole and streamed."""
    async with served(sim()) as (_, http):

        def talk() -> tuple[str, str]:
            with openai.OpenAI(base_url=str(http.base_url), api_key="k", max_retries=0) as client:
                whole = client.responses.create(**RESPONSE)
                with client.responses.stream(**RESPONSE) as stream:
                    return whole.output_text, stream.get_final_response().output_text

        whole, streamed = await trio.to_thread.run_sync(talk)
    assert whole == streamed != ""
