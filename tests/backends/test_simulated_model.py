"""The simulated model: the same answer for the same question, within its bounds, and valid where a schema asks."""

import json
import re
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.messages import Message, ModelRequest, ToolSpec
from orchestrator.backends.simulated.cache import PrefixCache
from orchestrator.backends.simulated.config import SimConfig, SimLength
from orchestrator.backends.simulated.model import SimModel
from orchestrator.backends.simulated.pattern import matching
from orchestrator.backends.simulated.schema import BadSchema, instance
from orchestrator.backends.simulated.tokens import Tokenizer
from tests.backends.recorder import ask

texts = st.text(max_size=80)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("weather", "The weather in a city.", CITY)


@given(texts)
def test_tokens_put_together_are_the_text(text: str) -> None:
    """Both tokenizers cut any text without losing a character."""
    for tokenizer in (Tokenizer(), Tokenizer(exact=True)):
        assert "".join(tokenizer.pieces(text)) == text
        assert tokenizer.count(text) == len(tokenizer.pieces(text))


@given(st.text(st.characters(max_codepoint=127), min_size=1, max_size=300))
def test_exact_tokens_are_bytes_over_four(text: str) -> None:
    """In exact mode a request's input is its bytes over four, rounded up."""
    request = ask(text)
    assert Tokenizer(exact=True).count_input(request) == -(-request.input_bytes() // 4)


@given(text=texts, seed=st.integers(0, 5), bound=st.integers(1, 60), exact=st.booleans())
def test_an_answer_depends_on_seed_and_content_alone(text: str, seed: int, bound: int, exact: bool) -> None:
    """Two models with one seed plan the same answer, `max_tokens` only cuts it short, and tokens are as counted."""
    config = SimConfig(seed=seed, exact_tokens=exact)
    whole = SimModel(config).plan(ask(text, 100_000))
    again = SimModel(config).plan(ask(text, 100_000))
    cut = SimModel(config).plan(ask(text, bound))
    assert again == whole
    assert whole.finish_reason == "stop"
    assert cut.tokens == whole.tokens[:bound]
    assert cut.finish_reason == ("length" if bound < len(whole.tokens) else "stop")
    assert (cut.delay, cut.rate) == (whole.delay, whole.rate)


def test_text_that_is_no_unicode_is_answered() -> None:
    """A lone surrogate in a message or a tool does no harm."""
    tool = ToolSpec("weather", "\udc80", {**CITY, "title": "\ud800"})
    plan = SimModel(SimConfig()).plan(ModelRequest("sim", ask("\ud800 what?").messages, tools=(tool,)))
    assert plan.finish_reason == "tool_calls"


def test_seed_and_content_change_the_answer() -> None:
    """Another seed, another seed in the request or another question gives another answer."""
    answers = {
        SimModel(SimConfig(seed=1)).plan(ask()).message().content,
        SimModel(SimConfig(seed=2)).plan(ask()).message().content,
        SimModel(SimConfig(seed=1)).plan(ask("And the mill?")).message().content,
        SimModel(SimConfig(seed=1)).plan(ModelRequest("sim", ask().messages, seed=7)).message().content,
    }
    assert len(answers) == 4


def test_lengths_follow_the_configured_distribution() -> None:
    """The median answer has the configured length, and the spread is there."""
    model = SimModel(SimConfig(length=SimLength(tokens=80, spread=0.5)))
    lengths = sorted(len(model.plan(ask(f"question {i}")).tokens) for i in range(400))
    assert 72 <= lengths[200] <= 88
    assert lengths[40] < 60
    assert lengths[360] > 110


def test_a_request_may_fix_its_size() -> None:
    """A trace replay gets exactly the input and output it names."""
    request = ModelRequest("sim", ask().messages, extra={"x_sim": {"input_tokens": 1234, "output_tokens": 77}})
    plan = SimModel(SimConfig()).plan(request)
    assert (plan.input_tokens, len(plan.tokens)) == (1234, 77)


def test_tools_are_called_and_their_results_told() -> None:
    """With tools the model calls one with valid arguments, then answers with text that contains the result."""
    model = SimModel(SimConfig())
    asked = ModelRequest("sim", ask("Weather?").messages, tools=(WEATHER,))
    first = model.plan(asked)
    assert first.finish_reason == "tool_calls"
    (call,) = first.message().tool_calls
    assert call.name == "weather"
    assert isinstance(json.loads(call.arguments)["city"], str)
    told = Message("tool", "Rain, 12 °C in Zürich", tool_call_id=call.id)
    second = model.plan(ModelRequest("sim", (*asked.messages, first.message(), told), tools=(WEATHER,)))
    assert second.finish_reason == "stop"
    assert told.content in second.message().content


@pytest.mark.parametrize(
    ("choice", "chance", "calls"),
    [
        ("none", 1.0, []),
        ("auto", 0.0, []),
        ("required", 0.0, ["weather"]),
        ({"type": "function", "function": {"name": "weather"}}, 0.0, ["weather"]),
    ],
)
def test_tool_choice_is_obeyed(choice: Any, chance: float, calls: list[str]) -> None:
    """`tool_choice` beats the configured probability."""
    request = ModelRequest("sim", ask().messages, tools=(WEATHER,), tool_choice=choice)
    plan = SimModel(SimConfig(tool_calls=chance)).plan(request)
    assert [call.name for call in plan.message().tool_calls] == calls


def test_several_rounds_of_tools() -> None:
    """With `tool_rounds` of two the model asks twice before it answers."""
    model, messages = SimModel(SimConfig(tool_rounds=2)), ask().messages
    finishes = []
    for _ in range(3):
        plan = model.plan(ModelRequest("sim", messages, tools=(WEATHER,)))
        finishes.append(plan.finish_reason)
        reply = plan.message()
        results = tuple(Message("tool", "dry", tool_call_id=call.id) for call in reply.tool_calls)
        messages = (*messages, reply, *results)
    assert finishes == ["tool_calls", "tool_calls", "stop"]


def test_a_tool_call_cut_short_is_malformed() -> None:
    """Arguments that `max_tokens` cut are reported as length and malformed."""
    plan = SimModel(SimConfig()).plan(ModelRequest("sim", ask().messages, tools=(WEATHER,), max_tokens=2))
    assert plan.finish_reason == "length"
    assert plan.malformed() == tuple(call.id for call in plan.message().tool_calls)
    assert len(plan.malformed()) == 1


@given(st.integers(1, 12))
def test_deltas_add_up_however_they_are_cut(width: int) -> None:
    """Text and tool calls are the same in chunks of any size, and ids and names come once."""
    for request in (ask(max_tokens=40), ModelRequest("sim", ask().messages, tools=(WEATHER,))):
        plan = SimModel(SimConfig()).plan(request)
        deltas = [d for at in range(0, len(plan.tokens), width) for d in plan.deltas(at, at + width)]
        assert "".join(d.text for d in deltas) == plan.message().content
        pieces = [piece for d in deltas for piece in d.tool_calls]
        if request.tools:
            (call,) = plan.message().tool_calls
            assert "".join(p.arguments for p in pieces) == call.arguments
            assert [p.id for p in pieces if p.id] == [call.id]
            assert [p.name for p in pieces if p.name] == [call.name]


def test_stop_sequences_end_the_answer() -> None:
    """The answer ends before the first stop sequence."""
    model = SimModel(SimConfig())
    whole = model.plan(ask(max_tokens=60)).message().content
    stop = whole.split()[12]
    plan = model.plan(ModelRequest("sim", ask().messages, stop=(stop, "never said"), max_tokens=60))
    assert plan.message().content == whole[: whole.index(stop)]
    assert plan.finish_reason == "stop"


SCHEMAS: list[tuple[dict[str, Any], Any]] = [
    ({"enum": ["ja", "nein"]}, lambda v: v in ("ja", "nein")),
    ({"const": {"a": 1}}, lambda v: v == {"a": 1}),
    ({"type": "integer", "minimum": 3, "exclusiveMaximum": 5}, lambda v: v in (3, 4)),
    ({"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 20}, lambda v: v in (7, 14)),
    ({"type": "number", "exclusiveMinimum": 1, "maximum": 2}, lambda v: 1 < v <= 2),
    ({"type": "number", "minimum": 0.1, "maximum": 0.2}, lambda v: 0.1 <= v <= 0.2),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.4}, lambda v: 0 < v < 0.4),
    ({"type": ["null", "boolean"]}, lambda v: isinstance(v, bool)),
    ({"type": "string", "minLength": 20, "maxLength": 22}, lambda v: 20 <= len(v) <= 22),
    ({"type": "string", "format": "date"}, lambda v: re.fullmatch(r"\d{4}-\d\d-\d\d", v)),
    ({"type": "string", "pattern": r"^\d{4}-(0[1-9]|1[0-2])$"}, lambda v: re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", v)),
    ({"type": "array", "items": {"type": "null"}, "minItems": 3}, lambda v: v in ([None] * n for n in (3, 4, 5))),
    ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": False}, lambda v: v[:2] == [1, 2]),
    ({"anyOf": [{"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "integer", "maximum": 5}}}, lambda v: v <= 5),
    (
        {"allOf": [CITY, {"properties": {"n": {"const": 2}}, "required": ["n"]}]},
        lambda v: isinstance(v["city"], str) and v["n"] == 2,
    ),
    (
        {"type": "object", "properties": {"child": {"$ref": "#"}, "name": {"const": "x"}}, "required": ["name"]},
        lambda v: v["child"]["name"] == "x",
    ),
    (
        {"properties": {"a": {"default": None}, "b": {"default": None}, "c": {"default": 1}}, "required": ["b"]},
        lambda v: v.keys() == {"b", "c"},
    ),
]


@pytest.mark.parametrize(("schema", "holds"), SCHEMAS, ids=[json.dumps(s)[:40] for s, _ in SCHEMAS])
def test_instances_are_valid(schema: dict[str, Any], holds: Any) -> None:
    """Fifty draws of an instance all satisfy the schema."""
    for seed in range(50):
        value = instance(schema, Random(seed))
        assert holds(value), value
        json.dumps(value)


KEYWORDS = ("type", "enum", "properties", "required", "items", "minItems", "minimum", "multipleOf", "pattern", "$ref")
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["object", "array", "integer", "#", "a{9}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=12,
)


@given(junk)
def test_any_schema_gives_an_instance_or_is_refused(schema: Any) -> None:
    """Whatever a client sends as a schema, the model answers or refuses it as the client's mistake."""
    with suppress(BadSchema):
        json.dumps(instance(schema, Random(0)))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 10**9},
        {"type": "string", "minLength": 10**9},
        {"properties": {"child": {"$ref": "#"}}, "required": ["child"]},
        {"type": "integer", "minimum": "few"},
    ],
)
def test_impossible_schemas_are_refused(schema: dict[str, Any]) -> None:
    """A schema without a reasonable instance is refused and takes neither memory nor time."""
    with pytest.raises(BadSchema):
        instance(schema, Random(0))


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[A-Z]{2}\d{3,}$",
        r"(red|green)-\w+",
        r"^[^a-z]+$",
        r"\$\d+(\.\d{2})?",
        r"[a-f0-9-]{4}",
        r"^(?:ab)*c?$",
        r"\S\D",
    ],
)
def test_patterns_are_matched(pattern: str) -> None:
    """What is made for a pattern matches it."""
    for seed in range(50):
        text = matching(pattern, Random(seed))
        assert text is not None
        assert re.search(pattern, text)


@pytest.mark.parametrize("pattern", [r"(?=x)y", r"(a)\1", r"(", r"[z"])
def test_patterns_beyond_the_subset_are_declined(pattern: str) -> None:
    """A pattern that cannot be made gives None, never a wrong text."""
    assert matching(pattern, Random(0)) is None


def test_the_prefix_cache_knows_a_conversation() -> None:
    """A conversation's earlier messages are cached on the next turn, a stranger's are not; old ones are forgotten."""
    cache, count = PrefixCache(8), Tokenizer().count_input

    def work(request: ModelRequest) -> int:
        found = cache.lookup(request, count)
        cache.remember(found)
        assert found.written is None
        return found.read

    first = ask("A long question about mills and rivers.")
    second = ModelRequest("sim", (*first.messages, Message("assistant", "An answer."), Message("user", "More?")))
    assert work(first) == 0
    assert work(second) == count(first)
    assert 0 < work(second) < count(second)
    assert work(ask("Something else.")) == 0
    for i in range(8):
        work(ask(f"Filler {i}."))
    assert work(first) == 0
