"""`headrace simulate`: the simulated provider as an HTTP server that speaks OpenAI's and Anthropic's dialects."""

from functools import partial
from typing import Annotated, Literal

import trio
import typer
from trio import CancelScope

from orchestrator.backends.simulated.config import Algorithm, Counted, SimConfig, SimLatency, SimLength, SimLimit
from orchestrator.backends.simulated.server import anthropic_base, run_simulator
from orchestrator.cli.exits import DONE, USAGE, complain
from orchestrator.cli.signals import SignalEnd, until_signalled
from orchestrator.groups import only


def simulate(
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.", min=0, max=65535)] = 8099,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    rpm: Annotated[float | None, typer.Option(help="Requests a minute that it allows.")] = None,
    tpm: Annotated[float | None, typer.Option(help="Tokens a minute that it allows.")] = None,
    itpm: Annotated[
        float | None,
        typer.Option(help="Input tokens a minute that it allows, cached ones free, as Anthropic counts them."),
    ] = None,
    otpm: Annotated[
        float | None, typer.Option(help="Output tokens a minute that it allows, counted as they are produced.")
    ] = None,
    algorithm: Annotated[
        Literal["fixed_window", "sliding_window", "token_bucket"], typer.Option(help="How it enforces its limits.")
    ] = "sliding_window",
    counted: Annotated[
        Literal["at_admission", "reconciled", "as_produced"], typer.Option(help="What it counts as tokens, and when.")
    ] = "reconciled",
    prefix_cache: Annotated[
        int, typer.Option(help="How many beginnings of requests it keeps cached; 0 for none.", min=0)
    ] = 0,
    max_concurrency: Annotated[int | None, typer.Option(help="Calls at one time before it answers 429.")] = None,
    tokens: Annotated[float, typer.Option(help="Median length of an answer.")] = 100.0,
    first_token: Annotated[float, typer.Option(help="Seconds until the first token.")] = 0.25,
    rate: Annotated[float, typer.Option(help="Output tokens a second, per call.")] = 60.0,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model that it serves; may be repeated. Without it, every name is served."),
    ] = None,
    api_key: Annotated[list[str] | None, typer.Option(help="A key to ask for; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed and requests give the same answers.")] = 0,
) -> None:
    """Serves a simulated provider over HTTP, in OpenAI's and Anthropic's dialects side by side.

    OpenAI: /v1/chat/completions, /v1/responses, /v1/embeddings. Anthropic: /v1/messages, /v1/messages/count_tokens.
    Both: /v1/models. The base URL for OpenAI's clients ends in /v1, the one for Anthropic's does not.
    """
    limits = _limits(rpm, tpm, algorithm, counted) + _apart(itpm, otpm, algorithm)
    config = SimConfig(
        seed=seed,
        latency=SimLatency(first_token=first_token, output_rate=rate),
        length=SimLength(tokens=tokens),
        limits=limits,
        prefix_cache=prefix_cache,
        max_concurrency=max_concurrency,
        api_keys=tuple(api_key or ()),
        models=tuple(model or ()),
    )
    raise typer.Exit(trio.run(until_signalled, partial(_serve, config, host, port), ""))


def _limits(rpm: float | None, tpm: float | None, algorithm: Algorithm, counted: Counted) -> tuple[SimLimit, ...]:
    limits = []
    if rpm is not None:
        limits.append(SimLimit(kind="requests", amount=rpm, algorithm=algorithm))
    if tpm is not None:
        limits.append(SimLimit(kind="total_tokens", amount=tpm, algorithm=algorithm, counted=counted))
    return tuple(limits)


def _apart(itpm: float | None, otpm: float | None, algorithm: Algorithm) -> tuple[SimLimit, ...]:
    """Limits on input and output each by itself."""
    limits = []
    if itpm is not None:
        limits.append(
            SimLimit(kind="input_tokens", amount=itpm, algorithm=algorithm, counted="reconciled", free_cached=True)
        )
    if otpm is not None:
        limits.append(SimLimit(kind="output_tokens", amount=otpm, algorithm=algorithm, counted="as_produced"))
    return tuple(limits)


async def _serve(config: SimConfig, host: str, port: int, ending: SignalEnd) -> int:
    try:
        with CancelScope() as scope:
            ending.target = _Stop(scope)
            await run_simulator(config, host, port, _announce)
    except (OSError, BaseExceptionGroup) as error:
        cause = only(error, OSError) if isinstance(error, BaseExceptionGroup) else error
        if cause is None:
            raise
        complain(f"cannot listen on {host}:{port}: {(cause.strerror or str(cause)).lower()}")
        return USAGE
    return DONE


class _Stop:
    """Being stopped is a server's normal end."""

    def __init__(self, scope: CancelScope) -> None:
        self._scope = scope

    def end(self, signal_name: str) -> None:
        self._scope.cancel()

    def hurry(self) -> None:
        self._scope.cancel()


def _announce(url: str) -> None:
    print(f"A simulated provider serves {url}", flush=True)
    print(f"Base URL for OpenAI's clients: {url}; for Anthropic's: {anthropic_base(url)}", flush=True)
    print(
        f"Try it: headrace job start --embedded --input FILE --prompt '{{text}}' --backend openai \\\n"
        f"            --base-url {url} --model simulated",
        flush=True,
    )
