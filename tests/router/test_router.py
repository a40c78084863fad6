"""A model's backends in order: which failure goes on to the next, what it is asked, and what the caller is told."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from msgspec import Struct
from msgspec.structs import replace

from agents.errors import (
    CallTimeout,
    ModelError,
    Overloaded,
    OwnerClosed,
    QueueTimeout,
    Refused,
    Throttled,
    Unavailable,
    UnknownModel,
)
from agents.messages import ModelRequest
from agents.port import Flow, Priority, Receipt
from orchestrator.catalogue import ANY_MODEL, Catalogue, Target
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.retry import RetryConfig
from orchestrator.router import RoutedPort, Router
from tests.owner.staged import Recorder, StagedBackend, assert_balanced, request

ONE_TRY = DispatchConfig(retry=RetryConfig(attempts=1))
FLOW = Flow("acme", "job", "run")


class Two(Struct):
    """The model `any`, served by `first` (which calls it `a-1`) and then by `second` (`b-1`)."""

    first: StagedBackend
    second: StagedBackend
    owners: dict[str, Owner]
    router: Router
    seen: Recorder
    nursery: trio.Nursery

    def port(self) -> RoutedPort:
        return self.router.port(FLOW)

    @property
    def asked(self) -> tuple[int, int]:
        return len(self.first.sent), len(self.second.sent)


@asynccontextmanager
async def two(dispatch: DispatchConfig = ONE_TRY) -> AsyncIterator[Two]:
    """Two backends under a router; at the end every book of both is at zero."""
    first, second, seen = StagedBackend("first"), StagedBackend("second"), Recorder()
    owners = {
        backend.name: Owner(
            OwnerConfig(backend.name, dispatch),
            [Endpoint(backend.name, backend, concurrency=ConcurrencyConfig(fixed=2))],
            hooks=[seen],
        )
        for backend in (first, second)
    }
    catalogue = Catalogue(models={"any": (Target("first", "a-1"), Target("second", "b-1"))}, default_model="any")
    async with trio.open_nursery() as nursery:
        for owner in owners.values():
            await nursery.start(owner.run)
        yield Two(first, second, owners, Router(owners, lambda: catalogue), seen, nursery)
        await trio.testing.wait_all_tasks_blocked()
        for owner in owners.values():
            assert_balanced(owner)
        nursery.cancel_scope.cancel()


def fails(error: Callable[[], ModelError]) -> Callable[..., ModelError]:
    return lambda n, request: error()


async def test_the_first_backend_serves_under_its_own_name_for_the_model(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A healthy first choice gets every call, with the model's name as it is called there."""
    async with two() as both:
        await both.port().call(request())
        assert both.asked == (1, 0)
        assert both.first.sent[0].model == "a-1"


GOES_ON = [
    lambda: Throttled("slow down"),
    lambda: Overloaded("no capacity", status=529),
    lambda: Unavailable("broke"),
    lambda: Refused("wrong key", status=401, endpoint_fault=True),
]


@pytest.mark.parametrize("error", GOES_ON, ids=["throttled", "overloaded", "unavailable", "wrong-key"])
async def test_a_backends_own_failure_leads_to_the_next(
    error: Callable[[], ModelError], autojump_clock: trio.testing.MockClock
) -> None:
    """What is the backend's fault is no fault of the call: the next backend serves it, under its name there."""
    async with two() as both:
        both.first.plan = fails(error)
        reply = await both.port().call(request())
        assert reply.message.content == "one two"
        assert both.asked == (1, 1)
        assert both.second.sent[0].model == "b-1"


async def test_a_refused_request_is_final(autojump_clock: trio.testing.MockClock) -> None:
    """A 400 is the request's own fault: nobody else is asked, and the error is as the backend gave it."""
    refused = Refused("no such parameter", status=400)
    async with two() as both:
        both.first.plan = lambda n, request: refused
        with pytest.raises(Refused) as caught:
            await both.port().call(request())
        assert caught.value is refused
        assert both.asked == (1, 0)


