"""Requests on the wire, and configurations that cannot work."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import InvalidLimits, Refused
from agents.messages import Message, ModelRequest, ToolCall, ToolSpec
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.backends.openai.encode import EncodingRules, encode_request
from orchestrator.backends.secret import Secret, excerpt
from tests.backends.payloads import HELLO, REQUEST
from tests.backends.recorder import Recorder
from tests.backends.upstream import upstream

KEY = "sk-very-secret-0123456789"


def sent(request: ModelRequest, **rules: Any) -> Any:
    return json.loads(encode_request(request, EncodingRules(**rules)))


def test_a_full_request() -> None:
    """Each field stands where the dialect has it, and nothing that is unset is sent."""
    request = ModelRequest(
        "m",
        (Message("system", "be brief"), Message("user", "hé")),
        (ToolSpec("f", "does f", {"type": "object"}),),
        max_tokens=5,
        temperature=0.0,
        seed=7,
        stop=("END",),
        tool_choice="auto",
        response_format={"type": "json_object"},
        extra={"top_k": 3},
    )
    assert sent(request) == {
        "top_k": 3,
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hé"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "does f", "parameters": {"type": "object"}}}
        ],
        "max_tokens": 5,
        "temperature": 0.0,
        "seed": 7,
        "stop": ["END"],
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
    }
    assert set(sent(REQUEST)) == {"model", "messages", "stream", "stream_options"}


def test_extra_fields_cannot_undo_streaming() -> None:
    """A client's own `stream` and `include_usage` don't reach the server; its other stream options do."""
    extra = {"stream": False, "stream_options": {"include_usage": False, "chunk_size": 4}, "n": 1, "model": "other"}
    body = sent(ModelRequest("m", (), extra=extra))
    assert (body["stream"], body["model"]) == (True, "m")
    assert body["stream_options"] == {"include_usage": True, "chunk_size": 4}
    assert "n" not in body


def test_rules_of_the_server() -> None:
    """Model names are mapped, the output bound has a default and a name of its own, reasoning goes back if asked."""
    rules = {
        "models": {"fast": "vendor/fast-1"},
        "max_tokens": 100,
        "max_tokens_field": "max_completion_tokens",
        "reasoning_field": "reasoning_content",
    }
    body = sent(ModelRequest("fast", (Message("assistant", "a", reasoning="hm"),)), **rules)
    assert (body["model"], body["max_completion_tokens"]) == ("vendor/fast-1", 100)
    assert body["messages"] == [{"role": "assistant", "content": "a", "reasoning_content": "hm"}]
    assert sent(ModelRequest("other", ()), **rules)["model"] == "other"
    assert sent(ModelRequest("other", ()), models={"*": "only"})["model"] == "only"
    assert (
        "reasoning_content" not in sent(ModelRequest("m", (Message("assistant", "a", reasoning="hm"),)))["messages"][0]
    )


@pytest.mark.parametrize(("policy", "content"), [("empty", ""), ("keep", None)])
def test_R18_content_of_a_turn_that_only_calls_tools(policy: str, content: str | None) -> None:
    """It is the empty string unless the server wants null."""
    turn = Message("assistant", "", (ToolCall("c", "f", "{}"),))
    assert sent(ModelRequest("m", (turn,)), null_content=policy)["messages"][0]["content"] == content


@pytest.mark.parametrize("extra", [{"n": 2}, {"x": object()}, {"x": {1: {None: 2}}}, {"x": {(1,): 2}}])
def test_what_cannot_be_sent_is_refused(extra: dict[str, Any]) -> None:
    """More than one answer, and values that JSON has no word for, are the request's fault."""
    with pytest.raises(Refused):
        encode_request(ModelRequest("m", (), extra=extra), EncodingRules())


def test_a_value_that_contains_itself_is_refused() -> None:
    """Endless data ends in an error, not in a crash."""
    loop: dict[str, Any] = {}
    loop["x"] = loop
    with pytest.raises(Refused):
        encode_request(ModelRequest("m", (), extra=loop), EncodingRules())


