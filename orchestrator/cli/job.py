"""`headrace job`: one prompt over many inputs."""

from pathlib import Path
from secrets import token_hex
from typing import Annotated, Final, Literal

import trio
import typer

from agents.port import Priority
from orchestrator.backend_choice import BackendChoice
from orchestrator.cli import job_manage
from orchestrator.cli.connect import NoWait, Url
from orchestrator.cli.job_command import start_job
from orchestrator.cli.job_dry_run import foretell
from orchestrator.cli.job_file import NO_FILE, JobPlan, read_job_file
from orchestrator.cli.job_merge import lay_under, the_prompt, who_works
from orchestrator.cli.job_options import DAEMON_ONLY, EMBEDDED_ONLY, JobOptions, read_price, read_prompt
from orchestrator.cli.job_remote import RemoteJob, start_remote
from orchestrator.cli.job_stages import (
    Count,
    Deadline,
    Gather,
    Most,
    Plan,
    Planner,
    PlanTo,
    Share,
    Synthesis,
    Synthesizer,
    gather_of,
    planner_of,
    synthesis_of,
)
from orchestrator.cli.options import (
    Backend,
    BaseUrl,
    Concurrency,
    CountedOption,
    Dollars,
    KeyEnv,
    PriceInput,
    PriceOutput,
    PriorityOption,
    Retries,
    Rpm,
    Seed,
    Speed,
    Temperature,
    Timeout,
    TotalTokens,
    Tpm,
    WrongOption,
    budget,
    refuse,
)
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.jobs.planner import item_template
from orchestrator.views.jobs import JobRequest
from orchestrator.views.names import check_name

START_EXAMPLES: Final = """
\b
Examples:
  headrace job start job.toml --workers 32
  headrace job start job.toml --dry-run
  headrace job start -i letters.jsonl --prompt 'Summarise: {text}' -o out.jsonl
  headrace job start -i letters/ --prompt-file task.txt --agent clerk --name letters --detach
  tail -f inbox.jsonl | headrace job start -i - --prompt '{text}' | jq -r .value
  headrace job start --plan 'List the risks of ...' --synthesis 'Sum up: {results}' --gather quorum --count 8
  headrace job start -i in.jsonl --prompt '{text}' --tenant web --weight 2 --dollars 5 -o out.jsonl
  headrace job start -i in.jsonl --prompt '{text}' -o out.jsonl --embedded --backend local
"""

WORKERS: Final = 64
MAX_TOKENS: Final = 1024

