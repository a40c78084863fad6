"""A daemon's inside (owner, router, runs, budgets, ledger) played through one schedule in virtual time."""

import math
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any

import trio
import trio.testing

from agents.errors import HeadraceError, ModelError
from agents.messages import Message, ModelReply, ModelRequest
from agents.money import Price, PriceList
from agents.port import Flow, Priority, Receipt
from agents.runtime import DuplicateRun
from orchestrator.attempt import Clocks
from orchestrator.budgets import TenantBudget, TenantBudgets
from orchestrator.catalogue import Catalogue, Target
from orchestrator.ledger import LedgerHook
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.owner_config import EndpointLimits
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig, TenantConfig
from orchestrator.policy.limits import InFlightSpec, LimitSpec
from orchestrator.policy.retry import RetryConfig
from orchestrator.router import Router
from orchestrator.runs.service import RunService
from orchestrator.transitions import Transition
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.chaos.keeping import Disk, Wall, Way
from tests.chaos.provider import Ill
from tests.chaos.schedule import HEALED, CallPlan, RunPlan, Schedule
from tests.chaos.work import DOING, HELPER, Doing, agent, answer

LONG = 20_000.0
"""Virtual seconds after which whatever is not over never will be."""

PRICES = PriceList({"m": Price(input=1, output=1)})
PATIENCE = 5.0
CALLS_IN_FLIGHT = 3
LOOK_EVERY = 15.0
"""Seconds over which fairness is measured: between two looks."""
LATE = 45.0
"""Seconds by which a call may be over its deadline: a deadline bounds the queue, the clocks what was sent."""


class World:
    """Everything that outlives a daemon, and what was seen. Check it with `invariants.violations`."""

    def __init__(self, plan: Schedule) -> None:
        self.plan = plan
        self.wall = Wall(plan.clock)
        self.disk = Disk(self.wall)
        self.finished: Counter[str] = Counter()
        self.outcomes: dict[str, list[object]] = {}
        self.dead: set[str] = set()
        self.started: set[str] = set()
        self.deeds: Counter[str] = Counter()
        self.broken: list[str] = []
        self.lives: list[Life] = []
        self.asked: Counter[str] = Counter()
        self.overshoot = 0
        self.endpoints = [
            Ill(f"e{number}", spells, plan.step, partial(answer, plan)) for number, spells in enumerate(plan.endpoints)
        ]
        agents = {run.run: agent(run) for run in plan.runs} | {HELPER.name: HELPER}
        self.catalogue = Catalogue(models={"m": (Target("b", "m"),)}, default_model="m", agents=agents, prices=PRICES)

    # Lives

    async def play(self) -> None:
        """All lives, the last of them to the end of everything."""
        DOING.set(Doing({run.run: run for run in self.plan.runs}, self.deeds))
        ends = [*self.plan.kills, (LONG, False)]
        with trio.move_on_after(LONG + 100) as late:
            for at, asked in ends:
                while True:
                    life = Life(self)
                    self.lives.append(life)
                    if not await life.live(at, asked=asked, last=at == LONG):
                        break
        if late.cancelled_caught:
            self.broken.append("it never came to its end")


def _limits(plan: Schedule, times: float) -> tuple[LimitSpec, ...]:
    if plan.rpm == math.inf:
        return ()
    return LimitSpec("requests", plan.rpm * times), LimitSpec("total_tokens", 20_000.0 * times)


