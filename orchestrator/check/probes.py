"""What is asked, and which question each answer settles: data, with the judges in `judges.py`.

Nine requests settle thirteen questions, since one answer tells several things; the tenth is kept for a list of models,
a second endpoint, or a request that has to be asked another way. Where there are not enough, those at the end of
`LEAST_NEEDED` are still sent and those at its head are not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from agents.messages import Message, ModelRequest, ToolCall, ToolSpec
from orchestrator.check import judges
from orchestrator.check.answer import Answer
from orchestrator.check.report import Judgement

Answers = Mapping[str, Sequence[Answer]]
"""What was asked so far, by the name of the `Ask`."""

NO_SUCH_MODEL = "headrace-no-such-model"

STORY_TOKENS = 48
_SHORT = 32
_ROOM = 128


class Change(Struct, frozen=True):
    """Another way to ask: fields of the endpoint's configuration, and fields of the request, that differ."""

    why: str
    endpoint: Mapping[str, Any] = {}
    request: Mapping[str, Any] = {}


class Ask(Struct, frozen=True, kw_only=True):
    """One request, sent `at_once` times together. `build` is given the model's name and the answers so far.

    `changes` are tried one after the other, as long as there are requests left, where the server refuses the request
    as it is.
    """

    name: str
    title: str
    build: Callable[[str, Answers], ModelRequest]
    at_once: int = 1
    changes: tuple[Change, ...] = ()


class Probe(Struct, frozen=True, kw_only=True):
    """One question. `asks` are the requests it needs, the first of them the one whose figures it shows."""

    name: str
    asks: tuple[str, ...]
    judge: Callable[[Answers], Judgement]
    matters: bool = False


GATE_TOOL = ToolSpec(
    "water_level",
    "The water level at a gate of the mill, in centimetres.",
    {
        "type": "object",
        "properties": {"gate": {"type": "string", "description": "The gate's name."}},
        "required": ["gate"],
        "additionalProperties": False,
    },
)

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "state": {"type": "string", "enum": list(judges.SCHEMA_STATES)},
        "safe": {"type": "boolean"},
    },
    "required": ["state", "safe"],
    "additionalProperties": False,
}


def _greeting(model: str, _: Answers) -> ModelRequest:
    system = f"Whatever you are asked, answer with exactly one word: {judges.PASSWORD}"
    return ModelRequest(model, (Message("system", system), Message("user", "Hello.")), max_tokens=_SHORT)


def _story(model: str, _: Answers) -> ModelRequest:
    question = "Tell a long story of a water mill and the people who bring their corn to it."
    return ModelRequest(model, (Message("user", question),), max_tokens=STORY_TOKENS, temperature=0.0, seed=7)


_TOOL_QUESTION = Message("user", "How high is the water at gate north? Use the tool.")


def _tool(model: str, _: Answers) -> ModelRequest:
    choice = {"type": "function", "function": {"name": GATE_TOOL.name}}
    return ModelRequest(
        model, (_TOOL_QUESTION,), tools=(GATE_TOOL,), tool_choice=choice, max_tokens=_ROOM, temperature=0.0, seed=7
    )


def _tool_result(model: str, answers: Answers) -> ModelRequest:
    """The history with the model's own call in it, or with one made up where it made none that can be answered."""
    calls = judges.good_calls(answers.get("tool", ()), GATE_TOOL.name)
    call = calls[0] if calls else ToolCall("call_0a1b2c3d4", GATE_TOOL.name, '{"gate": "north"}')
    history = (
        _TOOL_QUESTION,
        Message("assistant", tool_calls=(call,)),
        Message("tool", f'{{"centimetres": {judges.LEVEL}}}', tool_call_id=call.id),
    )
    return ModelRequest(model, history, tools=(GATE_TOOL,), max_tokens=_ROOM, temperature=0.0, seed=7)


