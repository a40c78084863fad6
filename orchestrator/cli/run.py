"""`headrace run`: one agent, one task."""

import sys
from typing import Annotated, Final

import typer

from agents.port import Priority
from agents.spec import AgentSpec
from orchestrator.backend_choice import BackendChoice
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
  headrace run --embedded --backend local "Say hello"   without a daemon
"""

_DAEMON_ONLY: Final = ("url", "detach", "no_wait", "job")


def run(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="[AGENT] TASK", help="A configured agent, if any, and the task; - reads it from stdin."),
    ],
    model: Annotated[str, typer.Option(help="A plain agent: the model.")] = "",
    system: Annotated[str, typer.Option(help="A plain agent: its system message.")] = "",
    max_tokens: Annotated[int | None, typer.Option(help="A plain agent: output tokens of one answer at most.")] = None,
    temperature: Temperature = None,
    seed: Seed = None,
    tenant: Annotated[str, typer.Option(help="Whose run this is.")] = "default",
    job: Annotated[str, typer.Option(help="The job it belongs to, in the fair order and in `ps`.")] = "",
    priority: Annotated[PriorityOption | None, typer.Option(help="How urgent; the tenant's own if not given.")] = None,
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

    Ctrl-C cancels the run and waits for its end; once more leaves at once.

    Exit codes: 0 completed; 1 ended otherwise; 2 wrong usage, nothing was started; 3 no daemon, or no backend it could
    use; 130 interrupted.
    """
    agent, task = _agent_and_task(words)
    limits = budget(
        rounds=max_rounds, tool_calls=max_tool_calls, tokens=max_tokens_total, dollars=dollars, timeout=timeout
    )
    if embedded:
        refuse(context, _DAEMON_ONLY, "only with a daemon, not with --embedded")
        if agent:
            raise WrongOption(f"agent {agent!r} is configured in a daemon; with --embedded there is only a plain one")
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
                    task=_read(task),
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
        agent=agent, model=model, system=system, max_tokens=max_tokens, temperature=temperature, seed=seed
    )
    request = RunRequest(
        task=_read(task), who=who, run=new_id(), tenant=tenant, job=job, priority=priority, budget=limits
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
                only_word="" if agent or len(task.split()) != 1 else task.strip(),
            )
        )
    )


def _agent_and_task(words: list[str]) -> tuple[str, str]:
    if len(words) > 2:
        raise WrongOption(f'one task was expected, perhaps after an agent, and not {len(words)} words: put it in "..."')
    agent, task = words if len(words) == 2 else ("", words[0])
    if not task.strip():
        raise WrongOption("the task is empty")
    return agent, task


def _read(task: str) -> str:
    if task != "-":
        return task
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise WrongOption(f"standard input is not UTF-8 at byte offset {error.start}") from None
    if not text.strip():
        raise WrongOption("standard input is empty; it was to be the task")
    return text