_any_text = st.text(st.characters(exclude_categories=()), max_size=10)


@settings(deadline=None)
@given(_any_text, _any_text, _any_text)
def test_lone_surrogates_never_stop_a_request(content: str, arguments: str, key: str) -> None:
    """Any text goes out as valid UTF-8; text without lone surrogates goes out unchanged."""
    turn = Message("assistant", content, (ToolCall("c", "f", arguments),))
    body = sent(ModelRequest("m", (turn,), extra={"x": {key: [content]}}))
    message = body["messages"][0]
    for before, after in (
        (content, message["content"]),
        (arguments, message["tool_calls"][0]["function"]["arguments"]),
    ):
        after.encode()
        if not any("\ud800" <= c <= "\udfff" for c in before):
            assert after == before


# Configuration and secrets.


def config(**fields: Any) -> OpenAIConfig:
    return OpenAIConfig(name="x", **{"base_url": "https://api.example.com/v1", **fields})


async def test_the_key_comes_from_the_environment_or_a_file_and_extra_headers_are_sent(tmp_path: Path) -> None:
    """Either way it is sent as a bearer token; a file's last line end is no part of it."""
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    async with upstream(HELLO) as server:
        for options in ({"api_key_env": "K"}, {"api_key_file": str(file)}, {"api_key": Secret(KEY)}, {}):
            async with server.connection(environ={"K": KEY}, headers={"X-Team": "a"}, **options) as connection:
                await connection.send(REQUEST, Recorder())
    assert [received.header("authorization") for received in server.received] == [f"Bearer {KEY}"] * 3 + [None]
    assert {received.header("x-team") for received in server.received} == {"a"}


def test_no_repr_shows_the_key() -> None:
    """Neither the configuration, the backend, a connection nor the secret itself prints it."""
    backend = OpenAIBackend(config(api_key=Secret(KEY), headers={"x-other-key": KEY}))
    for thing in (backend, backend.config, backend.connect(), Secret(KEY), backend.place):
        assert KEY not in repr(thing) + str(thing)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"base_url": "api.example.com"}, "backends.x.base_url: must look like https://host/v1"),
        ({"base_url": "ftp://host"}, "must look like"),
        ({"base_url": "http://"}, "must look like"),
        ({"base_url": "http://[::1"}, "backends.x.base_url"),
        ({"base_url": "https://me:pw@host/v1"}, "takes no user, password"),
        ({"api_key_env": "NOT_SET"}, "the environment variable NOT_SET is unset or empty"),
        ({"api_key_file": "/no/such/file"}, "cannot read /no/such/file: No such file or directory"),
        ({"api_key": Secret("two\nlines")}, "holds something that is no key"),
        ({"headers": {"x": "a\r\nb: c"}}, "must be printable ASCII"),
        ({"keepalive_seconds": float("nan")}, "backends.x.keepalive_seconds"),
        ({"grace_seconds": -1.0}, "backends.x.grace_seconds"),
        ({"ca_file": "/no/such/file"}, "cannot read /no/such/file"),
    ],
)
def test_a_configuration_that_cannot_work_names_the_field(fields: dict[str, Any], words: str) -> None:
    """Each mistake is found before the first request, and no message holds a secret."""
    with pytest.raises(InvalidLimits) as caught:
        OpenAIBackend(config(**fields), environ={})
    assert words in caught.value.message
    assert "pw" not in caught.value.message.replace("password", "")
    assert "two" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"your key {KEY} is wrong", "your key *** is wrong"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer ***"),
        ("gave sk-proj-abc123def456.", "gave ***"),
        ("a\n\tb\x1b[0m\u2028c", "a b [0m c"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_foreign_text_is_quoted_safely(text: str, shown: str) -> None:
    """Known secrets and key-like words are masked, control characters become spaces, length is bounded."""
    assert excerpt(text, (Secret(KEY),)) == shown


def test_a_secret_across_the_cut_is_masked() -> None:
    """Masking comes before cutting."""
    assert KEY[:8] not in excerpt("y" * 190 + KEY, (Secret(KEY),))
