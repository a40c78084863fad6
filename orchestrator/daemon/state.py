"""A daemon at one moment, as its metrics show it."""

from collections import Counter

from orchestrator.daemon.work import Work
from orchestrator.instruments.daemon_state import DaemonState
from orchestrator.tools.mcp import McpServers
from orchestrator.version import version
from orchestrator.views.jobs import JobView


def state_of(work: Work, servers: McpServers, stops: Counter[str], *, draining: bool) -> DaemonState:
    """Everything that is read at a scrape. `stops` counts runs that tenants' budgets stopped."""
    approvals, oldest = work.runs.approvals.standing()
    jobs = [job for job in work.jobs.list().jobs if job.ended is None]
    return DaemonState(
        version=version(),
        draining=draining,
        budgets=work.tenancy.budgets.views(),
        refused=work.tenancy.budgets.refused + stops,
        approvals=approvals,
        oldest_approval=oldest,
        tool_servers={server.name: server.state == "ready" for server in servers.status()},
        live_jobs=len(jobs),
        items=items_of(jobs),
        pool=None if work.pool is None else work.pool.view(),
        lost_rows=work.store.ledger.lost,
    )


def items_of(jobs: list[JobView]) -> dict[str, int]:
    """The items of these jobs by where they are."""
    items = {
        "done": sum(job.done for job in jobs),
        "failed": sum(job.failed for job in jobs),
        "cancelled": sum(job.cancelled for job in jobs),
        "live": sum(job.live for job in jobs),
    }
    return {**items, "waiting": max(0, sum(job.received for job in jobs) - sum(items.values()))}
