"""A program's request through owner and adapter together: what is tried again unseen, and what is counted."""

import json

import pytest
import trio

from agents.errors import Overloaded
from agents.messages import Delta, ModelReply, WireEvent
from agents.port import Call, Flow
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.retry import RetryConfig
from tests.backends.payloads import END, HELLO, chunk, event, frame, stream, stream_head, text
from tests.backends.relay import wired
from tests.backends.upstream import Script, in_two_reads, upstream
from tests.owner.staged import running

SOON = DispatchConfig(retry=RetryConfig(base=0.005, throttled_base=0.005, jitter=0.0))
BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
ROLE = event(chunk("", role="assistant"))
FULL = event({"error": {"message": "full", "type": "overloaded_error"}})


async def stream_of(*scripts: Script) -> tuple[Call, list[Delta], int]:
    """A program's stream, which cannot be told to start again, from an endpoint that answers so one after the other."""
    send, receive = trio.open_memory_channel[tuple[Delta, ...]](16)
    call = Call(wired(BODY), Flow("tenant"), deltas=send, restartable=False, agent=False)
    deltas: list[Delta] = []
    async with upstream(*scripts) as server:
        endpoint = Endpoint("a", server.backend(), concurrency=ConcurrencyConfig(fixed=1))
        async with running(Owner(OwnerConfig("test", SOON), [endpoint])) as owner:
            owner.inbox.submit_nowait(call)
            async for batch in receive:
                deltas.extend(batch)
            await call.wait()
        return call, deltas, len(server.received)


def events_of(deltas: list[Delta]) -> list[WireEvent]:
    return [wire for delta in deltas for wire in delta.wire]


@pytest.mark.parametrize("first", [stream(ROLE, FULL), stream(ROLE)])
async def test_an_answer_that_fails_before_its_first_token_is_tried_again_unseen(first: bytes) -> None:
    """The role that the first attempt sent never reached the program: it sees one answer, from its beginning."""
    call, deltas, requests = await stream_of(first, HELLO)
    assert isinstance(call.outcome, ModelReply)
    assert requests == 2
    assert not any(delta.reset for delta in deltas)
    found = [json.loads(wire.data)["choices"][0]["delta"] for wire in events_of(deltas)]
    assert found == [{"role": "assistant", "content": ""}, {"content": "hel"}, {"content": "lo"}, {}]


async def test_an_answer_that_has_begun_is_not_tried_again() -> None:
    """After a token there is no second attempt, and the error knows what had come."""
    begun = in_two_reads(stream_head() + frame(ROLE) + frame(text("hel")), frame(FULL) + END)
    call, deltas, requests = await stream_of(begun, HELLO)
    assert requests == 1
    assert isinstance(call.outcome, Overloaded)
    assert call.outcome.partial == "hel"
    assert not any(delta.reset for delta in deltas)


@pytest.mark.parametrize("count", [1, 7])
async def test_tokens_are_counted_by_events_that_bring_some(count: int) -> None:
    """However many events one read brings, and whatever else they say."""
    script = stream(ROLE + b"".join([text(f"t{n}") for n in range(count)]) + event(chunk(finish="stop")))
    _, deltas, _ = await stream_of(script)
    assert sum(delta.tokens for delta in deltas) == count
