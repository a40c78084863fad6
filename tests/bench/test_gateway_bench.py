"""The gateway benchmark, small: what its parts do, what it measures and what it says."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from openai import OpenAI
from typer.testing import CliRunner

from bench import stub as stub_server
from bench.cli import app
from bench.gateway import body, milliseconds
from bench.http_load import load
from bench.paced import largest
from bench.processes import NotStarted, daemon, stub

CELL = {"case", "connections", "target", "requests_per_second", "p50_ms", "p99_ms"}


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncGenerator[str, None]:
    """A server that reads a request per answer, sends it in two parts, and then closes."""

    async def handle(stream: trio.SocketStream) -> None:
        for answer in answers:
            await stream.receive_some()
            await stream.send_all(answer[: len(answer) // 2])
            await stream.send_all(answer[len(answer) // 2 :])
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, handle, 0)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1"
        nursery.cancel_scope.cancel()


def test_the_stub_answers_as_a_provider_does() -> None:
    """The unmodified SDK reads the stub's answers, whole and streamed, with as many tokens as were asked for."""
    with stub() as url, OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        asked = {"model": "stub", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 7}
        whole = client.chat.completions.create(**asked)
        assert whole.choices[0].message.content == " word" * 7
        assert whole.usage is not None
        assert whole.usage.completion_tokens == 7
        chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == " word" * 7
        assert chunks[-1].usage is not None
        assert [model.id for model in client.models.list()] == ["stub"]


async def test_a_paced_stream_tells_how_long_each_chunk_was_on_its_way() -> None:
    """Every chunk of a paced stream gives one delay, and the stream lasts as long as its pace says."""
    with stub(rate=100) as url:
        measured = await load(url, body(20, streamed=True), connections=3, seconds=1, each=1, stagger=0.01)
    assert len(measured.latencies) == 3
    assert len(measured.delays) == 60
    assert min(measured.delays) > 0
    assert min(measured.latencies) >= 0.2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 no\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\ndata: {}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\ndata: {}",
    ],
    ids=["status", "cut short", "stream without its end", "stream cut short"],
)
async def test_only_whole_answers_count(answer: bytes) -> None:
    """An error, an answer cut short and a stream that never says it is whole are failures, not requests."""
    async with answering(answer) as url:
        measured = await load(url, body(1, streamed=True), connections=1, seconds=5, each=1)
    assert (measured.latencies, measured.failed) == ([], 1)


async def test_a_server_that_closes_after_each_answer_is_measured_too() -> None:
    """Where the server says that it closes, the next request goes over a new connection and nothing fails."""
    async with answering(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}") as url:
        measured = await load(url, body(1, streamed=False), connections=2, seconds=5, each=3)
    assert (len(measured.latencies), measured.failed) == (6, 0)


async def test_the_end_of_a_stream_is_seen_wherever_it_is_cut() -> None:
    """A stream whose end comes in two parts, cut at any byte, is whole."""
    answer = stub_server.streamed(2, True)
    for cut in range(answer.index(b"\r\n\r\n") + 4, len(answer)):

        async def handle(stream: trio.SocketStream, cut: int = cut) -> None:
            await stream.receive_some()
            await stream.send_all(answer[:cut])
            await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(answer[cut:])
            await stream.aclose()

        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(trio.serve_tcp, handle, 0)
            url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1"
            measured = await load(url, body(2, streamed=True), connections=1, seconds=5, each=1)
            nursery.cancel_scope.cancel()
        assert (len(measured.latencies), measured.failed) == (1, 0), cut


@given(st.integers(1, 5000), st.integers(0, 5000))
def test_the_border_is_found_within_a_tenth(most: int, border: int) -> None:
    """What is called the largest number held, and is within a tenth or 4 of the largest that would."""
    tried: list[int] = []

    def holds(number: int) -> bool:
        tried.append(number)
        return number <= border

    found = largest(most, holds)
    reachable = min(most, border)
    assert found <= reachable <= max(found + 4, found * 1.1 + 1)
    assert all(1 <= number <= most for number in tried)
    assert found == 0 or found in tried


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [([], 0.5, None), ([0.002], 0.99, 2.0), ([0.003, 0.001, 0.002], 0.5, 2.0), ([0.001] * 99 + [1.0], 0.99, 1.0)],
)
def test_percentiles_are_values_that_were_measured(values: list[float], part: float, expected: float | None) -> None:
    """A percentile is by nearest rank, in milliseconds, and nothing has none."""
    assert milliseconds(values, part) == expected


