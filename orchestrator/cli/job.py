"""`headrace job`: one prompt over many inputs."""

from pathlib import Path
from typing import Annotated, Literal

import trio
import typer

from agents.port import Priority
from orchestrator.backend_choice import BackendChoice
from orchestrator.cli.exits import USAGE, complain
from orchestrator.cli.job_command import start_job
from orchestrator.cli.job_options import JobOptions, read_price

app = typer.Typer(help="One prompt over many inputs.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def group() -> None:
    """One prompt over many inputs."""


@app.command()
def start(
    input: Annotated[
        list[str], typer.Option("--input", "-i", help="A file, a folder, or - for standard input; may be repeated.")
    ],
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Run everything in this process. There is no other way in this version.")
    ] = False,
    prompt: Annotated[
        str | None, typer.Option(help="The prompt; {text} and other {field}s stand for the input's.")
    ] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="A file that holds the prompt.")] = None,
    system: Annotated[str, typer.Option(help="The system message, the same for every input.")] = "",
    input_format: Annotated[
        Literal["auto", "jsonl", "lines", "file"],
        typer.Option(help="What files hold. auto: JSON Lines by name and on pipes, else the whole file is one input."),
    ] = "auto",
    output: Annotated[str, typer.Option("--output", "-o", help="Where results go, as JSON Lines; - is stdout.")] = "-",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Empty an output file that has content.")] = False,
    ordered: Annotated[bool, typer.Option("--ordered", help="Write results in order of input.")] = False,
    backend: Annotated[
        Literal["simulated", "local", "openai"], typer.Option(help="Where models answer.")
    ] = "simulated",
    base_url: Annotated[str, typer.Option(help="openai: the server's address, up to and with /v1.")] = "",
    model: Annotated[str, typer.Option(help="openai: the model's name.")] = "",
    api_key_env: Annotated[
        str | None, typer.Option(help="openai: the environment variable that holds the key.")
    ] = None,
    rpm: Annotated[float | None, typer.Option(help="Requests a minute.")] = None,
    tpm: Annotated[float | None, typer.Option(help="Tokens a minute, input and output together.")] = None,
    counted: Annotated[
        Literal["at_admission", "reconciled", "as_produced"],
        typer.Option(help="How the provider counts --tpm: the most it could be, corrected at the end, or as it comes."),
    ] = "reconciled",
    concurrency: Annotated[
        int | None, typer.Option(help="Calls in flight at most; without it the limit is found by trying.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Live runs at most.")] = 64,
    max_tokens: Annotated[int, typer.Option(help="Output tokens of one answer at most.")] = 1024,
    temperature: Annotated[float | None, typer.Option(help="The model's default if not given.")] = None,
    seed: Annotated[int | None, typer.Option(help="For the same answers again, where the model can.")] = None,
    tenant: Annotated[str, typer.Option(help="Whose job this is.")] = "default",
    name: Annotated[str, typer.Option(help="The job's name.")] = "job",
    priority: Annotated[Literal["interactive", "standard", "batch"], typer.Option(help="How urgent it is.")] = "batch",
    retries: Annotated[int, typer.Option(help="Tries after the first, where trying again can help.")] = 5,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first item that fails.")] = False,
    grace: Annotated[float, typer.Option(help="Seconds that live runs have to end after Ctrl-C.")] = 5.0,
    price_input: Annotated[float | None, typer.Option(help="Dollars per million input tokens.")] = None,
    price_output: Annotated[float | None, typer.Option(help="Dollars per million output tokens.")] = None,
    speed: Annotated[float, typer.Option(help="simulated: times faster than a usual API.")] = 50.0,
    json: Annotated[
        bool, typer.Option("--json", help="End with the summary as one JSON object, on stdout if results go to a file.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no warnings.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every step of every call on stderr.")] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log as JSON objects on stderr, instead of showing progress.")
    ] = False,
    metrics: Annotated[
        Path | None, typer.Option(help="A file for Prometheus metrics, rewritten every 5 seconds and at the end.")
    ] = None,
) -> None:
    """Runs one prompt over many inputs.

    Results are written as JSON Lines: one object per input, when its answer is complete.

    Exit codes: 0 all done; 1 some items failed; 2 wrong usage, inputs or configuration, nothing was started;
    3 the backend cannot be used, nothing could be done; 130 interrupted.
    """
    if not embedded:
        complain("there is no daemon in this version to hand the job to; give --embedded to run it in this process")
        raise typer.Exit(USAGE)
    options = JobOptions(
        inputs=tuple(input),
        input_format=input_format,
        prompt=prompt,
        prompt_file=prompt_file,
        system=system,
        output=None if output == "-" else Path(output),
        overwrite=overwrite,
        ordered=ordered,
        backend=BackendChoice(
            kind=backend,
            base_url=base_url,
            model=model,
            api_key_env=api_key_env,
            rpm=rpm,
            tpm=tpm,
            counted=counted,
            concurrency=concurrency,
            speed=speed,
            seed=seed or 0,
        ),
        workers=workers,
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
        tenant=tenant,
        name=name,
        priority=Priority[priority.upper()],
        retries=retries,
        fail_fast=fail_fast,
        grace=grace,
        price=read_price(price_input, price_output),
        json=json,
        quiet=quiet,
        verbose=verbose,
        log_json=log_json,
        metrics=metrics,
    )
    raise typer.Exit(trio.run(start_job, options, restrict_keyboard_interrupt_to_checkpoints=True))
