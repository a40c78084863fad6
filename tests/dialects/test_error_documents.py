"""Errors in each dialect's own shape, judged by the SDKs that programs use."""

import json

import anthropic
import httpx2
import openai
import pytest
from anthropic.types.shared import ErrorResponse

from agents.messages import Dialect, WireEvent
from orchestrator.dialects.errors import error_document, error_event, status_for

OPENAI_DIALECTS: tuple[Dialect, ...] = ("chat", "responses", "embeddings")
ANTHROPIC_DIALECTS: tuple[Dialect, ...] = ("messages", "count_tokens")


def openai_client(status: int, body: bytes, content_type: str = "application/json") -> openai.OpenAI:
    return openai.OpenAI(
        api_key="k",
        base_url="http://gateway/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(lambda _: answer(status, body, content_type))),
    )


def anthropic_client(status: int, body: bytes, content_type: str = "application/json") -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="k",
        base_url="http://gateway",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(lambda _: answer(status, body, content_type))),
    )


def answer(status: int, body: bytes, content_type: str) -> httpx2.Response:
    return httpx2.Response(status, content=body, headers={"content-type": content_type})


def sse(event: WireEvent) -> bytes:
    name = f"event: {event.event}\n".encode() if event.event else b""
    return name + b"data: " + event.data + b"\n\n"


@pytest.mark.parametrize(
    ("status", "kind", "raised", "kind_of_error", "code"),
    [
        (400, "refused", openai.BadRequestError, "invalid_request_error", "refused"),
        (401, "unauthorized", openai.AuthenticationError, "invalid_request_error", "invalid_api_key"),
        (402, "over_budget", openai.APIStatusError, "insufficient_quota", "insufficient_quota"),
        (403, "forbidden", openai.PermissionDeniedError, "permission_error", "permission_denied"),
        (404, "unknown_model", openai.NotFoundError, "invalid_request_error", "model_not_found"),
        (413, "too_large", openai.APIStatusError, "invalid_request_error", "request_too_large"),
        (429, "queue_full", openai.RateLimitError, "requests", "rate_limit_exceeded"),
        (500, "internal_error", openai.InternalServerError, "server_error", "internal_error"),
        (503, "draining", openai.InternalServerError, "server_error", "draining"),
        (504, "call_timeout", openai.InternalServerError, "server_error", "timeout"),
    ],
)
def test_openai_sdk_raises_what_the_status_means(
    status: int, kind: str, raised: type[openai.APIStatusError], kind_of_error: str, code: str
) -> None:
    """Each error arrives in a program as the SDK's own exception, with its type, code and field."""
    client = openai_client(status, error_document("chat", status, kind, "what happened", field="messages[0].role"))
    with pytest.raises(raised) as caught:
        client.chat.completions.create(model="m", messages=[])
    error = caught.value
    assert (error.type, error.code, error.param) == (kind_of_error, code, "messages[0].role")
    assert isinstance(error.body, dict)
    assert error.body["message"] == "what happened"


@pytest.mark.parametrize(
    ("status", "kind", "raised", "kind_of_error"),
    [
        (400, "refused", anthropic.BadRequestError, "invalid_request_error"),
        (401, "unauthorized", anthropic.AuthenticationError, "authentication_error"),
        (402, "over_budget", anthropic.APIStatusError, "billing_error"),
        (403, "forbidden", anthropic.PermissionDeniedError, "permission_error"),
        (404, "unknown_model", anthropic.NotFoundError, "not_found_error"),
        (413, "too_large", anthropic.APIStatusError, "request_too_large"),
        (429, "queue_full", anthropic.RateLimitError, "rate_limit_error"),
        (500, "internal_error", anthropic.InternalServerError, "api_error"),
        (503, "draining", anthropic.InternalServerError, "api_error"),
        (504, "call_timeout", anthropic.APIStatusError, "timeout_error"),
        (529, "overloaded", anthropic.APIStatusError, "overloaded_error"),
    ],
)
def test_anthropic_sdk_raises_what_the_status_means(
    status: int, kind: str, raised: type[anthropic.APIStatusError], kind_of_error: str
) -> None:
    """Each error arrives in a program as the SDK's own exception, with its type and a stable code."""
    body = error_document("messages", status, kind, "what happened", field="max_tokens", request_id="req_1")
    if status != 413:  # the SDK's types leave out the type that the provider's reference gives this status
        ErrorResponse.model_validate_json(body)
    with pytest.raises(raised) as caught:
        anthropic_client(status, body).messages.create(model="m", max_tokens=1, messages=[])
    error = caught.value
    assert (error.type, error.error_code, error.api_message) == (kind_of_error, kind, "what happened")
    assert json.loads(body)["request_id"] == "req_1"


