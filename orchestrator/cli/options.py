"""Options that several commands share, and options that belong to one way of working only."""

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from agents.amounts import Limits
from agents.errors import HeadraceError, InvalidLimits
from agents.money import MILLION

PriorityOption = Literal["interactive", "standard", "batch"]

Backend = Annotated[Literal["simulated", "local", "openai"], typer.Option(help="Where models answer.")]
BaseUrl = Annotated[str, typer.Option(help="openai: the server's address, up to and with /v1.")]
KeyEnv = Annotated[str | None, typer.Option(help="openai: the environment variable that holds the key.")]
Rpm = Annotated[float | None, typer.Option(help="Requests a minute.")]
Tpm = Annotated[float | None, typer.Option(help="Tokens a minute, input and output together.")]
CountedOption = Annotated[
    Literal["at_admission", "reconciled", "as_produced"],
    typer.Option(help="How the provider counts --tpm: the most it could be, corrected at the end, or as it comes."),
]
Concurrency = Annotated[
    int | None, typer.Option(help="Calls in flight at most; without it the limit is found by trying.")
]
Speed = Annotated[float, typer.Option(help="simulated: times faster than a usual API.")]
Retries = Annotated[int, typer.Option(help="Tries after the first, where trying again can help.")]
PriceInput = Annotated[float | None, typer.Option(help="Dollars per million input tokens.")]
PriceOutput = Annotated[float | None, typer.Option(help="Dollars per million output tokens.")]
Temperature = Annotated[float | None, typer.Option(help="The model's default if not given.")]
Seed = Annotated[int | None, typer.Option(help="For the same answers again, where the model can.")]

TotalTokens = Annotated[int | None, typer.Option(help="Budget: input and output tokens in all.")]
Dollars = Annotated[float | None, typer.Option(help="Budget: what it may cost.")]
Timeout = Annotated[float | None, typer.Option(help="Budget: seconds from its start, waiting in the queue included.")]

BACKEND_OPTIONS = (
    "backend",
    "base_url",
    "api_key_env",
    "rpm",
    "tpm",
    "counted",
    "concurrency",
    "speed",
    "retries",
    "price_input",
    "price_output",
)
"""What an embedded backend is told, and a daemon's backends know from its configuration."""


class WrongOption(HeadraceError):
    """Options that do not go together."""


def refuse(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Raises `WrongOption` where any of these options was given on the command line."""
    refused = [name for name in names if given(context, name)]
    if refused:
        raise WrongOption(f"{', '.join(_option(context, name) for name in refused)}: {why}")


def budget(
    *,
    rounds: int | None = None,
    tool_calls: int | None = None,
    tokens: int | None = None,
    dollars: float | None = None,
    timeout: float | None = None,
) -> Limits:
    """Limits from options. Raises `InvalidLimits`, naming the option."""
    options = {
        "rounds": "--max-rounds",
        "tool_calls": "--max-tool-calls",
        "tokens": "--max-tokens-total",
        "micro_dollars": "--dollars",
        "timeout": "--timeout",
    }
    micro = None
    if dollars is not None:
        if not 0 <= dollars < MILLION:
            raise InvalidLimits("--dollars", f"0 dollars or more, not {dollars:g}")
        micro = round(dollars * MILLION)
    try:
        return Limits(rounds=rounds, tool_calls=tool_calls, tokens=tokens, micro_dollars=micro, timeout=timeout)
    except InvalidLimits as error:
        option = options[error.field]
        raise InvalidLimits(option, error.message.removeprefix(f"{error.field}: ")) from None


def given(context: typer.Context, name: str) -> bool:
    """Whether this option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _option(context: typer.Context, name: str) -> str:
    for parameter in context.command.params:
        if parameter.name == name:
            return max(parameter.opts, key=len)
    return "--" + name.replace("_", "-")
