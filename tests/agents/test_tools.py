"""Functions as tools: the schema that the model sees, and the arguments that may pass."""

import contextlib
import enum
import functools
import keyword
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.context import ToolContext
from agents.errors import InvalidLimits
from agents.tools import BadArguments, InvalidTool, Tool, ToolError, parse_docstring, render, tool


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Place(msgspec.Struct):
    city: str
    country: str = "de"


@tool(read_only=True)
async def forecast(
    place: Place,
    days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 1,
    unit: Unit = Unit.CELSIUS,
    *,
    detail: Literal["short", "long"] = "short",
    context: ToolContext,
) -> str:
    """Tells the weather.

    It may be wrong.

    Args:
        place: where to look,
            roughly.
        days (int): how many days.

    Returns:
        a sentence
    """
    return f"{place.city} {days} {unit.value} {detail} {context.key}"


def test_the_schema_comes_from_the_signature_and_the_docstring() -> None:
    """Types, bounds, defaults and descriptions reach the model; the context does not."""
    spec = forecast.spec
    assert (spec.name, spec.description) == ("forecast", "Tells the weather.\n\nIt may be wrong.")
    schema = spec.parameters
    assert set(schema["properties"]) == {"place", "days", "unit", "detail"}
    assert schema["required"] == ["place"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["place"] == {"description": "where to look, roughly.", "$ref": "#/$defs/Place"}
    days = schema["properties"]["days"]
    assert days == {"description": "how many days.", "type": "integer", "minimum": 1, "maximum": 7, "default": 1}
    assert schema["$defs"]["Place"]["required"] == ["city"]
    assert msgspec.json.decode(msgspec.json.encode(schema)) == schema


async def test_valid_arguments_reach_the_function_as_its_types() -> None:
    """What fits is decoded into the parameters' own types, with defaults where nothing was said."""
    context = ToolContext(run="r", call="c", key="r/1/0", cancel_run=lambda: None)
    arguments = forecast.decode('{"place": {"city": "Ulm"}, "unit": "f"}')
    assert arguments["place"] == Place("Ulm", "de")
    made: Any = forecast.bind(arguments, context)()
    assert await made == "Ulm 1 f short r/1/0"


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ('{"place": {"city": 1}}', "place.city"),
        ('{"place": {"city": "Ulm"}, "days": "2"}', "days"),
        ('{"place": {"city": "Ulm"}, "days": 2.0}', "days"),
        ('{"place": {"city": "Ulm"}, "days": true}', "days"),
        ('{"place": {"city": "Ulm"}, "days": 8}', "days"),
        ('{"place": {"city": "Ulm"}, "unit": "kelvin"}', "unit"),
        ('{"place": {"city": "Ulm"}, "colour": "red"}', "colour"),
        ('{"place": {"city": "Ulm"}, "context": {}}', "context"),
        ("{}", "place"),
        ("", "place"),
        ("[]", "array"),
        ("null", "null"),
        ('{"place": {"city": "Ulm"}}""', "malformed"),
        ('{"place": {"city": "Ulm"}', "truncated"),
        ("{'place': 'Ulm'}", "malformed"),
        ("\ud800", "bad arguments"),
        ("[" * 100_000, "bad arguments"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_place(arguments: str, where: str) -> None:
    """Strings are no numbers, nothing unknown is dropped, nothing is repaired; the message says where."""
    with pytest.raises(BadArguments, match="bad arguments for forecast") as caught:
        forecast.decode(arguments)
    assert where in str(caught.value)


def test_R17_empty_arguments_mean_an_empty_object() -> None:
    """Some servers send an empty text for a call without arguments; stray characters after an object stay an error."""

    def ping(times: int = 1) -> str:
        return "pong" * times

    assert Tool(ping).decode("") == {"times": 1}
    assert Tool(ping).decode(" \n") == {"times": 1}
    with pytest.raises(BadArguments):
        Tool(ping).decode('{"times": 2}""')


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TYPES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    str: st.text(st.characters(codec="utf-8")),
    float: st.floats(allow_nan=False, allow_infinity=False),
    list[int]: st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    str | None: st.none() | st.text(st.characters(codec="utf-8")),
    dict[str, float]: st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=4), st.floats(allow_nan=False, allow_infinity=False), max_size=3
    ),
}
identifiers = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
names = st.lists(identifiers, max_size=4, unique=True)


