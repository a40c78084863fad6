"""The simulated provider over HTTP: answers, refusals and streams as OpenAI writes them."""

import json
import re

import httpx2
import pytest
import trio
import trio.testing

from orchestrator.backends.simulated.backend import FaultRule, SimConfig, SimLatency, SimLimit
from orchestrator.backends.simulated.server import run_simulator
from orchestrator.backends.simulated.wire import duration
from tests.backends.sim_client import FAST, body, chunks, served, until


async def test_an_answer_in_one_piece() -> None:
    """Without `stream` the answer is one document in OpenAI's shape, unicode intact, with the rate-limit headers."""
    limits = (SimLimit(kind="requests", amount=10), SimLimit(kind="output_tokens", amount=1000))
    async with served(SimConfig(latency=FAST, limits=limits)) as (_, client):
        answer = await client.post("chat/completions", json=body())
    found = answer.json()
    assert answer.status_code == 200
    assert found["object"] == "chat.completion"
    assert found["choices"][0]["finish_reason"] == "length"
    assert "Grüße an 日本 🎉" in found["choices"][0]["message"]["content"]
    assert found["usage"]["completion_tokens"] == 12
    assert answer.headers["x-ratelimit-remaining-requests"] == "9"
    assert answer.headers["anthropic-ratelimit-output-tokens-limit"] == "1000"


@pytest.mark.parametrize("asked", [True, False])
async def test_a_stream_gives_usage_when_asked(asked: bool) -> None:
    """A streamed answer ends with one usage chunk without choices where `include_usage` asks for it, else with none."""
    options = {"stream_options": {"include_usage": True}} if asked else {}
    async with served() as (_, client):
        whole = await client.post("chat/completions", json=body())
        answer = await client.post("chat/completions", json=body(stream=True, **options))
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = chunks(answer.text)
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in found if c["choices"])
    assert text == whole.json()["choices"][0]["message"]["content"]
    usages = [c["usage"] for c in found if c.get("usage")]
    assert usages == ([whole.json()["usage"]] if asked else [])
    assert [c["choices"] for c in found if c.get("usage")] == ([[]] if asked else [])
    assert len({c["id"] for c in found}) == 1


async def test_tools_streamed_and_whole_agree() -> None:
    """A tool call in pieces adds up to the one in a document, and its result comes back in the next answer."""
    schema = {"type": "object", "properties": {"city": {"enum": ["Köln", "Łódź"]}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    async with served(SimConfig(latency=FAST)) as (_, client):
        whole = (await client.post("chat/completions", json=body(tools=tools, max_tokens=None))).json()
        streamed = await client.post("chat/completions", json=body(tools=tools, max_tokens=None, stream=True))
        message = whole["choices"][0]["message"]
        told = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "Nieselregen, 4 °C"}
        messages = [*body()["messages"], message, told]
        last = await client.post("chat/completions", json={"model": "sim", "messages": messages, "tools": tools})
    (call,) = message["tool_calls"]
    assert json.loads(call["function"]["arguments"])["city"] in ("Köln", "Łódź")
    pieces = [p for c in chunks(streamed.text) for p in c["choices"][0]["delta"].get("tool_calls", ())]
    assert "".join(p["function"]["arguments"] for p in pieces) == call["function"]["arguments"]
    assert [p["id"] for p in pieces if "id" in p] == [call["id"]]
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
    assert told["content"] in last.json()["choices"][0]["message"]["content"]


async def test_a_429_has_every_header() -> None:
    """A refused call gets OpenAI's error object, `retry-after` in seconds and milliseconds, and honest limits."""
    async with served(SimConfig(latency=FAST, limits=(SimLimit(kind="requests", amount=1),))) as (provider, client):
        await client.post("chat/completions", json=body())
        answer = await client.post("chat/completions", json=body())
    error = answer.json()["error"]
    assert answer.status_code == 429
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert 55 < int(answer.headers["retry-after"]) <= 60
    assert 0 <= int(answer.headers["retry-after"]) * 1000 - int(answer.headers["retry-after-ms"]) < 1000
    assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert re.fullmatch(r"\d+(\.\d+)?s|1m0s", answer.headers["x-ratelimit-reset-requests"])
    assert provider.statistics().refused == {"requests": 1}


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"{", "not a valid request"),
        (b"[]", "Expected `object`"),
        (b'{"model":"sim"}', "messages"),
        (b'{"model":"sim","messages":[]}', "messages"),
        (b'{"model":"sim","messages":[{"role":"king","content":"x"}]}', "king"),
        (b'{"model":"sim","messages":[{"role":"assistant","content":null}]}', "null"),
        (b'{"model":"sim","messages":[{"role":"tool","content":"x"}]}', "tool_call_id"),
        (b'{"model":"sim","messages":[{"role":"user","content":"x"}],"max_tokens":"many"}', "max_tokens"),
        (b'{"model":"sim","messages":[{"role":"user","content":"\xff"}]}', "not a valid request"),
        (b"[" * 100_000, "not a valid request"),
    ],
)
async def test_bad_bodies_get_400_and_the_connection_lives(content: bytes, hint: str) -> None:
    """A body that is no request is refused with 400 and a hint, over a connection that serves the next one."""
    async with served(SimConfig(latency=FAST, limits=(SimLimit(kind="requests", amount=1),))) as (provider, client):
        answer = await client.post("chat/completions", content=content)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert hint in answer.json()["error"]["message"]
        assert answer.headers["x-ratelimit-remaining-requests"] == "1"
        assert (await client.post("chat/completions", json=body())).status_code == 200
    assert provider.statistics().refused == {"invalid": 1}


