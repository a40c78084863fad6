"""Bodies of programs: what is read of them, what stays verbatim, and every absurd one."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import Refused
from orchestrator.dialects.input_size import OTHER_BYTES
from orchestrator.dialects.json_text import MOST_DEPTH, MOST_DIGITS, BadRequestBody, members
from orchestrator.dialects.parse import bounded, parse_request

HELLO = '"messages":[{"role":"user","content":"hi"}]'


def chat(more: str = "", model: str = '"m"') -> bytes:
    """A chat completion's body with further members."""
    return f'{{"model":{model},{HELLO}{"," if more else ""}{more}}}'.encode()


def assert_refusal(error: Refused) -> None:
    assert error.status == 400
    assert error.message


def refused(body: bytes, dialect="chat") -> Refused:
    """The error of a body, which is a 400."""
    with pytest.raises(Refused) as caught:
        parse_request(body, dialect)
    assert_refusal(caught.value)
    return caught.value


def test_what_a_queue_needs_is_read_and_the_rest_is_verbatim():
    """Model, stream and bounds are read; every member keeps its text."""
    body = b'{ "model":"m", "messages" : [ {"role" : "user"} ],"stream":true,"max_tokens":5,"n":2,"x":[ 1.50 ]}'
    parsed = parse_request(body, "chat", {"anthropic-beta": "b"})
    assert (parsed.model, parsed.stream, parsed.max_tokens, parsed.choices) == ("m", True, 5, 2)
    assert parsed.output_bound == 10
    assert bytes(parsed.wire.fields["messages"]) == b'[ {"role" : "user"} ]'
    assert bytes(parsed.wire.fields["x"]) == b"[ 1.50 ]"
    assert parsed.wire.headers == {"anthropic-beta": "b"}


def test_a_member_given_twice_counts_as_it_was_given_last():
    """As in most JSON parsers, the last of several members of one name stands."""
    assert parse_request(chat('"model":"other","max_tokens":1,"max_tokens":2'), "chat").max_tokens == 2
    assert parse_request(chat('"model":"other"'), "chat").model == "other"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ('"stream":1', "stream"),
        ('"stream":"true"', "stream"),
        ('"max_tokens":"5"', "max_tokens"),
        ('"max_tokens":5.0', "max_tokens"),
        ('"max_tokens":true', "max_tokens"),
        ('"max_tokens":0', "max_tokens"),
        ('"max_tokens":-5', "max_tokens"),
        ('"max_tokens":1e99', "max_tokens"),
        ('"max_tokens":99999999999999999999', "max_tokens"),
        ('"max_completion_tokens":[]', "max_completion_tokens"),
        ('"n":0', "n"),
        ('"n":100000', "n"),
        ('"stream_options":1', "stream_options"),
        ('"stream_options":{"include_usage":"yes"}', "stream_options.include_usage"),
        ('"model":5', "model"),
        ('"model":""', "model"),
        ('"model":null', "model"),
        ('"messages":[]', "messages"),
        ('"messages":null', "messages"),
        ('"messages":"hi"', "messages"),
        ('"messages":{}', "messages"),
        ('"messages":[{},"hi"]', "messages[1]"),
        ('"messages":[null]', "messages[0]"),
    ],
)
def test_what_is_read_is_read_strictly(more, field):
    """A member of the wrong type or size is refused with its path, also in the message."""
    error = refused(chat(more))
    assert error.field == field
    assert error.message.startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("dialect", "body", "field"),
    [
        ("messages", b'{"model":"m",' + HELLO.encode() + b"}", "max_tokens"),
        ("messages", b'{"model":"m","max_tokens":5,"messages":[]}', "messages"),
        ("count_tokens", b'{"model":"m"}', "messages"),
        ("embeddings", b'{"model":"m"}', "input"),
        ("embeddings", b'{"model":"m","input":[]}', "input"),
        ("embeddings", b'{"model":"m","input":[{}]}', "input[0]"),
        ("responses", b'{"model":"m","input":[]}', "input"),
        ("responses", b'{"model":"m","input":7}', "input"),
        ("responses", b'{"model":"m","input":"x","max_output_tokens":"7"}', "max_output_tokens"),
        ("responses", b'{"model":"m","input":"x","previous_response_id":"resp_1"}', "previous_response_id"),
    ],
)
def test_each_dialect_has_its_own_musts(dialect, body, field):
    """What a dialect cannot do without is asked for by its name."""
    assert refused(body, dialect).field == field


