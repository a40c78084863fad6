"""Programs of other dialects at Anthropic's API: their requests as messages, its answers in their own dialect."""

import json

import msgspec

from agents.errors import Truncated
from orchestrator.dialects.assemblers import assembler
from tests.backends.anthropic_payloads import CHAT, HELLO, OPENING, events_of, fail, relay, text, wire
from tests.backends.payloads import stream


async def test_a_chat_request_is_translated_and_so_is_its_answer() -> None:
    """The body goes out as messages with a bound on the output, the events come back as chat chunks."""
    _, recorder, received = await relay(HELLO, wire(CHAT, "chat"), default_max_tokens=77)
    assert received.json["max_tokens"] == 77
    assert "Be brief." in json.dumps(received.json["system"])
    assert received.head.startswith(b"POST /v1/messages HTTP/1.1")
    chunks = [json.loads(one.data) for one in events_of(recorder)]
    assert "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]) == "hello"
    assert [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]][-1] == "stop"


async def test_a_translated_answer_that_is_cut_short_is_never_whole() -> None:
    """A chat program never takes half an answer for a whole one, nor is its usage made up."""
    caught, recorder = await fail(stream(*OPENING, text("half")), wire(CHAT, "chat"))
    assert isinstance(caught, Truncated)
    assert caught.partial == "half"
    chunks = [json.loads(one.data) for one in events_of(recorder)]
    assert not any(choice.get("finish_reason") for chunk in chunks for choice in chunk["choices"])
    assert not any(chunk.get("usage") for chunk in chunks)


async def test_a_responses_request_is_translated_and_so_is_its_answer() -> None:
    """By way of chat: the body goes out as messages, and the program gets its own dialect's document."""
    body = b'{"model": "opus", "instructions": "Be brief.", "input": "hi", "max_output_tokens": 9, "store": false}'
    reply, recorder, received = await relay(HELLO, wire(body, "responses"))
    assert received.json["max_tokens"] == 9
    assert received.json["messages"][0]["role"] == "user"
    put_together = assembler("responses")
    for one in events_of(recorder):
        put_together.feed(one)
    whole = json.loads(put_together.document())
    assert whole["status"] == "completed"
    assert whole["output"][0]["content"][0]["text"] == "hello"
    assert whole["usage"]["input_tokens"] == reply.usage.all_input == 12
    assert whole["usage"]["output_tokens"] == 4


async def test_the_program_and_the_caller_bound_the_output_before_the_configuration_does() -> None:
    """What the program says stands; what the call says comes next."""
    said = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 9}'
    _, _, received = await relay(HELLO, wire(said, "chat"))
    assert received.json["max_tokens"] == 9
    bounded = msgspec.structs.replace(wire(CHAT, "chat"), max_tokens=11)
    _, _, received = await relay(HELLO, bounded)
    assert received.json["max_tokens"] == 11
