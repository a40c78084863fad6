"""Runs that tool calls of other runs start: created, joined, taken up, or answered from their log, by their id.

A child has its parent's tenant, job and priority. Its budget stands below its parent's run, so all that it uses is
counted there as well, and up from there; what it used before this process, or before its parent's budget was made anew,
is charged once. It takes no place among live runs and none of its tenant's: its parent has both, and a parent that
waited for a child that waits for a place would wait for ever.

Only its parent's call drives a child. One whose parent has ended, or is gone, is taken away.
"""

import math
from typing import Final

import structlog
import trio

from agents.amounts import Amounts
from agents.budget import Scope
from agents.errors import HeadraceError
from agents.events import CancelRequested, encode
from agents.fold import result_of
from agents.runtime import DuplicateRun
from agents.snapshot import RunSnapshot
from agents.spawner import Child, ChildRequest, Spent
from orchestrator.runs.child import EndedChild, RunningChild
from orchestrator.runs.live_runs import SHUTTING_DOWN, LiveRuns
from orchestrator.runs.means import Means
from orchestrator.runs.open_runs import OpenRuns
from orchestrator.runs.priorities import PRIORITY_NAMES
from orchestrator.runs.reading import read_run, read_session
from orchestrator.runs.record import RunRecord, Terms
from orchestrator.runs.recovery import recorded
from orchestrator.runs.spending import held
from orchestrator.runs.starting import Starting
from orchestrator.views.runs import AgentChoice, RunRequest

_LEAST_SECONDS: Final = 0.001

_log = structlog.get_logger("headrace.runs")


class Children:
    """All child runs of one service. `running` are those that a call waits for.

    `paths` remembers, for each open parent, which scopes know what a child of it has used.
    """

    def __init__(
        self, nursery: trio.Nursery, means: Means, books: OpenRuns, live: LiveRuns, starting: Starting
    ) -> None:
        self.nursery = nursery
        self.means = means
        self.books = books
        self.live = live
        self.starting = starting
        self.running: dict[str, RunningChild] = {}
        self.paths: dict[str, dict[str, tuple[Scope, ...]]] = {}
        means.spawner = lambda record: ChildSpawner(self, record)
        live.on_over = self._over

    def end_orphans(self) -> None:
        """Takes away every open run whose parent is not open any more; for after a restart."""
        for record in list(self.books.records.values()):
            if record.parent and record.parent not in self.books.records:
                self.nursery.start_soon(self._end, record)

    def _over(self, parent: RunRecord) -> None:
        self.paths.pop(parent.run, None)
        if parent.result is None:
            return  # it was left open, and so are its children
        for record in self.books.below(parent.run):
            self.nursery.start_soon(self._end, record)

    async def _end(self, record: RunRecord) -> None:
        event = CancelRequested(run=record.run, source="parent", reason="cancelled", at=self.means.wall())
        try:
            await self.means.store.append_external(record.session, f"{record.run}:cancel", [encode(event)])
        except HeadraceError as error:
            _log.warning("a child run could not be told that its parent is gone", run=record.run, why=error.message)
        if record.over:
            return
        record.let_go = False  # its parent let go of it, to go on with it later, and will not
        record.hear((event,))
        self.live.wake(record)
        if not record.driven and not self.live.closed and record.owner is None:
            record.cancel("cancelled", "the run that started it is over", "parent")
            self.live.alone(record)