DEEP = b'{"model":"m","messages":[{"a":%b}]}'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n",
        b"hello",
        b"[]",
        b'"x"',
        b"null",
        b"7",
        b"{",
        b'{"model":"m"',
        b'{"model":"m"}x',
        b'{"model":NaN}',
        b'{"model":Infinity}',
        b"{'model':'m'}",
        b'{"model":"m",}',
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        b'{"model":"\xff"}',
        b'{"model":"m","x":"\xed\xa0\x80"}',
        b'{"model":"m","x":"\\ud800 alone"}',
        b'{"model":"m","x":"\\udc00 alone"}',
        b'{"\\ud800 alone":1}',
        b'{"model":"m","x":"\x00"}',
        b"{" * 1_000_000,
        b"[" * 1_000_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        DEEP % (b"[" * 5_000 + b"]" * 5_000),
        DEEP % (b"[[]," * 5_000 + b"1" + b"]" * 5_000),
        b'{"model":"m","x":' + b"1" * 10_000 + b"}",
        b'{"model":"m","x":[-0.' + b"1" * 10_000 + b"]}",
        b'{"model":"m","max_tokens":' + b"9" * 10_000 + b"}",
        b'{"model":"' + b"m" * 10_000 + b'"}',
    ],
)
def test_absurd_bodies_are_refused_in_a_sentence(body):
    """Nothing that is no JSON object for everybody gets further, and what is said of it is short."""
    assert len(refused(body).message) < 200


def test_depth_is_allowed_up_to_its_bound():
    """At the bound a body is taken, one level more is refused, and brackets in text count for nothing."""
    inside = MOST_DEPTH - 3
    parse_request(DEEP % (b"[" * inside + b"]" * inside), "chat")
    refused(DEEP % (b"[" * (inside + 1) + b"]" * (inside + 1)))
    parse_request(chat('"x":"' + "[{" * 10_000 + '\\"' + "[" * 500 + '"'), "chat")


def test_many_digits_are_allowed_in_text_and_up_to_the_bound_in_numbers():
    """A number may have as many digits as the greatest double, and text as many as it likes."""
    parse_request(chat(f'"x":{"1" * MOST_DIGITS}'), "chat")
    refused(chat(f'"x":{"1" * (MOST_DIGITS + 1)}'))
    parse_request(chat('"x":"' + "3" * 100_000 + '"'), "chat")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    ),
    st.booleans(),
)
def test_any_json_value_passes_verbatim(value, ascii_only):
    """Whatever an unknown member holds, its text is what the program wrote."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    if "NaN" in text or "Infinity" in text or any("\ud800" <= c <= "\udfff" for c in str(value)):
        return
    body = chat('"x":' + text).decode().encode("utf-8", "surrogatepass")
    assert bytes(parse_request(body, "chat").wire.fields["x"]).decode() == text


@given(st.binary(max_size=200))
def test_any_bytes_are_members_or_a_clear_refusal(body):
    """No bytes whatever raise anything but a refusal with status 400."""
    try:
        members(body)
    except BadRequestBody as error:
        assert_refusal(error)


@given(st.binary(max_size=60), st.integers(0, 200))
def test_a_good_body_with_a_wound_is_taken_or_refused(wound, at):
    """A body that was damaged in one place is read or refused, in any dialect."""
    good = chat('"stream":true,"stream_options":{"include_usage":true},"max_tokens":12,"n":1,"input":["a",[1]]')
    body = good[:at] + wound + good[at + len(wound) :]
    for dialect in ("chat", "responses", "embeddings", "messages", "count_tokens"):
        try:
            parse_request(body, dialect)
        except Refused as error:
            assert_refusal(error)


def test_images_count_as_a_constant_and_not_by_their_bytes():
    """A picture of 4 MB and one by its address count the same, beside the text; text about pictures counts as text."""

    def size(content) -> int:
        body = json.dumps({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": content}]})
        return parse_request(body.encode(), "messages").wire.input_bytes

    plain = size("x" * 1_000)
    base64 = size([{"type": "image", "source": {"type": "base64", "data": "QUJD" * 1_000_000}}])
    address = size([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}])
    inline = size([{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 1_000_000 + "=="}}])
    about = size('"type": "image", "type": "image_url"')
    assert 1_000 <= plain < 1_100
    for with_picture in (base64, address, inline):
        assert OTHER_BYTES < with_picture < OTHER_BYTES + 200
    assert about < 200


def test_a_bound_goes_under_the_programs_own_name():
    """A reservation's bound replaces what the program said, under the same name, or stands where it said nothing."""

    def fields(body: bytes, dialect="chat"):
        return {
            name: msgspec.json.decode(raw) for name, raw in bounded(parse_request(body, dialect).wire, 9).fields.items()
        }

    assert fields(chat('"max_completion_tokens":50'))["max_completion_tokens"] == 9
    assert "max_tokens" not in fields(chat('"max_completion_tokens":50'))
    assert fields(chat())["max_tokens"] == 9
    assert fields(b'{"model":"m","input":"x"}', "responses")["max_output_tokens"] == 9
