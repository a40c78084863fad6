"""The demo: agents of three tenants work through real text on one small local model, all at the same time.

Few calls may be in flight, so that there is a queue, and the order in it is what is shown: while all tenants wait, each
gets its weight's share of the service, however many agents it has.
"""

import sys
from functools import partial

import trio
from msgspec import Struct
from rich.console import Console

from agents.errors import HeadraceError
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.port import Flow, Priority
from agents.result import RunResult
from orchestrator.backend_choice import BackendChoice, BackendError
from orchestrator.cli.demo_report import DemoAnswer, DemoReport, print_report
from orchestrator.cli.demo_tasks import DemoItem, DemoTenant, tenants
from orchestrator.cli.exits import BACKEND, DONE, SOME_FAILED, complain, say
from orchestrator.cli.progress import Display, LiveDisplay, PlainDisplay, Snapshot, watch
from orchestrator.cli.signals import SignalEnd, until_signalled
from orchestrator.embedded import Embedded, EmbeddedConfig, open_embedded
from orchestrator.policy.dispatch import TenantConfig
from orchestrator.tally import Tally

IN_FLIGHT = 4
"""Half of what the local server could work on at once: the other half is the queue that is to be seen."""

SIMULATED_SPEED = 0.5
"""Of a usual API's: slow enough to watch."""

SIMULATED_TOKENS = 10.0
"""The median answer; the demo's agents allow few tokens, and an answer cut off is a failed run."""


class DemoOptions(Struct, frozen=True):
    """`require_local` makes a missing local model a failure, `simulated` does not try it."""

    require_local: bool = False
    simulated: bool = False
    json: bool = False


async def run_demo(options: DemoOptions) -> int:
    """Runs the demo and returns the exit code."""
    return await until_signalled(partial(_run_demo, options), "interrupted; the demo keeps nothing")


async def _run_demo(options: DemoOptions, ending: SignalEnd) -> int:
    if not options.simulated:
        say("Starting the local model (SmolLM2-135M, in a process of its own) ...")
        try:
            return await _on_backend(options, BackendChoice(kind="local", concurrency=IN_FLIGHT), "")
        except BackendError as error:
            if options.require_local:
                complain(error.message)
                return SOME_FAILED
            reason = error.message
            say(f"The local model cannot run: {reason}")
            say("Going on with the simulated model instead: same queue, same fairness, but its answers are filler.")
    else:
        reason = "asked for"
    try:
        choice = BackendChoice(
            kind="simulated", concurrency=IN_FLIGHT, speed=SIMULATED_SPEED, answer_tokens=SIMULATED_TOKENS
        )
        return await _on_backend(options, choice, reason)
    except HeadraceError as error:
        complain(error.message)
        return BACKEND


async def _on_backend(options: DemoOptions, choice: BackendChoice, fallback: str) -> int:
    shown = tenants()
    tally = Tally([tenant.name for tenant in shown])
    config = EmbeddedConfig(
        backend=choice, tenants={tenant.name: TenantConfig(weight=tenant.weight) for tenant in shown}
    )
    demo = _Demo(shown, tally)
    async with open_embedded(config, hooks=[tally]) as embedded:
        introduce(shown, choice)
        with _choose_display() as display:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch, display, demo.snapshot)
                await demo.run(embedded)
                nursery.cancel_scope.cancel()
    report = DemoReport(
        backend=choice.kind,
        fallback=fallback,
        tenants=shown,
        answers=demo.in_order(),
        tally=tally,
        seconds=demo.seconds,
    )
    print_report(report, json=options.json)
    return DONE if all(answer.ok for answer in report.answers) else SOME_FAILED


class _Demo:
    """All agents at once, and what came of them."""

    def __init__(self, shown: tuple[DemoTenant, ...], tally: Tally) -> None:
        self._tenants = shown
        self._tally = tally
        self._total = sum(len(tenant.items) for tenant in shown)
        self._answers: dict[tuple[str, str], DemoAnswer] = {}
        self._began = trio.current_time()
        self.seconds = 0.0

    async def run(self, embedded: Embedded) -> None:
        self._began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for tenant in self._tenants:
                for item in tenant.items:
                    nursery.start_soon(self._agent, embedded, tenant, item)
        self.seconds = trio.current_time() - self._began

    async def _agent(self, embedded: Embedded, tenant: DemoTenant, item: DemoItem) -> None:
        result = await run_agent(
            tenant.agent,
            tenant.prompt(item),
            model=embedded.port(Flow(tenant.name, "demo", item.id), Priority.STANDARD),
            journal=MemoryJournal(),
            run=item.id,
        )
        self._answers[tenant.name, item.id] = self._answer(tenant, item, result)

    def _answer(self, tenant: DemoTenant, item: DemoItem, result: RunResult) -> DemoAnswer:
        text = result.answer if result.ok else result.partial
        return DemoAnswer(
            tenant=tenant.name,
            item=item.id,
            reason=result.reason.value,
            ok=result.ok,
            answer=tenant.tidy(text) if result.ok else result.message or text,
            expected=item.expect,
            right=result.ok and tenant.right(item, text),
            tool_calls=result.tool_calls,
            seconds=round(trio.current_time() - self._began, 3),
        )

    def in_order(self) -> tuple[DemoAnswer, ...]:
        """The answers in order of tenant and item."""
        return tuple(self._answers[tenant.name, item.id] for tenant in self._tenants for item in tenant.items)

    def snapshot(self) -> Snapshot:
        answers = self._answers.values()
        done = sum(answer.ok for answer in answers)
        return Snapshot(
            done=done,
            failed=len(answers) - done,
            live=self._total - len(answers),
            total=self._total,
            exact=True,
            waiting=self._tally.waiting,
            in_flight=self._tally.in_flight,
            tokens=self._tally.usage.total or 0,
            cost=None,
            seconds=trio.current_time() - self._began,
        )


def introduce(shown: tuple[DemoTenant, ...], choice: BackendChoice) -> None:
    """Says what is about to happen."""
    agents = sum(len(tenant.items) for tenant in shown)
    say(f"{agents} agents of {len(shown)} tenants start at the same time; {choice.concurrency} calls may be in flight.")
    for tenant in shown:
        say(f"  {tenant.name}, weight {tenant.weight:g}: {len(tenant.items)} agents {tenant.about}")


def _choose_display() -> Display:
    if sys.stderr.isatty():
        return LiveDisplay(Console(stderr=True), "demo")
    return PlainDisplay(say, "demo")