class ChildSpawner:
    """Implements `agents.spawner.Spawner` for one run."""

    def __init__(self, children: Children, parent: RunRecord) -> None:
        self._children = children
        self._parent = parent

    async def start(self, child: ChildRequest) -> Child:
        """The child, by its id. Raises `DuplicateRun` where that is another run, and as `RunService.start` does."""
        await self._until_free(child)
        # cut off in the middle, it could leave a run that nobody here knows of
        with trio.CancelScope(shield=True):
            found = await self._found(child)
        assert found is not None
        return found

    async def _until_free(self, child: ChildRequest) -> None:
        """Whoever drives it for somebody else has the first word: an earlier call, or its end at a person's hand."""
        record = self._children.books.records.get(child.run)
        if record is None:
            return
        if record.parent != child.parent:
            raise _not_mine(child)
        running = self._children.running.get(child.run)
        if running is not None:
            await running.ended.wait()
        if record.driven or record.owner is not None:
            await record.wait()

    async def _found(self, child: ChildRequest) -> Child:
        store, books = self._children.means.store, self._children.books
        record = books.records.get(child.run)
        if record is None:
            row = await store.run(child.run)
            if row is not None and not row.open:
                return self._ended(child, (await read_run(store, row)).snapshot)
            if row is not None:
                record = books.found(recorded(row))
        scope = Scope(f"run {child.run}", parent=self._budget())
        if record is None:
            record = await self._created(child, scope)
        else:
            await self._join(child, record, scope)
        return await self._driven(record, scope)

    def _budget(self) -> Scope:
        assert self._parent.live is not None, f"nobody drives run {self._parent.run}"
        return self._parent.live.scope

    async def _created(self, child: ChildRequest, scope: Scope) -> RunRecord:
        record = await self._children.starting.create_child(self._request(child), Terms(budget=scope, child=child))
        self._paths[child.run] = scope.path()
        return record

    async def _join(self, child: ChildRequest, record: RunRecord, scope: Scope) -> None:
        """An open run that this process, or an earlier one, began: nobody but this call drives it from here on."""
        if record.driven or record.owner is not None:
            raise DuplicateRun(f"there is a run {child.run} already, and somebody else drives it")
        snapshot = record.parked
        if snapshot is None:
            record.stands(await read_session(self._children.means.store, record.session))
            snapshot = record.parked
        if snapshot is None:
            raise DuplicateRun(f"there is a run {child.run} already, and its log does not say what it is")
        self._must_be_mine(child, snapshot)
        self._charge(child, scope, snapshot.used, held(snapshot))
        record.terms, record.let_go, record.expected = Terms(budget=scope, child=child), False, True

    async def _driven(self, record: RunRecord, scope: Scope) -> Child:
        children = self._children
        driven = RunningChild(record, scope, children.live, durable=children.means.store.durable)
        children.running[record.run] = driven
        driven.on_end = lambda: children.running.pop(record.run)
        try:
            children.nursery.start_soon(driven.drive)
        except RuntimeError:  # the nursery has ended: the run must still get its closing event
            record.cancel("cancelled", SHUTTING_DOWN, "parent")
            await driven.drive()
        return driven

    def _ended(self, child: ChildRequest, snapshot: RunSnapshot) -> Child:
        self._must_be_mine(child, snapshot)
        scope = Scope(f"run {child.run}", parent=self._budget())
        self._charge(child, scope, snapshot.used, held(snapshot))
        return EndedChild(result_of(snapshot), Spent(snapshot.used, held(snapshot)))

    def _charge(self, child: ChildRequest, scope: Scope, used: Amounts, unknown: Amounts) -> None:
        """Counts what the child has used where that is not known: not where it was counted as it was used, and not in
        its tenant's budget, which is made from the ledger.
        """
        above = self._children.means.parent(self._parent.flow.tenant)
        told = {*self._paths.get(child.run, ()), *(() if above is None else above.path())}
        self._paths[child.run] = scope.path()
        for each in scope.path():
            if each not in told:
                each.used += used
                each.unknown += unknown

    @property
    def _paths(self) -> dict[str, tuple[Scope, ...]]:
        return self._children.paths.setdefault(self._parent.run, {})

    def _must_be_mine(self, child: ChildRequest, snapshot: RunSnapshot) -> None:
        created = snapshot.created
        if (created.parent, created.parent_key) != (child.parent, child.key):
            raise _not_mine(child)

    def _request(self, child: ChildRequest) -> RunRequest:
        parent = self._parent
        assert parent.live is not None
        left = parent.live.progress.expiry - trio.current_time()
        return RunRequest(
            task=child.task,
            who=AgentChoice(agent=child.agent),
            run=child.run,
            tenant=parent.flow.tenant,
            job=parent.flow.job,
            priority=PRIORITY_NAMES[parent.priority],
            budget=child.limits,
            expires_in=None if left == math.inf else max(left, _LEAST_SECONDS),
        )


def _not_mine(child: ChildRequest) -> DuplicateRun:
    return DuplicateRun(f"there is a run {child.run} already, and it is none that this call started")
