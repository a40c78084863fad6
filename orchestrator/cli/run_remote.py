"""`headrace run` against a daemon: start, watch it go by, print the answer."""

from contextlib import aclosing

import trio
from msgspec import Struct

from agents.errors import HeadraceError
from agents.events import Event, UnknownEvent, decode
from agents.lifecycle import State
from agents.people_events import ApprovalRequested, InputRequested
from orchestrator.cli.ask_here import AskHere, at_a_terminal, read_terminal
from orchestrator.cli.connect import TWO_WAYS, begin, speak
from orchestrator.cli.exits import DONE, SOME_FAILED, complain, say
from orchestrator.cli.render import clean, print_json, print_text
from orchestrator.cli.request_words import how_to_answer_event
from orchestrator.cli.run_end import tell_end
from orchestrator.cli.run_events import EventWords
from orchestrator.cli.signals import SignalEnd
from orchestrator.cli.waiting import explain
from orchestrator.cli.words import own_name
from orchestrator.client.client import Client
from orchestrator.client.errors import DaemonLost, Refusal, one_error
from orchestrator.views.runs import RunDetail, RunRequest


class RemoteRun(Struct, frozen=True, kw_only=True):
    """What a person asked for. `only_word` is a task of one word without an agent: it may be meant as one."""

    url: str
    request: RunRequest
    detach: bool = False
    wait: bool = True
    json: bool = False
    quiet: bool = False
    only_word: str = ""


def run_remote(options: RemoteRun) -> int:
    """Runs it and returns the exit code."""

    async def work(client: Client, ending: SignalEnd) -> int:
        return await _Following(options, client, ending).run()

    return speak(options.url, work, way_out=TWO_WAYS, interrupted="interrupted before anything was started")


class _Following:
    """One run that is followed; also what a signal ends."""

    def __init__(self, options: RemoteRun, client: Client, ending: SignalEnd) -> None:
        self._options = options
        self._client = client
        self._ending = ending
        self._asked = trio.Event()
        self._leave = trio.CancelScope()
        self._run = options.request.run
        self._last = 0
        self._reason = ""
        self._people: AskHere | None = None
        if at_a_terminal() and not options.quiet:
            self._people = AskHere(client, options.url, own_name(), say, read_terminal)

    async def run(self) -> int:
        options, client = self._options, self._client
        await _no_agent_alone(client, options.only_word)
        view = await begin(
            lambda: client.start_run(options.request), lambda: client.cancel_run(self._run), wait=options.wait
        )
        if options.detach:
            if options.json:
                print_json(view)
            else:
                print_text(view.run)
                say(f"See how it goes: headrace show {view.run}, headrace events {view.run} --follow")
            return DONE
        if not options.quiet:
            say(f"run {clean(view.run)}: agent {clean(view.agent)}, model {clean(view.model) or 'the default'}")
        self._ending.target = self
        detail: RunDetail | None = None
        with one_error(), self._leave:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cancel_when_asked)
                if not options.quiet:
                    nursery.start_soon(explain, client, options.request.tenant, lambda: self._last, self._wonder)
                if self._people is not None:
                    nursery.start_soon(self._people.run)
                detail = await self._follow()
                nursery.cancel_scope.cancel()
        if detail is None:
            complain(f"run {self._run} goes on until the daemon has ended it; headrace show {self._run} tells how")
            return self._ending.exit_code
        return self._end(detail)

    async def _follow(self) -> RunDetail:
        words = EventWords()
        try:
            async with aclosing(self._client.events(self._run)) as events:
                async for number, data in events:
                    self._last = number
                    try:
                        self._pass(words, decode(data))
                    except UnknownEvent:
                        continue
            return await self._client.run(self._run)
        except Refusal as refusal:
            if refusal.kind != "unknown_run":
                raise
            raise Forgotten(
                f"the daemon no longer knows run {self._run}: it was started anew, with a store that forgets"
            ) from None

    def _pass(self, words: EventWords, event: Event) -> None:
        """Tells whoever watches of an event; what the run asks them is told even where they want to see nothing."""
        line = words.passing(event)
        if self._people is not None:
            self._people.hear(event)
        if isinstance(event, ApprovalRequested | InputRequested):
            if self._people is None:
                say(f"  {clean(line)}; to answer: {how_to_answer_event(event, self._options.url)}")
        elif line and not self._options.quiet:
            say(f"  {clean(line)}")

    async def _cancel_when_asked(self) -> None:
        await self._asked.wait()
        try:
            await self._client.cancel_run(self._run)
        except HeadraceError as error:
            complain(f"it could not be cancelled: {clean(error.message)}")

    def _wonder(self, kind: str, words: str) -> None:
        if kind not in ("", self._reason):
            say(f"  {clean(words)}")
        self._reason = kind

    def end(self, signal_name: str) -> None:
        """The first signal: the daemon is asked to end the run."""
        say("  cancelling the run; once more to leave it to the daemon")
        self._asked.set()

    def hurry(self) -> None:
        """The second signal: nothing is waited for."""
        self._leave.cancel()

    def _end(self, detail: RunDetail) -> int:
        options = self._options
        if options.json:
            print_json(detail)
        elif detail.state is State.COMPLETED:
            print_text(detail.answer)
        tell_end(detail, quiet=options.quiet)
        if self._ending.received:
            return self._ending.exit_code
        return DONE if detail.state is State.COMPLETED else SOME_FAILED


class Forgotten(DaemonLost):
    """The run's daemon does not know it any more."""


class NoTask(HeadraceError):
    """An agent was named and nothing to do."""


async def _no_agent_alone(client: Client, word: str) -> None:
    if word and word in (await client.capabilities()).agents:
        raise NoTask(f'{word} is an agent, and there is no task for it: headrace run {word} "what to do"')
