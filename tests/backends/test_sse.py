"""The event-stream parser: what ends a line, what is a comment, and that chunking never matters."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.backends.sse import ServerEvent, SSEParser, StreamTooLong


def parse(*chunks: bytes, max_bytes: int = 1 << 20) -> list[ServerEvent]:
    parser = SSEParser(max_bytes)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    last = parser.finish()
    return [*events, last] if last is not None else events


def data(*chunks: bytes) -> list[bytes]:
    return [event.data for event in parse(*chunks)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_each_line_end_of_the_standard_ends_a_line(end: bytes) -> None:
    """CR, LF and CRLF each separate lines and events."""
    assert data(b"data: a" + end + end + b"data: b" + end + end) == [b"a", b"b"]


def test_a_crlf_cut_between_reads_is_one_line_end() -> None:
    """An LF that opens the next read belongs to the CR that ended this one."""
    assert data(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [b"a\nb"]


def test_a_cr_alone_dispatches_without_waiting_for_an_lf() -> None:
    """A stream with CR line ends does not lag one event behind."""
    assert [e.data for e in SSEParser().feed(b"data: a\r\r")] == [b"a"]


def test_R08_unicode_separators_do_not_end_a_line() -> None:
    """U+2028, U+2029, U+0085, vertical tab, form feed and the information separators are plain text in a line."""
    text = '{"t":"a\u2028b\u2029c\u0085d\x0ce\x0bf\x1cg\x1dh\x1ei"}'.encode()
    assert data(b"data: " + text + b"\n\n") == [text]


def test_R09_at_most_one_space_is_stripped() -> None:
    """A data line without the space is data, and a second space belongs to it."""
    assert data(b"data:a\n\ndata: b\n\ndata:  c\n\ndata:[DONE]\n\n") == [b"a", b"b", b" c", b"[DONE]"]


def test_R10_bare_colons_are_comments() -> None:
    """A line that is just a colon, or a comment with text, yields nothing and cuts nothing."""
    assert data(b":\n\n:\n:keep-alive\n\ndata: a\n: in between\ndata: b\n\n") == [b"a\nb"]


def test_a_leading_byte_order_mark_is_dropped_once() -> None:
    """The first BOM vanishes even when reads cut it; a later one is text."""
    assert data(b"\xef", b"\xbb", b"\xbfdata: a\n\n") == [b"a"]
    assert data(b"data: \xef\xbb\xbfa\n\n") == ["\ufeffa".encode()]


def test_names_and_ids_follow_the_standard() -> None:
    """An event's name lasts for one event, the id stays, an id with NUL is ignored, unknown fields are too."""
    events = parse(b"event: error\nid: 7\ndata: x\n\nid: \x00\nretry: 5\nfoo: bar\ndata\n\n")
    assert events == [ServerEvent(b"x", "error", "7"), ServerEvent(b"", "message", "7")]


def test_an_event_name_without_data_dispatches_nothing() -> None:
    """A blank line after an event line alone forgets the name."""
    assert parse(b"event: ping\n\ndata: x\n\n") == [ServerEvent(b"x")]


def test_the_end_of_a_stream_releases_the_last_event() -> None:
    """A server that forgets the blank line, or the last line end, still gets its event read."""
    assert data(b"data: a\n") == [b"a"]
    assert data(b"data: a\n\ndata: [DONE]") == [b"a", b"[DONE]"]
    assert data(b"data: a\n\n: bye") == [b"a"]


def test_a_line_without_end_is_refused_before_it_fills_memory() -> None:
    """More than the bound without a line end raises, in one read or in many."""
    with pytest.raises(StreamTooLong, match="longer than 100 bytes"):
        parse(b"data: " + b"x" * 100, max_bytes=100)
    with pytest.raises(StreamTooLong):
        parse(*[b"0123456789"] * 11, max_bytes=100)


def test_many_data_lines_without_a_blank_line_are_refused() -> None:
    """The bound also holds for the lines of one event together."""
    parser = SSEParser(100)
    fits = 50
    for _ in range(fits):
        parser.feed(b"data: x\n")
    with pytest.raises(StreamTooLong, match="one event"):
        parser.feed(b"data: x\n")


def test_a_long_line_in_tiny_pieces_costs_linear_time() -> None:
    """Pieces are joined once, when the line ends."""
    parser = SSEParser(10_000_000)
    parser.feed(b"data: ")
    for _ in range(100_000):
        assert parser.feed(b"x") == []
    (event,) = parser.feed(b"\n\n")
    assert len(event.data) == 100_000


def test_utf8_cut_between_reads_arrives_whole() -> None:
    """A four-byte character read byte by byte is intact."""
    raw = "data: a😀é\n\n".encode()
    assert data(*(raw[i : i + 1] for i in range(len(raw)))) == ["a😀é".encode()]


_alphabet = st.sampled_from(
    [b"data", b"event", b"id", b":", b" ", b"\r", b"\n", b"\r\n", b"x", b"\xef\xbb\xbf", b"\x00"]
)
_streams = st.one_of(st.lists(_alphabet, max_size=40).map(b"".join), st.binary(max_size=200))


@settings(deadline=None)
@given(_streams, st.lists(st.integers(0, 200), max_size=12))
def test_any_chunking_of_any_bytes_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    """Where reads fall never changes the events, and random bytes never raise."""
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    assert parse(*chunks) == parse(stream) == parse(*(stream[i : i + 1] for i in range(len(stream))))


_values = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=20)


@settings(deadline=None)
@given(st.lists(st.lists(_values, min_size=1, max_size=3), max_size=5), st.sampled_from(["\n", "\r", "\r\n"]))
def test_what_is_written_by_the_standard_is_read_back(events: list[list[str]], end: str) -> None:
    """An independent writer's events come back unchanged."""
    stream = "".join("".join(f"data: {line}{end}" for line in lines) + end for lines in events)
    assert data(stream.encode()) == ["\n".join(lines).encode() for lines in events]
