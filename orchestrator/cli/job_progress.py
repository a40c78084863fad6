"""The progress of a daemon's job as it is shown: its last view, the reading of its inputs, and why it stands still."""

import sys

import trio
from rich.console import Console

from agents.money import MILLION
from orchestrator.cli.exits import say
from orchestrator.cli.progress import Display, LiveDisplay, NoDisplay, PlainDisplay, Snapshot, duration
from orchestrator.cli.render import clean
from orchestrator.jobs.inputs import InputStream
from orchestrator.jobs.outputs import ResultWriter
from orchestrator.views.jobs import JobView


def stage_words(view: JobView) -> str:
    """What the job is at and when it has enough; nothing where it only works at all of its inputs."""
    if view.stage in ("planning", "synthesis"):
        return "planning" if view.stage == "planning" else "writing its answer"
    if view.debate is not None:
        return f"debating, round {view.done + view.failed + 1:,}"
    gather = view.gather
    if gather.policy in ("quorum", "first"):
        return f"enough with {gather.count:,} {'done' if gather.policy == 'quorum' else 'ended'}"
    return f"closes after {duration(gather.seconds)}" if gather.seconds is not None else ""


class JobProgress:
    """What is known of one job here. `note` is for people, and goes before why it waits."""

    def __init__(self, stream: InputStream) -> None:
        self.view: JobView | None = None
        self.note = ""
        self.display: Display = NoDisplay(say)
        self._stream = stream
        self._began = 0.0
        self._waiting = ""

    def begin(self, name: str, writer: ResultWriter, *, silent: bool) -> Display:
        """Chooses how to show it; the display still has to be entered."""
        self._began = trio.current_time()
        if silent:
            self.display = NoDisplay(say)
        # Results on the same terminal would run into a live line.
        elif sys.stderr.isatty() and not writer.is_terminal:
            self.display = LiveDisplay(Console(stderr=True), name)
        else:
            self.display = PlainDisplay(say, name)
        return self.display

    def say(self, message: str) -> None:
        """A message, where it does not run into what is drawn."""
        self.display.say(f"headrace: {clean(message)}")

    def moved(self) -> object:
        """Differs from the last time's exactly if something has happened."""
        view = self.view
        return None if view is None else (view.stage, view.done, view.failed, view.received)

    def wonder(self, kind: str, words: str) -> None:
        """Takes note of why it stands still; no words where it does not."""
        self._waiting = words

    def snapshot(self) -> Snapshot:
        """The job at this moment."""
        view, stream = self.view, self._stream
        assert view is not None
        total: float | None = None
        known = view.debate is None and (view.complete or stream.ended)
        if known:
            total = max(view.received, stream.count)
        elif stream.total_bytes and stream.consumed:
            total = stream.count * stream.total_bytes / stream.consumed
        tokens = view.usage.total
        return Snapshot(
            done=view.done,
            failed=view.failed,
            live=view.live,
            total=total,
            exact=known,
            waiting=None,
            in_flight=None,
            tokens=tokens or 0,
            cost=None if view.micro_dollars is None or tokens is None else view.micro_dollars / MILLION,
            seconds=trio.current_time() - self._began,
            note=", ".join(filter(None, (stage_words(view), self.note or self._waiting))),
        )
