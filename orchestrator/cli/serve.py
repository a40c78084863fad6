"""`headrace serve`: the daemon."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import trio
import typer

from orchestrator.cli.exits import USAGE, complain
from orchestrator.config.decode import load
from orchestrator.config.find import require_config
from orchestrator.config.flags import Flags, config_from_flags, file_from_flags
from orchestrator.config.problems import ConfigError
from orchestrator.config.schema import Config

EXAMPLES: Final = """
\b
Examples:
  headrace serve                             with headrace.toml; `headrace init` writes one
  headrace serve --upstream http://127.0.0.1:8080/v1 --concurrency 4
  headrace serve --upstream https://api.openai.com/v1 --model gpt-4o-mini --rpm 500 --tpm 200000

\b
SIGTERM ends it when what is live has ended, a second one at once.
SIGHUP reads the configuration again and puts all of it in force, or nothing.
"""


def serve(
    config: Annotated[
        Path | None, typer.Option(help="The configuration; otherwise headrace.toml, here or in the usual places.")
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option(help="No file: a server that speaks OpenAI's dialect, by its URL; or local, or simulated."),
    ] = None,
    rpm: Annotated[float | None, typer.Option(help="Requests a minute that the upstream allows.")] = None,
    tpm: Annotated[float | None, typer.Option(help="Tokens a minute that it allows, input and output.")] = None,
    counted: Annotated[
        Literal["at_admission", "reconciled", "as_produced"] | None, typer.Option(help="How it counts --tpm.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Calls in flight at most; without it the limit is found by trying.")
    ] = None,
    model: Annotated[str, typer.Option(help="The model for who names none.")] = "",
    api_key_env: Annotated[str | None, typer.Option(help="The environment variable that holds the key.")] = None,
    weight: Annotated[
        list[str] | None, typer.Option(help="TENANT=N: a tenant's part of the service; may be repeated.")
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the file that means the same as these options, and end.")
    ] = False,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on; 0 takes a free one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The folder in which jobs are kept.")] = None,
    drain_seconds: Annotated[float | None, typer.Option(help="How long live calls may take to end.")] = None,
    log: Annotated[Literal["text", "json"] | None, typer.Option(help="How log lines look, on stderr.")] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, typer.Option(help="debug logs every step of every call.")
    ] = None,
) -> None:
    """Runs the daemon: one queue before each backend, for all runs, jobs and calls of its clients.

    Exit codes: 0 it ended as it was told; 2 wrong usage or configuration, nothing was started; 3 the backend or the
    database cannot be used, or another daemon leads it now: started again it may serve, or stand by.
    """
    daemon = {
        "host": host,
        "port": port,
        "data_dir": None if data_dir is None else str(data_dir.absolute()),
        "drain_seconds": drain_seconds,
        "log": log,
        "log_level": log_level,
    }
    upstream_options = {
        "--rpm": rpm,
        "--tpm": tpm,
        "--counted": counted,
        "--concurrency": concurrency,
        "--model": model or None,
        "--api-key-env": api_key_env,
        "--weight": weight or None,
    }
    try:
        if upstream is None:
            _refuse(upstream_options, "only with --upstream; in a file it is a key of its own")
            _refuse({"--print-config": print_config or None}, "only with --upstream; `headrace init` writes a file")
            read = _Reader(config, daemon)
            first = read()
        else:
            _refuse({"--config": config}, "not together with --upstream")
            read = _Reader(None, daemon)
            flags = Flags(
                upstream=upstream,
                rpm=rpm,
                tpm=tpm,
                counted=counted,
                concurrency=concurrency,
                model=model,
                api_key_env=api_key_env,
                weights=weight or (),
                daemon=daemon,
            )
            if print_config:
                typer.echo(file_from_flags(flags), nl=False)
                raise typer.Exit
            first = config_from_flags(flags)
    except ConfigError as error:
        complain(error.message)
        raise typer.Exit(USAGE) from None
    # the HTTP server and all the rest take as long to load as everything that the other commands need
    from orchestrator.cli.serve_command import serve as serve_daemon

    raise typer.Exit(trio.run(serve_daemon, first, read))


def _refuse(options: Mapping[str, object], why: str) -> None:
    for option, value in options.items():
        if value is not None:
            complain(f"{option}: {why}")
            raise typer.Exit(USAGE)


class _Reader:
    """Reads the file anew, wherever it is by then; what was said on the command line goes before it."""

    def __init__(self, path: Path | None, daemon: Mapping[str, Any]) -> None:
        self._path = path
        self._said = {key: value for key, value in daemon.items() if value is not None}

    def __call__(self) -> Config:
        return load(require_config(self._path), daemon=self._said)