async def test_a_deadline_that_passes_in_the_queue_is_final(autojump_clock: trio.testing.MockClock) -> None:
    """A call whose deadline passes at the first backend has no time left for another."""
    async with two() as both, trio.open_nursery() as busy:
        both.first.words = ("x",) * 100
        for _ in range(2):
            busy.start_soon(both.router.port(Flow("other")).call, request())
        await trio.sleep(1)
        with pytest.raises(QueueTimeout):
            await both.port().call(request(), deadline=trio.current_time() + 5)
        assert trio.current_time() == pytest.approx(6)
        assert both.asked == (2, 0)


async def test_no_time_for_another_try_here_leaves_time_for_another_backend(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Where the provider asks for a longer wait than the deadline leaves, the next backend serves the call in time."""
    async with two(DispatchConfig()) as both:
        both.first.plan = fails(lambda: Throttled("slow down", retry_after=60))
        await both.port().call(request(), deadline=trio.current_time() + 30)
        assert both.asked == (1, 1)
        assert trio.current_time() < 30


async def test_after_the_deadline_nothing_more_is_tried(autojump_clock: trio.testing.MockClock) -> None:
    """The whole call's deadline ends it, however many backends are left."""
    async with two() as both:
        both.first.words = ("x",) * 100
        with pytest.raises(CallTimeout):
            await both.port().call(request(), deadline=trio.current_time() + 10)
        assert trio.current_time() == 10
        assert both.asked == (1, 0)


async def test_a_backend_that_ended_or_never_ran_is_passed_by(autojump_clock: trio.testing.MockClock) -> None:
    """New calls go on where a backend takes none, or is not there any more; the one it held is served."""
    async with two() as both, trio.open_nursery() as callers:
        callers.start_soon(both.port().call, request())
        await trio.sleep(0.5)
        both.owners["first"].close()
        await both.port().call(request())
        assert both.asked == (1, 1)
        del both.owners["first"]
        await both.port().call(request())
        assert both.asked == (1, 2)


async def test_a_call_survives_the_death_of_its_backends_owner(autojump_clock: trio.testing.MockClock) -> None:
    """A call under way when its owner is cancelled is served by the next backend."""
    async with two() as both:
        doomed = Owner(OwnerConfig("first", ONE_TRY), both.owners["first"].endpoints)
        both.owners["first"] = doomed
        async with trio.open_nursery() as nursery:
            await nursery.start(doomed.run)
            nursery.start_soon(_cancel_after, 2.5, nursery.cancel_scope)
            with trio.CancelScope(shield=True):
                reply = await both.port().call(request())
        assert reply.message.content == "one two"
        assert both.asked == (1, 1)


async def _cancel_after(seconds: float, scope: trio.CancelScope) -> None:
    await trio.sleep(seconds)
    scope.cancel()


async def test_the_last_error_tells_of_all_that_were_tried(autojump_clock: trio.testing.MockClock) -> None:
    """The error keeps the last backend's type and fields, and names each backend with what it said."""
    async with two() as both:
        both.first.plan = fails(lambda: Unavailable("it broke", status=502))
        both.second.plan = fails(lambda: Overloaded("it is full", status=529, code="overloaded_error"))
        with pytest.raises(Overloaded) as caught:
            await both.port().call(request())
    error = caught.value
    assert error.message == "tried first (it broke), then second: it is full"
    assert (error.status, error.code) == (529, "overloaded_error")
    assert isinstance(error.__cause__, ExceptionGroup)
    assert [type(one) for one in error.__cause__.exceptions] == [Unavailable, Overloaded]


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [(20.0, 60.0, 17.0), (None, 60.0, 60.0), (90.0, None, 87.0), (1.0, 60.0, 0.0), (math.inf, 9.0, 9.0)],
)
async def test_the_callers_wait_is_the_shortest_that_is_still_asked(
    first: float | None, second: float | None, told: float, autojump_clock: trio.testing.MockClock
) -> None:
    """`retry_after` says when the first of the backends may serve again, 3 s after the first one spoke."""
    async with two() as both:
        both.first.plan = fails(lambda: Throttled("slow down", retry_after=first))
        both.second.plan = fails(lambda: Throttled("slow down", retry_after=second))
        with pytest.raises(Throttled) as caught:
            await both.port().call(request())
    assert caught.value.retry_after == pytest.approx(told)


