"""What can go wrong between a client and a daemon, by what helps: another address, patience, or another request."""

from collections.abc import Generator
from contextlib import contextmanager

from agents.errors import HeadraceError
from orchestrator.groups import only


class ClientError(HeadraceError):
    """Base of everything a client raises."""


class BadAddress(ClientError):
    """What was given as the daemon's address is none."""


class NoDaemon(ClientError):
    """Nothing listens at the address. Nothing was sent."""


class DaemonLost(ClientError):
    """The connection broke off: what was asked for may have been done or not."""


class Quiet(DaemonLost):
    """The daemon said nothing for longer than a client waits."""


class BadAnswer(ClientError):
    """Whatever answered is no Headrace daemon, or one of a version this client cannot read."""


class Refusal(ClientError):
    """The daemon said no. `kind` is its stable word; `retry_after` is in seconds, None where no time was named."""

    def __init__(
        self, message: str, *, status: int, kind: str, field: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.field = field
        self.retry_after = retry_after

    @property
    def passing(self) -> bool:
        """Whether the same request may be granted later: the queue is full, or the daemon is starting or ending."""
        return self.status in (429, 503)


def is_gone(error: ClientError) -> bool:
    """Whether the daemon is away, and may come back: not there, broken off, or on its way up or down."""
    return isinstance(error, NoDaemon | DaemonLost) or (isinstance(error, Refusal) and error.status == 503)


@contextmanager
def one_error() -> Generator[None, None, None]:
    """Around a nursery of tasks that speak to a daemon: of the errors that it wraps, the first one is raised.

    When a daemon is given up, every task gives it up, and one of them says all there is to say.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        error = only(group, HeadraceError)
        if error is None:
            raise
        raise error from None
