"""Successful answers that are no event stream, against the adapter over a real socket."""

import json

import pytest

from agents.errors import Throttled, Truncated, Unavailable
from tests.backends.payloads import (
    COUNTED,
    HELLO,
    USAGE,
    head,
    whole,
)
from tests.backends.upstream import Talk, ask, fail


async def test_a_server_that_ignores_streaming_is_understood() -> None:
    """One JSON document gives the same reply, with its text as one delta."""
    document = {"model": "m-1", "choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}], "usage": USAGE}
    reply, recorder = await ask(whole(200, json.dumps(document).encode()))
    assert (reply.message.content, reply.finish_reason, reply.usage) == ("hello", "stop", COUNTED)
    assert recorder.order == ["connected", "written", "headers", "deltas", "usage"]


async def test_an_event_stream_under_another_content_type_is_understood() -> None:
    """What the body is decides, not what it is called."""
    reply, _ = await ask(HELLO.replace(b"text/event-stream", b"text/plain"))
    assert reply.message.content == "hello"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (whole(200, b"<html><body>Sign in</body></html>", "text/html"), "Sign in"),
        (whole(200, b"<!doctype html>", "text/event-stream"), "doctype"),
        (whole(200, b"", "text/event-stream"), "an empty body"),
        (whole(200, b"", "application/json"), "an empty body"),
        (whole(200, b"hi", "text/plain"), "no event stream"),
        (whole(200, b'{"choices": [', "application/json"), "no JSON"),
        (whole(200, b'{"id": 1}', "application/json"), "no chat completion"),
    ],
)
async def test_a_200_that_is_no_answer_is_unavailable_and_says_what_came(script: bytes, words: str) -> None:
    """HTML, garbage, half a document and nothing at all each get a message that names the host and shows the start."""
    caught, _ = await fail(script)
    assert type(caught) is Unavailable
    assert words in caught.message
    assert "127.0.0.1:" in caught.message


async def test_a_200_document_with_an_error_is_that_error() -> None:
    """An error object outside a stream is mapped the same way."""
    caught, _ = await fail(whole(200, json.dumps({"error": {"code": 429, "message": "slow down"}}).encode()))
    assert isinstance(caught, Throttled)


async def test_a_document_cut_short_is_truncated() -> None:
    """A document that ends before its content length is not parsed in part."""
    body = json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}).encode()

    async def script(talk: Talk) -> None:
        await talk.send(head(200, "application/json", content_length=str(len(body))) + body[:20])
        await talk.close()

    caught, _ = await fail(script)
    assert isinstance(caught, Truncated)
