"""OpenAI's SDK, unmodified: responses, embeddings and models through the daemon."""

import json
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest

from orchestrator.backends.simulated.config import SimConfig
from tests.gateway_sdk.sdk_rig import (
    FAST,
    MODEL,
    SDK_LEAVES_GENERATORS,
    SHORT,
    WEATHER_SCHEMA,
    Speaks,
    gateway,
    in_thread,
)

pytestmark = SDK_LEAVES_GENERATORS
either = pytest.mark.parametrize("speaks", ["openai", "anthropic"])
TOOL: dict[str, Any] = {"type": "function", "name": "weather", "parameters": WEATHER_SCHEMA, "strict": True}
NATIVE = 'dialects = ["chat", "embeddings", "responses"]'


class City(pydantic.BaseModel):
    """What a structured answer is to be."""

    name: str
    inhabitants: int


@pytest.mark.parametrize(
    ("speaks", "backend"),
    [("openai", ""), ("openai", NATIVE), ("anthropic", "")],
    ids=["by way of chat", "as it is", "anthropic"],
)
class TestResponses:
    """`/v1/responses`, to a backend that speaks it, and to those that do not."""

    async def test_an_answer_in_one_piece(self, tmp_path: Path, speaks: Speaks, backend: str) -> None:
        """A plain request gets text, usage and the state `completed`."""
        async with gateway(tmp_path, speaks, backend=backend) as there:
            answer = await there.openai.responses.create(model=MODEL, input="Where does the water go?", store=False)
        assert answer.status == "completed"
        assert answer.output_text
        assert answer.usage is not None
        assert answer.usage.output_tokens == 30
        assert answer.usage.total_tokens == answer.usage.input_tokens + 30

    async def test_a_stream_is_the_same_answer(self, tmp_path: Path, speaks: Speaks, backend: str) -> None:
        """Events come numbered in order, the text deltas come to the whole text, and the last event has all of it."""
        async with gateway(tmp_path, speaks, backend=backend) as there:
            stream = await there.openai.responses.create(model=MODEL, input="Hello", store=False, stream=True)
            events = [event async for event in stream]
        kinds = [event.type for event in events]
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        numbers = [event.sequence_number for event in events]
        assert numbers == sorted(set(numbers))
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert text
        assert events[-1].response.output_text == text  # type: ignore[union-attr]

    async def test_tools_and_their_results(self, tmp_path: Path, speaks: Speaks, backend: str) -> None:
        """A tool is called with valid arguments, and the answer after it has its result."""
        async with gateway(tmp_path, speaks, backend=backend) as there:
            question = {"role": "user", "content": "The weather?"}
            first = await there.openai.responses.create(model=MODEL, input=[question], tools=[TOOL], store=False)
            calls = [item for item in first.output if item.type == "function_call"]
            assert len(calls) == 1
            assert set(json.loads(calls[0].arguments)) == {"city", "days"}
            history = [
                question,
                calls[0].model_dump(exclude_none=True),
                {"type": "function_call_output", "call_id": calls[0].call_id, "output": "sun and wind"},
            ]
            after = await there.openai.responses.create(model=MODEL, input=history, tools=[TOOL], store=False)
        assert "sun and wind" in after.output_text

    async def test_a_structured_answer_is_parsed(self, tmp_path: Path, speaks: Speaks, backend: str) -> None:
        """The SDK's own `parse` gets an instance of the class that it asked for."""
        async with gateway(tmp_path, speaks, backend=backend) as there:
            answer = await there.openai.responses.parse(model=MODEL, input="A city?", text_format=City, store=False)
        assert isinstance(answer.output_parsed, City)

    async def test_a_stored_conversation_is_refused(self, tmp_path: Path, speaks: Speaks, backend: str) -> None:
        """`previous_response_id` is a `BadRequestError` whose `param` names it, and nothing reaches the provider."""
        async with gateway(tmp_path, speaks, backend=backend) as there:
            with pytest.raises(openai.BadRequestError) as refused:
                await there.openai.responses.create(model=MODEL, input="And?", previous_response_id="resp_1")
            assert refused.value.param == "previous_response_id"
            assert there.provider.statistics().arrived == 0


async def test_the_synchronous_client_streams_responses(tmp_path: Path) -> None:
    """The blocking client's `stream` helper puts the events together."""
    async with gateway(tmp_path) as there:

        def work() -> str:
            with there.sync_openai() as client, client.responses.stream(model=MODEL, input="Hello") as stream:
                return stream.get_final_response().output_text

        assert await in_thread(work)


async def test_embeddings(tmp_path: Path) -> None:
    """Vectors come in the order of their texts with the dimensions asked for, as floats and as the SDK's base64."""
    async with gateway(tmp_path) as there:
        create = there.openai.embeddings.create
        answer = await create(model=MODEL, input=["one", "two", "one"], dimensions=8)
        floats = await create(model=MODEL, input=["one"], dimensions=8, encoding_format="float")
    assert [item.index for item in answer.data] == [0, 1, 2]
    assert all(len(item.embedding) == 8 for item in answer.data)
    assert answer.data[0].embedding == answer.data[2].embedding != answer.data[1].embedding
    assert floats.data[0].embedding == pytest.approx(answer.data[0].embedding, rel=1e-5)
    assert answer.usage.prompt_tokens > 0


async def test_embeddings_where_the_backend_has_none(tmp_path: Path) -> None:
    """A backend without embeddings is a `NotFoundError` that says so."""
    async with gateway(tmp_path, "anthropic") as there:
        with pytest.raises(openai.NotFoundError, match="embeddings"):
            await there.openai.embeddings.create(model=MODEL, input="one")


@either
async def test_models_are_listed_and_found(tmp_path: Path, speaks: Speaks) -> None:
    """Configured models are listed and retrieved by name; one that nobody serves is `NotFoundError`."""
    backend = '[models.water]\nbackends = ["up"]\n'
    async with gateway(tmp_path, speaks, text=backend) as there:
        listed = [model.id async for model in there.openai.models.list()]
        found = await there.openai.models.retrieve("water")
        with pytest.raises(openai.NotFoundError):
            await there.openai.models.retrieve("wine")
        with pytest.raises(openai.NotFoundError) as unknown:
            await there.openai.chat.completions.create(model="wine", messages=[{"role": "user", "content": "x"}])
    assert "water" in listed
    assert found.id == "water"
    assert unknown.value.code == "model_not_found"


async def test_usage_of_cached_input_comes_through(tmp_path: Path) -> None:
    """What the provider read from its cache is told to the program as the SDK names it."""
    sim = SimConfig(latency=FAST, length=SHORT, prefix_cache=8)
    async with gateway(tmp_path, sim=sim) as there:
        for _ in range(2):
            answer = await there.openai.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "a long question " * 40}]
            )
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert (answer.usage.prompt_tokens_details.cached_tokens or 0) > 0
