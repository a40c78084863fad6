"""A request on its way to a backend of its own dialect."""

import json
from typing import Any

import pytest

from agents.messages import WireRequest
from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.encode import encode_upstream
from orchestrator.dialects.json_text import members
from tests.dialects.dialect_events import request


def wire(body: bytes) -> WireRequest:
    return WireRequest("chat", members(body), 0)


def test_members_stay_verbatim_and_in_order() -> None:
    """Only the model and the stream's members change; spaces, number forms and unknown members do not."""
    body = (
        b'{"zeta" : {"b":1.50 , "a":[1e3]},"model":"m","messages":[ {"role":"user","content":"\\u00e9"} ],"new":null}'
    )

    assert encode_upstream(wire(body), "chat", model="own") == (
        b'{"zeta":{"b":1.50 , "a":[1e3]},"model":"own","messages":[ {"role":"user","content":"\\u00e9"} ],"new":null,'
        b'"stream":true,"stream_options":{"include_usage":true}}'
    )


def test_stream_options_are_kept() -> None:
    """What else the program said about its stream stays, and usage is asked for even where it declined it."""
    said = {"include_usage": False, "include_obfuscation": False, "later": [1]}

    body = json.loads(encode_upstream(request("chat", stream_options=said), "chat", model="m"))

    assert body["stream_options"] == {**said, "include_usage": True}


def test_without_a_stream_there_are_no_stream_options() -> None:
    """A request that is not streamed upstream has no member that only streams may have."""
    body = json.loads(encode_upstream(request("chat", stream_options={}), "chat", model="m", stream=False))

    assert body == {"model": "m", "stream": False}


@pytest.mark.parametrize("said", [[], "yes", 1])
def test_stream_options_that_are_no_object(said: object) -> None:
    """Stream options that cannot be added to are refused by name."""
    with pytest.raises(Untranslatable, match="stream_options"):
        encode_upstream(request("chat", stream_options=said), "chat", model="m")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, {"max_tokens": 7}),
        ({"max_tokens": 100}, {"max_tokens": 7}),
        ({"max_completion_tokens": 100}, {"max_completion_tokens": 7}),
        ({"max_completion_tokens": None}, {"max_completion_tokens": None, "max_tokens": 7}),
    ],
)
def test_the_output_is_bounded_under_the_name_the_program_used(said: Any, expected: Any) -> None:
    """A bound given here replaces the program's, under the same name."""
    body = json.loads(encode_upstream(request("chat", **said), "chat", model="m", max_tokens=7))

    assert {name: value for name, value in body.items() if name.startswith("max_")} == expected


def test_without_a_bound_the_programs_stays() -> None:
    """No bound given here leaves what the program said."""
    body = json.loads(encode_upstream(request("chat", max_completion_tokens=100), "chat", model="m"))

    assert body["max_completion_tokens"] == 100


def test_messages_and_embeddings_in_their_own_dialects() -> None:
    """Messages get no stream options, and embeddings no member of a stream at all."""
    messages = encode_upstream(request("messages", max_tokens=5, messages=[]), "messages", model="m", max_tokens=4)
    embeddings = encode_upstream(request("embeddings", input="x"), "embeddings", model="m")

    assert json.loads(messages) == {"max_tokens": 4, "messages": [], "model": "m", "stream": True}
    assert json.loads(embeddings) == {"input": "x", "model": "m"}


def test_no_way_to_a_dialect_is_said() -> None:
    """Embeddings cannot be made by a backend that has none."""
    with pytest.raises(Untranslatable, match="no embeddings"):
        encode_upstream(request("embeddings", input="x"), "messages", model="m")
