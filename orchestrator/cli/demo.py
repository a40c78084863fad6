"""`headrace demo`: many agents, three tenants, one small real model."""

import os
from typing import Annotated

import trio
import typer

from orchestrator.cli.demo_run import DemoOptions, run_demo


def demo(
    require_local: Annotated[
        bool, typer.Option("--require-local", help="Fail where the local model cannot run, as under CI.")
    ] = False,
    simulated: Annotated[bool, typer.Option("--simulated", help="Use the simulated model from the start.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")] = False,
) -> None:
    """Shows many agents share one small model fairly."""
    options = DemoOptions(
        require_local=require_local or bool(os.environ.get("CI")),
        simulated=simulated,
        json=json,
    )
    raise typer.Exit(trio.run(run_demo, options, restrict_keyboard_interrupt_to_checkpoints=True))
