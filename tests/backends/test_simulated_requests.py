"""Whatever a body says, the simulated provider understands it or refuses it, in every dialect."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages import ModelReply, Usage
from orchestrator.backends.simulated.answer import Answer
from orchestrator.backends.simulated.backend import SimConfig, SimProvider
from orchestrator.backends.simulated.chat import ask_chat
from orchestrator.backends.simulated.dialect import Asked
from orchestrator.backends.simulated.embeddings import ask_embedding
from orchestrator.backends.simulated.errors import SimError, invalid
from orchestrator.backends.simulated.messages import ask_count, ask_messages
from orchestrator.backends.simulated.model import SimModel
from orchestrator.backends.simulated.responses import ask_responses
from tests.backends.sim_sdk import CHAT, CHAT_TOOL, MESSAGES_TOOL, RESPONSE, RESPONSES_TOOL, TURN

PROVIDER = SimProvider()
MODEL = SimModel(SimConfig())

_NAMES = st.sampled_from(["type", "role", "content", "text", "name", "input", "output_tokens", "x"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=8,
)
_BODIES: dict[Any, dict[str, Any]] = {
    ask_chat: {**CHAT, "tools": [CHAT_TOOL], "n": 2, "logprobs": True, "x_sim": {"output_tokens": 3}},
    ask_messages: {**TURN, "tools": [MESSAGES_TOOL], "system": "s", "x_sim": {"output_tokens": 3}},
    ask_responses: {**RESPONSE, "tools": [RESPONSES_TOOL], "instructions": "i", "x_sim": {"output_tokens": 3}},
}
_MORE = ("tool_choice", "stop", "stop_sequences", "thinking", "text", "response_format", "include", "reasoning", "user")


def words_of(make: Callable[[], Asked]) -> list[bytes]:
    """All that the provider says to a request, streamed and whole. Raises `SimError`."""
    asked, again = make(), make()
    try:
        plan = MODEL.plan(asked.request, asked.wishes)
    except ValueError as error:
        raise invalid(str(error)) from None
    replies = [ModelReply(p.message(), p.finish_reason, Usage(1, None, None, 1), "sim") for p in (plan, *plan.others)]
    answer = Answer(replies[0], 1, tuple(replies[1:]))
    writer = asked.writer
    events = [*writer.begin(Usage(1)), *writer.deltas(plan.deltas(0, len(plan.tokens))), *writer.end(answer)]
    return [event.data for event in events] + [again.writer.document(answer)]


def refused(work: Callable[[], object]) -> bool:
    """Whether that ends in a refusal of 400 with words; any other failure is raised."""
    try:
        work()
    except SimError as error:
        return error.status == 400 and bool(str(error))
    return False


@pytest.mark.parametrize("ask", list(_BODIES), ids=lambda ask: ask.__name__)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_body_with_any_member_is_answered_or_refused(ask: Any, data: st.DataObject) -> None:
    """A member of any value leads to an answer or to a refusal that has words, never to anything else."""
    body = dict(_BODIES[ask])
    for _ in range(data.draw(st.integers(1, 2))):
        body[data.draw(st.sampled_from([*body, *_MORE]))] = data.draw(_VALUES)
    make = partial(ask, PROVIDER, json.dumps(body).encode(), 1)
    if not refused(make):
        assert refused(lambda: words_of(make)) or all(words_of(make))


@settings(max_examples=100, deadline=None)
@given(body=st.binary(max_size=40) | _VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_refused_with_words(body: bytes) -> None:
    """What is no request at all is refused as invalid, in every dialect."""
    for ask in (ask_chat, ask_messages, ask_responses):
        assert refused(partial(ask, PROVIDER, body, 1))
    assert refused(partial(ask_count, body))
    assert refused(partial(ask_embedding, PROVIDER, body))


@settings(max_examples=100, deadline=None)
@given(value=_VALUES, dimensions=st.none() | st.integers(-5, 50) | _VALUES)
def test_any_input_is_embedded_or_refused(value: Any, dimensions: Any) -> None:
    """An input of any form leads to one vector for each of its parts, or to a refusal."""
    body = json.dumps({"model": "e", "input": value, "dimensions": dimensions}).encode()
    ask = partial(ask_embedding, PROVIDER, body)
    if not refused(ask):
        asked = ask()
        assert len(json.loads(asked.document())["data"]) == len(asked.inputs)
