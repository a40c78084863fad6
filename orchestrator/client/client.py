"""A client of a daemon: its requests, and streams that survive a broken connection and a daemon that restarts.

    async with open_client(url, tell=say) as client:
        view = await client.start_run(RunRequest(task="...", run=new_id()))
        async with aclosing(client.events(view.run)) as events:
            async for number, data in events: ...

Every method raises `errors.ClientError`. A stream that breaks looks for the daemon for `gone_seconds`, has
`tell` told once that it is gone and once that it is back, and goes on where it stood.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Final

import httpx2
import msgspec
import trio

from orchestrator.backends.secret import Secret
from orchestrator.backends.sse import SSEParser, StreamTooLong
from orchestrator.client.errors import BadAnswer, ClientError, DaemonLost, Quiet, is_gone
from orchestrator.client.patience import GONE_SECONDS, Comeback, Outage, Tell
from orchestrator.client.requests import Requests, path_of
from orchestrator.client.wire import Params, Wire, refusal
from orchestrator.views.jobs import LIVE_PHASES, JobPhase, JobView

EVENT_BYTES: Final = 64 * 1024 * 1024
"""One event at most: a reply with its tool calls, or the transcript a run starts from."""

INTERRUPTED_SECONDS: Final = 1.0
"""How long until a job that was interrupted is looked at again."""

RUN_ENDED: Final = "run_ended"
"""The name of the event behind which a run has none."""


class Client(Requests):
    """One daemon. Made by `open_client`. `tell` may be replaced, as when a display takes the terminal over."""

    def __init__(self, wire: Wire, tell: Tell, gone_seconds: float) -> None:
        super().__init__(wire)
        self.tell = tell
        self._gone_seconds = gone_seconds
        self._outage = Outage(self._say)

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"

    def comeback(self) -> Comeback:
        """Patience with a daemon that went away; none with one that was never there."""
        return Comeback(self._gone_seconds, self._outage, lambda: self._wire.met)

    async def events(self, run: str, after: int = 0, *, follow: bool = True) -> AsyncGenerator[tuple[int, bytes], None]:
        """The run's events behind number `after`, as JSON; with `follow` new ones as they come, until it has ended.

        The numbers are the session's, so they need not begin with 1.
        """
        comeback = self.comeback()
        path = path_of("runs", run, "events")
        over = False
        while True:
            seen = after
            try:
                async with aclosing(self._events(path, after, comeback, follow)) as events:
                    async for name, number, data in events:
                        if number <= after:
                            continue
                        after = number
                        yield number, data
                        if name == RUN_ENDED:
                            return
                if not follow or (over and after == seen):
                    return
                # A run may have ended since its stream did, and whoever lost its log may never say so in it.
                over = (await self.run(run)).reason is not None
                if not over:
                    await comeback.lost(DaemonLost(f"the daemon at {self.url} ended the stream of events"))
            except ClientError as error:
                await self._bear(error, comeback)

    async def watch_job(self, job: str) -> AsyncGenerator[JobView, None]:
        """The job now, and again whenever it has changed, until it has ended.

        One that was interrupted has not: a daemon that has just begun has it as its last one left it, and goes on.
        """
        comeback = self.comeback()
        while True:
            phase: JobPhase = "running"
            try:
                async with aclosing(self._events(path_of("jobs", job, "events"), 0, comeback, True)) as events:
                    async for _, _, data in events:
                        view = _decode_job(data)
                        yield view
                        phase = view.phase
                        if phase not in LIVE_PHASES:
                            break
                if phase == "interrupted":
                    await trio.sleep(INTERRUPTED_SECONDS)
                    continue
                if phase not in LIVE_PHASES:
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
            opened = False
            try:
                async with self._wire.stream(path_of("jobs", job, "results"), params=params) as chunks:
                    opened = True
                    comeback.back()
                    async for chunk in chunks:
                        offset += len(chunk)
                        yield chunk
                view = await self.job(job)
                if not follow or (view.phase not in LIVE_PHASES and view.result_bytes <= offset):
                    return
                await comeback.lost(DaemonLost(f"the daemon at {self.url} ended the stream of results"))
            except Quiet as error:
                if not opened:  # between two results there may be any time
                    await comeback.lost(error)
            except ClientError as error:
                await self._bear(error, comeback)

    @asynccontextmanager
    async def export(self, session: str) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
        """The session's log as `views.sessions` describes it, in blocks that may end in the middle of a line.

        It is not gone on with where it breaks: whoever reads it compares with what its header says.
        """
        async with self._wire.stream(path_of("sessions", session, "export")) as chunks:
            yield chunks

    async def _events(
        self, path: str, after: int, comeback: Comeback, follow: bool
    ) -> AsyncGenerator[tuple[str, int, bytes], None]:
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
                    yield event.name, int(event.id) if event.id.isdigit() else 0, event.data

    async def _bear(self, error: ClientError, comeback: Comeback) -> None:
        """Goes on after a stream that broke, or raises the error."""
        if not is_gone(error):
            raise error
        await comeback.lost(error)

    def _say(self, message: str) -> None:
        self.tell(message)  # whoever it is by then


@asynccontextmanager
async def open_client(
    url: str,
    *,
    key: Secret | None = None,
    tell: Tell = lambda _: None,
    gone_seconds: float = GONE_SECONDS,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> AsyncGenerator[Client, None]:
    """A client of the daemon at this address, with its key; nothing is sent before it is asked for something.

    Raises `errors.BadAddress`.
    """
    wire = Wire(url, transport, key=key)
    try:
        yield Client(wire, tell, gone_seconds)
    finally:
        await wire.aclose()


def _decode_job(data: bytes) -> JobView:
    try:
        return msgspec.json.decode(data, type=JobView)
    except msgspec.DecodeError as error:
        raise BadAnswer(f"the daemon tells of a job in a way that this version cannot read: {error}") from error
