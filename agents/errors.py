"""The error taxonomy, split by who is to blame, since blame decides what happens next.

| blame    | errors                                        | consequence                                    |
|----------|-----------------------------------------------|------------------------------------------------|
| provider | Throttled, Overloaded, Unavailable            | retried with backoff, feeds limits and breaker |
| request  | Refused, TooLarge                             | never retried: the same request fails again    |
| request  | BudgetExceeded                                | never retried: its tenant's budget is spent    |
| queue    | QueueFull, QueueTimeout, CallTimeout, OwnerClosed | the owner ended it; the provider is not at fault |
| queue    | CallLost                                      | asked again, as the call after it              |
| caller   | CallerGone                                    | nobody waits for the answer any more           |
| author   | InvalidLimits, UnknownModel                   | configuration or arguments are wrong           |
| nobody   | Draining                                      | the daemon is ending, and says so              |

Adapters decide from status and structured code, never from prose.
"""

from typing import ClassVar, Literal

from agents.messages import Usage

Blame = Literal["provider", "request", "queue", "caller", "author", "nobody"]


class HeadraceError(Exception):
    """Base of every error raised on purpose. The message is one sentence for a person."""

    blame: ClassVar[Blame] = "author"

    @property
    def message(self) -> str:
        return str(self)


class ModelError(HeadraceError):
    """A model call ended without a reply. `kind` is the stable word used in metrics and JSON."""

    kind: ClassVar[str] = "model_error"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        usage: Usage | None = None,
        partial: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.usage = usage
        self.partial = partial


class Throttled(ModelError):
    """The provider said 429. `retry_after` is in seconds from the answer, None if it named no time.

    `exhausted` holds the limit kinds the answer names as used up (see `orchestrator.policy.limits`);
    empty means that the provider did not say, which is taken as too much concurrency.
    """

    blame = "provider"
    kind = "throttled"
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        exhausted: frozenset[str] = frozenset(),
        status: int | None = 429,
        code: str | None = None,
    ) -> None:
        super().__init__(message, status=status, code=code)
        self.retry_after = retry_after
        self.exhausted = exhausted


class Overloaded(ModelError):
    """The provider has no capacity for anybody at the moment (529, 503)."""

    blame = "provider"
    kind = "overloaded"
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
        code: str | None = None,
        usage: Usage | None = None,
        partial: str = "",
    ) -> None:
        super().__init__(message, status=status, code=code, usage=usage, partial=partial)
        self.retry_after = retry_after


class Unavailable(ModelError):
    """The endpoint could not be reached, broke off, or failed inside (connect, 5xx, truncated stream).

    `worked` is False only where the provider certainly did no work (the connection was refused). `retry_after` is in
    seconds, where it is known when the endpoint will be tried again.
    """

    blame = "provider"
    kind = "unavailable"
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        usage: Usage | None = None,
        partial: str = "",
        worked: bool = True,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status=status, code=code, usage=usage, partial=partial)
        self.worked = worked
        self.retry_after = retry_after


class ConnectTimeout(Unavailable):
    """No connection within the connect clock."""

    kind = "connect_timeout"


class SilenceTimeout(Unavailable):
    """Nothing arrived for longer than the silence clock allows."""

    kind = "silence_timeout"


class Truncated(Unavailable):
    """The stream ended without saying that the answer was complete; `partial` holds what came."""

    kind = "truncated"


class Refused(ModelError):
    """The provider refuses this request as it is (400, 401, 403, 404, 413, quota): never retried.

    `endpoint_fault` marks refusals that any request to that endpoint would get (a wrong key, no quota).
    """

    blame = "request"
    kind = "refused"

    def __init__(
        self, message: str, *, status: int | None = None, code: str | None = None, endpoint_fault: bool = False
    ) -> None:
        super().__init__(message, status=status, code=code)
        self.endpoint_fault = endpoint_fault


class TooLarge(ModelError):
    """The call is larger than a limit could ever admit; the message names the limit."""

    blame = "request"
    kind = "too_large"


class QueueFull(ModelError):
    """The caller's tenant, or the owner, holds as many waiting calls as it may. `retry_after` in seconds."""

    blame = "queue"
    kind = "queue_full"

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message, status=429)
        self.retry_after = retry_after


class BudgetExceeded(ModelError):
    """The tenant's budget has no room for the most that this call could use; nothing was sent.

    `renews` is when the budget's next period begins, in seconds since the epoch; None where it has one period only.
    Trying again before then is of no use, so clients are told not to (`x-should-retry: false`).
    """

    blame = "request"
    kind = "budget_exceeded"

    def __init__(self, message: str, *, renews: float | None = None) -> None:
        super().__init__(message, status=429, code="insufficient_quota")
        self.renews = renews


class QueueTimeout(ModelError):
    """The call's deadline passed, or could not be met, before it was dispatched."""

    blame = "queue"
    kind = "queue_timeout"


class CallTimeout(ModelError):
    """The whole call took longer than its clock or its caller's deadline allowed."""

    blame = "queue"
    kind = "call_timeout"


class OwnerClosed(ModelError):
    """The backend's owner is shutting down or has failed."""

    blame = "queue"
    kind = "owner_closed"


class CallLost(ModelError):
    """Whoever made the call is gone, and nobody knows what became of it: a provider may have worked on it."""

    blame = "queue"
    kind = "call_lost"


class CallerGone(ModelError):
    """The caller left; recorded as the outcome, seen by nobody but instruments."""

    blame = "caller"
    kind = "caller_gone"


def may_have_worked(error: ModelError) -> bool:
    """Whether the provider may have done work for the attempt that ended so; False only where it certainly has not."""
    if isinstance(error, Unavailable):
        return error.worked
    return not isinstance(
        error, Throttled | Overloaded | Refused | TooLarge | BudgetExceeded | QueueFull | QueueTimeout | UnknownModel
    )


class InvalidLimits(HeadraceError):
    """A limit, budget or weight that makes no sense; the message names the field and what is allowed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class UnknownModel(ModelError):
    """No backend serves a model of this name."""

    blame = "request"
    kind = "unknown_model"


class Draining(HeadraceError):
    """The daemon is ending and takes nothing new. Nothing was created."""

    blame = "nobody"
