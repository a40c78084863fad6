"""`headrace run --embedded`: the same run in this process, with a backend of its own."""

import secrets
import time
from collections.abc import Sequence
from functools import partial

import trio
from msgspec import Struct

from agents.errors import HeadraceError
from agents.events import Event
from agents.loop import AgentRun
from agents.money import Price, PriceList
from agents.observation import observed
from agents.port import Flow, Priority
from agents.requests import refuse_without_people
from agents.result import RunResult
from agents.spec import AgentSpec
from orchestrator.backend_choice import BackendChoice, BackendError
from orchestrator.cli.exits import BACKEND, DONE, SOME_FAILED, USAGE, complain, say
from orchestrator.cli.render import clean, print_json, print_text
from orchestrator.cli.run_end import tell_end
from orchestrator.cli.run_events import EventWords
from orchestrator.cli.signals import SignalEnd, until_signalled
from orchestrator.embedded import EmbeddedConfig, open_embedded
from orchestrator.runs.priorities import PRIORITY_NAMES
from orchestrator.runs.reading import detail_of
from orchestrator.views.runs import RunDetail, RunView


class EmbeddedRun(Struct, frozen=True, kw_only=True):
    """What a person asked for. `price` None is unknown."""

    backend: BackendChoice
    agent: AgentSpec
    task: str
    tenant: str = "default"
    priority: Priority = Priority.STANDARD
    retries: int = 5
    price: Price | None = None
    json: bool = False
    quiet: bool = False


def run_embedded(options: EmbeddedRun) -> int:
    """Runs it and returns the exit code; errors become messages."""
    work = partial(_run, options)
    return trio.run(
        partial(until_signalled, work, "interrupted before anything was started"),
        restrict_keyboard_interrupt_to_checkpoints=True,
    )


async def _run(options: EmbeddedRun, ending: SignalEnd) -> int:
    try:
        detail = await _drive(options, ending)
    except BackendError as error:
        complain(error.message)
        return BACKEND
    except HeadraceError as error:
        complain(error.message)
        return USAGE
    if options.json:
        print_json(detail)
    elif detail.observed == "done":
        print_text(detail.answer)
    tell_end(detail, quiet=options.quiet)
    if ending.received:
        return ending.exit_code
    return DONE if detail.observed == "done" else SOME_FAILED


async def _drive(options: EmbeddedRun, ending: SignalEnd) -> RunDetail:
    agent = options.agent
    refuse_without_people(agent)
    prices = PriceList({} if options.price is None else {agent.model: options.price})
    config = EmbeddedConfig(
        backend=options.backend, retries=options.retries, default_max_tokens=agent.max_tokens or 1024
    )
    flow = Flow(options.tenant, "", secrets.token_hex(8))
    created = time.time()
    async with open_embedded(config) as embedded:
        journal = _Told(options.quiet)
        run = AgentRun(
            agent,
            options.task,
            model=embedded.port(flow, options.priority),
            journal=journal,
            prices=prices,
            run=flow.run,
            priority=options.priority,
        )
        target = _Cancel(run)
        ending.target = target
        with target.scope:
            await run.create()
            if not options.quiet:
                say(f"run {run.run}: model {agent.model}, in this process")
            result = await run.drive()
            return _detail(options, result, created, journal.events)
        assert run.result is not None
        return _detail(options, run.result, created, journal.events)


class _Cancel:
    """What a signal does: cancel the run, then leave it."""

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self.scope = trio.CancelScope()

    def end(self, signal_name: str) -> None:
        self._run.cancel("cancelled", f"interrupted by {signal_name}")

    def hurry(self) -> None:
        self.scope.cancel()


class _Told:
    """A journal that tells what passes by, and keeps nothing."""

    def __init__(self, quiet: bool) -> None:
        self.events = 0
        self._quiet = quiet
        self._words = EventWords()

    async def append(self, events: Sequence[Event]) -> None:
        await trio.lowlevel.checkpoint()
        for event in events:
            self.events += 1
            line = self._words.passing(event)
            if line and not self._quiet:
                say(f"  {clean(line)}")


def _detail(options: EmbeddedRun, result: RunResult, created: float, events: int) -> RunDetail:
    view = RunView(
        run=result.run,
        agent=result.agent,
        model=options.agent.model,
        tenant=options.tenant,
        job="",
        priority=PRIORITY_NAMES[options.priority],
        state=result.state,
        observed=observed(result.state),
        reason=result.reason,
        created=created,
        started=created,
        ended=time.time(),
        rounds=result.rounds,
        tool_calls=result.tool_calls,
        usage=result.usage,
        micro_dollars=result.micro_dollars,
        message=result.message,
    )
    return detail_of(view, result, events)