@given(st.data(), names)
def test_any_signature_round_trips_its_own_values(data: st.DataObject, fields: list[str]) -> None:
    """For random signatures: values of the declared types pass unchanged, a missing or extra field does not."""
    kinds = {name: data.draw(st.sampled_from(list(TYPES))) for name in fields}
    made = _function(kinds)
    values = {name: data.draw(TYPES[kind]) for name, kind in kinds.items()}
    assert made.decode(msgspec.json.encode(values).decode()) == values
    assert set(made.spec.parameters["properties"]) == set(kinds)
    with pytest.raises(BadArguments):
        made.decode(msgspec.json.encode({**values, "Extra": 1}).decode())
    for name in kinds:
        with pytest.raises(BadArguments):
            made.decode(msgspec.json.encode({k: v for k, v in values.items() if k != name}).decode())


@given(st.sampled_from([int, bool, str, list[int]]), json_values)
def test_only_values_of_the_declared_type_pass(kind: Any, value: Any) -> None:
    """Whatever JSON the model sends: what passes has the declared type exactly, so nothing was converted."""
    made = _function({"value": kind})
    try:
        decoded = made.decode(msgspec.json.encode({"value": value}).decode())["value"]
    except BadArguments:
        return
    assert decoded == value
    assert type(decoded) is type(value)


@given(st.text())
def test_no_text_gets_past_the_decoder_as_something_else(text: str) -> None:
    """Any text either is arguments or is refused as bad arguments; nothing else escapes."""
    made = _function({"value": int})
    with contextlib.suppress(BadArguments):
        assert type(made.decode(text)["value"]) is int


def _function(kinds: dict[str, Any]) -> Tool:
    scope: dict[str, Any] = {}
    exec(f"def made({', '.join(kinds)}): pass", scope)
    scope["made"].__annotations__ = kinds
    return Tool(scope["made"])


def test_what_cannot_be_a_tool_is_refused_when_it_is_made() -> None:
    """Parameters without a type or a name, types that JSON has no value for, bad names: refused with the parameter."""

    def untyped(a) -> None:  # type: ignore[no-untyped-def]
        """An untyped parameter."""

    def starred(*a: int) -> None:
        """A parameter without a name."""

    def foreign(a: pytest.MonkeyPatch) -> None:
        """A type that JSON cannot carry."""

    def unresolved(a: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
        """A name that means nothing."""

    def generator(a: int) -> Iterator[int]:
        """Many values."""
        yield a

    for function, problem in (
        (generator, "one value"),
        (functools.partial(generator), "module, class, method, or function"),
        (untyped, "a has no type"),
        (starred, "by name"),
        (foreign, "JSON"),
        (unresolved, "Nowhere"),
    ):
        with pytest.raises(InvalidTool, match=problem):
            Tool(function, name="given")
    with pytest.raises(InvalidTool, match="no name for a tool"):
        Tool(lambda: None)
    for field, value in (("timeout", 0.0), ("timeout", float("nan")), ("concurrency", 0), ("grace", -1.0)):
        settings: dict[str, Any] = {field: value}
        with pytest.raises(InvalidLimits, match=field):
            Tool(test_what_cannot_be_a_tool_is_refused_when_it_is_made, **settings)


def test_values_are_shown_as_text_or_json() -> None:
    """A string is shown as it is, everything else as JSON; what has no JSON is an error for the model."""
    assert render("plain") == "plain"
    assert render({"a": [1, None]}) == '{"a":[1,null]}'
    assert render(Place("Ulm")) == '{"city":"Ulm","country":"de"}'
    assert render(None) == "null"
    with pytest.raises(ToolError, match="JSON"):
        render(object())


@given(st.text())
def test_any_docstring_is_read_without_fail(text: str) -> None:
    """A docstring in any shape gives a description and never an error."""
    summary, arguments = parse_docstring(text)
    assert isinstance(summary, str)
    assert all(isinstance(value, str) for value in arguments.values())
