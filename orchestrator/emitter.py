"""How an owner tells its hooks what happens to a call: one frozen transition, made only if somebody wants it."""

from collections.abc import Sequence

from agents.messages import Usage
from orchestrator.policy.ticket import Ticket
from orchestrator.transitions import Hook, Transition, TransitionKind, hooks_by_kind


class Emitter:
    """The hooks of one backend. They are synchronous and never raise."""

    __slots__ = ("_backend", "_hooks")

    def __init__(self, backend: str, hooks: Sequence[Hook]) -> None:
        self._backend = backend
        self._hooks = hooks_by_kind(hooks)

    def __call__(
        self,
        kind: TransitionKind,
        ticket: Ticket,
        at: float,
        *,
        outcome: str = "",
        waited: float = 0.0,
        seconds: float = 0.0,
        usage: Usage | None = None,
    ) -> None:
        hooks = self._hooks[kind]
        if not hooks:
            return
        endpoint = ticket.endpoint
        call = ticket.call
        transition = Transition(
            kind,
            at,
            self._backend,
            call.flow,
            ticket.priority,
            "" if endpoint is None else endpoint.name,
            ticket.attempts,
            outcome,
            waited,
            seconds,
            ticket.held_by,
            usage,
            call.request.model,
            call.key,
            call.sent > 0,
            ticket.whole_input + int(ticket.input_sigma),
            ticket.max_output,
            call.held,
            ticket.waits,
        )
        for hook in hooks:
            hook(transition)
