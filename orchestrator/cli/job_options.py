"""The options of a job as one struct, and what they mean for its parts."""

import math
from pathlib import Path
from typing import Final

from msgspec import Struct

from agents.errors import InvalidLimits
from agents.money import MILLION, Price
from agents.port import Priority
from agents.spec import AgentSpec
from orchestrator.backend_choice import BackendChoice
from orchestrator.cli.job_stages import STAGES
from orchestrator.cli.options import BACKEND_OPTIONS
from orchestrator.jobs.inputs import InputFormat
from orchestrator.jobs.item_runs import RunOptions
from orchestrator.jobs.job import JobSpec
from orchestrator.jobs.template import Template, TemplateError

MAX_PROMPT_BYTES = 1024 * 1024

EMBEDDED_ONLY: Final = (*BACKEND_OPTIONS, "grace", "verbose", "log_json", "metrics")
DAEMON_ONLY: Final = (
    "file",
    "dry_run",
    "url",
    "agent",
    "weight",
    "detach",
    "no_wait",
    "max_tokens_total",
    "dollars",
    "timeout",
    *STAGES,
)
"""Options of one way of working only, by parameter."""


class JobOptions(Struct, frozen=True, kw_only=True):
    """What a person chose. `output` None is standard output; `grace` in seconds; `price` None is unknown, and
    `metrics` None is no file.
    """

    inputs: tuple[str, ...]
    backend: BackendChoice
    input_format: InputFormat = "auto"
    prompt: str | None = None
    prompt_file: Path | None = None
    system: str = ""
    output: Path | None = None
    overwrite: bool = False
    ordered: bool = False
    workers: int = 64
    max_tokens: int = 1024
    temperature: float | None = None
    seed: int | None = None
    tenant: str = "default"
    name: str = "job"
    priority: Priority = Priority.BATCH
    retries: int = 5
    fail_fast: bool = False
    grace: float = 5.0
    price: Price | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    log_json: bool = False
    metrics: Path | None = None


def check_options(options: JobOptions) -> None:
    """Raises `InvalidLimits`, naming the option."""
    if options.workers < 1:
        raise InvalidLimits("--workers", f"at least 1, not {options.workers}")
    if options.retries < 0:
        raise InvalidLimits("--retries", f"0 or more, not {options.retries}")
    if not (math.isfinite(options.grace) and options.grace >= 0):
        raise InvalidLimits("--grace", f"0 seconds or more, not {options.grace:g}")
    if options.temperature is not None and not (math.isfinite(options.temperature) and options.temperature >= 0):
        raise InvalidLimits("--temperature", f"0 or more, not {options.temperature:g}")


def read_price(input: float | None, output: float | None) -> Price | None:
    """A price from dollars per million tokens; both or neither. Raises `InvalidLimits`."""
    if input is None and output is None:
        return None
    if input is None or output is None:
        raise InvalidLimits("--price-input, --price-output", "give both or neither")
    for option, dollars in (("--price-input", input), ("--price-output", output)):
        if not (math.isfinite(dollars) and dollars >= 0):
            raise InvalidLimits(option, f"0 dollars or more, not {dollars:g}")
    return Price(round(input * MILLION), round(output * MILLION))


def read_template(options: JobOptions) -> Template:
    """The prompt from the option or the file. Raises `TemplateError`."""
    return Template(read_prompt(options.prompt, options.prompt_file))


def read_prompt(prompt: str | None, file: Path | None) -> str:
    """A prompt's text, given or in a file. Raises `TemplateError`."""
    if (prompt is None) == (file is None):
        raise TemplateError("give the prompt with --prompt or with --prompt-file, and not with both")
    if prompt is not None:
        return prompt
    assert file is not None
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_PROMPT_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise TemplateError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise TemplateError(f"{file}: not UTF-8 at byte offset {error.start}") from error
    if len(data) > MAX_PROMPT_BYTES:
        raise TemplateError(f"{file}: longer than {MAX_PROMPT_BYTES // 1024} KiB")
    return text


def job_spec(options: JobOptions, template: Template) -> JobSpec:
    return JobSpec(
        name=options.name,
        template=template,
        workers=options.workers,
        ordered=options.ordered,
        fail_fast=options.fail_fast,
    )


def run_options(options: JobOptions) -> RunOptions:
    """One agent for all items; raises `InvalidLimits` for what an agent cannot be."""
    agent = AgentSpec(
        name=options.name,
        model=options.backend.model_name,
        system=options.system,
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        seed=options.seed,
    )
    return RunOptions(
        agent=agent, job=options.name, tenant=options.tenant, priority=options.priority, price=options.price
    )
