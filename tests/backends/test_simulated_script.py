"""A simulated backend whose answers somebody else thought of."""

import math
from collections.abc import Callable

import pytest
import trio.testing

from agents.messages import Message, ModelRequest, ToolSpec
from agents.port import Flow
from agents.scripted import ask, ask_all, say, turns_taken
from orchestrator.backend_choice import BackendChoice
from orchestrator.backends.simulated.backend import SimConfig, SimLength, SimProvider
from orchestrator.backends.simulated.model import SimModel
from orchestrator.embedded import EmbeddedConfig, open_embedded

LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})


def request(*messages: Message, max_tokens: int | None = None) -> ModelRequest:
    return ModelRequest("any", messages or (Message("user", "hello"),), tools=(LOOK,), max_tokens=max_tokens)


def planned(answer: Message, *, max_tokens: int | None = None) -> Message:
    return SimModel(SimConfig(), lambda _: answer).plan(request(max_tokens=max_tokens)).message()


async def test_words_and_calls_of_a_script_come_through_the_owner(autojump_clock: trio.testing.MockClock) -> None:
    """What a script says in words and asks of tools reaches the caller whole, streamed and queued as any answer."""

    def script(messages: tuple[Message, ...]) -> Message:
        if turns_taken(messages):
            return say(f"it is {messages[-1].content}")
        return ask_all(("look", {"at": "the sea"}), ("look", {"at": "Galdhøpiggen"}), text="Let me look.")

    config = EmbeddedConfig(backend=BackendChoice(kind="simulated"), script=script)
    async with open_embedded(config) as embedded:
        port = embedded.port(Flow())
        first = await port.call(request())
        calls = first.message.tool_calls
        heard = [Message("tool", "blue", tool_call_id=call.id) for call in calls]
        last = await port.call(request(Message("user", "hello"), first.message, *heard))

    assert first.message.content == "Let me look."
    assert [(call.name, call.arguments) for call in calls] == [
        ("look", '{"at":"the sea"}'),
        ("look", '{"at":"Galdhøpiggen"}'),
    ]
    assert len({call.id for call in calls}) == 2
    assert (first.finish_reason, last.finish_reason) == ("tool_calls", "stop")
    assert last.message.content == "it is blue"
    assert last.usage.output == SimProvider().count_text("it is blue")


@pytest.mark.parametrize("bound", [1, 2, 3, 4, 6])
def test_a_script_is_held_to_max_tokens(bound: int) -> None:
    """A script's answer is cut where the request says, in its words as in its calls."""
    whole = SimModel(SimConfig(), lambda _: ask("look", {"at": "sea"}, text="Let me")).plan(request())
    cut = SimModel(SimConfig(), lambda _: ask("look", {"at": "sea"}, text="Let me")).plan(request(max_tokens=bound))

    assert len(cut.tokens) == bound < len(whole.tokens)
    assert cut.finish_reason == "length"
    assert "Let me".startswith(cut.message().content)
    assert len(cut.message().tool_calls) == (bound > 2)
    assert len(cut.malformed()) == (bound > 2)


def test_a_call_without_arguments_has_an_empty_object() -> None:
    """A tool that takes nothing is called with no more than that."""
    (call,) = planned(ask("look", "")).tool_calls
    assert (call.name, call.arguments) == ("look", "{}")


def test_an_empty_answer_is_an_answer() -> None:
    """A script may say nothing at all, as models do."""
    assert planned(say("")) == Message("assistant", "")


def test_the_same_conversation_gets_the_same_answer() -> None:
    """Ids of calls follow from the conversation, so that a run that is taken up meets what it knew."""

    def ids(answer: Callable[[tuple[Message, ...]], Message], *messages: Message) -> list[str]:
        return [call.id for call in SimModel(SimConfig(), answer).plan(request(*messages)).message().tool_calls]

    def script(messages: tuple[Message, ...]) -> Message:
        return ask_all(("look", {}), ("look", {}))

    assert ids(script) == ids(script)
    assert not set(ids(script)) & set(ids(script, Message("user", "other")))


async def test_limits_hold_for_a_script(autojump_clock: trio.testing.MockClock) -> None:
    """A script's calls wait for a limit as any: ten at two a minute take at least four minutes."""
    config = EmbeddedConfig(backend=BackendChoice(kind="simulated", rpm=2), script=lambda _: say("yes"))
    async with open_embedded(config) as embedded, trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(embedded.port(Flow(run=f"{number}")).call, request())
    assert 240 <= trio.current_time() < math.inf


def test_the_length_of_an_answer_is_the_script_s() -> None:
    """How long answers usually are means nothing to a script."""
    model = SimModel(SimConfig(length=SimLength(tokens=1, spread=0)), lambda _: say("one two three four five"))
    assert model.plan(request()).message().content == "one two three four five"