async def test_a_refusal_told_to_several_is_told_to_each_in_its_own_words(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The summary of one call never shows in another's: a wrong key at the last backend keeps its own message."""
    async with two() as both:
        both.first.plan = fails(lambda: Unavailable("it broke"))
        both.second.plan = fails(lambda: Refused("wrong key", status=401, endpoint_fault=True))
        for _ in range(3):
            with pytest.raises(Refused) as caught:
                await both.port().call(request())
            assert caught.value.message.count("wrong key") == 1
            assert caught.value.endpoint_fault


async def test_an_unknown_model_is_told(autojump_clock: trio.testing.MockClock) -> None:
    """A name that no backend serves ends the call before anything is asked, whole or streamed."""
    async with two() as both:
        unknown = Catalogue(models={"other": (Target("first", "x"),), "none": ()})
        port = Router(both.owners, lambda: unknown).port(FLOW)
        for name in ("any", "none"):
            with pytest.raises(UnknownModel, match=name):
                await port.call(_named(name))
            with pytest.raises(UnknownModel, match=name):
                async with port.stream(_named(name)):
                    pass
        assert both.asked == (0, 0)


def _named(model: str) -> ModelRequest:
    return replace(request(), model=model)


async def test_any_name_is_sent_on_where_the_catalogue_says_so(autojump_clock: trio.testing.MockClock) -> None:
    """A wild entry takes names that nobody configured, and leaves them as they are."""
    async with two() as both:
        wild = Catalogue(models={ANY_MODEL: (Target("second", ANY_MODEL),)})
        await Router(both.owners, lambda: wild).port(FLOW).call(_named("whatever"))
        assert both.second.sent[0].model == "whatever"


async def test_priority_and_flow_reach_every_backend(autojump_clock: trio.testing.MockClock) -> None:
    """Each backend sees the same flow and the priority that the call asks for."""
    async with two() as both:
        both.first.plan = fails(lambda: Unavailable("broke"))
        await both.port().call(request(), priority=Priority.INTERACTIVE)
        queued = [one for one in both.seen.seen if one.kind == "queued"]
        assert [(one.backend, one.flow, one.priority) for one in queued] == [
            ("first", FLOW, Priority.INTERACTIVE),
            ("second", FLOW, Priority.INTERACTIVE),
        ]


async def test_a_caller_who_leaves_takes_the_call_from_whichever_backend(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Cancelled while the second backend works on it, the call is aborted there."""
    async with two() as both:
        both.first.plan = fails(lambda: Unavailable("broke"))
        with trio.move_on_after(6):
            await both.port().call(request())
        await trio.testing.wait_all_tasks_blocked()
        assert both.second.aborted == 1


@pytest.mark.parametrize(("worked", "sent"), [(True, True), (False, False)])
async def test_the_receipt_knows_of_every_backend(
    worked: bool, sent: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Cancelled before the second backend had the request, the call was sent if the first may have worked on it."""
    receipt = Receipt()
    async with two() as both:
        both.first.plan = fails(lambda: Unavailable("broke", worked=worked))
        with trio.move_on_after(4.5):
            await both.port().call(request(), receipt=receipt)
        assert both.asked == (1, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert receipt.sent is sent


async def test_a_receipt_of_the_call_that_nobody_took_says_unsent(autojump_clock: trio.testing.MockClock) -> None:
    """Where no backend runs nothing was sent, and nothing is claimed."""
    async with two() as both:
        both.owners.clear()
        receipt = Receipt()
        with pytest.raises(OwnerClosed, match=r"first.*second"):
            await both.port().call(request(), receipt=receipt)
        assert receipt.sent is False


async def test_ended_flows_are_forgotten_everywhere(autojump_clock: trio.testing.MockClock) -> None:
    """What was remembered for a run's next call is let go at every backend."""
    async with two() as both:
        both.first.plan = fails(lambda: Unavailable("broke"))
        await both.port().call(request())
        both.router.ended(FLOW)
        for owner in both.owners.values():
            assert len(owner.policy.fair.runs) == 0
