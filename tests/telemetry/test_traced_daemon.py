"""A whole daemon's traces, as a real OTLP receiver has them."""

import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from orchestrator.client.client import Client
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.daemon.serving import config, serving, until
from tests.telemetry.collector import Collector, collecting

TRACE = "0af7651916cd43dd8448eb211c80319c"
ASKED = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{ASKED}-01"
SECRET = "the patient's name is Ada"

ANSWER = (
    b'{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason":'
    b' "stop", "message": {"role": "assistant", "content": "hi"}}], "usage": {"prompt_tokens": 3,'
    b' "completion_tokens": 1, "total_tokens": 4}}'
)

CONFIG = """
[backends.sim]
kind = "simulated"
speed = 200
FAULTS
[models.m]
backends = ["sim"]
[agents.looker]
model = "m"
tools = ["look"]
[tools.look]
command = ["CAT"]
description = "Looks."
parameters = { what = "string" }
[telemetry]
enabled = true
endpoint = "URL"
"""


def text(collector: Collector, *, faults: str = "", **changes: str) -> str:
    made = CONFIG.replace("URL", collector.url).replace("CAT", str(shutil.which("cat"))).replace("FAULTS", faults)
    for old, new in changes.items():
        made = made.replace(old, new)
    return made


async def ended(client: Client, run: str) -> None:
    async for _ in client.events(run):
        pass


async def test_a_runs_tree(tmp_path: Path) -> None:
    """Run, steps, calls with their queue and attempts, and a tool hang together, in the trace of whoever asked."""
    faults = 'faults = [{ fault = "status", status = 503, nth = [1] }]'
    with collecting() as collector:
        async with serving(config(tmp_path, text(collector, faults=faults))) as one:
            request = RunRequest(task=SECRET, who=AgentChoice(agent="looker"), traceparent=PARENT)
            run = await one.client.start_run(request)
            await ended(one.client, run.run)
    whole = collector.one("invoke_agent looker")
    assert (whole.trace, whole.parent) == (TRACE, ASKED)
    assert {span.trace for span in collector.spans} == {TRACE}
    steps = {span.span: span for span in collector.named("step ")}
    assert {span.parent for span in steps.values()} == {whole.span}
    calls = {span.span: span for span in collector.named("chat ")}
    assert {span.parent for span in calls.values()} == set(steps)
    tool = collector.one("execute_tool look")
    assert tool.parent in steps
    attempts = collector.named("attempt")
    assert {span.parent for span in [*attempts, *collector.named("queue")]} == set(calls)
    assert [span.failed for span in sorted(attempts, key=lambda span: span.start)] == [True, False, False]
    assert all(span.start <= span.end for span in collector.spans)
    assert whole.start <= min(span.start for span in collector.spans) + 50_000_000
    assert whole.service == "headrace"


async def test_nothing_that_was_said_is_in_a_span(tmp_path: Path) -> None:
    """Neither the task nor an answer nor a tool's arguments are anywhere in what goes to the collector."""
    with collecting() as collector:
        async with serving(config(tmp_path, text(collector))) as one:
            run = await one.client.start_run(RunRequest(task=SECRET, who=AgentChoice(agent="looker")))
            await ended(one.client, run.run)
            answer = (await one.client.run(run.run)).answer
    assert collector.spans
    for body in collector.bodies:
        assert SECRET.encode() not in body
        assert answer.encode() not in body


async def test_a_programs_call_goes_on_with_its_trace(tmp_path: Path) -> None:
    """A call through the gateway is below the program's own span, with its tokens and what it waited for."""
    with collecting() as collector:
        async with serving(config(tmp_path, text(collector))) as one, httpx2.AsyncClient() as client:
            answer = await client.post(
                f"{one.url}/v1/chat/completions",
                json={"model": "m", "messages": [{"role": "user", "content": SECRET}]},
                headers={"traceparent": PARENT, "tracestate": "vendor=1"},
            )
            assert answer.status_code == 200
    call = collector.one("chat m")
    assert (call.trace, call.parent) == (TRACE, ASKED)
    assert call.attributes["gen_ai.operation.name"] == "chat"
    assert call.attributes["gen_ai.usage.output_tokens"] == answer.json()["usage"]["completion_tokens"]
    assert call.attributes["headrace.call"] == answer.headers["x-headrace-call"]