async def test_keys_models_health_and_strangers() -> None:
    """Only `/healthz` needs no key; a wrong key is 401, an unknown path 404, and models are listed."""
    async with served(SimConfig(latency=FAST, api_keys=("right", "other"), models=("a", "b"))) as (provider, client):
        assert (await client.get(str(client.base_url).replace("/v1/", "/healthz"))).status_code == 200
        wrong = await client.get("models", headers={"authorization": "Bearer wrong"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
        client.headers["authorization"] = "Bearer other"
        assert [row["id"] for row in (await client.get("models")).json()["data"]] == ["a", "b"]
        assert (await client.get("nowhere")).status_code == 404
        assert (await client.post("chat/completions", json=body())).json()["error"]["code"] == "model_not_found"
    assert provider.statistics().refused == {"key": 1, "invalid": 1}


async def test_an_instant_provider_answers_over_http_too() -> None:
    """With `instant` a served answer takes no modelled time, streamed or not, and limits hold."""
    config = SimConfig(
        instant=True, latency=SimLatency(first_token=3600.0), limits=(SimLimit(kind="requests", amount=2),)
    )
    async with served(config) as (provider, client):
        whole = await client.post("chat/completions", json=body())
        streamed = await client.post("chat/completions", json=body(stream=True))
        assert (await client.post("chat/completions", json=body())).status_code == 429
    text = whole.json()["choices"][0]["message"]["content"]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks(streamed.text)) == text != ""
    assert provider.statistics().completed == 2


async def test_the_command_serves_until_cancelled() -> None:
    """`run_simulator` reports its URL, serves with a clock that starts at 0, and ends when cancelled."""
    told: list[str] = []
    rule = FaultRule(fault="status", status=500, start=0.0, end=3600.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_simulator, SimConfig(latency=FAST, faults=(rule,)), "127.0.0.1", 0, told.append)
        await until(lambda: bool(told))
        async with httpx2.AsyncClient(trust_env=False) as client:
            assert (await client.post(told[0] + "/chat/completions", json=body())).status_code == 500
        nursery.cancel_scope.cancel()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", told[0])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.088, "88ms"), (0.9999, "1s"), (1.5, "1.5s"), (60, "1m0s"), (360, "6m0s"), (7205.25, "2h0m5.25s")],
)
def test_durations_as_openai_writes_them(seconds: float, text: str) -> None:
    """Reset times have the form of Go durations, rounded up to a millisecond."""
    assert duration(seconds) == text
