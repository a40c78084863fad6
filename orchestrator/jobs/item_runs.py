"""Items as runs: one agent per item, under the job's flow, with the fuse watching every model call."""

from collections.abc import Callable

from msgspec import Struct

from agents.errors import ModelError
from agents.journal import MemoryJournal
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.loop import run_agent
from agents.messages import ModelReply, ModelRequest
from agents.money import Price, PriceList
from agents.port import Flow, Journal, ModelPort, Models, Priority, Receipt
from agents.result import RunResult
from agents.spec import AgentSpec
from orchestrator.jobs.fuse import Fuse
from orchestrator.jobs.inputs import Item
from orchestrator.jobs.job import ItemResult


class RunOptions(Struct, frozen=True, kw_only=True):
    """What every run of a job has in common."""

    agent: AgentSpec
    job: str
    tenant: str = "default"
    priority: Priority = Priority.BATCH
    price: Price | None = None


class ItemRuns:
    """Implements `orchestrator.jobs.job.RunItem`. `on_hopeless` is told why the job should stop, at most once."""

    def __init__(
        self,
        options: RunOptions,
        models: Models,
        fuse: Fuse,
        on_hopeless: Callable[[str], None],
        *,
        journal: Callable[[], Journal] = MemoryJournal,
    ) -> None:
        self._options = options
        self._prices = PriceList({} if options.price is None else {options.agent.model: options.price})
        self._models = models
        self._fuse = fuse
        self._on_hopeless = on_hopeless
        self._journal = journal

    async def run(self, item: Item, prompt: str) -> ItemResult:
        """One item, from its prompt to its result."""
        options = self._options
        flow = Flow(options.tenant, options.job, str(item.ordinal))
        port = Watched(self._models.port(flow, options.priority), self._fuse, self._on_hopeless)
        try:
            result = await run_agent(
                options.agent,
                prompt,
                model=port,
                journal=self._journal(),
                prices=self._prices,
                run=f"{options.job}/{flow.run}",
                priority=options.priority,
            )
        except JournalLost as error:
            return ItemResult(item.ordinal, item.origin, "failed", StopReason.INTERNAL_ERROR.value, error=error.message)
        finally:
            self._models.ended(flow)
        return item_result(item, result)


def item_result(item: Item, result: RunResult) -> ItemResult:
    """A run's result as a line of output."""
    return ItemResult(
        ordinal=item.ordinal,
        origin=item.origin,
        state="done" if result.ok else "failed",
        reason=result.reason.value,
        value=result.answer if result.ok else result.partial,
        error="" if result.ok else result.message,
        rounds=result.rounds,
        tool_calls=result.tool_calls,
        usage=result.usage,
    )


class Watched:
    """A model port that tells a fuse how each call ended, a cancelled one excepted; `on_hopeless` why to stop."""

    __slots__ = ("_fuse", "_on_hopeless", "_port")

    def __init__(self, port: ModelPort, fuse: Fuse, on_hopeless: Callable[[str], None]) -> None:
        self._port = port
        self._fuse = fuse
        self._on_hopeless = on_hopeless

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = float("inf"),
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        try:
            reply = await self._port.call(request, deadline=deadline, priority=priority, receipt=receipt)
        except ModelError as error:
            hopeless = self._fuse.failed(error)
            if hopeless is not None:
                self._on_hopeless(hopeless)
            raise
        self._fuse.succeeded()
        return reply
