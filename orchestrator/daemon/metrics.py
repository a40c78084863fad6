"""The daemon's metrics in one registry: calls, runs, and the state of its owners; and what calls cost."""

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import ProcessCollector

from agents.money import Price
from agents.port import Journal
from orchestrator.catalogue import Catalogue
from orchestrator.instruments.books import TenantLabels
from orchestrator.instruments.daemon_state import DaemonGauges
from orchestrator.instruments.http import HttpMetrics
from orchestrator.instruments.lag import LoopLag
from orchestrator.instruments.prometheus import PrometheusHook
from orchestrator.instruments.refusals import BudgetStops
from orchestrator.instruments.runs import MeteredJournal, RunMetrics
from orchestrator.instruments.tools import ToolMetrics
from orchestrator.instruments.watched import RunWatcher
from orchestrator.owner import Owner
from orchestrator.transitions import Transition


class DaemonMetrics:
    """`hook` and `on_turn` are for owners, `journal` wraps each run's log, `cost` is what an attempt cost.

    `tenants` have labels of their own first. `watchers` see the events of runs as well. `http` is told of answers,
    `lag` runs as a task, `gauges` reads the daemon itself; `tools` knows those at work, `stops` what budgets stopped.
    """

    def __init__(
        self,
        tenants: Iterable[str],
        labels: int,
        catalogue: Callable[[], Catalogue],
        *,
        watchers: Sequence[RunWatcher] = (),
    ) -> None:
        self.cost = TransitionPrices(catalogue).cost
        self.labels = TenantLabels(labels, known=tenants)
        self.hook = PrometheusHook(self.labels, cost=self.cost)
        self.on_turn = self.hook.on_turn
        self.exposition = self.hook.exposition
        registry = self.hook.registry
        self._runs = RunMetrics(registry)
        self.tools = ToolMetrics(registry)
        self.stops = BudgetStops()
        self.http = HttpMetrics(registry)
        self.lag = LoopLag(registry)
        self.gauges = DaemonGauges(registry, self.labels)
        ProcessCollector(registry=registry)
        self._watchers: tuple[RunWatcher, ...] = (self.tools, self.stops, *watchers)

    def watch(self, owners: Iterable[Owner]) -> None:
        """Reads the state of these whenever the metrics are read."""
        for owner in owners:
            self.hook.watch(owner.statistics)

    def journal(self, log: Journal) -> Journal:
        """The log of one run, with its events counted, and shown to the other watchers."""
        return MeteredJournal(log, self._runs, *self._watchers)


class TransitionPrices:
    """What an attempt cost, by what its backend calls the model. Prices follow the catalogue in force."""

    def __init__(self, catalogue: Callable[[], Catalogue]) -> None:
        self._catalogue = catalogue
        self._known: Catalogue | None = None
        self._prices: dict[tuple[str, str], Price] = {}

    def cost(self, transition: Transition) -> int | None:
        """In micro-dollars; None where the price or the usage is unknown."""
        if transition.usage is None:
            return None
        catalogue = self._catalogue()
        if catalogue is not self._known:
            self._known, self._prices = catalogue, _by_backend(catalogue)
        price = self._prices.get((transition.backend, transition.model)) or catalogue.prices.price(transition.model)
        return None if price is None else price.cost(transition.usage)


def _by_backend(catalogue: Catalogue) -> dict[tuple[str, str], Price]:
    prices = {}
    for name, targets in catalogue.models.items():
        price = catalogue.prices.price(name)
        if price is not None:
            prices.update({(target.backend, target.model): price for target in targets})
    return prices
