"""What programs get for what they ask, streamed or whole, in each dialect."""

import json

import pytest
import trio

from agents.port import Flow, Priority
from orchestrator.dialects.translators import translator
from tests.api.surface_rig import Exchange, ask
from tests.gateway.gateway_rig import (
    CHAT,
    DOCUMENTS,
    PATHS,
    SCRIPTS,
    STREAMED,
    USAGE,
    OwnerCalls,
    WireBackend,
    blocks,
    body,
    chunk,
    finish,
    gateway,
    wire_owner,
)
from tests.owner.staged import running


@pytest.mark.parametrize("dialect", STREAMED)
async def test_a_stream_brings_the_very_bytes_in_the_dialects_framing(dialect, autojump_clock):
    """Every event of the backend reaches the program with its name and data unchanged; only chat ends with [DONE]."""
    async with running(wire_owner(WireBackend())) as owner:
        answer = await ask(gateway(owner), "POST", PATHS[dialect], body(dialect, stream=True))
    expected = [
        (b"event: " + event.event.encode() + b"\n" if event.event else b"") + b"data: " + event.data
        for batch in SCRIPTS[dialect]
        for event in batch
    ]
    assert blocks(answer.body) == expected + ([b"data: [DONE]"] if dialect == "chat" else [])
    assert (answer.status, answer.header("content-type")) == (200, "text/event-stream; charset=utf-8")
    assert answer.whole


@pytest.mark.parametrize("dialect", STREAMED)
async def test_a_program_that_asks_for_no_stream_gets_one_document(dialect, autojump_clock):
    """The stream's events are put together into the dialect's document."""
    async with running(wire_owner(WireBackend())) as owner:
        answer = await ask(gateway(owner), "POST", PATHS[dialect], body(dialect))
    assert (answer.status, answer.header("content-type")) == (200, "application/json")
    assert "one two" in json.dumps(answer.json)


@pytest.mark.parametrize("dialect", ["embeddings", "count_tokens"])
async def test_what_has_no_stream_comes_as_the_backends_document(dialect, autojump_clock):
    """Embeddings and counts of tokens come as the backend wrote them, and bound no output."""
    async with running(wire_owner(backend := WireBackend())) as owner:
        answer = await ask(gateway(owner), "POST", PATHS[dialect], body(dialect))
    assert (answer.status, answer.body) == (200, DOCUMENTS[dialect])
    assert backend.sent[0].max_tokens == 0


async def test_a_request_goes_out_verbatim_under_its_flow_and_priority(autojump_clock):
    """Members, known or not, reach the backend with the very text they had, and headers say whose call it is."""
    sent = b'{"model" : "small", "messages":[ {"role":"user","content":"h\\u00e9"} ],"x_new":{"a":[1e2,  1.50]},"n":2}'
    headers = {
        "x-headrace-tenant": "acme",
        "x-headrace-job": "j",
        "x-headrace-run": "r",
        "x-headrace-priority": "Batch",
    }
    async with running(wire_owner(backend := WireBackend())) as owner:
        calls = OwnerCalls(owner)
        answer = await ask(gateway(owner, calls), "POST", PATHS["chat"], sent, headers)
    assert answer.status == 200
    wire = backend.sent[0].wire
    assert {name: bytes(raw) for name, raw in wire.fields.items()} == {
        "model": b'"small"',
        "messages": b'[ {"role":"user","content":"h\\u00e9"} ]',
        "x_new": b'{"a":[1e2,  1.50]}',
        "n": b"2",
    }
    assert calls.asked == [(Flow("acme", "j", "r"), Priority.BATCH, False)]


@pytest.mark.parametrize(
    ("fields", "bound"),
    [
        ({}, 500),
        ({"n": 3}, 1500),
        ({"max_tokens": 7, "n": 3}, 21),
        ({"max_completion_tokens": 9, "max_tokens": 7}, 9),
        ({"max_tokens": None}, 500),
    ],
)
async def test_the_outputs_bound_is_the_programs_else_the_models(fields, bound, autojump_clock):
    """What is reserved is what the program said, for all choices, or else the model's configured maximum."""
    async with running(wire_owner(backend := WireBackend())) as owner:
        app = gateway(owner, max_tokens=lambda model: 500)
        await ask(app, "POST", PATHS["chat"], body("chat", **fields))
    assert backend.sent[0].max_tokens == bound


TRAILING = chunk("", usage=USAGE)
SEPARATE = (
    (chunk("one "),),
    (finish(), type(TRAILING)("", json.dumps({"id": "c1", "choices": [], "usage": USAGE}).encode())),
)
NULL_CHOICES = (
    (chunk("one "),),
    (finish(), type(TRAILING)("", json.dumps({"id": "c1", "choices": None, "usage": USAGE}).encode())),
)
ON_FINISH = ((chunk("one "),), (finish(usage=USAGE),))
EVERYWHERE = ((chunk("one ", usage=USAGE),), (finish(usage=USAGE),))


@pytest.mark.parametrize("script", [SEPARATE, NULL_CHOICES, ON_FINISH, EVERYWHERE])
@pytest.mark.parametrize("asked", [True, False, None])
async def test_R02_usage_comes_on_one_last_chunk_if_asked_for_and_else_not_at_all(script, asked, autojump_clock):
    """Wherever a backend puts usage, a program sees one last chunk with it and empty choices, or none."""

    def relayed(number, request):
        same = translator("chat", "chat", model="small", wire=request.wire)
        for batch in script:
            yield tuple(made for event in batch for made in same.feed(event))
        yield tuple(same.end())

    backend = WireBackend()
    backend.plan = relayed
    fields = {} if asked is None else {"stream_options": {"include_usage": asked}}
    async with running(wire_owner(backend)) as owner:
        answer = await ask(gateway(owner), "POST", PATHS["chat"], body("chat", stream=True, **fields))
    *chunks, done = blocks(answer.body)
    assert done == b"data: [DONE]"
    seen = [json.loads(data.removeprefix(b"data: ")) for data in chunks]
    with_usage = [part for part in seen if part.get("usage")]
    assert [(part["choices"], part["usage"]) for part in with_usage] == ([([], USAGE)] if asked else [])
    assert not asked or with_usage == seen[-1:]
    assert [part["choices"][0]["finish_reason"] for part in seen if part["choices"]] == [None, "stop"]


async def test_R11_only_the_backends_events_are_relayed_as_data(autojump_clock):
    """A stream that waits brings comments of its own, which no parser takes for data."""
    backend = WireBackend("headers")
    async with running(wire_owner(backend)) as owner, trio.open_nursery() as nursery:
        exchange = Exchange(gateway(owner), "POST", PATHS["chat"], body("chat", stream=True))
        nursery.start_soon(exchange.run)
        await trio.sleep(60)
        backend.release("headers")
    seen = blocks(exchange.body)
    comments = [block for block in seen if block.startswith(b":")]
    assert len(comments) == 3
    assert [block for block in seen if block not in comments] == [
        b"data: " + event.data for batch in CHAT for event in batch
    ] + [b"data: [DONE]"]
