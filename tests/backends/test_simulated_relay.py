"""Programs' own requests to the simulated backend in this process, beside the same requests over HTTP."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from agents.errors import ModelError, Refused, Throttled, Truncated, Unavailable
from agents.messages import Dialect, Message, ModelReply, ModelRequest
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.backends.simulated.backend import (
    FaultRule,
    SimConfig,
    SimLatency,
    SimLength,
    SimLimit,
    SimProvider,
)
from orchestrator.backends.simulated.server import serve_simulated
from orchestrator.dialects.assemblers import assembler
from tests.backends.in_process import STEADY
from tests.backends.in_process import send as send_to
from tests.backends.recorder import Recorder
from tests.backends.relay import HI_EMBEDDINGS, data_of, events_of, tokens_of, wired

QUESTION = "How does water reach the wheel?"
FAST = SimLatency(first_token=0.0, input_rate=math.inf, output_rate=5000.0, spread=0.0)
CONFIG = SimConfig(seed=7, latency=FAST, length=SimLength(tokens=30, spread=0.0))

BODIES: dict[Dialect, dict[str, object]] = {
    "chat": {
        "model": "sim",
        "messages": [{"role": "user", "content": QUESTION}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "x_sim": {"k": 1},
    },
    "responses": {"model": "sim", "input": QUESTION},
    "messages": {"model": "sim", "max_tokens": 4096, "messages": [{"role": "user", "content": QUESTION}]},
}
TEXT: dict[Dialect, Callable[[Any], str]] = {
    "chat": lambda found: found["choices"][0]["message"]["content"],
    "responses": lambda found: found["output"][0]["content"][0]["text"],
    "messages": lambda found: found["content"][0]["text"],
}
DIALECTS: list[Dialect] = ["chat", "responses", "messages"]


async def send(
    provider: SimProvider, body: dict[str, object] | bytes, dialect: Dialect, recorder: Recorder | None = None
) -> ModelReply:
    return await send_to(provider, wired(body, dialect), recorder or Recorder())


def document(dialect: Dialect, recorder: Recorder) -> Any:
    whole = assembler(dialect)
    for event in events_of(recorder):
        whole.feed(event)
    return json.loads(whole.document())


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_same_request_gets_the_same_answer_in_every_dialect(
    dialect: Dialect, autojump_clock: trio.testing.MockClock
) -> None:
    """Text, usage and reason are those of the canonical request; only the words around them differ."""
    canonical = await send_to(SimProvider(CONFIG), ModelRequest("sim", (Message("user", QUESTION),)))
    recorder = Recorder()
    reply = await send(SimProvider(CONFIG), BODIES[dialect], dialect, recorder)
    assert TEXT[dialect](document(dialect, recorder)) == canonical.message.content
    assert (reply.usage, reply.finish_reason) == (canonical.usage, canonical.finish_reason)
    assert recorder.usages == [canonical.usage]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_first_batch_is_the_first_token(dialect: Dialect, autojump_clock: trio.testing.MockClock) -> None:
    """Nothing is handed on before a token has come, and every batch but the last brings some."""
    recorder = Recorder()
    config = SimConfig(latency=STEADY, length=SimLength(tokens=30, spread=0.0))
    await send(SimProvider(config), BODIES[dialect], dialect, recorder)
    assert recorder.order[:4] == ["connected", "written", "headers", "deltas"]
    assert recorder.batches[0][0] == pytest.approx(1.0)
    assert all(delta.tokens for _, batch in recorder.batches[:-1] for delta in batch)
    assert recorder.batches[-1][1][-1].tokens == 0
    assert tokens_of(recorder) == len(recorder.batches) - 1
    assert b"[DONE]" not in data_of(recorder)


async def test_chat_in_process_is_chat_over_http() -> None:
    """The same events, byte for byte, but for the time in them; unknown members arrive and return in both."""
    here, there = Recorder(), Recorder()
    await send(SimProvider(CONFIG), BODIES["chat"], "chat", here)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_simulated, SimProvider(CONFIG))
        connection = OpenAIBackend(OpenAIConfig(name="openai", base_url=url)).connect()
        await connection.send(wired(BODIES["chat"]), there)
        await connection.aclose()
        nursery.cancel_scope.cancel()

    def timeless(recorder: Recorder) -> list[dict[str, object]]:
        return [{**json.loads(data), "created": 0} for data in data_of(recorder)]

    assert timeless(here) == timeless(there)
    assert json.loads(data_of(here)[0])["x_sim"] == {"k": 1}


async def test_a_chat_answer_in_one_piece_has_its_usage_unasked(autojump_clock: trio.testing.MockClock) -> None:
    """As at the provider: only a program that wants a stream has to ask."""
    body = {name: value for name, value in BODIES["chat"].items() if not name.startswith("stream")}
    for stream, has in ((False, True), (True, False)):
        recorder = Recorder()
        await send(SimProvider(CONFIG), {**body, "stream": stream}, "chat", recorder)
        assert bool(document("chat", recorder).get("usage")) == has


async def test_embeddings_and_counts_are_documents(autojump_clock: trio.testing.MockClock) -> None:
    """Neither has events; embeddings cost their input, a count costs nothing."""
    provider, recorder = SimProvider(CONFIG), Recorder()
    reply = await send(provider, HI_EMBEDDINGS, "embeddings", recorder)
    assert [row["index"] for row in json.loads(reply.wire)["data"]] == [0, 1]
    assert reply.usage.input
    assert reply.usage.output == 0
    assert recorder.batches == []
    body = {key: value for key, value in BODIES["messages"].items() if key != "max_tokens"}
    counted = await send(provider, body, "count_tokens")
    asked = await send(provider, BODIES["messages"], "messages")
    assert json.loads(counted.wire)["input_tokens"] == asked.usage.input
    assert counted.usage.total == 0
    assert provider.statistics().in_flight == 0


@pytest.mark.parametrize("dialect", [*DIALECTS, "embeddings", "count_tokens"])
async def test_a_request_that_makes_no_sense_is_refused(
    dialect: Dialect, autojump_clock: trio.testing.MockClock
) -> None:
    """By status 400 and as the request's fault, with nothing left in flight."""
    provider, recorder = SimProvider(CONFIG), Recorder()
    with pytest.raises(Refused) as caught:
        await send(provider, {"model": "sim", "messages": 7, "input": 7}, dialect, recorder)
    assert caught.value.status == 400
    assert recorder.batches == []
    assert provider.statistics().in_flight == 0
    assert provider.statistics().refused["invalid"] == 1


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (FaultRule(fault="truncate", nth=(1,), after_tokens=8), Truncated),
        (FaultRule(fault="error_event", nth=(1,), after_tokens=8, status=500), Unavailable),
        (FaultRule(fault="status", nth=(1,), status=429), Throttled),
    ],
)
async def test_faults_are_those_of_a_wire(
    rule: FaultRule, kind: type[ModelError], dialect: Dialect, autojump_clock: trio.testing.MockClock
) -> None:
    """A broken answer keeps its text; nothing that ends an answer well is said after it."""
    recorder = Recorder()
    config = SimConfig(latency=FAST, length=SimLength(tokens=30, spread=0.0), faults=(rule,))
    with pytest.raises(kind) as caught:
        await send(SimProvider(config), BODIES[dialect], dialect, recorder)
    assert bool(caught.value.partial) == (rule.fault != "status")
    said = b"".join([event.event.encode() + event.data for event in events_of(recorder)])
    for end in (b"message_stop", b"response.completed", b'"finish_reason":"stop"'):
        assert end not in said


async def test_limits_are_the_same_key(autojump_clock: trio.testing.MockClock) -> None:
    """A program's request counts like any other, and is told of the limits."""
    provider = SimProvider(SimConfig(latency=FAST, limits=(SimLimit(kind="requests", amount=2),)))
    recorder = Recorder()
    await send(provider, BODIES["chat"], "chat", recorder)
    assert [reading.kind for reading in recorder.readings] == ["requests"]
    await send(provider, HI_EMBEDDINGS, "embeddings")
    with pytest.raises(Throttled):
        await send(provider, BODIES["messages"], "messages")


async def test_an_instant_provider_answers_programs_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """No time passes, and the answer is whole."""
    recorder = Recorder()
    before = trio.current_time()
    await send(SimProvider(SimConfig(instant=True)), BODIES["messages"], "messages", recorder)
    assert trio.current_time() == before
    assert document("messages", recorder)["content"] == [{"type": "text", "text": "done"}]