@pytest.mark.parametrize("bad", ["", "nonsense", "00-0-0-01", f"ff-{TRACE}-{ASKED}-01", f"00-{'0' * 32}-{ASKED}-01"])
async def test_a_header_that_is_none_begins_a_trace(tmp_path: Path, bad: str) -> None:
    """A trace context that cannot be read fails nothing; the call has a trace of its own."""
    with collecting() as collector:
        async with serving(config(tmp_path, text(collector))) as one, httpx2.AsyncClient() as client:
            answer = await client.post(
                f"{one.url}/v1/chat/completions",
                json={"model": "m", "messages": [{"role": "user", "content": "hi"}]},
                headers={"traceparent": bad},
            )
            assert answer.status_code == 200
    assert collector.one("chat m").parent == ""


async def test_a_provider_gets_the_attempts_context(tmp_path: Path) -> None:
    """Each request to a provider carries the trace context of its attempt, and none where traces are off."""
    heard: list[str | None] = []

    class Provider(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            heard.append(self.headers.get("traceparent"))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, *arguments: object) -> None:
            pass

    with collecting() as collector, ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        backend = f'kind = "openai"\nbase_url = "http://127.0.0.1:{server.server_address[1]}/v1"'
        made = text(collector).replace('kind = "simulated"\nspeed = 200', backend)
        try:
            for traced in (made, made.replace("enabled = true", "enabled = false")):
                async with serving(config(tmp_path, traced)) as one:
                    run = await one.client.start_run(RunRequest(task="x", traceparent=PARENT))
                    await ended(one.client, run.run)
        finally:
            server.shutdown()
            thread.join()
    attempt = collector.one("attempt")
    assert heard == [f"00-{TRACE}-{attempt.span}-01", None]


async def test_what_is_not_sampled_is_not_sent(tmp_path: Path) -> None:
    """A parent that was not sampled, and a ratio of 0, send nothing at all."""
    with collecting() as collector:
        made = text(collector).replace("enabled = true", "enabled = true\nsample = 0")
        async with serving(config(tmp_path, made)) as one:
            for parent in ("", PARENT[:-2] + "00"):
                run = await one.client.start_run(RunRequest(task="x", traceparent=parent))
                await ended(one.client, run.run)
    assert collector.spans == []


async def test_a_collector_that_is_gone_harms_nothing(tmp_path: Path) -> None:
    """With nobody at the endpoint runs go on as ever, and the daemon ends in a few seconds."""
    collector = Collector()
    collector.url = "http://127.0.0.1:9/v1/traces"
    async with serving(config(tmp_path, text(collector))) as one:
        run = await one.client.start_run(RunRequest(task="x"))
        await ended(one.client, run.run)
        assert (await one.client.run(run.run)).state == "completed"


async def test_a_restart_goes_on_with_the_trace(tmp_path: Path) -> None:
    """A run that one daemon began and another ended is one trace, below whoever asked for it."""
    with collecting() as collector:
        slow = text(collector).replace("speed = 200", "speed = 20\nlatency = { first_token = 10.0 }")
        async with serving(config(tmp_path, slow)) as one:
            run = await one.client.start_run(RunRequest(task="x", traceparent=PARENT))
            await until(lambda: bool(one.daemon._telemetry.calls._open))  # type: ignore[union-attr]
        assert collector.named("invoke_agent") == []
        async with serving(config(tmp_path, slow)) as one:
            await ended(one.client, run.run)
    whole = collector.one("invoke_agent")
    assert (whole.trace, whole.parent) == (TRACE, ASKED)
    assert {span.trace for span in collector.spans} == {TRACE}
    assert collector.named("step")


def test_off_means_that_nothing_is_there() -> None:
    """A daemon without traces imports nothing of OpenTelemetry's SDK, and gives its owners no hook for them."""
    code = (
        "import sys; from orchestrator.config.decode import decode_text; from orchestrator.daemon.daemon import Daemon;"
        "d = Daemon(decode_text('[backends.s]\\nkind = \"simulated\"\\n', 't'));"
        "bad = [m for m in sys.modules if m.startswith('opentelemetry.sdk') or m.startswith('opentelemetry.exporter')];"
        "assert not bad, bad; assert d._telemetry is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
