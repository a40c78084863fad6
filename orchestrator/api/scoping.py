"""What of the daemon is there for a client: its own tenant's part, or everything for an admin.

Another tenant's run, session or job is answered exactly like one that nobody knows. What remains visible of others: an
id that somebody else has taken cannot be taken again (409), since ids are one space for the whole daemon.
"""

from typing import Final

import msgspec

from agents.port import Priority
from agents.runtime import UnknownRun
from orchestrator.api.identity import Client
from orchestrator.api.services import Jobs, Runs, Services, Sessions
from orchestrator.jobs.errors import UnknownJob
from orchestrator.store.errors import UnknownSession
from orchestrator.views.jobs import LIVE_PHASES, JobList, JobRequest, JobView
from orchestrator.views.queue import BackendView, CapabilitiesView, PoolView, QueueView
from orchestrator.views.runs import PriorityName, RunRequest, RunView
from orchestrator.views.sessions import SessionDetail

ROWS: Final = 1000
"""Budgets, and tools, that a view of the queue names."""

TRACE_BYTES = 64
"""What is longer is no trace context of the version that there is."""

_NAMES: dict[Priority, PriorityName] = {
    Priority.INTERACTIVE: "interactive",
    Priority.STANDARD: "standard",
    Priority.BATCH: "batch",
}


async def own_run(runs: Runs, client: Client, run: str) -> RunView:
    """The run, if it is there for this client. Raises `UnknownRun`."""
    view = await runs.view(run)
    if not client.sees(view.tenant):
        raise UnknownRun(f"there is no run {run}")
    return view


async def own_session(sessions: Sessions, client: Client, session: str) -> SessionDetail:
    """The session, if it is there for this client. Raises `UnknownSession`."""
    view = await sessions.view(session)
    if not client.sees(view.tenant):
        raise UnknownSession(f"there is no session {session}")
    return view


def own_job(jobs: Jobs, client: Client, job: str) -> JobView:
    """The job, if it is there for this client. Raises `UnknownJob`."""
    view = jobs.view(job)
    if not client.sees(view.tenant):
        raise UnknownJob(f"there is no job {job}")
    return view


def own_jobs(jobs: Jobs, client: Client) -> JobList:
    """The jobs that are there for this client."""
    every = jobs.list()
    return every if client.admin else JobList(jobs=tuple(view for view in every.jobs if client.sees(view.tenant)))


def run_for(services: Services, client: Client, asked: RunRequest, traceparent: str = "") -> RunRequest:
    """The run for the client's tenant, no more urgent than its key allows. Raises `Forbidden`, `InvalidLimits`."""
    tenant = client.tenant_for(asked.tenant)
    return msgspec.structs.replace(
        asked,
        tenant=tenant,
        priority=_capped(services, client, tenant, asked.priority),
        traceparent=traceparent[:TRACE_BYTES] or asked.traceparent,
    )


def job_for(services: Services, client: Client, asked: JobRequest) -> JobRequest:
    """The job for the client's tenant, no more urgent than its key allows. Raises `Forbidden`, `InvalidLimits`."""
    tenant = client.tenant_for(asked.tenant)
    return msgspec.structs.replace(asked, tenant=tenant, priority=_capped(services, client, tenant, asked.priority))


def priority_for(services: Services, client: Client, tenant: str, wanted: Priority | None) -> Priority:
    """How urgent a client's work is that asks for `wanted`: no more than its tenant and its key may."""
    return max(services.priority(tenant, wanted), client.highest_priority)


async def queue_for(services: Services, client: Client) -> QueueView:
    """The queue as a client may see it.

    A tenant sees its own rows. What is summed over all tenants (endpoints and their limits, what is queued in all)
    would tell it of the others as soon as there are two, so it is left out.
    """
    view = await services.queue()
    budgets = tuple(budget for budget in view.budgets if client.sees(budget.tenant))[:ROWS]
    if client.admin:
        return msgspec.structs.replace(view, budgets=budgets, tools=view.tools[:ROWS])
    asked = await services.approvals.list_open(tenant=client.tenant, size=1)
    return msgspec.structs.replace(
        view,
        approvals=asked.total,
        oldest_approval=max(0.0, view.now - asked.approvals[0].asked) if asked.approvals else 0.0,
        budgets=budgets,
        tools=(),
        backends=tuple(_own_rows(backend, client) for backend in view.backends),
        runs=await services.runs.states(client.tenant),
        jobs=sum(job.phase in LIVE_PHASES for job in own_jobs(services.jobs, client).jobs),
        pool=None if view.pool is None else PoolView(problem=view.pool.problem),
    )


def capabilities_for(services: Services, client: Client) -> CapabilitiesView:
    """What the daemon can do, and no other tenant's name."""
    view = services.capabilities()
    return msgspec.structs.replace(view, tenants=tuple(name for name in view.tenants if client.sees(name)))


def _own_rows(backend: BackendView, client: Client) -> BackendView:
    rows = tuple(row for row in backend.tenants if client.sees(row.tenant))
    return BackendView(
        name=backend.name,
        inbox=0,
        queued=sum(sum(row.queued.values()) for row in rows),
        in_flight=sum(row.in_flight for row in rows),
        retrying=0,
        endpoints=(),
        tenants=rows,
    )


def _capped(services: Services, client: Client, tenant: str, asked: PriorityName | None) -> PriorityName | None:
    if client.highest_priority is Priority.INTERACTIVE:
        return asked
    wanted = None if asked is None else Priority[asked.upper()]
    return _NAMES[priority_for(services, client, tenant, wanted)]
