"""Rules that say which calls people must approve: what they mean, refuse, and never let pass."""

import contextlib
import string
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.approval_rule import MOST_DEPTH, MOST_NODES, MOST_TEXT, ApprovalRule, read_approval
from agents.errors import InvalidLimits
from agents.tools import Tool


class Place(msgspec.Struct):
    city: str
    rooms: list[int] = []


ARGUMENTS: dict[str, object] = {
    "amount": 120,
    "rate": 0.5,
    "currency": "EUR",
    "path": "/etc/passwd",
    "urgent": True,
    "note": None,
    "place": Place("Ulm", [1, 2]),
    "labels": {"x-y": "z"},
}


@pytest.mark.parametrize(
    ("rule", "asks"),
    [
        ("amount > 100", True),
        ("amount > 120", False),
        ("100 < amount <= 120", True),
        ("100 < amount < 120", False),
        ("amount * rate - 10 >= 50", True),
        ("amount / 2 + 1 == 61", True),
        ("amount == -120", False),
        ('currency != "EUR"', False),
        ('currency in ["EUR", "USD"]', True),
        ('currency not in ("EUR", "USD")', False),
        ('"passwd" in path', True),
        ('startswith(path, "/tmp/")', False),
        ('endswith(lower(path), "PASSWD")', False),
        ("len(path) > 5", True),
        ("urgent", True),
        ("not urgent", False),
        ("note == None", True),
        ('place.city == "Ulm"', True),
        ('place["city"] == "Bonn"', False),
        ("2 in place.rooms", True),
        ("place.rooms[0] == 2", False),
        ('labels["x-y"] == "z" and amount < 10', False),
        ('tool == "pay"', True),
        ('tool in ["refund"] or amount > 1000', False),
        ("True", True),
        ("False", False),
    ],
)
def test_a_rule_asks_where_it_is_true(rule: str, asks: bool) -> None:
    """Comparisons, arithmetic, parts of objects, texts and lists mean what they mean in Python."""
    assert ApprovalRule(rule).asks("pay", ARGUMENTS) is asks


@pytest.mark.parametrize(
    "rule",
    [
        "missing > 1",
        "not missing",
        'amount > "100"',
        "amount",
        "not amount",
        "amount and False",
        "False or currency",
        "currency * 2 == 1",
        "-urgent == 1",
        "amount / 0 > 1",
        "place.country == 1",
        "place.rooms[7] == 1",
        "currency.city == 1",
        "len(amount) > 1",
        "amount in currency",
        "lower(amount) == 1",
    ],
)
def test_what_cannot_be_evaluated_asks(rule: str) -> None:
    """A name that is not there, types that do not go together, a value that is no truth: a person is asked."""
    assert ApprovalRule(rule).asks("pay", ARGUMENTS) is True


def test_what_decides_alone_is_not_spoilt_by_what_follows() -> None:
    """`and` and `or` look no further than they must, so one rule can serve tools with different arguments."""
    assert ApprovalRule('tool == "refund" and missing > 1').asks("pay", ARGUMENTS) is False
    assert ApprovalRule('tool == "pay" or missing > 1').asks("pay", ARGUMENTS) is True


def test_an_argument_called_tool_does_not_take_the_tools_place() -> None:
    """The name of the tool is the tool's, so a model cannot talk itself past a rule about it."""
    assert ApprovalRule('tool == "pay"').asks("pay", {"tool": "harmless"}) is True


def test_arguments_that_cannot_be_shown_as_json_ask() -> None:
    """Whatever an argument is, a rule over it never raises."""
    assert ApprovalRule("amount > 1").asks("pay", {"amount": object()}) is True


