"""`headrace job results --transcript`: what was said in a debate, as people read it."""

from contextlib import aclosing
from typing import Final

import msgspec

from agents.debate import Debate
from agents.debate_transcript import transcript
from orchestrator.cli.exits import DONE
from orchestrator.cli.options import WrongOption
from orchestrator.cli.render import print_text
from orchestrator.client.client import Client
from orchestrator.client.errors import BadAnswer
from orchestrator.jobs.debating import folded
from orchestrator.jobs.record import JobLine
from orchestrator.views.jobs import LIVE_PHASES, JobView
from orchestrator.views.runs import AgentChoice

_lines: Final = msgspec.json.Decoder(JobLine)


async def show_transcript(client: Client, job: str) -> int:
    """Prints it and returns the exit code. Raises `HeadraceError`."""
    view = await client.job(job)
    if view.debate is None:
        raise WrongOption(f"--transcript: job {job} is no debate; its results are shown by --table")
    data = b""
    async with aclosing(client.results(job)) as blocks:
        async for block in blocks:
            data += block
    view = await client.job(job)
    debate = read_debate(view, data)
    print_text(transcript(debate, standing(view, debate)))
    return DONE


def read_debate(view: JobView, data: bytes) -> Debate:
    """The debate in a job's results, whole lines of them. Raises `BadAnswer`."""
    assert view.debate is not None
    try:
        lines = [_lines.decode(line) for line in data.splitlines()]
    except msgspec.DecodeError as error:
        raise BadAnswer(f"a line of the job's results cannot be read: {error}") from error
    return folded(view.debate, AgentChoice(), lines)


def standing(view: JobView, debate: Debate) -> str:
    """How the debate stands, of which its rounds do not say everything: a job may be cancelled, or tried again."""
    if view.phase in LIVE_PHASES:
        return "going on"
    return f"ended as {debate.stop or view.phase}"
