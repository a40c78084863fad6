"""How large a call just arrived is expected to be: the making of its ticket."""

from math import ceil

from agents.messages import SILENT
from agents.port import Call
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.estimate import Estimator
from orchestrator.policy.run_table import RunTable
from orchestrator.policy.ticket import Ticket


class Sizing:
    """Makes tickets from calls by what has been learned so far. Amounts are in tokens, `service` in service units."""

    __slots__ = ("_bound", "_estimator", "_runs", "_seq", "_tenants", "_weights")

    def __init__(self, config: DispatchConfig, estimator: Estimator, runs: RunTable) -> None:
        self.configure(config)
        self._weights = config.weights
        self._estimator = estimator
        self._runs = runs
        self._seq = 0

    def configure(self, config: DispatchConfig) -> None:
        """Takes on other tenants' priorities and another default bound."""
        self._bound = config.default_max_tokens
        self._tenants = config.tenants

    def ticket(self, call: Call, now: float) -> Ticket:
        """The call's ticket, which is put on the call as well."""
        request, flow = call.request, call.flow
        self._seq += 1
        size = request.input_bytes()
        tokens, sigma = self._estimator.input(size, len(request.messages))
        bound = self._bound if request.max_tokens is None else request.max_tokens
        if request.wire is not None and request.wire.dialect in SILENT:
            bound = 0
        priority = call.priority
        tenant = self._tenants.get(flow.tenant)
        if tenant is not None and priority < tenant.highest_priority:
            priority = tenant.highest_priority
        ticket = Ticket(
            seq=self._seq,
            tenant=flow.tenant,
            job=flow.job,
            run=flow.run,
            priority=priority,
            arrived=now,
            deadline=call.deadline,
            bytes=size,
            memory=request.held_bytes(),
            input=tokens,
            input_sigma=sigma,
            output=self._estimator.output((flow.tenant, flow.job), bound),
            max_output=bound,
            agent=call.agent,
            call=call,
        )
        ticket.run_state = self._runs.use(flow.tenant, flow.job, flow.run)
        call.ticket = ticket
        return ticket

    def renew(self, ticket: Ticket) -> None:
        """Predicts the output once more, for a call that is about to go: while it waited, others may have taught.

        What it needs of limits never becomes more by it, since there is room for what it needed before.
        """
        key = (ticket.tenant, ticket.job)
        ticket.output = self._estimator.charged_output(key, ticket.max_output)
        whole = ceil(self._estimator.output(key, ticket.max_output))
        if whole < ticket.whole_output:
            ticket.whole_output = whole

    def expect_cached(self, ticket: Ticket) -> None:
        """Sets how much of the call's input is expected from a cache, by the run's call before it."""
        state = ticket.run_state
        if state is not None and state.previous_input is not None:
            ticket.cached = self._estimator.cached(state.previous_input, ticket.input)

    def service(self, ticket: Ticket) -> float:
        """What the call is expected to cost."""
        cached = ticket.cached
        return self._weights.cost(ticket.input - cached, cached, ticket.output)
