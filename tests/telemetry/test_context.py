"""Trace contexts and derived ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config.decode import decode_text
from orchestrator.config.problems import ConfigError
from orchestrator.telemetry.context import TraceContext, is_sampled, read_context, span_id, trace_id

HEX = "0123456789abcdef"


@given(
    st.text(HEX, min_size=32, max_size=32).filter(lambda text: int(text, 16)),
    st.text(HEX, min_size=16, max_size=16).filter(lambda text: int(text, 16)),
    st.booleans(),
)
def test_what_is_written_is_read(trace: str, span: str, sampled: bool) -> None:
    """A context's header comes back as the same context."""
    context = TraceContext(trace, span, sampled)
    assert read_context(context.header()) == context


@given(st.text(max_size=80))
def test_any_header_is_read_or_is_none(text: str) -> None:
    """Whatever stands in the header, there is an answer and no error, and ids are never all zero."""
    context = read_context(text, text)
    assert context is None or (int(context.trace, 16) and int(context.span, 16))


def test_a_later_version_is_read_by_what_it_begins_with() -> None:
    """As the specification asks for, more fields of a version to come are ignored, and of this one are an error."""
    header = f"{'a' * 32}-{'b' * 16}-01"
    assert read_context(f"cc-{header}-more") is not None
    assert read_context(f"00-{header}-more") is None


@given(st.text())
def test_ids_are_always_the_same_and_never_each_others(key: str) -> None:
    """A thing's span is a function of its kind and id."""
    assert span_id("run", key) == span_id("run", key) != span_id("tool", key)
    assert len(trace_id(key)) == 32


def test_the_sampled_part_is_about_the_ratio() -> None:
    """Of ten thousand traces about a tenth are kept at 0.1, all at 1, none at 0."""
    ids = [trace_id(str(number)) for number in range(10_000)]
    assert 850 < sum(is_sampled(id, 0.1) for id in ids) < 1_150
    assert all(is_sampled(id, 1.0) for id in ids)
    assert not any(is_sampled(id, 0.0) for id in ids)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('endpoint = "collector:4318"', "telemetry.endpoint"),
        ("sample = 2", "telemetry.sample"),
        ('headers_env = { authorization = "Bearer abc" }', "telemetry.headers_env.authorization"),
        ("endpiont = 1", "did you mean endpoint"),
    ],
)
def test_what_is_wrong_is_said_by_its_key(line: str, words: str) -> None:
    """Each mistake in the table is named by its path, and a secret is not quoted."""
    with pytest.raises(ConfigError) as refused:
        decode_text(f'[backends.s]\nkind = "simulated"\n[telemetry]\n{line}\n', "test")
    assert words in str(refused.value)
    assert "abc" not in str(refused.value)
