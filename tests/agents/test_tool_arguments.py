"""Strict arguments: whatever a model writes that is not one fitting object is answered with what was wrong."""

import dataclasses
import datetime
import decimal
import enum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.argument_text import MOST_CHARACTERS, MOST_DEPTH, MOST_SHOWN, read_object
from agents.tools import BadArguments, InvalidTool, Tool


def pay(amount: int, currency: Literal["EUR", "USD"] = "EUR") -> str:
    """Pays."""
    return f"{amount} {currency}"


def anything(value: Any) -> str:
    """Takes anything."""
    return str(value)


PAY = Tool(pay)
GOOD = '{"amount": 5, "currency": "USD"}'


def refusal(text: str, tool: Tool = PAY) -> str:
    """What the model is told of arguments that do not fit."""
    with pytest.raises(BadArguments) as caught:
        tool.decode(text)
    message = caught.value.message
    assert message.startswith(f"bad arguments for {tool.name}: ")
    return message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"amount": 5, "curr', "truncated: it ends before the object does"),
        ('{"amount": 5', "truncated"),
        ('{"amount":', "truncated"),
        ("{", "truncated"),
        (GOOD + GOOD, f"after one whole value there is more (at character {len(GOOD) + 1}); write one object"),
        (GOOD + " done", "after one whole value there is more"),
        (GOOD + '""', "after one whole value there is more"),
        ("```json\n" + GOOD + "\n```", "code fence; write the bare object"),
        ("```" + GOOD, "code fence"),
        ("Here it is: " + GOOD, "malformed"),
        (msgspec.json.encode(GOOD).decode(), "write the object itself, not a text that holds one"),
        ("{'amount': 5}", "malformed"),
        ('{"amount": 5,}', "malformed"),
        ("{amount: 5}", "malformed"),
        ('{"amount": NaN}', "malformed"),
        ('{"amount": True}', "malformed"),
        ("\ufeff" + GOOD, "malformed"),
        ('{"amount": 5, "currency": "\\ud800"}', "half of a surrogate pair"),
        ('{"amount": 5, "currency": "\ud800"}', "half of a surrogate pair"),
        ('{"amount": "5"}', "Expected `int`, got `str` - at `$.amount`"),
        ('{"amount": 5.0}', "$.amount"),
        ('{"amount": 5e0}', "$.amount"),
        ('{"amount": true}', "$.amount"),
        ('{"amount": null}', "$.amount"),
        ('{"amount": [5]}', "$.amount"),
        ('{"amount": 1' + "0" * 5000 + "}", "out of range"),
        ('{"amount": 5, "currency": "eur"}', "eur"),
        ('{"amount": 5, "currency": null}', "$.currency"),
        ('{"amount": 5, "Currency": "EUR"}', "Currency"),
        ('{"amount": 5, "amount": 500}', "'amount' is given twice"),
        ('{"amount": 5, "amo\\u0075nt": 500}', "'amount' is given twice"),
        ("{}", "amount"),
        ("", "amount"),
        ("null", "null"),
        ("5", "int"),
        ("[5]", "array"),
        ("[" + GOOD + "]", "array"),
    ],
)
def test_what_is_not_one_fitting_object_is_told_back(text: str, told: str) -> None:
    """Truncated, doubled, fenced, quoted, stringly-typed, empty and absurd: the message says which of them it is."""
    assert told in refusal(text)


@given(st.integers(0, len(GOOD) - 1))
def test_arguments_cut_anywhere_never_pass(end: int) -> None:
    """No beginning of fitting arguments fits itself."""
    assert "JSON" in refusal(GOOD[:end]) or not GOOD[:end].strip()


def test_huge_arguments_are_refused_unread() -> None:
    """More characters than any call needs are refused by their number, whatever they are."""
    tool = Tool(anything)
    fitting = '{"value": "' + "x" * (MOST_CHARACTERS - 13) + '"}'
    assert len(fitting) == MOST_CHARACTERS
    assert tool.decode(fitting)["value"] == "x" * (MOST_CHARACTERS - 13)
    assert f"more than the {MOST_CHARACTERS}" in refusal(fitting + " ", tool)


def test_deep_arguments_are_refused() -> None:
    """Nesting is bounded, brackets in texts do not count, and no depth ends the process."""
    tool, inside = Tool(anything), MOST_DEPTH - 1
    assert tool.decode('{"value": ' + "[" * inside + "]" * inside + "}")
    assert "deep" in refusal('{"value": ' + "[" * (inside + 1) + "]" * (inside + 1) + "}", tool)
    assert tool.decode('{"value": "' + '[{\\"' * 1000 + '"}')
    for text in ("[" * 500_000, '{"value":' * 100_000, '{"value": "' + "[" * 1000):
        refusal(text, tool)