class Life:
    """One daemon: until it is killed, or until all is over."""

    def __init__(self, world: World) -> None:
        self.world = world
        plan = world.plan
        self.way = Way(world.disk, plan.store)
        budget = {"poor": TenantBudget(tokens=plan.budget)}
        self.budgets = TenantBudgets(budget, prices=lambda: PRICES, wall=world.wall, ledger=world.disk.ledger)
        limits = _limits(plan, 1.0)
        tenants = {"blue": TenantConfig(weight=3.0), "red": TenantConfig(limits=(LimitSpec("requests", 20.0),))}
        self.dispatch = DispatchConfig(retry=RetryConfig(attempts=plan.attempts), tenants=tenants)
        self.owner = Owner(
            OwnerConfig("b", self.dispatch, Clocks(connect=5.0, silence=8.0)),
            [
                Endpoint(
                    ill.name,
                    ill,
                    limits,
                    InFlightSpec(calls=CALLS_IN_FLIGHT),
                    ConcurrencyConfig(initial=plan.slots, at_most=8),
                )
                for ill in world.endpoints
            ],
            hooks=[self._note, LedgerHook(world.disk.ledger, wall=world.wall)],
        )
        self.router = Router({"b": self.owner}, lambda: world.catalogue)
        self.runs: RunService | None = None
        self.keys: Counter[str] = Counter()
        self.open_clients = 0
        self.began = self.looked = trio.current_time()

    def _note(self, transition: Transition) -> None:
        if transition.kind == "finished":
            self.keys[transition.key] += 1
        self._look()

    def _look(self) -> None:
        """What must hold at every moment."""
        self._look_at_budget()
        if trio.current_time() < self.looked + LOOK_EVERY:
            return
        self.looked = trio.current_time()
        statistics = self.owner.statistics()
        counts = (statistics.waiting, statistics.held, statistics.queued, statistics.live, statistics.retrying)
        if min(counts) < 0 or any(endpoint.in_flight < 0 for endpoint in statistics.endpoints):
            self.world.broken.append(f"a count is negative: {statistics}")
        if statistics.fairness_spread > statistics.fairness_bound + 1e-6:
            self.world.broken.append(
                f"the fair order's bound is broken: {statistics.fairness_spread} > {statistics.fairness_bound}"
            )

    def _look_at_budget(self) -> None:
        scope = self.budgets.scope("poor")
        parent = None if scope is None else scope.parent
        if parent is not None and parent.limits.tokens is not None:
            held = parent.used.tokens + parent.unknown.tokens + parent.reserved.tokens
            self.world.overshoot = max(self.world.overshoot, held - parent.limits.tokens)

    async def live(self, until: float, *, asked: bool, last: bool) -> bool:
        """Until then, or until the end of all; True where it ended before."""
        world, now = self.world, trio.current_time()
        async with trio.open_nursery() as life:
            await life.start(self.owner.run)
            self.runs = service = RunService(
                life,
                models=self.router,
                catalogue=lambda: world.catalogue,
                store=self.way,  # type: ignore[arg-type]
                parent=self.budgets.scope,
                wall=world.wall,
            )
            await self._begin(service)
            async with trio.open_nursery() as clients:
                clients.start_soon(self._people, service)
                for reload in world.plan.reloads:
                    if now <= reload < until:
                        clients.start_soon(self._reload, reload)
                for run in world.plan.runs:
                    if run.run not in world.started:
                        clients.start_soon(self._run, service, run, until)
                for call in world.plan.calls:
                    if now <= call.at < until:
                        clients.start_soon(self._client, call)
                with trio.move_on_at(HEALED if last else until):
                    await self.way.away.wait()
                away = self.way.away.is_set()
                if last and not away:
                    await self._all_over(service)
                else:
                    await self._die(service, asked=asked and not away)
                clients.cancel_scope.cancel()
            life.cancel_scope.cancel()
        return away

    async def _begin(self, service: RunService) -> None:
        while True:
            try:
                await service.recover()
                await self.world.disk.ledger.end_open(self.world.wall())
                await service.resume_rest()
            except HeadraceError:
                await trio.sleep(1)  # as a supervisor starts it again
            else:
                return

    async def _die(self, service: RunService, *, asked: bool) -> None:
        """Killed at once; or asked to end, and killed in the middle of that."""
        if asked:
            service.close()
            with trio.move_on_after(self.world.plan.step * 3):
                await service.drain(trio.current_time() + 5)
        self.way.broken = True

    async def _all_over(self, service: RunService) -> None:
        await trio.sleep(60)
        while service.open or self.open_clients:  # noqa: ASYNC110 - the end of a run makes no event that is for everybody
            await trio.sleep(5)
        await trio.sleep(60)
        self._look()

    async def _people(self, service: RunService) -> None:
        """Say something to everything that they are asked, a little later."""
        answers, said = self.world.plan.people, set[str]()
        while True:
            await trio.sleep(2 * PATIENCE)
            if not service.approvals.standing()[0]:
                continue
            with suppress(HeadraceError):
                for asked in (await service.approvals.list_open()).approvals:
                    answer = answers[len(said) % len(answers)]
                    if asked.id not in said and answer != "nothing":
                        await service.approvals.decide(asked.id, answer, by="somebody")  # type: ignore[arg-type]
                    said.add(asked.id)

    async def _reload(self, at: float) -> None:
        await trio.sleep_until(at)
        limits = _limits(self.world.plan, 2.0)
        changes = {
            ill.name: EndpointLimits(limits, InFlightSpec(calls=3), ConcurrencyConfig(initial=1, at_most=4))
            for ill in self.world.endpoints
        }
        self.owner.prepare(self.dispatch, changes)()

    async def _run(self, service: RunService, plan: RunPlan, until: float) -> None:
        await trio.sleep_until(plan.at)
        request = RunRequest(
            task=plan.run,
            who=AgentChoice(agent=plan.run),
            run=plan.run,
            tenant=plan.tenant,
            priority=plan.priority,  # type: ignore[arg-type]
            expires_in=plan.expires_in,
        )
        async with trio.open_nursery() as asking:
            if plan.cancel < math.inf:
                asking.start_soon(self._cancel, service, plan)
            while True:
                with trio.move_on_after(math.inf if plan.awaited else plan.patience), suppress(HeadraceError):
                    try:
                        await (service.run_to_end(request) if plan.awaited else service.start(request))
                    except DuplicateRun:
                        break
                    break
                await trio.sleep(PATIENCE)
            self.world.started.add(plan.run)

    async def _cancel(self, service: RunService, plan: RunPlan) -> None:
        await trio.sleep_until(max(plan.cancel, plan.at + 0.1))
        with suppress(HeadraceError):
            await service.cancel(plan.run)

    async def _client(self, plan: CallPlan) -> None:
        await trio.sleep_until(plan.at)
        ended = self.world.outcomes.setdefault(plan.key, [])
        port = self.router.port(Flow(plan.tenant), Priority(plan.priority), agent=False)
        request = ModelRequest("m", (Message("user", "hello"),), max_tokens=16)
        deadline = trio.current_time() + plan.deadline
        self.open_clients += 1
        with trio.move_on_after(plan.patience) as patience:
            try:
                said, reply = await self._ask(port, request, plan, deadline)
                ended.append(said)
                if said != reply.message.content:
                    self.world.broken.append(f"client {plan.key} heard {said!r} of {reply.message.content!r}")
            except ModelError as error:
                ended.append(error)
        if patience.cancelled_caught:
            ended.append("left")
        elif trio.current_time() > deadline + LATE:
            self.world.broken.append(f"client {plan.key} was answered long after its deadline")
        self.open_clients -= 1

    async def _ask(self, port: Any, request: ModelRequest, plan: CallPlan, deadline: float) -> tuple[str, ModelReply]:
        """What was heard, and the reply."""
        receipt = Receipt(plan.key)
        if not plan.stream:
            reply: ModelReply = await port.call(request, deadline=deadline, receipt=receipt)
            return reply.message.content, reply
        stream = port.stream(request, deadline=deadline, restartable=plan.restartable, receipt=receipt)
        heard = ""
        async with stream as answer:
            async for deltas in answer:
                for piece in deltas:
                    heard = piece.text if piece.reset else heard + piece.text
            whole: ModelReply = await answer.reply()
            return heard, whole
