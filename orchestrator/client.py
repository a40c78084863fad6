"""What speaks to a daemon over HTTP: one method per route, typed by the views that both sides share.

    async with open_client(url, tell=say) as client:
        view = await client.start_run(RunRequest(task="...", run=new_id()))
        async with aclosing(client.events(view.run)) as events:
            async for number, data in events: ...

Every method raises `client_errors.ClientError`. Streams survive a connection that breaks and a daemon that restarts:
they look for it for `gone_seconds`, `tell` once that it is gone and once that it is back, and go on where they stood.
"""

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, Literal
from urllib.parse import quote

import httpx2
import msgspec

from orchestrator.backends.sse import SSEParser, StreamTooLong
from orchestrator.client_errors import BadAnswer, ClientError, DaemonLost, NoDaemon, Quiet, Refusal
from orchestrator.client_patience import GONE_SECONDS, Comeback, Tell
from orchestrator.client_wire import JSON, Params, Wire, encode, refusal
from orchestrator.views.jobs import LIVE_PHASES, JobList, JobRequest, JobView
from orchestrator.views.queue import CapabilitiesView, QueueView
from orchestrator.views.runs import RunDetail, RunPage, RunRequest, RunView

EVENT_BYTES: Final = 64 * 1024 * 1024
"""One event at most: a reply with its tool calls, or the transcript a run starts from."""

_LINES: Final = {"content-type": "application/jsonl"}


def new_id() -> str:
    """An id for a run or a job, chosen before it is asked for, so that a lost answer can be found out."""
    return secrets.token_hex(8)