def test_what_is_told_is_bounded() -> None:
    """A decoder quotes what the model wrote, and a model that writes a lot does not get all of it back."""
    long = "k" * 50_000
    for written in ({long: 1}, {"amount": 1, "currency": long}):
        assert len(refusal(msgspec.json.encode(written).decode())) < MOST_SHOWN + 60
    twice = msgspec.json.encode({"value": {long: 1}}).decode().replace("}}", f', "{long}": 2}}}}')
    assert len(refusal(twice, Tool(anything))) < MOST_SHOWN + 60


@given(st.text() | st.text('{}[]",:0e-.tfn\\ `', max_size=30))
def test_any_text_fits_or_is_refused(text: str) -> None:
    """Whatever the text is, arguments come out in the parameters' types, or a refusal, and nothing else."""
    for tool in (PAY, Tool(anything)):
        try:
            decoded = tool.decode(text)
        except BadArguments as error:
            told_back = error.message
        else:
            told_back = ""
            assert tool is not PAY or type(decoded["amount"]) is int
        assert len(told_back) < MOST_SHOWN + 60


@dataclasses.dataclass
class Address:
    city: str
    zip: str = ""


@dataclasses.dataclass(frozen=True)
class Person:
    name: str
    addresses: list[Address] = dataclasses.field(default_factory=list)


class Options(TypedDict):
    dry_run: bool
    note: NotRequired[str]


class Point(NamedTuple):
    x: int
    y: int = 0


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Cat(msgspec.Struct, tag="cat"):
    lives: int = 9


class Dog(msgspec.Struct, tag="dog"):
    name: str = msgspec.field(name="dogName")


class Pair(msgspec.Struct, array_like=True):
    left: int
    right: Address


def everything(
    number: int | float,
    person: Person,
    options: Options,
    pet: Cat | Dog,
    note: str | None,
    maybe: Optional[Annotated[int, msgspec.Meta(ge=1)]] = None,  # noqa: UP045
    colour: Colour = Colour.RED,
    level: Literal[1, 2, "high"] = 1,
    day: datetime.date = datetime.date(2020, 1, 2),
    price: decimal.Decimal = decimal.Decimal("1.5"),
    point: Point = Point(1),  # noqa: B008
    pair: Pair | None = None,
    by_number: dict[int, Address] = {},  # noqa: B006
    labels: Annotated[list[str], msgspec.Meta(max_length=2)] = ["a"],  # noqa: B006
    home: Address = Address("Ulm"),  # noqa: B008
) -> str:
    """Takes one of every type."""
    return f"{locals()}"


EVERYTHING = Tool(everything)
FITTING: dict[str, Any] = {
    "number": 1.5,
    "person": {"name": "Ada", "addresses": [{"city": "Ulm"}]},
    "options": {"dry_run": True},
    "pet": {"type": "dog", "dogName": "Rex"},
    "note": None,
}


def told(**changes: Any) -> str:
    return refusal(msgspec.json.encode({**FITTING, **changes}).decode(), EVERYTHING)


def test_every_type_comes_as_itself() -> None:
    """Unions, dataclasses, typed dictionaries, enums, literals, dates, decimals and defaults reach the function."""
    decoded = EVERYTHING.decode(msgspec.json.encode(FITTING).decode())
    assert decoded == {
        "number": 1.5,
        "person": Person("Ada", [Address("Ulm")]),
        "options": {"dry_run": True},
        "pet": Dog("Rex"),
        "note": None,
        "maybe": None,
        "colour": Colour.RED,
        "level": 1,
        "day": datetime.date(2020, 1, 2),
        "price": decimal.Decimal("1.5"),
        "point": Point(1),
        "pair": None,
        "by_number": {},
        "labels": ["a"],
        "home": Address("Ulm"),
    }
    more = {
        "colour": "blue",
        "level": "high",
        "day": "2024-02-29",
        "price": "0.10",
        "point": [3, 4],
        "pair": [1, {"city": "Bonn"}],
        "by_number": {"7": {"city": "Bonn"}},
        "maybe": 1,
    }
    decoded = EVERYTHING.decode(msgspec.json.encode({**FITTING, **more}).decode())
    assert decoded["by_number"] == {7: Address("Bonn")}
    assert decoded["pair"] == Pair(1, Address("Bonn"))
    assert (decoded["level"], decoded["price"], decoded["point"]) == ("high", decimal.Decimal("0.10"), Point(3, 4))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"person": {"name": "Ada", "age": 3}}, "unknown field `age` - at `$.person`; it takes name, addresses"),
        ({"person": {"name": "Ada", "addresses": [{"city": "U"}, {"city": "U", "x": 1}]}}, "$.person.addresses[1]"),
        ({"options": {"dry_run": True, "dryRun": False}}, "unknown field `dryRun` - at `$.options`"),
        ({"pet": {"type": "dog", "dogName": "Rex", "lives": 3}}, "unknown field `lives` - at `$.pet`"),
        ({"pet": {"type": "dog", "name": "Rex"}}, "dogName"),
        ({"pet": {"type": "cow"}}, "$.pet.type"),
        ({"pair": [1, {"city": "Bonn", "x": 1}]}, "$.pair[1]"),
        ({"pair": [1, {"city": "Bonn"}, 3]}, "more than 2 items - at `$.pair`"),
        ({"by_number": {"7": {"city": "Bonn", "x": 1}}}, "$.by_number.7"),
        ({"point": [1, 2, 3]}, "$.point"),
        ({"maybe": 0}, "$.maybe"),
        ({"colour": "green"}, "$.colour"),
        ({"level": "low"}, "$.level"),
        ({"level": 3}, "$.level"),
        ({"day": "2023-02-29"}, "$.day"),
        ({"labels": ["a", "b", "c"]}, "$.labels"),
        ({"number": "1"}, "$.number"),
        ({"note": 1}, "$.note"),
    ],
)
def test_what_is_wrong_inside_is_told_with_its_place(changes: dict[str, Any], where: str) -> None:
    """Unknown keys of nested objects are refused at every depth, and so are values of another type."""
    assert where in told(**changes)


