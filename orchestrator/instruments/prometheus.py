"""Prometheus metrics of calls: a hook on transitions, and what a scrape reads from it.

Names begin with `headrace_`, units come last and are base units. Labels are bounded: tenants by a cap, everything else
by configuration; job and run never become labels. What is a state rather than a sum (queues, limits in use, fairness)
is not pushed at all but read when a scrape comes (see `gauges`).

The registry is the hook's own, never the library's global one, so that two daemons in one process do not mix.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from agents.messages import Usage
from agents.port import Priority
from orchestrator.instruments.books import (
    TURN_BOUNDS,
    BackendBook,
    Distribution,
    EndpointBook,
    TenantBook,
    TenantLabels,
)
from orchestrator.instruments.families import counter, histogram
from orchestrator.instruments.gauges import BackendState, state_gauges
from orchestrator.transitions import Transition

UPSTREAM_KINDS = frozenset(
    {"throttled", "overloaded", "unavailable", "connect_timeout", "silence_timeout", "truncated", "refused"}
)
"""The errors that an endpoint answered with or caused; others are the queue's or the caller's."""

PRIORITIES = tuple(priority.name.lower() for priority in Priority)

Cost = Callable[[Transition], int | None]
"""What an ended attempt cost in micro-dollars; None where that is unknown."""


class PrometheusHook(Collector):
    """Implements `orchestrator.transitions.Hook` and a collector for its own `registry`.

    `watch` adds an owner whose state is read at each scrape. `on_turn` takes the seconds of an owner's turn.
    """

    wants = frozenset({"started", "first_token", "attempt_failed", "retrying", "finished"})

    def __init__(self, tenants: TenantLabels | None = None, *, cost: Cost | None = None) -> None:
        self.registry = CollectorRegistry()
        self._labels = TenantLabels() if tenants is None else tenants
        self._cost = cost
        self._watched: list[Callable[[], BackendState]] = []
        self._tenants: dict[tuple[str, str], TenantBook] = {}
        self._endpoints: dict[tuple[str, str], EndpointBook] = {}
        self._backends: dict[str, BackendBook] = {}
        self._turns = Distribution(TURN_BOUNDS)
        self.on_turn = self._turns.observe
        self.registry.register(self)

    def reset(self) -> None:
        """Sets every count back to nothing. State that is read at a scrape, and the tenants' labels, stay."""
        self._tenants.clear()
        self._endpoints.clear()
        self._backends.clear()
        self._turns.clear()

    def watch(self, state: Callable[[], BackendState]) -> None:
        """Reads the state of one more owner (its `statistics`) at every scrape."""
        self._watched.append(state)

    def exposition(self) -> bytes:
        """Everything in this registry in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)

    def __call__(self, transition: Transition) -> None:
        kind = transition.kind
        if kind == "started":
            self._tenant(transition).waits[transition.priority].observe(transition.waited)
        elif kind == "first_token":
            self._endpoint(transition).first_token.observe(transition.seconds)
        elif kind == "finished":
            book = self._tenant(transition)
            book.outcomes[transition.priority, transition.outcome] += 1
            if transition.outcome == "ok":
                self._answered(transition, book)
            backend = self._backends.get(transition.backend)
            if backend is None:
                backend = self._backends[transition.backend] = BackendBook()
            backend.durations[transition.priority].observe(transition.seconds)
        elif kind == "attempt_failed":
            if transition.outcome in UPSTREAM_KINDS:
                self._endpoint(transition).errors[transition.outcome] += 1
            self._count_usage(transition, self._tenant(transition))
        elif kind == "retrying":
            self._tenant(transition).retries[transition.outcome] += 1

    def _answered(self, transition: Transition, book: TenantBook) -> None:
        usage = transition.usage
        if usage is None or usage.input is None or usage.output is None:
            self._endpoint(transition).unreported += 1
        self._count_usage(transition, book)

    def _count_usage(self, transition: Transition, book: TenantBook) -> None:
        if transition.usage is None:
            return
        _count_tokens(book, transition.usage)
        if self._cost is not None:
            book.micro_dollars += self._cost(transition) or 0

    def _tenant(self, transition: Transition) -> TenantBook:
        # a tenant with a label of its own is found by its name; only the others need to ask for theirs
        tenant = transition.flow.tenant
        book = self._tenants.get((transition.backend, tenant))
        if book is None:
            key = (transition.backend, self._labels.label(tenant))
            book = self._tenants.get(key)
            if book is None:
                book = self._tenants[key] = TenantBook()
        return book

    def _endpoint(self, transition: Transition) -> EndpointBook:
        key = (transition.backend, transition.endpoint)
        book = self._endpoints.get(key)
        if book is None:
            book = self._endpoints[key] = EndpointBook()
        return book

    def collect(self) -> Iterable[Metric]:
        states = [read() for read in self._watched]
        yield from self._tenant_metrics()
        yield from self._endpoint_metrics(states)
        yield histogram(
            "call_duration_seconds",
            "From a call's arrival to its end, the wait in queue included.",
            ("backend", "priority"),
            (
                ((name, PRIORITIES[priority]), durations)
                for name, book in list(self._backends.items())
                for priority, durations in enumerate(book.durations)
                if durations.count
            ),
        )
        yield histogram("owner_loop_seconds", "Work of one turn of an owner.", (), [((), self._turns)])
        yield from state_gauges(states, self._labels)

    def _tenant_metrics(self) -> Iterable[Metric]:
        books, key = list(self._tenants.items()), ("backend", "tenant")
        yield histogram(
            "queue_wait_seconds",
            "Time in queue before an attempt, since the call was last eligible.",
            (*key, "priority"),
            (
                ((*who, PRIORITIES[priority]), waits)
                for who, book in books
                for priority, waits in enumerate(book.waits)
                if waits.count
            ),
        )
        yield counter(
            "calls_total",
            "Finished calls by outcome: ok, or the kind of error.",
            (*key, "priority", "outcome"),
            (
                ((*who, PRIORITIES[priority], outcome), count)
                for who, book in books
                for (priority, outcome), count in list(book.outcomes.items())
            ),
        )
        yield counter(
            "retries_total",
            "Attempts that are followed by another, by the kind of error.",
            (*key, "kind"),
            (((*who, kind), count) for who, book in books for kind, count in list(book.retries.items())),
        )
        yield counter(
            "tokens_total",
            "Tokens as providers reported them: input (uncached), cached, cache_write, output.",
            (*key, "type"),
            (((*who, type_), count) for who, book in books for type_, count in list(book.tokens.items())),
        )
        if self._cost is not None:
            yield counter(
                "cost_dollars_total",
                "Cost of reported tokens by the configured prices.",
                key,
                ((who, book.micro_dollars / 1e6) for who, book in books),
            )

    def _endpoint_metrics(self, states: Iterable[BackendState]) -> Iterable[Metric]:
        for state in states:
            for endpoint in state.endpoints:
                self._endpoints.setdefault((state.backend, endpoint.name), EndpointBook())
        books, key = list(self._endpoints.items()), ("backend", "endpoint")
        yield histogram(
            "time_to_first_token_seconds",
            "From dispatch to the first token.",
            key,
            ((who, book.first_token) for who, book in books if book.first_token.count),
        )
        yield counter(
            "upstream_errors_total",
            "Attempts that an endpoint failed or refused, by the kind of error.",
            (*key, "kind"),
            (((*who, kind), count) for who, book in books for kind, count in list(book.errors.items())),
        )
        yield counter(
            "usage_unreported_total",
            "Answers whose tokens the provider did not, or not wholly, report.",
            key,
            ((who, book.unreported) for who, book in books),
        )


def _count_tokens(book: TenantBook, usage: Usage) -> None:
    tokens = book.tokens
    if usage.input is not None:
        tokens["input"] += usage.input
    if usage.output is not None:
        tokens["output"] += usage.output
    if usage.cached:
        tokens["cached"] += usage.cached
    if usage.cache_write:
        tokens["cache_write"] += usage.cache_write
