"""`headrace job results`: a job's results from the daemon into a file, from its start or from where the file ends."""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from agents.errors import HeadraceError
from orchestrator.cli.exits import DONE, SOME_FAILED, complain, say
from orchestrator.cli.render import clean_json
from orchestrator.client.client import Client
from orchestrator.jobs.outputs import OutputError, ResultWriter, open_output
from orchestrator.views.jobs import LIVE_PHASES

_BLOCK = 64 * 1024


async def fetch_results(
    client: Client, job: str, output: Path | None, *, follow: bool, overwrite: bool, resume: bool
) -> int:
    """Writes whole lines; with `follow` until the job has ended. Raises `HeadraceError` where it cannot begin.

    With `resume` the file holds the beginning of these results: a torn last line is cut off, and the rest is added.
    """
    view = await client.job(job)
    rest = b""
    async with _output(output, overwrite=overwrite, resume=resume) as (writer, offset):
        if offset > view.result_bytes:
            raise OutputError(f"{output}: it is longer than the results of job {job}; are they of another job?")
        try:
            async with aclosing(client.results(job, offset, follow=follow)) as blocks:
                async for block in blocks:
                    whole, line_end, rest = (rest + block).rpartition(b"\n")
                    if line_end:
                        lines = whole + line_end
                        await writer.write(clean_json(lines) if writer.is_terminal else lines)
        except OutputError as error:
            complain(error.message)
            return SOME_FAILED
    view = await client.job(job)
    if view.phase in LIVE_PHASES:
        say(f"job {job} is {view.phase} still: {view.done:,} done, {view.failed:,} failed; --follow waits for the rest")
    elif view.phase != "done":
        say(f"job {job} ended as {view.phase}: {view.done:,} done, {view.failed:,} failed; headrace job show {job}")
    return DONE


@asynccontextmanager
async def _output(
    path: Path | None, *, overwrite: bool, resume: bool
) -> AsyncGenerator[tuple[ResultWriter, int], None]:
    if not resume:
        async with open_output(path, overwrite=overwrite) as writer:
            yield writer, 0
        return
    if path is None or overwrite:
        raise HeadraceError("--resume goes on with a file: give it with -o, and no --overwrite")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise OutputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    try:
        end = _last_line_end(fd)
        os.ftruncate(fd, end)
        os.lseek(fd, end, os.SEEK_SET)
        yield ResultWriter(fd, str(path)), end
    except OSError as error:
        raise OutputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    finally:
        os.close(fd)


def _last_line_end(fd: int) -> int:
    """The offset behind the last line break."""
    end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
