"""`headrace job start` with a daemon: inputs stream up, results stream back, until the job has ended.

The daemon keeps inputs and results, so nothing that happens here loses anything: this end may leave, break or be
killed, and `headrace job results` has what was done. Everything that can be checked is checked before the job is made,
as in the embedded mode.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path

import trio
from msgspec import Struct

from agents.errors import HeadraceError
from orchestrator.cli.connect import TWO_WAYS, begin, speak
from orchestrator.cli.exits import DONE, complain, say
from orchestrator.cli.job_progress import JobProgress
from orchestrator.cli.job_report import report_job
from orchestrator.cli.progress import watch
from orchestrator.cli.render import clean_json, print_json, print_text
from orchestrator.cli.signals import SignalEnd
from orchestrator.cli.waiting import explain
from orchestrator.client.client import Client
from orchestrator.client.errors import ClientError, Refusal, is_gone, one_error
from orchestrator.client.upload import Upload
from orchestrator.jobs.inputs import InputFormat, InputStream, Item, Unreadable, check_sources
from orchestrator.jobs.job import chain, peek
from orchestrator.jobs.outputs import OutputError, ResultWriter, open_output
from orchestrator.jobs.template import Template
from orchestrator.views.jobs import LIVE_PHASES, JobRequest, JobView

FRUITLESS = 3
"""How many daemons in a row may end without a result before the job is taken for what ends them."""


class RemoteJob(Struct, frozen=True, kw_only=True):
    """What a person chose. `output` None is standard output; `template` None is a job without items."""

    url: str
    request: JobRequest
    template: Template | None
    inputs: tuple[str, ...]
    input_format: InputFormat = "auto"
    output: Path | None = None
    overwrite: bool = False
    detach: bool = False
    wait: bool = True
    json: bool = False
    quiet: bool = False


def start_remote(options: RemoteJob) -> int:
    """Runs the job and returns the exit code."""

    async def work(client: Client, ending: SignalEnd) -> int:
        return await _JobCommand(options, client, ending).run()

    return speak(options.url, work, way_out=TWO_WAYS, interrupted="interrupted before anything was started")


class _JobCommand:
    """One job on its way from options to exit code; also what a signal ends."""

    def __init__(self, options: RemoteJob, client: Client, ending: SignalEnd) -> None:
        self._options = options
        self._client = client
        self._ending = ending
        self._job = options.request.job
        wanted = options.request.takes_inputs
        sources = check_sources(options.inputs, options.input_format, skip=options.output) if wanted else ()
        self._stream = InputStream(sources, options.input_format, skip=options.output)
        self._progress = JobProgress(self._stream)
        self._broken = ""
        self._cancel_wanted = trio.Event()
        self._leave = trio.CancelScope()

    async def run(self) -> int:
        """Checks, creates, uploads and follows. Raises `HeadraceError`."""
        options, client = self._options, self._client
        async with AsyncExitStack() as stack:
            every = await self._items(stack) if options.request.takes_inputs else None
            if options.detach:
                self._progress.view = await self._create()
                return await self._detach(every)
            writer = await stack.enter_async_context(open_output(options.output, overwrite=options.overwrite))
            self._progress.view = await self._create()
            await self._work(every, writer)
        if self._leave.cancelled_caught:
            complain(f"job {self._job} ends without you; {_come_back(self._job)}")
            return self._ending.exit_code
        return report_job(
            await client.job(self._job),
            ending=self._ending,
            json=options.json,
            quiet=options.quiet,
            results_on_stdout=options.output is None,
            broken=self._broken,
        )

    async def _items(self, stack: AsyncExitStack) -> AsyncIterator[Item | Unreadable]:
        """All inputs, of which the first is known to fit the prompt."""
        items = await stack.enter_async_context(aclosing(self._stream.items()))
        assert self._options.template is not None
        head = await peek(items, self._options.template)
        return await stack.enter_async_context(aclosing(chain(head, items)))

    async def _create(self) -> JobView:
        create = partial(self._client.create_job, self._options.request)
        return await begin(create, lambda: self._client.cancel_job(self._job), wait=self._options.wait)

    async def _detach(self, items: AsyncIterator[Item | Unreadable] | None) -> int:
        self._ending.target = self
        with one_error(), self._leave:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cancel_when_wanted)
                await self._upload(items)
                nursery.cancel_scope.cancel()
        if self._leave.cancelled_caught:
            complain(f"job {self._job}: left with its inputs not all sent; headrace job cancel {self._job} ends it")
            return self._ending.exit_code
        view = await self._client.job(self._job)
        if view.phase == "interrupted" and not self._ending.received:
            await self._go_on()
        if self._ending.received:
            complain(f"job {self._job}: {view.phase}; its inputs were not all sent")
            return self._ending.exit_code
        if self._options.json:
            print_json(view)
        else:
            print_text(self._job)
            inputs = f"{view.received:,} inputs are" if items is not None else "its planner is"
            what = "the debate is" if view.debate is not None else inputs
            say(f"{what} with the daemon; {_come_back(self._job)}")
        return DONE

    async def _work(self, items: AsyncIterator[Item | Unreadable] | None, writer: ResultWriter) -> None:
        options = self._options
        self._ending.target = self
        progress = self._progress
        silent = options.quiet or (options.json and options.output is None)
        with progress.begin(options.request.name, writer, silent=silent) as display, one_error(), self._leave:
            self._client.tell = progress.say
            if not options.quiet:
                display.say(f"job {self._job} is with the daemon at {self._client.url}")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._upload, items)
                nursery.start_soon(self._look)
                nursery.start_soon(self._cancel_when_wanted)
                nursery.start_soon(watch, display, progress.snapshot)
                nursery.start_soon(explain, self._client, options.request.tenant, progress.moved, progress.wonder)
                await self._follow(writer)
                nursery.cancel_scope.cancel()

    async def _upload(self, items: AsyncIterator[Item | Unreadable] | None) -> None:
        """All inputs; None where there are none to send."""
        if items is None:
            return
        try:
            await Upload(self._client, self._job).run(items)
        except Refusal:
            # A job that has ended takes no more inputs, whoever ended it; its results say the rest.
            if (await self._client.job(self._job)).phase in LIVE_PHASES:
                raise

    async def _follow(self, writer: ResultWriter) -> None:
        """Writes results until the job has ended. One that its daemon interrupted goes on with the next daemon."""
        offset, rest, tries = 0, b"", 0
        while True:
            before = offset
            async with aclosing(self._client.results(self._job, offset, follow=True)) as blocks:
                async for block in blocks:
                    offset += len(block)
                    whole, line_end, rest = (rest + block).rpartition(b"\n")
                    if line_end and not self._broken:
                        await self._write(writer, whole + line_end)
            self._progress.view = view = await self._client.job(self._job)
            if view.phase != "interrupted" or self._cancel_wanted.is_set():
                return
            tries = 0 if offset > before else tries + 1
            if tries > FRUITLESS:
                return
            await self._go_on()

    async def _write(self, writer: ResultWriter, lines: bytes) -> None:
        try:
            await writer.write(clean_json(lines) if writer.is_terminal else lines)
        except OutputError as error:
            # Nobody gets the answers any more, so no more are paid for; those that are, the daemon keeps.
            self._broken = error.message
            self._cancel_wanted.set()

    async def _go_on(self) -> None:
        """Asks for what the last daemon left undone: whoever waits here for the results still wants them."""
        comeback = self._client.comeback()
        while True:
            try:
                self._progress.view = await self._client.retry_job(self._job)
            except ClientError as error:
                if isinstance(error, Refusal) and error.status == 409:
                    break  # it is live again: somebody else asked, or an earlier request of ours arrived
                if not is_gone(error):
                    raise
                await comeback.lost(error)
            else:
                comeback.back()
                break
        self._client.tell(f"job {self._job} goes on")

    async def _look(self) -> None:
        async with aclosing(self._client.watch_job(self._job)) as views:
            async for view in views:
                self._progress.view = view

    # Ending early

    async def _cancel_when_wanted(self) -> None:
        await self._cancel_wanted.wait()
        try:
            await self._client.cancel_job(self._job)
        except HeadraceError as error:
            self._progress.say(f"the job could not be cancelled: {error.message}")

    def end(self, signal_name: str) -> None:
        """The first signal: the daemon is asked to end the job, and its last results are waited for."""
        self._progress.note = "cancelling, once more to leave it to the daemon"
        self._progress.say(self._progress.note)
        self._cancel_wanted.set()

    def hurry(self) -> None:
        """The second signal: nothing is waited for."""
        self._leave.cancel()


def _come_back(job: str) -> str:
    return f"come back with: headrace job results {job} -o FILE --follow"
