"""What `headrace worker` does, from what it was told to an exit code."""

import trio

from agents.errors import HeadraceError
from orchestrator.cli.connect import GET_A_KEY, UNAUTHORIZED, exit_code
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


async def work(config: WorkerConfig, ending: SignalEnd) -> int:
    """Runs a worker until a signal ends it, or there is no daemon for too long."""
    allow_many_files()
    configure_logging(json=False, level="warning")
    tune_collector()
    try:
        worker = Worker(config)
        async with trio.open_nursery() as nursery:
            ending.target = _End(worker)
            nursery.start_soon(_greet, worker, config, nursery)
    except HeadraceError as error:
        return _fail(error)
    except BaseExceptionGroup as group:
        cause = only(group, HeadraceError)
        if cause is None:
            raise
        return _fail(cause)
    say(f"worker {worker.name} has ended")
    return DONE


async def _greet(worker: Worker, config: WorkerConfig, nursery: trio.Nursery) -> None:
    say(f"worker {worker.name} looks for the daemon at {', '.join(map(clean, config.daemons))}")
    await nursery.start(worker.run)
    say(f"worker {worker.name} drives up to {config.runs} runs of the daemon at {clean(worker.url)}")


def _fail(error: HeadraceError) -> int:
    message = clean(error.message)
    if isinstance(error, Refusal) and error.status == UNAUTHORIZED:
        message += f"; {GET_A_KEY}, and name it with --key-env"
    complain(message)
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
