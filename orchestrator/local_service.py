"""A local model server for as long as its owner runs: a failure to start is told apart from one that comes later."""

from collections.abc import Callable

import trio

from orchestrator.backend_choice import BackendError
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.local.config import NotInstalled
from orchestrator.backends.local.process import ServerFailed


async def serve_local(
    backend: LocalBackend,
    on_lost: Callable[[str], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs the server until cancelled. Raises `BackendError` where it cannot start.

    `on_lost` is told why, if it is given up after it had started; calls then fail as `Unavailable`.
    """
    started = False

    class Status:
        def started(self, value: None = None) -> None:
            nonlocal started
            started = True
            task_status.started()

    try:
        await backend.run(task_status=Status())
    except (NotInstalled, ServerFailed) as error:
        if not started:
            raise BackendError(error.message) from error
        on_lost(error.message)
