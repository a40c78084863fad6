"""`headrace check`: at most ten real requests that say what a backend can do."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import trio
import typer

from agents.errors import HeadraceError, InvalidLimits
from orchestrator.check.report import CheckReport, Verdict
from orchestrator.check.run import MOST_REQUESTS, Check
from orchestrator.check.sender import Step
from orchestrator.cli.check_report import as_json, print_report
from orchestrator.cli.check_subject import CheckOptions, NoSubject, known_backends, open_subject
from orchestrator.cli.exits import BACKEND, DONE, SOME_FAILED, USAGE, complain, say
from orchestrator.cli.job_options import read_price
from orchestrator.cli.render import print_json
from orchestrator.cli.signals import SignalEnd, until_signalled

EXAMPLES: Final = """
\b
Examples:
  headrace check openai                  a backend of the configuration file
  headrace check --upstream https://api.openai.com/v1 --model gpt-4o-mini
  headrace check --upstream local        the local model of this machine
"""

_CODES: dict[Verdict, int] = {"usable": DONE, "incomplete": SOME_FAILED, "unusable": BACKEND, "unfinished": SOME_FAILED}


def check(
    backend: Annotated[
        str | None,
        typer.Argument(help="A backend of the configuration file.", autocompletion=known_backends, show_default=False),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    upstream: Annotated[
        str | None, typer.Option(help="Without a file: a server's address up to and with /v1, or local, or simulated.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="Which of its models. Without it: the configured one, or the only one it lists.")
    ] = "",
    endpoint: Annotated[
        str, typer.Option(help="Only this endpoint. Without it all are greeted, and the first that answers is checked.")
    ] = "",
    api_key_env: Annotated[
        str | None, typer.Option(help="With --upstream: the environment variable that holds the key.")
    ] = None,
    price_input: Annotated[float | None, typer.Option(help="Dollars per million input tokens.")] = None,
    price_output: Annotated[float | None, typer.Option(help="Dollars per million output tokens.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one request may take.")] = 60.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing while it works.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Says what a backend can do, what it limits and what it costs, by at most 10 small real requests.

    Exit codes: 0 usable; 1 usable, but something important is missing; 2 wrong usage; 3 it cannot be used.
    """
    if not (math.isfinite(timeout) and timeout > 0):
        raise InvalidLimits("--timeout", f"must be a number of seconds above 0, not {timeout:g}")
    options = CheckOptions(
        backend=backend or "",
        config=config,
        upstream=upstream or "",
        model=model,
        endpoint=endpoint,
        api_key_env=api_key_env,
        price=read_price(price_input, price_output),
        timeout=timeout,
    )
    command = _Command(options, quiet=quiet, json=as_json)
    raise typer.Exit(trio.run(until_signalled, command.run, "interrupted; nothing was asked"))


class _Command:
    """One call of the command."""

    def __init__(self, options: CheckOptions, *, quiet: bool, json: bool) -> None:
        self._options = options
        self._quiet = quiet
        self._json = json
        self._scope = trio.CancelScope()

    async def run(self, ending: SignalEnd) -> int:
        """Checks and reports. An interrupted check reports what it knows by then."""
        try:
            async with open_subject(self._options, self._note) as found:
                subject = found.subject
                self._note(f"{subject.backend}, model {subject.model}: {_at_most(MOST_REQUESTS - subject.spent)}")
                running = Check(subject, timeout=self._options.timeout, on_step=self._show)
                ending.target = self
                with self._scope:
                    await running.run()
                report, table = running.report(), found.table
        except NoSubject as error:
            report, table = error.report, None
        except HeadraceError as error:
            complain(error.message)
            return USAGE
        self._print(report, table)
        if report.verdict == "unfinished":
            complain(f"interrupted; requests sent so far: {report.requests}")
            return ending.exit_code
        return _CODES[report.verdict]

    def end(self, signal_name: str) -> None:
        self._scope.cancel()

    def hurry(self) -> None:
        self._scope.cancel()

    def _print(self, report: CheckReport, table: Sequence[str] | None) -> None:
        if self._json:
            print_json(as_json(report, table))
        else:
            if not self._quiet:
                say("")
            print_report(report, table)

    def _note(self, line: str) -> None:
        if not self._quiet:
            say(line)

    def _show(self, step: Step) -> None:
        if step.waiting is not None:
            self._note(f"      waits {step.waiting:.0f} s, until its limit has room again")
            return
        last = step.number + step.count - 1
        number = f"{step.number}" if last == step.number else f"{step.number}-{last}"
        if step.seconds is None:
            self._note(f"{number:>4}  {step.title} ...")
        else:
            self._note(f"      {step.problem or 'answered'} ({step.seconds:.2f} s)")


def _at_most(requests: int) -> str:
    return f"at most {requests} requests"
