"""What is asked of a daemon and answered at once: one method per route, typed by the views that both sides share."""

import secrets
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Literal, TypeVar
from urllib.parse import quote

from agents.amounts import Limits
from orchestrator.client.errors import DaemonLost, Refusal
from orchestrator.client.wire import JSON, Params, Wire, encode
from orchestrator.views.approvals import AnswerRequest, ApprovalList, ApprovalView, DecisionRequest
from orchestrator.views.explain import CallExplanation, RunExplanation, SlowCalls
from orchestrator.views.jobs import JobList, JobRequest, JobView
from orchestrator.views.queue import CapabilitiesView, QueueView
from orchestrator.views.runs import RunDetail, RunPage, RunRequest, RunView
from orchestrator.views.sessions import (
    GrantRequest,
    ImportReport,
    MessageRequest,
    PruneReport,
    SessionDetail,
    SessionPage,
)
from orchestrator.views.workers import WorkerList

T = TypeVar("T")

_LINES: Final = {"content-type": "application/jsonl"}


def new_id() -> str:
    """An id for a run or a job, chosen before it is asked for, so that a lost answer can be found out."""
    return secrets.token_hex(8)


class Requests:
    """Single requests to one daemon. Every method raises `errors.ClientError`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @property
    def url(self) -> str:
        return self._wire.url

    # The daemon

    async def capabilities(self) -> CapabilitiesView:
        return await self._wire.ask(CapabilitiesView, "GET", "/api/capabilities")

    async def workers(self) -> WorkerList:
        """The worker processes of its pool; of a daemon that drives its runs itself, none."""
        return await self._wire.ask(WorkerList, "GET", "/api/workers")

    async def queue(self) -> QueueView:
        return await self._wire.ask(QueueView, "GET", "/api/queue")

    # Runs

    async def start_run(self, request: RunRequest) -> RunView:
        """Starts a run. Where `request.run` is set, an answer that was lost on its way is found out."""
        return await self._create(RunView, "/api/runs", encode(request), self.run, request.run)

    async def runs(
        self,
        *,
        observed: Sequence[str] = (),
        tenant: str = "",
        job: str = "",
        session: str = "",
        cursor: str = "",
        size: int = 100,
    ) -> RunPage:
        """A page of the runs that match, the newest first; empty filters match all."""
        given: dict[str, str | int | list[str]] = {
            "size": size,
            "state": list(observed),
            "tenant": tenant,
            "job": job,
            "session": session,
            "cursor": cursor,
        }
        params = {name: value for name, value in given.items() if value}
        return await self._wire.ask(RunPage, "GET", "/api/runs", params=params)

    async def run(self, run: str) -> RunDetail:
        return await self._wire.ask(RunDetail, "GET", path_of("runs", run))

    async def explain_run(self, run: str) -> RunExplanation:
        """Why a run took as long as it did."""
        return await self._wire.ask(RunExplanation, "GET", path_of("runs", run, "explanation"))

    async def explain_call(self, call: str) -> CallExplanation:
        """Why a call took as long as it did."""
        return await self._wire.ask(CallExplanation, "GET", f"/api/calls/{quote(call)}/explanation")

    async def slowest(self, seconds: float, *, tenant: str = "", job: str = "", size: int = 20) -> SlowCalls:
        """The calls of the last seconds that waited longest."""
        given: dict[str, str | int | list[str]] = {"seconds": str(seconds), "size": size, "tenant": tenant, "job": job}
        params = {name: value for name, value in given.items() if value}
        return await self._wire.ask(SlowCalls, "GET", "/api/calls/slowest", params=params)

    async def cancel_run(self, run: str, reason: Literal["cancelled", "interrupted"] = "cancelled") -> RunView:
        """Asks for its end; the run is over when a later look says so."""
        params: Params = {"reason": reason, "key": new_id()}
        return await self._wire.ask(RunView, "POST", path_of("runs", run, "cancel"), params=params)

    async def message_run(self, run: str, content: str) -> RunView:
        """Says something to a live run. An answer that was lost is asked for again, and nothing is said twice."""
        body = encode(MessageRequest(content=content, key=new_id()))
        return await self._wire.ask(RunView, "POST", path_of("runs", run, "messages"), content=body, headers=JSON)

    async def grant_run(self, run: str, limits: Limits) -> RunView:
        """Gives a live run other limits, field by field; those that are None stay."""
        body = encode(GrantRequest(limits=limits, key=new_id()))
        return await self._wire.ask(RunView, "POST", path_of("runs", run, "grant"), content=body, headers=JSON)

    # People

    async def approvals(self, *, tenant: str = "", job: str = "", run: str = "", size: int = 1000) -> ApprovalList:
        """What people are asked and have not answered, the oldest first; empty filters match all."""
        given: dict[str, str | int | list[str]] = {"size": size, "tenant": tenant, "job": job, "run": run}
        params = {name: value for name, value in given.items() if value}
        return await self._wire.ask(ApprovalList, "GET", "/api/approvals", params=params)

    async def approval(self, id: str) -> ApprovalView:
        """One request, open or decided."""
        return await self._wire.ask(ApprovalView, "GET", path_of("approvals", *_parts(id)))

    async def decide(
        self, id: str, decision: Literal["approved", "denied"], *, by: str = "", note: str = "", digest: str = ""
    ) -> ApprovalView:
        """Approves or denies it. An answer that was lost is asked for again, and nothing is decided twice."""
        body = encode(DecisionRequest(decision=decision, by=by, note=note, digest=digest, key=new_id()))
        path = path_of("approvals", *_parts(id), "decide")
        return await self._wire.ask(ApprovalView, "POST", path, content=body, headers=JSON)

    async def answer(self, id: str, content: str, *, by: str = "") -> ApprovalView:
        """Answers a question, once, however often the request has to be sent."""
        body = encode(AnswerRequest(content=content, by=by, key=new_id()))
        path = path_of("approvals", *_parts(id), "answer")
        return await self._wire.ask(ApprovalView, "POST", path, content=body, headers=JSON)

    # Sessions

    async def sessions(self, *, tenant: str = "", cursor: str = "", size: int = 100) -> SessionPage:
        """A page of sessions in the order of their names."""
        given: dict[str, str | int | list[str]] = {"size": size, "tenant": tenant, "cursor": cursor}
        params = {name: value for name, value in given.items() if value}
        return await self._wire.ask(SessionPage, "GET", "/api/sessions", params=params)

    async def session(self, session: str) -> SessionDetail:
        return await self._wire.ask(SessionDetail, "GET", path_of("sessions", session))

    async def import_session(self, lines: AsyncIterable[bytes], *, tenant: str = "") -> ImportReport:
        """Brings an exported log in, as a session of the name it had; all of it, or nothing.

        `tenant` is whose it is to be; otherwise whose it was.
        """
        params = {"tenant": tenant} if tenant else None
        return await self._wire.ask(
            ImportReport, "POST", "/api/sessions", params=params, content=lines, headers=_LINES, repeat=False
        )

    async def prune(self, older_than: float, *, dry_run: bool = False) -> PruneReport:
        """Removes what nobody has touched for so many seconds, or says what that would be."""
        params: Params = {"older_than": str(older_than), "dry_run": "true" if dry_run else "false"}
        return await self._wire.ask(PruneReport, "POST", "/api/prune", params=params, repeat=False)

    # Jobs

    async def create_job(self, request: JobRequest) -> JobView:
        """Creates a job. Where `request.job` is set, an answer that was lost on its way is found out."""
        return await self._create(JobView, "/api/jobs", encode(request), self.job, request.job)

    async def jobs(self) -> JobList:
        return await self._wire.ask(JobList, "GET", "/api/jobs")

    async def job(self, job: str) -> JobView:
        return await self._wire.ask(JobView, "GET", path_of("jobs", job))

    async def upload(self, job: str, offset: int, data: bytes) -> JobView:
        """Appends inputs, JSON Lines, at a byte offset. See `upload` for an upload that resumes."""
        return await self._wire.ask(
            JobView,
            "PATCH",
            path_of("jobs", job, "inputs"),
            params={"offset": offset},
            content=data,
            headers=_LINES,
            repeat=False,
        )

    async def complete(self, job: str) -> JobView:
        """There will be no more inputs."""
        return await self._wire.ask(JobView, "POST", path_of("jobs", job, "inputs", "complete"))

    async def cancel_job(self, job: str) -> JobView:
        return await self._wire.ask(JobView, "POST", path_of("jobs", job, "cancel"))

    async def retry_job(self, job: str, *, only_failed: bool = False) -> JobView:
        """Runs what failed, was cancelled or never began once more; with `only_failed` what failed, nothing else."""
        params: Params | None = {"only_failed": "true"} if only_failed else None
        return await self._wire.ask(JobView, "POST", path_of("jobs", job, "retry"), params=params, repeat=False)

    async def remove_job(self, job: str) -> None:
        """Deletes a job that has ended, with its inputs and results."""
        await self._wire.ask(object, "DELETE", path_of("jobs", job), repeat=False)

    async def _create(self, type: type[T], path: str, body: bytes, look: Callable[[str], Awaitable[T]], id: str) -> T:
        """Creates something under an id of one's own. One request may be lost; the second tells whether it arrived."""
        create = partial(self._wire.ask, type, "POST", path, content=body, headers=JSON, repeat=False)
        try:
            return await create()
        except DaemonLost:
            if not id:
                raise
        try:
            return await create()
        except Refusal as refusal:
            if refusal.status != 409:
                raise
            return await look(id)


def _parts(id: str) -> list[str]:
    """The run, the step and the index in a request's id; what is none is unknown to the daemon as well."""
    parts = id.rsplit("/", 2)
    return [part or "-" for part in parts] + ["-"] * (3 - len(parts))


def path_of(*parts: str) -> str:
    return "/api/" + "/".join(quote(part, safe="") for part in parts)