@pytest.mark.parametrize(
    "rule",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "().__class__.__bases__[0].__subclasses__()",
        "amount.__class__ == 1",
        "__builtins__ == 1",
        "[x for x in path]",
        "(lambda: 1)()",
        "path.startswith('/')",
        "len(path, 1)",
        "len(*path)",
        "lower(s=path)",
        "startswith(path)",
        "f'{path}' == 1",
        "(x := 1) == 1",
        "amount ** amount > 1",
        "amount << 3 > 1",
        "amount // 3 > 1",
        "~amount == 1",
        "+amount == 1",
        "path[0:1] == 1",
        "{'a': 1} == 1",
        "{1, 2} == 1",
        "amount if urgent else rate",
        "amount is 1",
        "b'a' == path",
        "1j == amount",
        "... == amount",
        "await amount",
        "amount = 1",
        "amount; rate",
        "amount >",
        '"\\d" in path',
        "amount\x00",
        "",
        "  ",
        "a" * (MOST_TEXT + 1),
        "(" * 400 + "1" + ")" * 400,
        "not " * (MOST_DEPTH + 1) + "urgent",
        " or ".join(["a"] * (MOST_NODES // 2)),
    ],
)
def test_what_has_no_place_in_a_rule_is_refused_when_it_is_written(rule: str) -> None:
    """Calls, attributes of Python's own, loops, powers, and rules of any size: refused as the tool's `approval`."""
    with pytest.raises(InvalidLimits) as caught:
        ApprovalRule(rule)
    assert caught.value.field == "approval"
    assert len(caught.value.message) < MOST_TEXT + 400


def test_numbers_out_of_all_bounds_ask_and_do_not_run_on() -> None:
    """Products of the largest numbers that arguments can hold are an error or a number, never a hang."""
    rule = ApprovalRule(" * ".join(["amount"] * 28) + " < 0")
    assert rule.asks("pay", {"amount": 1e300}) is False
    assert rule.asks("pay", {"amount": 2**63}) is False
    assert ApprovalRule("amount * rate > 1").asks("pay", {"amount": 10**400, "rate": 0.5}) is True


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
atoms = st.sampled_from(["a", "b", "tool", "1", "0.5", '"x"', "None", "True", "[1, a]", "a.b", 'b["x"]', "len(a)"])
rules = st.recursive(
    atoms,
    lambda inner: (
        st.builds(
            "({} {} {})".format, inner, st.sampled_from(["and", "or", "<", "==", "in", "not in", "+", "*", "/"]), inner
        )
        | st.builds("(not {})".format, inner)
    ),
    max_leaves=8,
)


@given(rules, st.dictionaries(st.sampled_from(["a", "b"]), json_values))
def test_any_rule_over_any_arguments_says_yes_or_no(text: str, arguments: dict[str, Any]) -> None:
    """Every rule of the grammar is accepted, and answers without raising, whatever the arguments are."""
    assert ApprovalRule(text).asks("t", arguments) in (True, False)


@given(rules, st.fixed_dictionaries({"a": st.integers(-9, 9), "b": st.text(max_size=2)}))
def test_a_rule_never_lets_pass_what_python_would_call_true(text: str, arguments: dict[str, Any]) -> None:
    """Where Python finds the same expression true, or cannot tell, a person is asked."""
    try:
        meant = eval(text, {"len": len}, {**arguments, "tool": "t"})  # the grammar above holds nothing that acts
    except Exception:
        return
    if meant is True:
        assert ApprovalRule(text).asks("t", arguments) is True


@given(st.text(string.printable, max_size=60))
def test_any_text_is_a_rule_or_is_refused(text: str) -> None:
    """Nothing but `InvalidLimits` comes out of reading a rule, and nothing at all out of asking it."""
    with contextlib.suppress(InvalidLimits):
        assert ApprovalRule(text).asks("t", {}) in (True, False)


def test_approval_is_a_word_or_a_rule() -> None:
    """`never` and `always` are words; everything else is read as a rule."""
    assert read_approval("never") == "never"
    assert read_approval("always") == "always"
    rule = read_approval("amount > 1")
    assert isinstance(rule, ApprovalRule)
    assert (rule.text, rule.names) == ("amount > 1", {"amount"})
    assert isinstance(read_approval("urgent"), ApprovalRule)
    for text in ("sometimes it depends", "allways", "Never", " always "):
        with pytest.raises(InvalidLimits, match="approval"):
            read_approval(text)


def pay(amount: int, currency: str = "EUR") -> str:
    """Pays."""
    return f"{amount} {currency}"


def test_a_tool_says_why_a_call_must_be_approved() -> None:
    """Nothing, "always", or the rule itself, with defaults taken into account."""
    assert Tool(pay).why_ask({"amount": 1}) == ""
    assert Tool(pay, approval="always").why_ask({"amount": 1}) == "always"
    some = Tool(pay, approval='amount > 5 and currency == "EUR"')
    assert some.why_ask(some.decode('{"amount": 5}')) == ""
    assert some.why_ask(some.decode('{"amount": 6}')) == 'amount > 5 and currency == "EUR"'
    assert some.why_ask(some.decode('{"amount": 6, "currency": "USD"}')) == ""


def test_a_rule_over_what_a_tool_does_not_take_is_refused() -> None:
    """A misspelt argument would make every call ask, so it is found when the tool is made."""
    with pytest.raises(InvalidLimits, match=r"approval: .*'amonut'.*pay does not take; it takes amount, currency"):
        Tool(pay, approval="amonut > 5")
    with pytest.raises(InvalidLimits, match="expires_in"):
        Tool(pay, approval="always", expires_in=0)
