"""How a run comes to exist: what it goes on from, what it is to be, and its first event."""

import trio
from msgspec import Struct

from agents.budget import Scope
from agents.events import RunCreated
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.origin import Origin
from agents.runtime import DuplicateRun
from agents.snapshot import RunSnapshot
from agents.spawner import ChildRequest
from orchestrator.runs.head import Head
from orchestrator.runs.journal import SessionJournal
from orchestrator.runs.means import Means
from orchestrator.runs.plan import RunPlan
from orchestrator.runs.reading import read_session
from orchestrator.runs.record import RunRecord
from orchestrator.store.errors import Conflict, DuplicateSession, SessionBusy, UnknownSession


class Going(Struct, frozen=True):
    """A session that a run goes on with: its latest run, its last event, and the lease on it."""

    last: RunSnapshot
    number: int
    generation: int


class Creation:
    """Creates runs for one service."""

    def __init__(self, means: Means) -> None:
        self._means = means

    async def session(self, session: str, tenant: str) -> Going | None:
        """The session, taken to go on with it; None where there is none yet.

        Raises `SessionBusy` where a run of it is open, `UnknownSession` where it is another tenant's, `UnknownEvent`
        where its log cannot be read.
        """
        try:
            known = await self._means.store.session(session)
        except UnknownSession:
            return None
        if known.tenant != tenant:
            raise UnknownSession(f"tenant {tenant} has no session {session}, and the name is taken")
        view = await self._means.executor.take(session)
        snapshot = await read_session(self._means.store, session)
        last = snapshot.last
        if last is None:
            raise UnknownSession(f"session {session} has no run to go on from")
        if last.ended is None:
            raise SessionBusy(f"run {last.created.run} of session {session} is open: wait for its end, or tell it")
        return Going(last, snapshot.events, view.generation)

    async def create(
        self, record: RunRecord, task: str, plan: RunPlan, budget: Scope | None, going: Going | None
    ) -> None:
        """Makes the run durable, and gives the record what will drive it.

        Raises `DuplicateRun`, `SessionBusy`, `InvalidLimits`, `CannotContinue`, `JournalLost`; nothing exists then.
        """
        means = self._means
        journal = SessionJournal(
            means.store,
            means.executor,
            plan.session,
            plan.flow.tenant,
            grew=record.grew,
            number=0 if going is None else going.number,
            generation=0 if going is None else going.generation,
        )
        wall = means.clock()
        assert record.terms.model is not None
        log = means.journal(journal)
        run = AgentRun(
            plan.agent,
            task if task or going is None else (),
            model=record.terms.model,
            journal=log,
            budget=budget,
            prices=plan.prices,
            run=plan.flow.run,
            priority=plan.priority,
            expiry=plan.expiry,
            origin=_origin(plan, wall(), record.terms.child),
            history=None if going is None else going.last,
            number=journal.number,
            wall=wall,
            spawner=means.spawner(record),
        )
        driven = means.driver(record, run, journal, log)
        record.driven_by(driven, journal, Head.of(_created(plan, wall(), record.terms.child), journal.number))
        try:
            await run.create()
        except JournalLost as lost:
            refusal = _refusal(lost, plan)
            if refusal is None:
                raise
            raise refusal from lost


def _origin(plan: RunPlan, now: float, child: ChildRequest | None) -> Origin:
    left = plan.expiry - trio.current_time()
    return Origin(
        session=plan.session,
        tenant=plan.flow.tenant,
        job=plan.flow.job,
        who=plan.who,
        expiry=None if left == float("inf") else now + left,
        parent="" if child is None else child.parent,
        parent_key="" if child is None else child.key,
        depth=0 if child is None else child.depth,
        trace=plan.trace,
    )


def _created(plan: RunPlan, now: float, child: ChildRequest | None) -> RunCreated:
    """What the first event says, as far as the head of a run needs it."""
    return RunCreated(
        run=plan.flow.run,
        at=now,
        agent=plan.agent.name,
        model=plan.agent.model,
        messages=(),
        limits=plan.agent.limits,
        session=plan.session,
        tenant=plan.flow.tenant,
        job=plan.flow.job,
        priority=int(plan.priority),
        parent="" if child is None else child.parent,
    )


def _refusal(lost: JournalLost, plan: RunPlan) -> Exception | None:
    """What the store means by it; None where it could not keep the run."""
    run, cause = plan.flow.run, lost.__cause__
    if isinstance(cause, DuplicateSession):
        return DuplicateRun(f"there is a run {run} already")
    if isinstance(cause, Conflict):
        if plan.session == run:
            return DuplicateRun(f"there is a session {run} already: give the run another name, or say --session {run}")
        return SessionBusy(f"session {plan.session} was begun by somebody else at the same moment")
    if isinstance(cause, SessionBusy):
        return cause
    return None
