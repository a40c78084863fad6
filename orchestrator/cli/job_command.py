"""What `headrace job start --embedded` does, from its options to its exit code.

Everything that can be checked is checked before the first call: the prompt, the inputs up to the first readable item,
the address and the key of the backend, the output. From then on a signal, a hopeless backend or a broken output ends
the job early but cleanly, and the report says what was done and what was not.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from functools import partial

import msgspec
import trio
from rich.console import Console

from agents.errors import HeadraceError
from agents.journal import MemoryJournal
from agents.lifecycle import StopReason
from orchestrator.backend_choice import BackendError
from orchestrator.cli.exits import BACKEND, DONE, SOME_FAILED, USAGE, complain, say
from orchestrator.cli.job_options import JobOptions, check_options, job_spec, read_template, run_options
from orchestrator.cli.progress import Display, LiveDisplay, NoDisplay, PlainDisplay, Snapshot, watch
from orchestrator.cli.report import cost_dollars, job_table, summary
from orchestrator.cli.signals import SignalEnd, until_signalled
from orchestrator.embedded import Embedded, EmbeddedConfig, open_embedded
from orchestrator.job_log import open_log
from orchestrator.job_metrics import JobMetrics
from orchestrator.jobs.fuse import Fuse
from orchestrator.jobs.inputs import InputStream, Item, Unreadable, check_sources
from orchestrator.jobs.item_runs import ItemRuns
from orchestrator.jobs.job import Job, JobReport, chain, peek
from orchestrator.jobs.outputs import ResultWriter, open_output
from orchestrator.metrics_file import MetricsFile, check_metrics_path
from orchestrator.tally import Tally
from orchestrator.transitions import Hook


async def start_job(options: JobOptions) -> int:
    """Runs the job and returns the exit code; errors become messages."""
    return await until_signalled(partial(_start_job, options), "interrupted before anything was started")


async def _start_job(options: JobOptions, ending: SignalEnd) -> int:
    try:
        return await _JobCommand(options, ending).run()
    except BackendError as error:
        complain(error.message)
        return BACKEND
    except HeadraceError as error:
        complain(error.message)
        return USAGE


class _JobCommand:
    """One job on its way from options to exit code; also what a signal ends."""

    def __init__(self, options: JobOptions, ending: SignalEnd) -> None:
        check_options(options)
        self._options = options
        self._ending = ending
        self._template = read_template(options)
        sources = check_sources(options.inputs, options.input_format, skip=options.output)
        self._stream = InputStream(sources, options.input_format, skip=options.output)
        self._metrics: JobMetrics | None = None
        self._file: MetricsFile | None = None
        if options.metrics is not None:
            check_metrics_path(options.metrics)
            self._metrics = JobMetrics([options.tenant], options.price)
        self._tally = Tally([options.tenant])
        self._fuse = Fuse(options.workers, options.retries + 1)
        self._job: Job | None = None
        self._writer: ResultWriter | None = None
        self._began = 0.0
        self._note = ""
        self._display: Display = NoDisplay(say)

    async def run(self) -> int:
        """Checks, starts, works, reports. Raises `HeadraceError` while nothing has been started."""
        options = self._options
        async with AsyncExitStack() as stack:
            items = await stack.enter_async_context(aclosing(self._stream.items()))
            head = await peek(items, self._template)
            every = await stack.enter_async_context(aclosing(chain(head, items)))
            config = EmbeddedConfig(
                backend=options.backend, retries=options.retries, default_max_tokens=options.max_tokens
            )
            embedded = await stack.enter_async_context(
                open_embedded(
                    config,
                    hooks=self._hooks(),
                    on_turn=None if self._metrics is None else self._metrics.on_turn,
                    on_lost=self._stop,
                )
            )
            if self._metrics is not None and options.metrics is not None:
                self._metrics.watch(embedded.owner)
                self._file = MetricsFile(options.metrics, self._metrics.exposition, self._say_problem)
                self._file.begin()
                stack.callback(self._file.write)
            self._writer = await stack.enter_async_context(open_output(options.output, overwrite=options.overwrite))
            report = await self._work(embedded, every)
        return self._end(report)

    def _hooks(self) -> list[Hook]:
        options = self._options
        hooks: list[Hook] = [self._tally]
        if self._metrics is not None:
            hooks.append(self._metrics.hook)
        if options.verbose or options.log_json or not options.quiet:
            hooks.append(
                open_log(
                    self._say,
                    verbose=options.verbose,
                    json=options.log_json,
                    colours=sys.stderr.isatty(),
                )
            )
        return hooks

    def _say_problem(self, message: str) -> None:
        self._say(f"headrace: {message}")

    def _say(self, line: str) -> None:
        self._display.say(line)  # whichever display there is by then

    async def _work(self, embedded: Embedded, items: AsyncIterator[Item | Unreadable]) -> JobReport:
        assert self._writer is not None
        writer = self._writer
        journal = MemoryJournal if self._metrics is None else self._metrics.journal
        runs = ItemRuns(run_options(self._options), embedded, self._fuse, self._stop, journal=journal)
        job = self._job = Job(
            job_spec(self._options, self._template), items, runs.run, lambda result: writer.write(result.line())
        )
        self._began = trio.current_time()
        self._ending.target = self
        self._display = self._choose_display(writer)
        with self._display as display:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch, display, self._snapshot)
                if self._file is not None:
                    nursery.start_soon(self._file.run)
                report = await job.run()
                nursery.cancel_scope.cancel()
        return report

    # Ending early

    def end(self, signal_name: str) -> None:
        """The first signal: nothing new, and a little time for what is live."""
        assert self._job is not None
        grace = self._options.grace
        self._note = f"ending: live runs have {grace:g} s, once more to end now"
        self._display.show(self._snapshot())
        self._job.stop(f"interrupted by {signal_name}", state="interrupted", grace=grace)

    def hurry(self) -> None:
        """The second signal: nothing is waited for."""
        assert self._job is not None
        assert self._writer is not None
        self._job.hurry()
        self._writer.hurry()

    def _stop(self, message: str) -> None:
        if self._job is not None:
            self._job.stop(message)

    # Showing

    def _choose_display(self, writer: ResultWriter) -> Display:
        options = self._options
        if options.quiet or options.log_json or (options.json and options.output is None):
            return NoDisplay(say)
        # Results on the same terminal would run into a live line.
        if sys.stderr.isatty() and not writer.is_terminal:
            return LiveDisplay(Console(stderr=True), options.name)
        return PlainDisplay(say, options.name)

    def _snapshot(self) -> Snapshot:
        job, stream, usage = self._job, self._stream, self._tally.usage
        assert job is not None
        total: float | None = None
        if job.ended:
            total = job.taken
        elif stream.total_bytes and stream.consumed:
            total = stream.count * stream.total_bytes / stream.consumed
        return Snapshot(
            done=job.done,
            failed=job.failed,
            live=job.live,
            total=total,
            exact=job.ended,
            waiting=self._tally.waiting,
            in_flight=self._tally.in_flight,
            tokens=usage.total or 0,
            cost=cost_dollars(usage, self._options.price),
            seconds=trio.current_time() - self._began,
            note=self._note,
        )

    def _end(self, report: JobReport) -> int:
        options = self._options
        code, message = verdict(report, self._fuse, self._ending)
        if message:
            complain(message)
        for error in report.errors if code in (SOME_FAILED, DONE) else ():
            complain(f"failed: {error}")
        beyond = report.failed - len(report.errors)
        if beyond > 0:
            complain(f"failed: {beyond:,} more; the results have them all")
        cut_off = report.failures.get(StopReason.OUTPUT_LIMIT.value, 0)
        if cut_off:
            were = "answer was" if cut_off == 1 else "answers were"
            complain(f"{cut_off:,} {were} cut off; --max-tokens allows {options.max_tokens}")
        # Results own stdout when they go there.
        if options.json:
            stream = sys.stderr if options.output is None else sys.stdout
            data = msgspec.json.encode(summary(report, self._tally, options.price) | {"exit_code": code})
            print(data.decode(), file=stream, flush=True)
        elif not options.quiet and code != BACKEND:  # nothing was done, so the message says it all
            Console(stderr=options.output is None).print(job_table(report, self._tally, options.price))
        return code


def verdict(report: JobReport, fuse: Fuse, ending: SignalEnd) -> tuple[int, str]:
    """The exit code of an ended job, and the one message that explains it, empty where all is well."""
    if report.state == "interrupted":
        rest = f", {len(report.cancelled):,} cancelled" if report.cancelled else ""
        unread = f"; the input behind {report.unread_after} was not read" if report.unread_after else ""
        return ending.exit_code, f"{report.message}: {report.done:,} done, {report.failed:,} failed{rest}{unread}"
    if not report.done and fuse.hopeless:
        return BACKEND, report.message or fuse.hopeless
    if report.message or report.failed or report.cancelled:
        return SOME_FAILED, report.message
    return DONE, ""
