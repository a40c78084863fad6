"""Readers of traces: what they make of each format, and what they say of bad files."""

from pathlib import Path

import pytest

from bench.traces.base import TraceCall, TraceError
from bench.traces.detect import read_trace
from bench.traces.find import VARIABLE, find_trace, find_traces, missing
from tests.bench.trace_files import AZURE, BURSTGPT, LINES, MOONCAKE, SERVEGEN, SESSIONS, VTC, write


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_azure_is_timed_from_its_first_call_and_may_be_compressed(tmp_path: Path, name: str) -> None:
    """Clock times become seconds from the first, an empty answer counts one token, gzip is seen by content."""
    trace = read_trace(write(tmp_path, AZURE, name))
    assert trace.format == "azure"
    assert trace.calls[0] == TraceCall(at=0.0, input=374, output=44)
    assert trace.calls[1].at == pytest.approx(4.314579, abs=2e-6)
    assert trace.calls[1].output == 1


def test_azure_with_a_time_zone_is_read_as_well(tmp_path: Path) -> None:
    """The form of 2024 has a zone after each time."""
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.5+00:00,10,2\n2024-05-10 01:00:01.5+01:00,10,2\n"
    )
    assert [call.at for call in read_trace(write(tmp_path, text)).calls] == [0.0, 1.0]


def test_mooncake_spreads_the_calls_of_a_tick_and_never_caches_more_than_the_input(tmp_path: Path) -> None:
    """Calls that were rounded to one time come at different ones before the next tick, in the same way each time."""
    path = write(tmp_path, MOONCAKE)
    first, second, third = read_trace(path).calls
    assert (first.run, second.run, third.run) == ("0", "1", "1")
    assert 0.0 == first.at < second.at < third.at <= 3.0
    assert (second.cached, third.cached) == (512, 7236)
    assert read_trace(path) == read_trace(path)


def test_mooncake_as_published_counts_what_a_cache_would_have_had(tmp_path: Path) -> None:
    """Blocks seen before, from the first on, are cached, as far as the input goes."""
    trace = read_trace(write(tmp_path, LINES, "trace.jsonl"))
    assert trace.format == "mooncake"
    assert [(call.input, call.cached) for call in trace.calls] == [(600, 0), (1100, 512), (1000, 1000)]


def test_clients_become_tenants(tmp_path: Path) -> None:
    """ServeGen's and VTC's clients are tenants, and a trace begins with its first call."""
    servegen = read_trace(write(tmp_path, SERVEGEN))
    assert servegen.calls == (
        TraceCall(at=0.0, input=31, output=8087, tenant="66"),
        TraceCall(at=0.5, input=179, output=341, tenant="54"),
    )
    assert [call.tenant for call in read_trace(write(tmp_path, VTC)).calls] == ["13", "2"]


def test_burstgpt_leaves_out_calls_that_failed(tmp_path: Path) -> None:
    """A row without an answer is no call; a duration of 0 is none."""
    trace = read_trace(write(tmp_path, BURSTGPT))
    assert [(call.at, call.output, call.seconds) for call in trace.calls] == [(0.0, 18, 2.5), (113.0, 276, None)]
    assert [(call.tenant, call.job, call.run) for call in trace.calls] == [
        ("Conversation log", "ChatGPT", "s1"),
        ("API log", "GPT-4", "s2"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (AZURE.replace("374", "many"), 2, "ContextTokens is 'many' and should be a whole number of tokens from 0"),
        (AZURE.replace("374", "nan"), 2, "ContextTokens is 'nan'"),
        (AZURE.replace("374", "1.5"), 2, "ContextTokens is '1.5'"),
        (AZURE.replace("2023-11-16 18:15:50.9951690", "yesterday"), 3, "should be a time like"),
        (SERVEGEN.replace("2.0", "-2"), 3, "t_s is '-2' and should be a time as a number from 0"),
        (SERVEGEN + "3.0,54\n", 4, "has 2 fields and should have 4"),
        (LINES.replace("600", "-600"), 1, "is not a call with timestamp and lengths"),
        (LINES + "{\n", 4, "is not a call with timestamp and lengths"),
        ('{"a": 1}\n', 1, "is neither a call of Mooncake's trace nor a row of a ledger"),
        ("{oops\n", 1, "is not a JSON object"),
        ("a,b,c\n1,2,3\n", 1, "names the columns of no trace that is known"),
        ("", 1, "names the columns of no trace that is known"),
        ("t_s,client,in_tok,out_tok\n", None, "has no calls after its first line"),
        (SESSIONS, None, "`headrace-bench agents` plays them"),
    ],
)
def test_a_bad_file_is_refused_with_its_line_and_what_would_be_right(
    tmp_path: Path, text: str, line: int | None, says: str
) -> None:
    """Every complaint names the file, the line where there is one, and what is wrong with it."""
    path = write(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert caught.value.line == line
    place = f"{path}: " if line is None else f"{path}, line {line}: "
    assert str(caught.value).startswith(place)
    assert says in str(caught.value)


def test_files_that_cannot_be_read_are_refused_as_such(tmp_path: Path) -> None:
    """A missing file, a cut-off archive and bytes that are no text are told apart."""
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_trace(tmp_path / "nowhere.csv")
    whole = write(tmp_path, SERVEGEN, "cut.csv.gz")
    whole.write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(TraceError, match="cut off or damaged"):
        read_trace(whole)
    noise = tmp_path / "noise.csv"
    noise.write_bytes(b"t_s,client,in_tok,out_tok\n\xff\xfe\n")
    with pytest.raises(TraceError, match="not text in UTF-8"):
        read_trace(noise)


def test_traces_are_found_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable names the folder, and a trace that is not in it is missed by name."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    write(tmp_path, VTC, "vtc_real.csv")
    assert find_traces() == tmp_path
    assert find_trace("vtc_real.csv") == tmp_path / "vtc_real.csv"
    assert find_trace("other.csv") is None
    assert VARIABLE in missing("other.csv")


@pytest.mark.parametrize(
    ("name", "form", "calls", "tenants", "span"),
    [
        ("azure2023_conv.csv.gz", "azure", 19_366, 1, 3_502),
        ("azure2023_code.csv.gz", "azure", 8_819, 1, 3_436),
        ("mooncake_conversation_nohash.csv", "mooncake", 12_031, 1, 3_539),
        ("servegen_r1_sample.csv", "servegen", 18_325, 30, 1_800),
        ("vtc_real.csv", "vtc", 1_500, 27, 600),
    ],
)
def test_the_public_traces_are_what_they_are_said_to_be(
    name: str, form: str, calls: int, tenants: int, span: float
) -> None:
    """The number of calls, of clients and the time each takes are those that were published."""
    path = find_trace(name)
    if path is None:
        pytest.skip(missing(name))
    trace = read_trace(path)
    assert (trace.format, len(trace.calls)) == (form, calls)
    assert len({call.tenant for call in trace.calls}) == tenants
    assert trace.span == pytest.approx(span, abs=1.0)
    assert all(earlier.at <= later.at for earlier, later in zip(trace.calls, trace.calls[1:], strict=False))