class Client:
    """One daemon. Made by `open_client`."""

    def __init__(self, wire: Wire, tell: Tell, gone_seconds: float) -> None:
        self._wire = wire
        self._tell = tell
        self._gone_seconds = gone_seconds

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"

    @property
    def url(self) -> str:
        return self._wire.url

    def comeback(self) -> Comeback:
        """Patience with a daemon that went away; none with one that was never there."""
        return Comeback(self._gone_seconds, self._tell, lambda: self._wire.met)

    # The daemon

    async def capabilities(self) -> CapabilitiesView:
        return await self._wire.ask(CapabilitiesView, "GET", "/api/capabilities")

    async def queue(self) -> QueueView:
        return await self._wire.ask(QueueView, "GET", "/api/queue")

    # Runs

    async def start_run(self, request: RunRequest) -> RunView:
        """Starts a run. Where `request.run` is set, an answer that was lost on its way is found out."""
        try:
            return await self._wire.ask(
                RunView, "POST", "/api/runs", content=encode(request), headers=JSON, repeat=False
            )
        except DaemonLost:
            if not request.run:
                raise
        try:
            return await self._wire.ask(
                RunView, "POST", "/api/runs", content=encode(request), headers=JSON, repeat=False
            )
        except Refusal as refusal:
            if refusal.status != 409:
                raise
            return await self.run(request.run)

    async def runs(
        self,
        *,
        observed: Sequence[str] = (),
        tenant: str = "",
        job: str = "",
        cursor: str = "",
        size: int = 100,
    ) -> RunPage:
        """A page of the runs that match, the newest first; empty filters match all."""
        given: dict[str, str | int | list[str]] = {
            "size": size,
            "state": list(observed),
            "tenant": tenant,
            "job": job,
            "cursor": cursor,
        }
        params = {name: value for name, value in given.items() if value}
        return await self._wire.ask(RunPage, "GET", "/api/runs", params=params)

    async def run(self, run: str) -> RunDetail:
        return await self._wire.ask(RunDetail, "GET", _path("runs", run))

    async def cancel_run(self, run: str, reason: Literal["cancelled", "interrupted"] = "cancelled") -> RunView:
        """Asks for its end; the run is over when a later look says so."""
        return await self._wire.ask(RunView, "POST", _path("runs", run, "cancel"), params={"reason": reason})

    async def events(self, run: str, after: int = 0, *, follow: bool = True) -> AsyncGenerator[tuple[int, bytes], None]:
        """The run's events behind number `after`, as JSON; with `follow` new ones as they come, until it has ended."""
        comeback = self.comeback()
        path = _path("runs", run, "events")
        while True:
            try:
                async with aclosing(self._events(path, after, comeback, follow)) as events:
                    async for number, data in events:
                        after = number
                        yield number, data
                if not follow:
                    return
                detail = await self.run(run)
                if detail.reason is not None and detail.events <= after:
                    return
                await comeback.lost(DaemonLost(f"the daemon at {self.url} ended the stream of events"))
            except ClientError as error:
                await self._bear(error, comeback)

    # Jobs

    async def create_job(self, request: JobRequest) -> JobView:
        """Creates a job. Where `request.job` is set, an answer that was lost on its way is found out."""
        try:
            return await self._wire.ask(
                JobView, "POST", "/api/jobs", content=encode(request), headers=JSON, repeat=False
            )
        except DaemonLost:
            if not request.job:
                raise
        try:
            return await self._wire.ask(
                JobView, "POST", "/api/jobs", content=encode(request), headers=JSON, repeat=False
            )
        except Refusal as refusal:
            if refusal.status != 409:
                raise
            return await self.job(request.job)

    async def jobs(self) -> JobList:
        return await self._wire.ask(JobList, "GET", "/api/jobs")

    async def job(self, job: str) -> JobView:
        return await self._wire.ask(JobView, "GET", _path("jobs", job))

    async def upload(self, job: str, offset: int, data: bytes) -> JobView:
        """Appends inputs, JSON Lines, at a byte offset. See `client_upload` for an upload that resumes."""
        return await self._wire.ask(
            JobView,
            "PUT",
            _path("jobs", job, "inputs"),
            params={"offset": offset},
            content=data,
            headers=_LINES,
            repeat=False,
        )

    async def complete(self, job: str) -> JobView:
        """There will be no more inputs."""
        return await self._wire.ask(JobView, "POST", _path("jobs", job, "complete"))

    async def cancel_job(self, job: str) -> JobView:
        return await self._wire.ask(JobView, "POST", _path("jobs", job, "cancel"))

    async def retry_job(self, job: str) -> JobView:
        """Runs what failed, was cancelled or never began once more."""
        return await self._wire.ask(JobView, "POST", _path("jobs", job, "retry"), repeat=False)

    async def watch_job(self, job: str) -> AsyncGenerator[JobView, None]:
        """The job now, and again whenever it has changed, until it has ended."""
        comeback = self.comeback()
        while True:
            try:
                async with aclosing(self._events(_path("jobs", job, "watch"), 0, comeback, True)) as events:
                    async for _, data in events:
                        view = _decode_job(data)
                        yield view
                        if view.phase not in LIVE_PHASES:
                            return
                await comeback.lost(DaemonLost(f"the daemon at {self.url} ended the stream of the job"))
            except ClientError as error:
                await self._bear(error, comeback)

    async def results(self, job: str, offset: int = 0, *, follow: bool = False) -> AsyncGenerator[bytes, None]:
        """Blocks of the job's results, from a byte offset on; a block may end in the middle of a line.

        With `follow` new ones come until the job has ended.
        """
        comeback = self.comeback()
        while True:
            params: Params = {"offset": offset, "follow": "true" if follow else "false"}
            try:
                async with self._wire.stream(_path("jobs", job, "results"), params=params) as chunks:
                    comeback.back()
                    async for chunk in chunks:
                        offset += len(chunk)
                        yield chunk
                view = await self.job(job)
                if not follow or (view.phase not in LIVE_PHASES and view.result_bytes <= offset):
                    return
                await comeback.lost(DaemonLost(f"the daemon at {self.url} ended the stream of results"))
            except ClientError as error:
                await self._bear(error, comeback)

    # Streams

    async def _events(
        self, path: str, after: int, comeback: Comeback, follow: bool
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        headers = {"accept": "text/event-stream"} | ({"last-event-id": str(after)} if after else {})
        parser = SSEParser(EVENT_BYTES)
        async with self._wire.stream(path, params=None if follow else {"follow": "false"}, headers=headers) as chunks:
            comeback.back()
            async for chunk in chunks:
                try:
                    events = parser.feed(chunk)
                except StreamTooLong as error:
                    raise BadAnswer(f"{self.url}: {error}") from error
                for event in events:
                    if event.name == "closing":
                        raise DaemonLost(f"the daemon at {self.url} is ending")
                    if event.name == "error":
                        raise refusal(event.data, 500)
                    yield int(event.id) if event.id.isdigit() else 0, event.data

    async def _bear(self, error: ClientError, comeback: Comeback) -> None:
        """Goes on after a stream that broke, or raises the error."""
        if isinstance(error, Quiet):
            return
        if isinstance(error, NoDaemon | DaemonLost) or (isinstance(error, Refusal) and error.status == 503):
            await comeback.lost(error)
            return
        raise error


@asynccontextmanager
async def open_client(
    url: str,
    *,
    tell: Tell = lambda _: None,
    gone_seconds: float = GONE_SECONDS,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> AsyncGenerator[Client, None]:
    """A client of the daemon at this address; nothing is sent before it is asked for something.

    Raises `client_errors.BadAddress`.
    """
    wire = Wire(url, transport)
    try:
        yield Client(wire, tell, gone_seconds)
    finally:
        await wire.aclose()


def _path(*parts: str) -> str:
    return "/api/" + "/".join(quote(part, safe="") for part in parts)


def _decode_job(data: bytes) -> JobView:
    try:
        return msgspec.json.decode(data, type=JobView)
    except msgspec.DecodeError as error:
        raise BadAnswer(f"the daemon tells of a job in a way that this version cannot read: {error}") from error