def test_keys_that_mean_the_same_number_are_refused() -> None:
    """Where keys become numbers, two of them that become one would lose a value."""

    def weigh(weights: dict[float, int]) -> str:
        """Weighs."""
        return str(weights)

    assert Tool(weigh).decode('{"weights": {"1": 2, "2.5": 3}}')["weights"] == {1.0: 2, 2.5: 3}
    assert "mean the same" in refusal('{"weights": {"1": 2, "1.0": 3}}', Tool(weigh))


def test_the_schema_says_all_of_it() -> None:
    """Optional parameters show their defaults, and no object in the schema takes keys that it does not name."""
    schema = EVERYTHING.spec.parameters
    assert schema["required"] == ["number", "person", "options", "pet", "note"]
    properties = schema["properties"]
    assert properties["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert properties["maybe"]["default"] is None
    assert properties["level"] == {"enum": [1, 2, "high"], "default": 1}
    assert properties["labels"]["default"] == ["a"]
    assert properties["home"]["default"] == {"city": "Ulm", "zip": ""}
    assert properties["day"] == {"type": "string", "format": "date", "default": "2020-01-02"}
    objects = [kind for kind in schema["$defs"].values() if kind.get("type") == "object"]
    assert {kind["title"] for kind in objects} == {"Address", "Person", "Options", "Cat", "Dog"}
    assert all(kind["additionalProperties"] is False for kind in [*objects, schema])
    assert msgspec.json.decode(msgspec.json.encode(schema))["required"] == schema["required"]


def test_a_default_is_fresh_for_every_call() -> None:
    """What one call does to a default is not seen by the next, nor shown in the schema."""
    fitting = msgspec.json.encode(FITTING).decode()
    first, second = EVERYTHING.decode(fitting), EVERYTHING.decode(fitting)
    labels, home = first["labels"], first["home"]
    assert isinstance(labels, list)
    assert isinstance(home, Address)
    labels.append("b")
    home.city = "Bonn"
    assert (second["labels"], second["home"]) == (["a"], Address("Ulm"))
    assert EVERYTHING.decode(fitting)["home"] == Address("Ulm")


def test_parameters_that_json_cannot_tell_apart_are_refused_when_the_tool_is_made() -> None:
    """A union of two objects without a tag, and a default that has no JSON, would be guessed at later."""

    def untagged(value: Address | Person) -> None:
        """Takes one of two objects."""

    def odd(value: Any = object()) -> None:  # noqa: B008
        """Has a default without JSON."""

    def odd_inside(value: list[Any] = [object()]) -> None:  # noqa: B006, B008
        """Has a default without JSON inside."""

    for function in (untagged, odd, odd_inside):
        with pytest.raises(InvalidTool, match=r"JSON"):
            Tool(function)


def test_plain_objects_are_read_as_strictly() -> None:
    """Tools whose parameters are a JSON schema get plain values under the same rules."""
    assert read_object("far", '{"a": {"b": [1, 2.5, null]}}') == {"a": {"b": [1, 2.5, None]}}
    assert read_object("far", "") == {}
    for text in ("[]", '"{}"', "{}{}", '{"a": 1, "a": 1}', '{"a": {"b": 1, "b": 2}}', "[" * 1000, '{"a": Infinity}'):
        with pytest.raises(BadArguments, match="bad arguments for far"):
            read_object("far", text)
