"""Programs of other dialects at Anthropic's API: their requests as messages, its answers in their own dialect."""

import json

import msgspec

from agents.errors import Truncated
from tests.backends.anthropic_payloads import CHAT, ENDING, HELLO, OPENING, events_of, fail, relay, text, wire
from tests.backends.payloads import stream


async def test_a_chat_request_is_translated_and_so_is_its_answer() -> None:
    """The body goes out as messages with a bound on the output, the events come back as chat chunks."""
    _, recorder, received = await relay(HELLO, wire(CHAT, "chat"), default_max_tokens=77)
    assert received.json["max_tokens"] == 77
    assert "Be brief." in json.dumps(received.json["system"])
    assert received.head.startswith(b"POST /v1/messages HTTP/1.1")
    events = events_of(recorder)
    assert events[-1].data == b"[DONE]"
    chunks = [json.loads(e.data) for e in events[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"]) == "hello"


async def test_a_translated_answer_that_is_cut_short_has_no_end_marker() -> None:
    """A chat program never takes half an answer for a whole one."""
    caught, recorder = await fail(stream(*OPENING, text("half"), *ENDING[:-1]), wire(CHAT, "chat"))
    assert isinstance(caught, Truncated)
    assert b"[DONE]" not in {e.data for e in events_of(recorder)}


async def test_the_program_and_the_caller_bound_the_output_before_the_configuration_does() -> None:
    """What the program says stands; what the call says comes next."""
    said = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 9}'
    _, _, received = await relay(HELLO, wire(said, "chat"))
    assert received.json["max_tokens"] == 9
    bounded = msgspec.structs.replace(wire(CHAT, "chat"), max_tokens=11)
    _, _, received = await relay(HELLO, bounded)
    assert received.json["max_tokens"] == 11