def test_json_is_a_list_of_cells_with_the_fields_a_script_reads() -> None:
    """`--json` prints a cell for every case, number of connections and target, other gateways' URLs among them."""
    with stub() as url, daemon(url, concurrency=2) as other:
        options = ["--stub", url, "--against", other, "--connections", "2", "--seconds", "0.15", "--json"]
        ran = CliRunner().invoke(app, ["gateway", *options])
    assert ran.exit_code == 0, ran.stderr
    cells = json.loads(ran.stdout)
    assert [(cell["case"], cell["target"]) for cell in cells] == [
        (case, target) for case in ("json", "stream") for target in ("direct", "headrace", other)
    ]
    for cell in cells:
        assert set(cell) == CELL, "no request failed"
        assert cell["requests_per_second"] > 0
        assert 0 < cell["p50_ms"] <= cell["p99_ms"]


def test_tables_are_for_people() -> None:
    """Without `--json` there is a table, with what the daemon adds to the latency."""
    ran = CliRunner().invoke(app, ["gateway", "--connections", "1", "--seconds", "0.1"], env={"COLUMNS": "80"})
    assert ran.exit_code == 0, ran.stderr
    assert "+p50" in ran.stdout
    assert "headrace" in ran.stdout
    assert "…" not in ran.stdout, "all of it fits 80 columns"


def test_paced_streams_are_counted_for_each_target() -> None:
    """`--streams` says how many each target carried, with the delays of their chunks."""
    ran = CliRunner().invoke(app, ["gateway", "--streams", "2", "--seconds", "0.3", "--json"])
    assert ran.exit_code == 0, ran.stderr
    cells = json.loads(ran.stdout)
    assert [(cell["case"], cell["target"], cell["connections"]) for cell in cells] == [
        ("stream_50", "direct", 2),
        ("stream_50", "headrace", 2),
    ]
    assert all(0 < cell["p99_ms"] < 100 for cell in cells)


@pytest.mark.parametrize("url", ["https://127.0.0.1/v1", "http://example.com/v1", "4000"])
def test_nothing_beyond_loopback_is_loaded(url: str) -> None:
    """A URL that does not lead to this machine is refused with exit code 2, whichever option names it."""
    for option in ("--against", "--stub"):
        ran = CliRunner().invoke(app, ["gateway", option, url])
        assert ran.exit_code == 2
        assert "loopback" in ran.stderr


def test_a_gateway_that_is_not_there_is_said() -> None:
    """With nobody listening at a URL the command ends with code 1 and one line, and leaves no process behind."""
    ran = CliRunner().invoke(app, ["gateway", "--against", "http://127.0.0.1:9/v1", "--seconds", "0.1"])
    assert ran.exit_code == 1
    assert "headrace-bench: " in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_signal_leaves_no_process_behind() -> None:
    """SIGTERM in mid-measurement ends the command, and the daemon that it started with it."""
    command = "from bench.cli import main; main()"
    bench = subprocess.Popen(
        [sys.executable, "-c", command, "gateway", "--seconds", "60"], stderr=subprocess.PIPE, text=True
    )
    assert bench.stderr is not None
    with bench, bench.stderr:
        url = next(found[1] for line in bench.stderr if (found := re.search(r"headrace at http://(\S+)/v1", line)))
        bench.terminate()
        assert bench.wait(20) != 0
    host, _, port = url.partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5).close()


def test_a_daemon_that_does_not_start_shows_what_it_said() -> None:
    """An upstream that is no URL ends the daemon, and its own words are in the error."""
    with pytest.raises(NotStarted, match="--upstream"), daemon("nonsense", concurrency=1):
        pass
