"""Asks whoever watches a run at a terminal what the run asks people: one thing after the other.

What somebody else answers meanwhile is asked no more; what is passed over stays open for `headrace approve`.
"""

import os
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from agents.events import ApprovalDecided, ApprovalRequested, Event, InputGiven, InputRequested, RunEnded
from agents.people_events import Asked
from orchestrator.cli.render import clean
from orchestrator.cli.request_words import how_to_answer_event
from orchestrator.client.client import Client
from orchestrator.client.errors import Refusal

_YES: Final = frozenset({"y", "yes"})
_NO: Final = frozenset({"n", "no"})
_LINE_BYTES: Final = 64 * 1024

ReadLine = Callable[[str], Awaitable[str | None]]


def at_a_terminal() -> bool:
    """Whether somebody can be asked here."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def read_terminal(prompt: str) -> str | None:
    """A line from the terminal; None where it was closed. Cancelling it leaves what was typed to whoever reads next."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    await trio.lowlevel.wait_readable(sys.stdin.fileno())
    line = os.read(sys.stdin.fileno(), _LINE_BYTES)
    return line.decode(errors="replace").strip() if line else None


class AskHere:
    """What one run asks, as its events tell, put to a person with `read`; `by` is their name."""

    def __init__(self, client: Client, url: str, by: str, say: Callable[[str], None], read: ReadLine) -> None:
        self._client = client
        self._url = url
        self._by = by
        self._say = say
        self._read = read
        self._open: dict[str, Asked] = {}
        self._asking = ""
        self._scope = trio.CancelScope()
        self._more = trio.Event()

    def hear(self, event: Event) -> None:
        """One more event of the run."""
        if isinstance(event, ApprovalRequested | InputRequested):
            self._open[event.key] = event
            self._more.set()
        elif isinstance(event, ApprovalDecided | InputGiven):
            self._open.pop(event.key, None)
            if event.key == self._asking:
                self._scope.cancel()
        elif isinstance(event, RunEnded):
            self._open.clear()
            self._scope.cancel()

    async def run(self) -> None:
        """Asks until it is cancelled, or nobody is there any more."""
        while True:
            while not self._open:
                self._more = trio.Event()
                await self._more.wait()
            asked = self._open.pop(next(iter(self._open)))
            with trio.CancelScope() as self._scope:
                self._asking = asked.key
                if not await self._ask(asked):
                    return
            self._asking = ""
            if self._scope.cancelled_caught:
                self._say("")

    async def _ask(self, asked: Asked) -> bool:
        """Puts one request to the person; False where nobody is there."""
        self._say(f"  {clean(asked.name)} asks:" if isinstance(asked, InputRequested) else f"  {_what(asked)}")
        if isinstance(asked, InputRequested):
            self._say(f"    {clean(asked.question)}")
            for number, option in enumerate(asked.options, 1):
                self._say(f"    {number}) {clean(option)}")
        answer = await self._read(_prompt(asked))
        if answer is None or not answer:
            self._say(f"  left open: {clean(how_to_answer_event(asked, self._url))}")
            return answer is not None
        self._asking = ""  # what is decided from here on is decided here
        try:
            await self._tell(asked, answer)
        except Refusal as refusal:
            self._say(f"  {clean(refusal.message)}")
        return True

    async def _tell(self, asked: Asked, answer: str) -> None:
        if isinstance(asked, InputRequested):
            chosen = int(answer) - 1 if answer.isdecimal() and len(answer) < 4 else -1
            words = asked.options[chosen] if 0 <= chosen < len(asked.options) else answer
            await self._client.answer(asked.key, words, by=self._by)
            return
        word, _, note = answer.partition(" ")
        if word.lower() in _YES:
            await self._client.decide(asked.key, "approved", by=self._by, digest=asked.digest)
        elif word.lower() in _NO:
            await self._client.decide(asked.key, "denied", by=self._by, note=note.strip(), digest=asked.digest)
        else:
            self._say("  that was neither yes nor no")
            self._open = {asked.key: asked, **self._open}


def _what(asked: ApprovalRequested) -> str:
    why = "" if asked.why == "always" else f", since {asked.why}"
    return f"{clean(asked.name)} {clean(asked.arguments)} needs approval{clean(why)}"


def _prompt(asked: Asked) -> str:
    if isinstance(asked, InputRequested):
        return "  your answer (Enter leaves it open): "
    return "  approve it? [y, n or n WHY; Enter leaves it open] "