def test_the_providers_own_code_comes_first() -> None:
    """A code that the provider said reaches the program unchanged, in both shapes."""
    code = "context_length_exceeded"
    said = json.loads(error_document("chat", 400, "refused", "too long", code=code))["error"]
    assert said == {"message": "too long", "type": "invalid_request_error", "param": None, "code": code}
    said = json.loads(error_document("messages", 400, "refused", "too long", code=code))["error"]
    assert said["details"] == {"error_code": code}


@pytest.mark.parametrize("dialect", ANTHROPIC_DIALECTS)
def test_R26_overload_is_529_to_anthropic_programs(dialect: Dialect) -> None:
    """A provider without capacity is 529 where the dialect knows that status, and other errors keep theirs."""
    assert status_for(dialect, 503, "overloaded") == 529
    assert status_for(dialect, 503, "draining") == 503
    assert status_for(dialect, 429, "throttled") == 429


@pytest.mark.parametrize("dialect", OPENAI_DIALECTS)
def test_R26_overload_is_503_to_openai_programs(dialect: Dialect) -> None:
    """A provider without capacity is 503 to programs whose dialect has no 529."""
    assert status_for(dialect, 503, "overloaded") == 503
    assert status_for(dialect, 529, "overloaded") == 503


def test_R04_openai_sdk_raises_at_an_error_in_a_chat_stream() -> None:
    """An error in the middle of a chat stream is an exception in the program, and no end of the answer."""
    event = error_event("chat", 503, "overloaded", "no capacity")
    stream = openai_client(200, sse(event), "text/event-stream").chat.completions.create(
        model="m", messages=[], stream=True
    )
    with pytest.raises(openai.APIError, match="no capacity") as caught:
        list(stream)
    assert caught.value.code == "overloaded"


def test_R04_openai_sdk_raises_at_an_error_in_a_responses_stream() -> None:
    """An error event of the responses dialect is valid by its reference, numbered, and raises in the program."""
    event = error_event("responses", 503, "overloaded", "no capacity", sequence=7)
    said = openai.types.responses.ResponseErrorEvent.model_validate_json(event.data)
    assert (event.event, said.type, said.code, said.sequence_number) == ("error", "error", "overloaded", 7)
    stream = openai_client(200, sse(event), "text/event-stream").responses.create(model="m", input="", stream=True)
    with pytest.raises(openai.APIError, match="no capacity"):
        list(stream)


def test_R04_anthropic_sdk_raises_at_an_error_in_a_stream() -> None:
    """An error event of the messages dialect is an exception in the program, of the error's own type."""
    event = error_event("messages", 529, "overloaded", "no capacity")
    assert event.event == "error"
    stream = anthropic_client(200, sse(event), "text/event-stream").messages.create(
        model="m", max_tokens=1, messages=[], stream=True
    )
    with pytest.raises(anthropic.APIStatusError) as caught:
        list(stream)
    assert caught.value.type == "overloaded_error"


@pytest.mark.parametrize("dialect", [*OPENAI_DIALECTS, *ANTHROPIC_DIALECTS])
def test_half_a_character_does_not_break_an_error(dialect: Dialect) -> None:
    """A lone surrogate in a message or a field becomes the replacement character, and the body stays UTF-8."""
    body = error_document(dialect, 400, "refused", "no \ud83d here", field="tools[0].\udc00")
    assert "no \ufffd here" in body.decode()
