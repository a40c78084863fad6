"""The policy's view of one call: what it is expected to cost, where it stands, what it holds.

A ticket is created when the owner first sees a call and dies with it. Every room of the policy keeps its own
fields here, so that a call costs one object and no lookups.
"""

import math
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

from agents.port import Priority

if TYPE_CHECKING:
    from orchestrator.policy.accounts import Account
    from orchestrator.policy.limits import Lease
    from orchestrator.policy.run_table import RunState

TicketState = Literal["new", "queued", "live", "waiting", "done"]
TicketStage = Literal["sent", "answering", "streaming"]


class Ticket:
    """One call in the policy's hands. Amounts are in tokens, times on the owner's clock in seconds."""

    __slots__ = (
        "account",
        "agent",
        "all_before",
        "arrived",
        "attempts",
        "bytes",
        "cached",
        "call",
        "charge",
        "deadline",
        "delivered",
        "eligible_since",
        "endpoint",
        "failed_at",
        "held_by",
        "input",
        "input_sigma",
        "job",
        "key",
        "lease",
        "max_output",
        "memory",
        "output",
        "own_before",
        "passed",
        "priority",
        "queue_node",
        "run",
        "run_state",
        "seq",
        "stage",
        "started",
        "state",
        "streamed",
        "tenant",
        "tries",
        "variance",
        "waited",
        "waits",
        "whole_input",
        "whole_output",
    )

    # from when it is queued: its tenant's account, and what had been sent to the tenant and to everybody by then
    account: "Account"
    own_before: float
    all_before: float

    def __init__(
        self,
        *,
        seq: int,
        tenant: str,
        job: str = "",
        run: str = "",
        priority: Priority = Priority.STANDARD,
        arrived: float = 0.0,
        deadline: float = math.inf,
        bytes: int = 0,
        memory: int | None = None,
        input: float = 0.0,
        input_sigma: float = 0.0,
        cached: float = 0.0,
        output: float = 0.0,
        max_output: int = 0,
        agent: bool = True,
        call: Any = None,
    ) -> None:
        # identity
        self.call = call
        self.seq = seq
        self.tenant = tenant
        self.job = job
        self.run = run
        self.priority = priority
        self.agent = agent
        self.arrived = arrived
        self.deadline = deadline
        # size: estimates at arrival; `cached` is the part of `input` expected from a cache, `output` the prediction,
        # `max_output` the bound, `input_sigma` one standard deviation of the input estimate; `bytes` is the input's
        # size, by which it is estimated, `memory` what the request takes while it waits
        self.bytes = bytes
        self.memory = bytes if memory is None else memory
        self.input = input
        self.input_sigma = input_sigma
        self.cached = cached
        self.output = output
        self.max_output = max_output
        # the same in whole tokens, and the estimate's variance: books of whole numbers balance exactly
        self.whole_input = ceil(input)
        self.whole_output = ceil(output)
        self.variance = ceil(input_sigma * input_sigma)
        # order; `run_state` is what is remembered of earlier calls of its run, None for a call without one
        self.run_state: RunState | None = None
        self.key: float | None = None
        self.queue_node: Any = None
        self.charge = 0.0
        self.passed = 0.0
        # where it stands
        self.state: TicketState = "new"
        self.stage: TicketStage = "sent"
        self.attempts = 0
        # of the failed attempts those that `retry` counts; a bit for each endpoint that has failed the call
        self.tries = 0
        self.failed_at = 0
        self.eligible_since = arrived
        self.started = 0.0
        self.streamed = 0.0
        self.waited = 0.0
        self.waits: tuple[tuple[str, float], ...] = ()
        self.delivered = False
        self.held_by = ""
        # what it holds while live
        self.endpoint: Any = None
        self.lease: Lease | None = None

    def __repr__(self) -> str:
        return (
            f"<Ticket {self.seq} {self.tenant}/{self.job}/{self.run} {self.priority.name.lower()} {self.state}"
            f" in={self.input:.0f} out={self.output:.0f}>"
        )
