"""Bodies and queries: what is wrong is named, with its path and what would be right."""

import contextlib
import json
from typing import Annotated, Literal

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct
from starlette.datastructures import QueryParams

from agents.errors import InvalidLimits
from agents.messages import ModelRequest
from orchestrator.api.bodies import decode_body, decode_query, read_body
from orchestrator.api.errors import BadRequest, BodyTooLarge, SlowBody
from orchestrator.api.leaving import ClientLeft
from orchestrator.views.jobs import JobRequest
from orchestrator.views.runs import RunRequest


class Inner(Struct, forbid_unknown_fields=True):
    length: int = 0
    kind: Literal["big", "small"] | None = None


class Outer(Struct, forbid_unknown_fields=True):
    name: str
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = {}


class Search(Struct, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1, le=10)] = 5
    states: frozenset[Literal["a", "b"]] = frozenset()
    follow: bool = False


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        (b'{"nam": "x"}', "nam", "nam: there is no such field; did you mean name?"),
        (b'{"name": "x", "zzz": 1}', "zzz", "zzz: there is no such field; there are: name, inner, many, by_name"),
        (b"{}", "name", "name: is missing"),
        (b'{"name": 1}', "name", "name: expected `str`, got `int`"),
        (b'{"name": "x", "inner": {"lenght": 1}}', "inner.lenght", "did you mean length?"),
        (b'{"name": "x", "many": [{}, {"lenght": 1}]}', "many[1].lenght", "did you mean length?"),
        (b'{"name": "x", "by_name": {"k": {"lenght": 1}}}', "by_name[...].lenght", "did you mean length?"),
        (b'{"name": "x", "many": [{"kind": "huge"}]}', "many[0].kind", "must be one of big, small"),
        (b"[]", "", "the body: expected `object`, got `array`"),
        (b"", "", "the body is empty; a JSON object was expected"),
        (b'{"name": ', "", "the body is not JSON"),
        (b'{"name": "\xff"}', "", "the body"),
        (b"[" * 100_000, "", "the body"),
    ],
)
def test_what_is_wrong_in_a_body_is_named(body, field, message):
    """Each mistake names its path and, where there is one, the nearest thing that would be right."""
    with pytest.raises(BadRequest) as caught:
        decode_body(Outer, body)
    assert caught.value.field == field
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_the_checks_of_the_structs_are_heard():
    """A budget that makes no sense is told as the budget's own error, with its field."""
    with pytest.raises(InvalidLimits):
        decode_body(RunRequest, b'{"task": "t", "budget": {"rounds": 0}}')


NAMES = st.sampled_from(["task", "who", "agent", "budget", "rounds", "messages", "prompt", "content", "tools", "x"])
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
)


@given(st.binary(max_size=40) | ODD.map(lambda value: json.dumps(value).encode()))
def test_whatever_comes_is_read_or_refused(body):
    """No body, however odd, ends in anything but a struct or a refusal."""
    for shape in (RunRequest, JobRequest, ModelRequest):
        with contextlib.suppress(BadRequest, InvalidLimits):
            decode_body(shape, body)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", Search()),
        ("size=3&follow=true", Search(size=3, follow=True)),
        ("states=a&states=b", Search(states=frozenset("ab"))),
        ("states=a,b", Search(states=frozenset("ab"))),
    ],
)
def test_a_query_is_read_into_its_struct(query, expected):
    """Numbers, switches and sets are read from text; sets by repetition or with commas."""
    assert decode_query(Search, QueryParams(query)) == expected


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("size=0", "size"),
        ("size=x", "size"),
        ("size=1&size=2", "size"),
        ("states=c", "states"),
        ("siez=1", "siez"),
    ],
)
def test_what_is_wrong_in_a_query_is_named(query, field):
    """A parameter that is unknown, repeated or out of its range is refused by name."""
    with pytest.raises(BadRequest) as caught:
        decode_query(Search, QueryParams(query))
    assert caught.value.field.partition("[")[0] == field


def receiving(*messages):
    queue = list(messages)

    async def receive():
        await trio.lowlevel.checkpoint()
        return queue.pop(0) if queue else await trio.sleep_forever()

    return receive


def part(body: bytes, more: bool = True):
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_is_read_to_its_end():
    """The parts of a body are put together."""
    assert await read_body(receiving(part(b"a"), part(b"b", more=False)), bound=2, seconds=1) == b"ab"


async def test_a_body_that_is_too_large_names_the_bound():
    """Reading stops as soon as the bound is passed."""
    with pytest.raises(BodyTooLarge, match="2 bytes"):
        await read_body(receiving(part(b"abc")), bound=2, seconds=1)


async def test_a_body_that_does_not_come_is_given_up(autojump_clock):
    """The whole body has its time, however it trickles."""
    with pytest.raises(SlowBody, match="7 s"):
        await read_body(receiving(part(b"a")), bound=10, seconds=7)
    assert trio.current_time() == pytest.approx(7, abs=0.1)


async def test_a_client_that_leaves_within_its_body_is_gone():
    """Half a body is never taken for a whole one."""
    with pytest.raises(ClientLeft):
        await read_body(receiving(part(b"a"), {"type": "http.disconnect"}), bound=10, seconds=1)


def test_a_number_beyond_64_bits_is_refused_and_a_name_of_digits_is_not():
    """In a query as in a body: what is computed with is bounded, what is a text may be of any digits."""

    class Query(Struct, frozen=True):
        tenant: str = ""
        after: int = 0

    digits = "9" * 30
    assert decode_query(Query, QueryParams({"tenant": digits})).tenant == digits
    assert decode_body(Query, f'{{"tenant": "{digits}"}}'.encode()).tenant == digits
    for refuse in (
        lambda: decode_query(Query, QueryParams({"after": digits})),
        lambda: decode_body(Query, f'{{"after": {digits}}}'.encode()),
    ):
        with pytest.raises(BadRequest, match="64 bits"):
            refuse()
