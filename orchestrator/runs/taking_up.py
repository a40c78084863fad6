"""How an open run of the store comes to be driven: its session is taken, its log is read, its agent is looked up.

What was read at start is read on from there. Whatever stands in the way (an agent that is not configured, an event of a
later version, a store that does not answer) is said with the run, and tried again later: it may change without a hand.
"""

from collections.abc import Callable

import trio

from agents.budget import Amounts, Scope
from agents.errors import HeadraceError
from agents.fold import result_of
from agents.loop import AgentRun
from agents.port import Journal, ModelPort, Models
from agents.snapshot import RunSnapshot, SessionSnapshot
from agents.spec import AgentSpec
from orchestrator.catalogue import Catalogue
from orchestrator.runs.executor import Executor
from orchestrator.runs.journal import SessionJournal
from orchestrator.runs.plan import choice_of
from orchestrator.runs.reading import read_session
from orchestrator.runs.record import RunRecord
from orchestrator.store.base import Store

AT_ONCE = 256
"""How many runs are taken up at the same time: enough for a store to write many in one move, and no more in memory."""


class TakingUp:
    """Takes up runs for one service. `clock` makes a run's own wall clock, `parent` gives a tenant's budget."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        *,
        models: Models,
        catalogue: Callable[[], Catalogue],
        journal: Callable[[Journal], Journal],
        parent: Callable[[str], Scope | None],
        clock: Callable[[], Callable[[], float]],
    ) -> None:
        self._store = store
        self._executor = executor
        self._models = models
        self._catalogue = catalogue
        self._journal = journal
        self._parent = parent
        self._clock = clock
        self._room = trio.CapacityLimiter(AT_ONCE)

    async def take_up(self, record: RunRecord) -> bool:
        """Gives the record what drives it; False where its run turned out to have ended, which it then knows.

        Raises `HeadraceError` where that cannot be done now.
        """
        async with self._room:
            view = await self._executor.take(record.session)
            snapshot = await self._read(record, view.last)
        run = snapshot.last
        if run is None or run.created.run != record.run:
            raise HeadraceError(f"the log of session {record.session} does not end with run {record.run}")
        _charge(record, run)
        if run.ended is not None:
            head = record.head.then([run.ended])
            record.end_as(result_of(run), head, snapshot.events - head.after)
            return False
        agent = self._agent(record, run)
        journal = SessionJournal(
            self._store,
            self._executor,
            record.session,
            record.flow.tenant,
            rang=record.ring,
            head=record.head,
            number=snapshot.events,
            generation=view.generation,
        )
        terms = record.terms
        driven = AgentRun.take_up(
            agent,
            run,
            model=self.model(record),
            journal=self._journal(journal),
            budget=self._parent(record.flow.tenant) if terms.budget is None else terms.budget,
            prices=self._catalogue().prices,
            generation=view.generation,
            number=snapshot.events,
            wall=self._clock(),
            priority=record.priority,
        )
        record.driven_by(driven, journal)
        return True

    def model(self, record: RunRecord) -> ModelPort:
        """The run's model; the same however often it is taken up."""
        terms = record.terms
        if terms.model is None:
            terms.model = terms.through(self._models.port(record.flow, record.priority))
        return terms.model

    async def _read(self, record: RunRecord, last: int) -> SessionSnapshot:
        snapshot = record.snapshot
        if snapshot is None or snapshot.events != last:
            snapshot = await read_session(self._store, record.session, snapshot)
        return snapshot

    def _agent(self, record: RunRecord, run: RunSnapshot) -> AgentSpec:
        spec = record.terms.agent or self._catalogue().agent(choice_of(run))
        self._catalogue().targets(spec.model)
        return spec


def _charge(record: RunRecord, run: RunSnapshot) -> None:
    """A budget that was made anew hears once what the run has used of it; those above have their own memory."""
    terms = record.terms
    if not terms.charge or terms.budget is None:
        return
    terms.charge = False
    terms.budget.used += run.used
    terms.budget.unknown += held(run)


def held(run: RunSnapshot) -> Amounts:
    """What stays reserved because nobody said what was used, a model call without an end included."""
    request = run.open_request
    if request is None:
        return run.unknown
    lost = Amounts(tokens=request.reserved_tokens, micro_dollars=request.reserved_micro_dollars)
    return run.unknown + lost
