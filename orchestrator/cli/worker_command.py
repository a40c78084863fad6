"""What `headrace worker` does, from what it was told to an exit code."""

import os
from collections.abc import Mapping
from typing import Final

import trio

from agents.errors import HeadraceError, InvalidLimits
from orchestrator.cli.connect import KEY, KEY_FILE, UNAUTHORIZED, exit_code
from orchestrator.cli.exits import BACKEND, DONE, complain, say
from orchestrator.cli.render import clean
from orchestrator.cli.serve_command import allow_many_files
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.errors import Refusal
from orchestrator.garbage import tune_collector
from orchestrator.groups import only
from orchestrator.instruments.log import configure_logging
from orchestrator.worker.config import WorkerConfig
from orchestrator.worker.link import PatienceOver
from orchestrator.worker.worker import Worker

ADMIN_KEY: Final = f"put an admin's into {KEY}; on the daemon's machine, `headrace keys add TENANT --admin` makes one"


async def work(config: WorkerConfig, ending: SignalEnd) -> int:
    """Runs a worker until a signal ends it, or no daemon is there for too long. Raises `InvalidLimits`."""
    allow_many_files()
    configure_logging(json=False, level="warning")
    tune_collector()
    worker = Worker(config)
    try:
        async with trio.open_nursery() as nursery:
            ending.target = _End(worker)
            nursery.start_soon(_greet, worker, config, nursery)
    except HeadraceError as error:
        return _fail(error, worker, config)
    except BaseExceptionGroup as group:
        cause = only(group, HeadraceError)
        if cause is None:
            raise
        return _fail(cause, worker, config)
    say(f"worker {worker.name} has ended")
    return DONE


async def _greet(worker: Worker, config: WorkerConfig, nursery: trio.Nursery) -> None:
    say(f"worker {worker.name} looks for the daemon at {', '.join(map(clean, config.daemons))}")
    await nursery.start(worker.run)
    say(f"worker {worker.name} drives up to {config.runs} runs of the daemon at {clean(worker.url)}")


def key_place(env: str | None, file: str | None, environ: Mapping[str, str] = os.environ) -> dict[str, str | None]:
    """Where a worker's key is: where it is said, or else where the other commands have theirs."""
    if env is None and file is None:
        env = KEY if environ.get(KEY) else None
        file = environ.get(KEY_FILE) or None if env is None else None
    return {"key_env": env, "key_file": file}


def in_options(error: HeadraceError) -> str:
    """What is wrong, with the option's name for a setting's."""
    if not isinstance(error, InvalidLimits):
        return error.message
    option = error.field.rpartition(".")[2].removeprefix("api_").replace("_", "-")
    return f"--{option}{error.message.removeprefix(error.field)}"


def _fail(error: HeadraceError, worker: Worker, config: WorkerConfig) -> int:
    message = error.message
    if isinstance(error, Refusal) and error.status == UNAUTHORIZED:
        none = config.key_env is None and config.key_file is None
        what = "asks for a key, and none is set" if none else "does not take this key, which it may have revoked"
        message = f"the daemon at {worker.url} {what}; {ADMIN_KEY}"
    complain(clean(message))
    return BACKEND if isinstance(error, PatienceOver) else exit_code(error)


class _End:
    """Implements `orchestrator.cli.signals.Endable`."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def end(self, signal_name: str) -> None:
        count = self._worker.runs
        runs = "1 run" if count == 1 else f"{count} runs"
        say(f"{signal_name}: leaving {runs}, once more to leave at once")
        self._worker.end()

    def hurry(self) -> None:
        self._worker.hurry()
