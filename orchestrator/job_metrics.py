"""All metrics of an embedded job in one registry: its calls, its runs, and the state of its owner."""

from collections.abc import Callable, Iterable

from agents.journal import MemoryJournal
from agents.money import Price
from agents.port import Journal
from orchestrator.instruments.books import TenantLabels
from orchestrator.instruments.prometheus import PrometheusHook
from orchestrator.instruments.runs import MeteredJournal, RunMetrics
from orchestrator.instruments.tools import ToolMetrics
from orchestrator.owner import Owner
from orchestrator.transitions import Transition


class JobMetrics:
    """`hook` and `on_turn` are for the owner, `journal` makes one for each run; without a price nothing is costed."""

    def __init__(self, tenants: Iterable[str], price: Price | None = None) -> None:
        self.hook = PrometheusHook(TenantLabels(known=tenants), cost=None if price is None else _cost(price))
        self.on_turn = self.hook.on_turn
        self.exposition = self.hook.exposition
        self._runs = RunMetrics(self.hook.registry)
        self._tools = ToolMetrics(self.hook.registry)

    def watch(self, owner: Owner) -> None:
        """Reads this owner's state whenever the metrics are read."""
        self.hook.watch(owner.statistics)

    def journal(self) -> Journal:
        """A journal for one run, whose events are counted."""
        return MeteredJournal(MemoryJournal(), self._runs, self._tools)


def _cost(price: Price) -> Callable[[Transition], int | None]:
    def cost(transition: Transition) -> int | None:
        return None if transition.usage is None else price.cost(transition.usage)

    return cost
