"""`headrace-bench peers`."""

import sys
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
import typer
from rich.console import Console

from agents.errors import InvalidLimits
from bench.peers.measure import measure_peers
from bench.peers.systems import CONNECTIONS, SYSTEMS, System, gateway_system, known_systems
from bench.peers.table import peers_tables
from bench.peers.work import Limits, jobs
from bench.processes import NotStarted, ended_by_signals
from orchestrator.backends.simulated.config import Algorithm, Counted
from orchestrator.backends.simulated.provider import SimProvider

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_QUICK: Final = (4, 12, 1.0)
"""Calls of the two jobs, and the provider's short window, with --quick."""

_LEAST_TOKENS: Final = 10_000.0
"""A minute's limit under which no call of the largest kind passes with ease."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        name="peers",
        epilog="""\b
Examples:
  headrace-bench peers
  headrace-bench peers --only headrace --only retry --window 0 --json
  another gateway is put before http://127.0.0.1:8099/v1, where nobody listens yet, and then
  headrace-bench peers --against http://127.0.0.1:4000/v1 --against-port 8099
""",
    )(peers)


def peers(
    small: Annotated[int, typer.Option(min=1, max=10_000, help="Calls of the small job.")] = 45,
    large: Annotated[int, typer.Option(min=1, max=10_000, help="Calls of the large job.")] = 180,
    rpm: Annotated[float, typer.Option(min=1, help="Requests a minute that the provider allows.")] = 600.0,
    tpm: Annotated[float, typer.Option(min=_LEAST_TOKENS, help="Tokens a minute, input and output.")] = 60_000.0,
    counted: Annotated[Counted, typer.Option(help="What it counts as tokens, and when.")] = "reconciled",
    algorithm: Annotated[Algorithm, typer.Option(help="How it enforces its limits.")] = "sliding_window",
    window: Annotated[
        float,
        typer.Option(min=0, max=59, help="Seconds of a shorter window that it enforces in proportion; 0 for none."),
    ] = 10.0,
    connections: Annotated[
        int, typer.Option(min=1, max=1024, help="Calls of a job that a client without a gateway has open.")
    ] = CONNECTIONS,
    only: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(SYSTEMS)}; may be given again. All if not given.")
    ] = None,
    against: Annotated[
        list[str] | None, typer.Option(help="Another gateway, by its base URL; may be given again.")
    ] = None,
    against_port: Annotated[
        int,
        typer.Option(min=1, max=65_000, help="Its upstream: a provider is started there; the next ones at the next."),
    ] = 8099,
    header: Annotated[
        list[str] | None,
        typer.Option(help="A header for those gateways, as 'name: value'; {job} is the job's name."),
    ] = None,
    within: Annotated[float, typer.Option(min=1, max=3_600, help="Seconds after which a client stops.")] = 150.0,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny jobs: seconds, and no figures to speak of.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Draws prompts, answers and pauses.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Two jobs at one provider's limits: plain asyncio clients, Headrace's gateway, and any other gateway.

    In real time, over HTTP on loopback. Each system has a provider of its own with the same settings, and all run side
    by side, so that a machine's moods fall on all alike.

    Exit codes: 0 measured; 1 something did not start, or said nothing; 2 wrong usage.
    """
    if quick:
        small, large, window = _QUICK
    limits = Limits(rpm=rpm, tpm=tpm, algorithm=algorithm, counted=counted, window=window or None, seed=seed)
    try:
        SimProvider(limits.provider())
    except InvalidLimits as error:
        raise typer.BadParameter(str(error)) from None
    systems = _chosen(only, limits, within, connections)
    headers = dict(map(_header, header or ()))
    for place, url in enumerate(against or ()):
        if urlsplit(url).scheme != "http" or urlsplit(url).hostname not in _LOOPBACK:
            raise typer.BadParameter(f"{url!r} is not a URL on loopback, for example http://127.0.0.1:4000/v1")
        systems.append(gateway_system(url, against_port + place, headers, within=within, seed=seed))
    note = Console(stderr=True, highlight=False)
    try:
        with ended_by_signals():
            found = measure_peers(
                systems,
                limits,
                jobs(small, large, seed=seed),
                on_progress=lambda line: note.print(line, style="dim", markup=False),
            )
    except (NotStarted, OSError) as error:
        note.print(f"headrace-bench: {error}", style="red", markup=False)
        raise typer.Exit(1) from None
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        Console().print(peers_tables(found))


def _chosen(only: list[str] | None, limits: Limits, within: float, connections: int) -> list[System]:
    known = known_systems(limits, within=within, connections=connections)
    unknown = sorted(set(only or ()) - set(known))
    if unknown:
        raise typer.BadParameter(f"there is no {', '.join(unknown)}; there are: {', '.join(known)}")
    wanted = only or [name for name in known if name != "told" or limits.window is not None]
    return [system for name, system in known.items() if name in wanted]


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise typer.BadParameter(f"{text!r} is not a header, for example 'x-team: {{job}}'")
    return name.strip(), value.strip()
