"""What a gateway costs: requests a second and latency against a stub directly, and through gateways before it.

Stub, daemon and load generator are processes of their own on loopback. Every cell (a kind of request at a number of
connections) is measured in short slices that go round the targets, so that a machine's moods fall on all alike: only
ratios within one run mean anything. What a gateway adds is its latency less the direct one in the same cell.

Known limits: the three processes share the machine's cores, so with fewer than three a fast target pays for the load
generator; and the stub answers at once, which no model does: what is measured is the gateway alone.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

import msgspec
import trio
from msgspec import Struct

from bench.http_load import Measured, load
from bench.processes import daemon, stub

CONNECTIONS: Final = (1, 32, 256)
SLICES: Final = 3
"""How often the targets of one cell take turns."""

DIRECT: Final = "direct"
OURS: Final = "headrace"

_TEXT: Final = "Say in one word whether the sentence before this one is about a number or about a name. " * 8
_CASES: Final = {"json": (8, False), "stream": (100, True)}
"""Kinds of requests: tokens of the answer, and whether it is streamed (a chunk for each token)."""


class Cell(Struct, frozen=True, omit_defaults=True):
    """One kind of request at one number of connections through one target.

    Only whole answers of status 200 count. Latencies run from the request's first byte to the answer's last one, and
    are None where no answer came; `failed` counts the other answers, and is left out where there were none.
    """

    case: str
    connections: int
    target: str
    requests_per_second: float
    p50_ms: float | None
    p99_ms: float | None
    failed: int = 0


def body(tokens: int, *, streamed: bool) -> bytes:
    """A request of about 1 KB for so many tokens."""
    asked: dict[str, object] = {"model": "stub", "messages": [{"role": "user", "content": _TEXT}], "max_tokens": tokens}
    return msgspec.json.encode({**asked, "stream": True} if streamed else asked)


Target = Callable[..., Awaitable[Measured]]
"""Sends load to one target: `load` with its URL."""


def measure_gateway(
    connections: Sequence[int] = CONNECTIONS,
    *,
    against: Sequence[str] = (),
    headers: Sequence[str] = (),
    stub_url: str | None = None,
    seconds: float = 3.0,
    on_progress: Callable[[str], None] = lambda line: None,
) -> list[Cell]:
    """Every case at every number of connections through every target, `seconds` for each. Blocks; ends what it starts.

    `against` are base URLs of other gateways, which must lead to the stub; so that they can, one may run already, at
    `stub_url`. `headers` go to those gateways, each as `name: value`. Raises `NotStarted`, or `OSError` if nobody
    listens at one of the URLs.
    """
    with ExitStack() as running:
        direct = stub_url or running.enter_context(stub())
        ours = running.enter_context(daemon(direct, concurrency=max(connections)))
        targets = {DIRECT: partial(load, direct), OURS: partial(load, ours)}
        targets |= {url: partial(load, url, headers=headers) for url in against}
        urls = {DIRECT: direct, OURS: ours}
        for name, target in targets.items():
            url = urls.get(name, name)
            found = trio.run(partial(target, body(1, streamed=False), connections=1, seconds=5.0, each=3))
            on_progress(f"{name} at {url}: {'answers' if found.latencies else 'does not answer with 200'}")
        cells: list[Cell] = []
        for case in _CASES:
            for number in connections:
                cells += _cells(case, number, targets, seconds, on_progress)
        return cells


def _cells(
    case: str, connections: int, targets: Mapping[str, Target], seconds: float, on_progress: Callable[[str], None]
) -> list[Cell]:
    """One cell for each target, in slices that take turns."""
    tokens, streamed = _CASES[case]
    request = body(tokens, streamed=streamed)
    sums = {name: Measured() for name in targets}
    for _ in range(SLICES):
        for name, target in targets.items():
            left = seconds - sums[name].elapsed
            if left > 0:  # a slow target may need all its time for the answers of one slice
                piece = partial(target, request, connections=connections, seconds=min(left, seconds / SLICES))
                sums[name].add(trio.run(piece))
    cells = [cell_of(case, connections, name, measured) for name, measured in sums.items()]
    for cell in cells:
        on_progress(f"{case}, {connections} connections, {cell.target}: {cell.requests_per_second:,.0f}/s")
    return cells


def cell_of(case: str, connections: int, target: str, measured: Measured) -> Cell:
    """What was measured, as the report has it."""
    return Cell(
        case=case,
        connections=connections,
        target=target,
        requests_per_second=round(len(measured.latencies) / measured.elapsed, 1),
        p50_ms=milliseconds(measured.latencies, 0.5),
        p99_ms=milliseconds(measured.latencies, 0.99),
        failed=measured.failed,
    )


def milliseconds(seconds: Sequence[float], part: float) -> float | None:
    """The nearest-rank percentile; None of nothing."""
    if not seconds:
        return None
    return round(sorted(seconds)[math.ceil(part * len(seconds)) - 1] * 1e3, 3)
