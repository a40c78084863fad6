"""`headrace run`: one agent, one task."""

from typing import Annotated, Final

import typer

from agents.port import Priority
from agents.spec import AgentSpec
from orchestrator.backend_choice import BackendChoice
from orchestrator.cli.amounts import LIMITS_HELP
from orchestrator.cli.connect import Json, NoWait, Url
from orchestrator.cli.job_options import read_price
from orchestrator.cli.options import (
    BACKEND_OPTIONS,
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
from orchestrator.cli.run_embedded import EmbeddedRun, run_embedded
from orchestrator.cli.run_remote import RemoteRun, run_remote
from orchestrator.cli.run_task import run_task
from orchestrator.client.requests import new_id
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.views.runs import AgentChoice, RunRequest

EXAMPLES: Final = """
\b
Examples:
  headrace run "Name three rivers of Norway"            the daemon's default model
  headrace run --model small --system "Be brief" "..."  another one
  headrace run researcher "Who owns the mill?"          a configured agent, with its tools
  cat letter.txt | headrace run summariser -            the task from standard input
  headrace run researcher "..." --max-rounds 5 --dollars 0.20 --detach
  headrace run --session rivers "And of Sweden?"        what was said before is known
  headrace run --session rivers --continue --grant rounds=20
  headrace run --embedded --backend local "Say hello"   without a daemon
"""

_DAEMON_ONLY: Final = ("url", "detach", "no_wait", "job", "session", "go_on", "grant")


def run(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[AGENT] TASK", help="A configured agent, if any, and the task; - reads it from stdin."),
    ] = None,
    model: Annotated[str, typer.Option(help="A plain agent: the model.")] = "",
    system: Annotated[str, typer.Option(help="A plain agent: its system message.")] = "",
    max_tokens: Annotated[int | None, typer.Option(help="A plain agent: output tokens of one answer at most.")] = None,
    temperature: Temperature = None,
    seed: Seed = None,
    tenant: Annotated[str, typer.Option(help="Whose run this is.")] = "default",
    job: Annotated[str, typer.Option(help="The job it belongs to, in the fair order and in `ps`.")] = "",
    priority: Annotated[PriorityOption | None, typer.Option(help="How urgent; the tenant's own if not given.")] = None,
    session: Annotated[
        str, typer.Option(help="The conversation that it goes on with, or begins. One run of it works at a time.")
    ] = "",
    go_on: Annotated[
        bool, typer.Option("--continue", help="--session: no task, go on where its last run stopped.")
    ] = False,
    grant: Annotated[
        list[str] | None,
        typer.Option(metavar="LIMIT=AMOUNT", help=f"--session: more for this run than its agent has: {LIMITS_HELP}."),
    ] = None,
    max_rounds: Annotated[int | None, typer.Option(help="Budget: model calls.")] = None,
    max_tool_calls: Annotated[int | None, typer.Option(help="Budget: tool calls.")] = None,
    max_tokens_total: TotalTokens = None,
    dollars: Dollars = None,
    timeout: Timeout = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Print the run's id and leave it to the daemon.")
    ] = False,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing of the run but its end.")] = False,
    url: Url = DEFAULT_URL,
    no_wait: NoWait = False,
    embedded: Annotated[bool, typer.Option("--embedded", help="Run it in this process, without a daemon.")] = False,
    backend: Backend = "simulated",
    base_url: BaseUrl = "",
    api_key_env: KeyEnv = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    counted: CountedOption = "reconciled",
    concurrency: Concurrency = None,
    speed: Speed = 50.0,
    retries: Retries = 5,
    price_input: PriceInput = None,
    price_output: PriceOutput = None,
) -> None:
    """Runs one agent on one task: its answer goes to standard output, what happens on the way to standard error.

    With --session, runs follow each other in one conversation, which knows what was said in it and keeps its agent.
    Where a limit has stopped one, --continue goes on in another, which has a budget of its own.

    Ctrl-C cancels the run and waits for its end; once more leaves at once.

    Exit codes: 0 completed; 1 ended otherwise; 2 wrong usage, nothing was started; 3 no daemon, or no backend it could
    use; 130 interrupted.
    """
    asked = run_task(words or (), session=session, go_on=go_on, grant=grant or ())
    limits = budget(
        rounds=max_rounds, tool_calls=max_tool_calls, tokens=max_tokens_total, dollars=dollars, timeout=timeout
    )
    if embedded:
        refuse(context, _DAEMON_ONLY, "only with a daemon, not with --embedded")
        if asked.agent:
            raise WrongOption(
                f"agent {asked.agent!r} is configured in a daemon; with --embedded there is only a plain one"
            )
        choice = BackendChoice(
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
        )
        spec = AgentSpec(
            name="plain",
            model=choice.model_name,
            system=system,
            limits=limits,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
        )
        raise typer.Exit(
            run_embedded(
                EmbeddedRun(
                    backend=choice,
                    agent=spec,
                    task=asked.task,
                    tenant=tenant,
                    priority=Priority[(priority or "standard").upper()],
                    retries=retries,
                    price=read_price(price_input, price_output),
                    json=json,
                    quiet=quiet,
                )
            )
        )
    refuse(context, BACKEND_OPTIONS, "only with --embedded; a daemon's backends are in its configuration")
    who = AgentChoice(
        agent=asked.agent, model=model, system=system, max_tokens=max_tokens, temperature=temperature, seed=seed
    )
    request = RunRequest(
        task=asked.task,
        who=who,
        run=new_id(),
        tenant=tenant,
        job=job,
        priority=priority,
        budget=limits,
        session=asked.session,
        grant=asked.grant,
    )
    raise typer.Exit(
        run_remote(
            RemoteRun(
                url=url,
                request=request,
                detach=detach,
                wait=not no_wait,
                json=json,
                quiet=quiet,
                only_word=asked.only_word,
            )
        )
    )