def _schema(model: str, _: Answers) -> ModelRequest:
    form = {"type": "json_schema", "json_schema": {"name": "gate", "strict": True, "schema": SCHEMA}}
    question = "Describe the gate of a water mill in one short sentence of prose."
    return ModelRequest(
        model, (Message("user", question),), response_format=form, max_tokens=_ROOM, temperature=0.0, seed=7
    )


def _long(model: str, _: Answers) -> ModelRequest:
    """About 1,300 tokens: providers that cache prefixes do so from 1,024 tokens on."""
    lines = (f"Day {n}: the wheel turned for {(7 * n) % 12 + 1} hours and ground corn." for n in range(1, 73))
    question = "Here is the mill's book.\n" + "\n".join(lines) + "\nHow long did the wheel turn on day 5? One number."
    return ModelRequest(model, (Message("user", question),), max_tokens=16, temperature=0.0, seed=7)


def _unknown_model(_: str, __: Answers) -> ModelRequest:
    return ModelRequest(NO_SUCH_MODEL, (Message("user", "Hello."),), max_tokens=1)


_OTHER_FIELD = Change("the server refuses the request with max_tokens", {"max_tokens_field": "max_completion_tokens"})
_NO_OPTIONS = Change("the server refuses the request with stream_options", {"include_usage": False})
_NO_SAMPLING = Change("the server refuses a temperature and a seed", request={"temperature": None, "seed": None})
_NULL_CONTENT = Change("the server refuses an empty text beside tool calls", {"null_content": "keep"})

BOUND_OTHERWISE = Change("max_tokens bounds nothing there, and this does", _OTHER_FIELD.endpoint)

GREETING = Ask(
    name="greeting",
    title="a greeting, with a system message",
    build=_greeting,
    changes=(
        _OTHER_FIELD,
        _NO_OPTIONS,
        Change("the server refuses both", {**_OTHER_FIELD.endpoint, **_NO_OPTIONS.endpoint}),
    ),
)

ASKS: tuple[Ask, ...] = (
    Ask(name="story", title="a long story, twice at once", build=_story, at_once=2, changes=(_NO_SAMPLING,)),
    Ask(name="tool", title="a question that must be answered by a tool call", build=_tool),
    Ask(name="tool_result", title="the tool's result, handed back", build=_tool_result, changes=(_NULL_CONTENT,)),
    Ask(name="schema", title="an answer bound to a JSON schema", build=_schema),
    Ask(name="long", title="a long input", build=_long),
    Ask(name="long_again", title="the same long input again", build=_long),
    Ask(name="unknown_model", title="a model that does not exist", build=_unknown_model),
)

LEAST_NEEDED = ("unknown_model", "long_again", "long", "tool_result", "schema", "tool")

REACHABLE = Probe(name="answers", asks=("greeting",), judge=judges.reachable, matters=True)

PROBES: tuple[Probe, ...] = (
    Probe(name="streaming", asks=("story",), judge=judges.streams, matters=True),
    Probe(name="usage", asks=("story",), judge=judges.reports_usage, matters=True),
    Probe(name="max_tokens", asks=("story",), judge=judges.honours_max_tokens, matters=True),
    Probe(name="two at once", asks=("story",), judge=judges.two_at_once),
    Probe(name="same again", asks=("story", "long", "long_again"), judge=judges.same_again),
    Probe(name="system message", asks=("greeting",), judge=judges.follows_system),
    Probe(name="tool call", asks=("tool",), judge=judges.calls_tool, matters=True),
    Probe(name="tool result", asks=("tool_result",), judge=judges.uses_result, matters=True),
    Probe(name="JSON schema", asks=("schema",), judge=judges.keeps_schema, matters=True),
    Probe(name="long input", asks=("long",), judge=judges.reads_long),
    Probe(name="cached input", asks=("long_again",), judge=judges.reports_cached),
    Probe(name="errors", asks=("unknown_model",), judge=judges.explains_errors),
)
