"""A model's arguments against the schemas of MCP servers."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.arguments import BadArguments, InvalidTool
from orchestrator.tools.mcp_arguments import MOST_SCHEMA, ArgumentSchema

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
}


def test_what_fits_is_taken_as_it_is() -> None:
    """Values keep their types, and what was not given is not made up."""
    schema = ArgumentSchema("t", CITY)
    assert schema.decode("t", '{"city": "Ulm", "days": 2}') == {"city": "Ulm", "days": 2}
    assert schema.decode("t", ' {"city": "Ulm"} ') == {"city": "Ulm"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'city' is a required property - at `$`"),
        ('{"city": "Ulm"', "the JSON is truncated"),
        ('{"city": "Ulm"}{"city": "Ulm"}', "after one whole value there is more"),
        ('```json\n{"city": "Ulm"}\n```', "it is in a code fence"),
        ('"{}"', "write the object itself"),
        ("[]", "expected `object`"),
        ('{"city": "Ulm", "days": "2"}', "'2' is not of type 'integer' - at `$.days`"),
        ('{"city": "Ulm", "days": true}', "True is not of type 'integer'"),
        ('{"city": "Ulm", "days": 0}', "0 is less than the minimum of 1"),
        ('{"city": "Ulm", "days": NaN}', "JSON is malformed"),
        ('{"city": "Ulm", "day": 2}', "it takes city, days, and no 'day'"),
        ('{"city": "Ulm", "city": "Bonn"}', "'city' is given twice"),
        ('{"city": "\\ud800"}', "half of a surrogate pair"),
        ("[" * 100_000, "nested more than 64 deep"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(text: str, reason: str) -> None:
    """Truncated, doubled, fenced, stringly-typed, unknown: each is answered, and none is repaired."""
    with pytest.raises(BadArguments, match=f"(?i){re.escape(reason)}") as raised:
        ArgumentSchema("t", CITY).decode("t", text)
    assert raised.value.message.startswith("bad arguments for t: ")
    assert len(raised.value.message) < 600


def test_other_properties_are_let_through_where_the_schema_says_so() -> None:
    """Only a schema that is silent about others is read as allowing none."""
    assert ArgumentSchema("t", {**CITY, "additionalProperties": True}).decode("t", '{"city": "Ulm", "x": 1}')["x"] == 1
    assert ArgumentSchema("t", {"type": "object", "oneOf": [{"required": ["a"]}]}).decode("t", '{"a": 1}') == {"a": 1}
    assert ArgumentSchema("t", {}).schema == {"type": "object", "properties": {}}


def test_a_doubled_name_deep_inside_is_refused() -> None:
    """What a person approves and what the server reads cannot differ at any depth."""
    schema = ArgumentSchema("t", {"properties": {"to": {"type": "object"}}})
    with pytest.raises(BadArguments, match="'a' is given twice"):
        schema.decode("t", '{"to": {"a": 1, "a": 2}}')


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object", "properties": {"a": {"type": "nothing"}}}, "its input schema is none"),
        ({"type": "array"}, "its input is no object"),
        ({"properties": {"a": {"description": "x" * MOST_SCHEMA}}}, "more than"),
        ({"properties": []}, "its input schema is none"),
    ],
)
def test_a_schema_that_is_none_makes_no_tool(schema: dict[str, Any], reason: str) -> None:
    """A tool that nobody could call rightly is refused when it is listed."""
    with pytest.raises(InvalidTool, match=reason):
        ArgumentSchema("t", schema)


def test_a_reference_out_of_the_schema_is_never_fetched() -> None:
    """A server cannot make the daemon ask another address."""
    schema = ArgumentSchema("t", {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}})
    with pytest.raises(BadArguments, match="bad arguments for t"):
        schema.decode("t", '{"a": 1}')


@given(
    st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    ).map(json.dumps)
)
def test_any_text_is_decoded_or_refused(text: str) -> None:
    """No text raises anything else, and what comes out is what JSON says of it."""
    schema = ArgumentSchema("t", {**CITY, "additionalProperties": True, "required": []})
    try:
        decoded = schema.decode("t", text)
    except BadArguments:
        return
    assert decoded == (json.loads(text) if text.strip() else {})