app = typer.Typer(help="One prompt over many inputs.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def group() -> None:
    """One prompt over many inputs."""


@app.command(epilog=START_EXAMPLES)
def start(
    context: typer.Context,
    file: Annotated[
        JobPlan | None,
        typer.Argument(
            metavar="[JOB.toml]",
            help="A file that describes the job; options go before what it says.",
            parser=read_job_file,
            callback=lay_under,
            is_eager=True,
        ),
    ] = None,
    input: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", help="A file, a folder, or - for standard input; may be repeated."),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="The prompt; {text} and other {field}s stand for the input's.")
    ] = None,
    prompt_file: Annotated[Path | None, typer.Option(help="A file that holds the prompt.")] = None,
    system: Annotated[str, typer.Option(help="The system message, the same for every input.")] = "",
    agent: Annotated[str, typer.Option(help="A configured agent, with its own model, words and tools.")] = "",
    model: Annotated[str, typer.Option(help="The model, if not the daemon's default; openai: needed.")] = "",
    input_format: Annotated[
        Literal["auto", "jsonl", "lines", "file"],
        typer.Option(help="What files hold. auto: JSON Lines by name and on pipes, else the whole file is one input."),
    ] = "auto",
    output: Annotated[str, typer.Option("--output", "-o", help="Where results go, as JSON Lines; - is stdout.")] = "-",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Empty an output file that has content.")] = False,
    ordered: Annotated[bool, typer.Option("--ordered", help="Write results in order of input.")] = False,
    workers: Annotated[
        int | None, typer.Option(help="Live runs at most; if not given, the daemon's default, or embedded 64.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Output tokens of one answer at most; if not given, the agent's, or 1024.")
    ] = None,
    temperature: Temperature = None,
    seed: Seed = None,
    tenant: Annotated[str, typer.Option(help="Whose job this is.")] = "default",
    name: Annotated[str, typer.Option(help="The job's name.")] = "job",
    priority: Annotated[PriorityOption, typer.Option(help="How urgent it is.")] = "batch",
    weight: Annotated[float, typer.Option(help="Its part of the tenant's service, against its other jobs.")] = 1.0,
    max_tokens_total: TotalTokens = None,
    dollars: Dollars = None,
    timeout: Timeout = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first item that fails.")] = False,
    gather: Gather = None,
    count: Count = None,
    deadline: Deadline = None,
    plan: Plan = None,
    planner: Planner = None,
    most: Most = None,
    plan_to: PlanTo = None,
    synthesis: Synthesis = None,
    synthesizer: Synthesizer = None,
    share: Share = None,
    json: Annotated[
        bool, typer.Option("--json", help="End with the summary as one JSON object, on stdout if results go to a file.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no warnings.")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Send the inputs, print the job's id, and go.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many calls and tokens it takes, how much money and how long.")
    ] = False,
    url: Url = DEFAULT_URL,
    no_wait: NoWait = False,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Run everything in this process, without a daemon.")
    ] = False,
    backend: Backend = "simulated",
    base_url: BaseUrl = "",
    api_key_env: KeyEnv = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    counted: CountedOption = "reconciled",
    concurrency: Concurrency = None,
    retries: Retries = 5,
    grace: Annotated[float, typer.Option(help="Seconds that live runs have to end after Ctrl-C.")] = 5.0,
    price_input: PriceInput = None,
    price_output: PriceOutput = None,
    speed: Speed = 50.0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every step of every call on stderr.")] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log as JSON objects on stderr, instead of showing progress.")
    ] = False,
    metrics: Annotated[
        Path | None, typer.Option(help="A file for Prometheus metrics, rewritten every 5 seconds and at the end.")
    ] = None,
) -> None:
    """Runs one prompt over many inputs.

    Results are written as JSON Lines: one object per input, when its answer is complete. The daemon keeps inputs and
    results, so this end may leave at any time (see `headrace job results`). Ctrl-C ends the job, once more leaves at
    once.

    From --backend on, options are for --embedded only: a daemon's backends are in its configuration.

    Exit codes: 0 all done, or as much as its gather asks for; 1 some items failed; 2 wrong usage, inputs or
    configuration, nothing was started; 3 the daemon or the backend cannot be used, nothing could be done; 130
    interrupted.
    """
    path = None if output == "-" else Path(output)
    if not embedded:
        refuse(context, EMBEDDED_ONLY, "only with --embedded; a daemon's backends are in its configuration")
        base = file or NO_FILE
        plans = planner_of(base.planner, task=plan, agent=planner, most=most, to=plan_to)
        text = read_prompt(*the_prompt(context, prompt, prompt_file, plans))
        request = JobRequest(
            prompt=text,
            who=who_works(
                context,
                agent=agent,
                model=model,
                system=system,
                max_tokens=max_tokens or (None if agent else MAX_TOKENS),
                temperature=temperature,
                seed=seed,
            ),
            job=_job_id(name),
            name=name,
            tenant=tenant,
            priority=priority,
            weight=weight,
            workers=workers,
            ordered=ordered,
            fail_fast=fail_fast,
            budget=budget(
                rounds=base.budget.rounds,
                tool_calls=base.budget.tool_calls,
                tokens=max_tokens_total,
                dollars=dollars,
                timeout=timeout,
            ),
            gather=gather_of(base.gather, policy=gather, count=count, deadline=deadline),
            planner=plans,
            synthesis=synthesis_of(base.synthesis, prompt=synthesis, agent=synthesizer, share=share),
            debate=base.debate,
        )
        if input and not request.takes_inputs:
            why = "the job's planner makes its inputs" if request.debate is None else "a debate is about its prompt"
            raise WrongOption(f"--input: {why}; give none")
        remote = RemoteJob(
            url=url,
            request=request,
            template=None if request.debate is not None else item_template(request),
            inputs=tuple(input or ()),
            input_format=input_format,
            output=path,
            overwrite=overwrite,
            detach=detach,
            wait=not no_wait,
            json=json,
            quiet=quiet,
        )
        raise typer.Exit(foretell(remote) if dry_run else start_remote(remote))
    refuse(context, DAEMON_ONLY, "only with a daemon, not with --embedded")
    options = JobOptions(
        inputs=tuple(input or ()),
        input_format=input_format,
        prompt=prompt,
        prompt_file=prompt_file,
        system=system,
        output=path,
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
        workers=WORKERS if workers is None else workers,
        max_tokens=MAX_TOKENS if max_tokens is None else max_tokens,
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


app.command("ls", epilog=job_manage.LS_EXAMPLES)(job_manage.ls)
app.command("show", epilog=job_manage.SHOW_EXAMPLES)(job_manage.show)
app.command("results", epilog=job_manage.RESULTS_EXAMPLES)(job_manage.results)
app.command("retry", epilog=job_manage.RETRY_EXAMPLES)(job_manage.retry)
app.command("cancel", epilog=job_manage.CANCEL_EXAMPLES)(job_manage.cancel)
app.command("rm")(job_manage.rm)


def _job_id(name: str) -> str:
    """An id that says whose it is, chosen here, so that a lost answer can be found out."""
    return f"{check_name('--name', name)[:48]}-{token_hex(3)}"
