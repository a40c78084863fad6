"""How an open run of the store comes to be driven: its session is taken, its log is read, its agent is looked up.

What was read at start is read on from there. Whatever stands in the way (an agent that is not configured, an event of a
later version, a store that does not answer) is said with the run, and tried again later: it may change without a hand.
"""

import trio

from agents.errors import HeadraceError
from agents.fold import result_of
from agents.loop import AgentRun
from agents.port import ModelPort
from agents.snapshot import RunSnapshot, SessionSnapshot
from agents.spec import AgentSpec
from orchestrator.instruments.watched import WatchedJournal
from orchestrator.runs.journal import SessionJournal
from orchestrator.runs.means import Means
from orchestrator.runs.plan import choice_of
from orchestrator.runs.reading import read_session
from orchestrator.runs.record import RunRecord

AT_ONCE = 256
"""How many runs are taken up at the same time: enough for a store to write many in one move, and no more in memory."""


class TakingUp:
    """Takes up runs for one service."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._room = trio.CapacityLimiter(AT_ONCE)

    async def take_up(self, record: RunRecord) -> bool:
        """Gives the record what drives it; False where its run turned out to have ended, which it then knows.

        Raises `HeadraceError` where that cannot be done now.
        """
        means = self._means
        async with self._room:
            view = await means.executor.take(record.session)
            snapshot = await self._read(record, view.last)
        run = snapshot.last
        if run is None or run.created.run != record.run:
            raise HeadraceError(f"the log of session {record.session} does not end with run {record.run}")
        if run.ended is not None:
            head = record.head.then([run.ended])
            record.end_as(result_of(run), head, snapshot.events - head.after)
            return False
        record.stands(snapshot)
        agent = self._agent(record, run)
        journal = SessionJournal(
            means.store,
            means.executor,
            record.session,
            record.flow.tenant,
            grew=record.grew,
            head=record.head,
            number=snapshot.events,
            generation=view.generation,
        )
        log = means.journal(journal)
        if isinstance(log, WatchedJournal):
            log.stands(run)
        driven = AgentRun.take_up(
            agent,
            run,
            model=self.model(record),
            journal=log,
            budget=means.budget(record.flow.tenant, record.terms.budget),
            prices=means.catalogue().prices,
            generation=view.generation,
            number=snapshot.events,
            wall=means.clock(),
            priority=record.priority,
            spawner=means.spawner(record),
        )
        record.driven_by(means.driver(record, driven, journal, log, snapshot), journal)
        return True

    def model(self, record: RunRecord) -> ModelPort:
        """The run's model; the same however often it is taken up."""
        terms = record.terms
        if terms.model is None:
            terms.model = terms.through(record.output.heard(self._means.models.port(record.flow, record.priority)))
        return terms.model

    async def _read(self, record: RunRecord, last: int) -> SessionSnapshot:
        snapshot = record.snapshot
        if snapshot is None or snapshot.events != last:
            snapshot = await read_session(self._means.store, record.session, snapshot)
        return snapshot

    def _agent(self, record: RunRecord, run: RunSnapshot) -> AgentSpec:
        catalogue = self._means.catalogue()
        spec = record.terms.agent or catalogue.agent(choice_of(run))
        catalogue.targets(spec.model)
        return spec
