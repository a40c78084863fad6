"""What traces cost: the owner path with and without them, in one process and in turns.

`off` is an owner as a daemon has it where `[telemetry]` is not on. With `sampled out` no trace is kept, with `made`
every span is made and then dropped, and with `sent` OpenTelemetry's exporter sends all of them to a receiver in a
process of its own. Times are CPU time of this process, the exporter's thread included; a cost is the median over the
repeats of the ratio to the `off` beside it.

    python -m bench.traced

is that receiver: it prints its address, reads what it is sent, and answers 200.
"""

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import trio
from msgspec import Struct

from agents.messages import ModelRequest
from agents.owner_port import OwnerPort
from agents.port import Receipt
from bench.load import InstantBackend, new_owner, new_port, new_request, run_agents
from bench.processes import running
from orchestrator.telemetry.config import TelemetryConfig
from orchestrator.telemetry.span import Span
from orchestrator.telemetry.telemetry import Telemetry
from orchestrator.transitions import Hook

AGENTS: Final = 100
TENANTS: Final = 10
OFF: Final = "off"


class TracedResult(Struct, frozen=True):
    """One way to trace. `microseconds` is CPU time per call, and `ratio` that over the time without traces."""

    traces: str
    microseconds: float
    ratio: float


def measure_traced(
    *, calls: int = 20_000, repeats: int = 7, on_progress: Callable[[str], None] = lambda line: None
) -> list[TracedResult]:
    """All ways, `off` first. Blocks; bounded in count, one loopback socket.

    Raises `bench.processes.NotStarted`, and `TelemetryNotInstalled` where the extra `otel` is missing.
    """
    with ExitStack() as stack:
        url = stack.enter_context(running(["-m", "bench.traced"], r"(http://\S+/v1/traces)", Path.cwd()))
        ways = {
            OFF: None,
            "sampled out": _telemetry(0.0),
            "made": _telemetry(1.0),
            "sent": stack.enter_context(_sending(url)),
        }
        rounds = max(1, calls // AGENTS)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for repeat in range(repeats):
            for name, telemetry in ways.items():
                gc.collect()
                spent = trio.run(_calls, telemetry, rounds)
                seconds[name].append(spent / (AGENTS * rounds))
            said = ", ".join(f"{name} {times[-1] * 1e6:.1f} us" for name, times in seconds.items())
            on_progress(f"repeat {repeat + 1}/{repeats}: {said}")
    return [
        TracedResult(
            traces=name,
            microseconds=statistics.median(times) * 1e6,
            ratio=statistics.median(on / off for on, off in zip(times, seconds[OFF], strict=True)),
        )
        for name, times in seconds.items()
    ]


def _dropped(span: Span) -> None:
    """Takes a span and forgets it."""


def _telemetry(sample: float) -> Telemetry:
    return Telemetry(TelemetryConfig(sample=sample), wall=time.time, emit=_dropped)


@contextmanager
def _sending(url: str) -> Iterator[Telemetry]:
    telemetry = Telemetry(TelemetryConfig(endpoint=url), wall=time.time)
    try:
        yield telemetry
    finally:
        trio.run(telemetry.close)


async def _calls(telemetry: Telemetry | None, rounds: int) -> float:
    hooks: list[Hook] = [] if telemetry is None else [telemetry.calls]
    owner, start = new_owner(TENANTS, InstantBackend(), hooks), trio.Event()
    run = f"{time.monotonic_ns():x}"

    def agent(number: int) -> Callable[[], Awaitable[None]]:
        port, request = new_port(owner, number, TENANTS), new_request(number)
        return partial(_work, port, request, start, [f"{run}-{number}-{turn}" for turn in range(rounds)])

    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        return await run_agents([agent(number) for number in range(AGENTS)], start, nursery)


async def _work(port: OwnerPort, request: ModelRequest, start: trio.Event, keys: list[str]) -> None:
    await start.wait()
    for key in keys:
        await port.call(request, receipt=Receipt(key))


class _Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


def main() -> None:
    """The receiver, until it is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    print(f"http://127.0.0.1:{server.server_port}/v1/traces", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
