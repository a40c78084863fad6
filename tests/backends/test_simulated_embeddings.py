"""The simulated provider speaks OpenAI's embeddings: the unmodified SDK is the judge."""

import math
from typing import Any

import openai
import pytest

from orchestrator.backends.simulated.backend import FaultRule, SimLimit
from tests.backends.sim_sdk import openai_client, sim


async def test_vectors_depend_on_the_text_alone() -> None:
    """The same text gives the same vector of length 1 in any place, form and moment; another text another one."""
    async with openai_client(sim()) as (client, _):
        one = await client.embeddings.create(model="e", input="mills")
        many = await client.embeddings.create(model="e", input=["rivers", "mills"], encoding_format="float")
    assert [row.index for row in many.data] == [0, 1]
    assert one.data[0].embedding == many.data[1].embedding != many.data[0].embedding
    assert len(one.data[0].embedding) == 1536
    assert math.hypot(*one.data[0].embedding) == pytest.approx(1.0)


async def test_fewer_dimensions_are_the_beginning_of_more() -> None:
    """A short vector points where the long one's beginning does, and has length 1 again."""
    async with openai_client(sim()) as (client, _):
        long = (await client.embeddings.create(model="e", input="mills")).data[0].embedding
        short = (await client.embeddings.create(model="e", input="mills", dimensions=4)).data[0].embedding
    length = math.hypot(*long[:4])
    assert short == pytest.approx([value / length for value in long[:4]], rel=1e-5)


async def test_texts_and_tokens_are_counted() -> None:
    """Usage is the sum over the inputs: of texts as the tokenizer has them, of tokens as many as they are."""
    async with openai_client(sim()) as (client, provider):
        texts = await client.embeddings.create(model="e", input=["one two", "three"])
        tokens = await client.embeddings.create(model="e", input=[[1, 2, 3], [4]])
        single = await client.embeddings.create(model="e", input=[7, 8])
    assert texts.usage.prompt_tokens == texts.usage.total_tokens == 3
    assert (tokens.usage.prompt_tokens, len(tokens.data)) == (4, 2)
    assert (single.usage.prompt_tokens, len(single.data)) == (2, 1)
    assert provider.statistics().input_tokens.total == 9


async def test_embeddings_count_against_the_token_limit() -> None:
    """They use up the limit that chats have too, and are refused with the time until there is room."""
    async with openai_client(sim(limits=(SimLimit(kind="total_tokens", amount=10),))) as (client, provider):
        await client.embeddings.create(model="e", input=[1] * 8)
        with pytest.raises(openai.RateLimitError) as refused:
            await client.embeddings.create(model="e", input=[1] * 8)
    headers = refused.value.response.headers
    assert headers["x-ratelimit-limit-tokens"] == "10"
    assert headers["x-ratelimit-remaining-tokens"] == "2"
    assert 59_000 < int(headers["retry-after-ms"]) <= 60_000
    assert provider.statistics().refused == {"total_tokens": 1}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"input": []}, "input"),
        ({"input": ""}, "input[0]"),
        ({"input": ["a", 1]}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": "word " * 9000}, "input[0]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"dimensions": 0}, "dimensions"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"input": None}, "input"),
    ],
)
async def test_what_the_provider_refuses(change: dict[str, Any], field: str) -> None:
    """A body that makes no sense is a bad request whose error has the field as its param."""
    async with openai_client(sim()) as (client, _):
        with pytest.raises(openai.BadRequestError) as refused:
            await client.post("/embeddings", cast_to=object, body={"model": "e", "input": "a", **change})
    assert refused.value.param == field


async def test_faults_strike_embeddings_too() -> None:
    """A scripted status and a cut connection reach the client; the next call is answered."""
    faults = (FaultRule(fault="status", nth=(1,), status=503), FaultRule(fault="truncate", nth=(2,)))
    async with openai_client(sim(faults=faults)) as (client, provider):
        with pytest.raises(openai.InternalServerError):
            await client.embeddings.create(model="e", input="a")
        with pytest.raises(openai.APIConnectionError):
            await client.embeddings.create(model="e", input="a")
        assert (await client.embeddings.create(model="e", input="a", extra_body={"x_sim": 1})).x_sim == 1  # type: ignore[attr-defined]
    assert (provider.statistics().failed, provider.statistics().in_flight) == (2, 0)
