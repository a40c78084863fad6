"""Programs' calls on a model with two backends: what they see when the first of them fails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from agents.errors import Unavailable
from orchestrator.api.app import make_app
from orchestrator.catalogue import Catalogue, Target
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.router import Router
from tests.api.surface_rig import ask, make_services
from tests.gateway.gateway_rig import CHAT, ONE_TRY, PATHS, STREAMED, WireBackend, blocks, body
from tests.owner.staged import assert_balanced

CATALOGUE = Catalogue(models={"small": (Target("first", "s1"), Target("second", "s2"))}, default_model="small")


@asynccontextmanager
async def routed(first: WireBackend, second: WireBackend) -> AsyncIterator:
    """A surface over a router with these two backends; at its end all books are at zero."""
    owners = {
        name: Owner(OwnerConfig(name, ONE_TRY), [Endpoint(name, backend, concurrency=ConcurrencyConfig(fixed=4))])
        for name, backend in (("first", first), ("second", second))
    }
    async with trio.open_nursery() as nursery:
        for owner in owners.values():
            await nursery.start(owner.run)
        yield make_app(make_services(calls=Router(owners, lambda: CATALOGUE)))
        await trio.testing.wait_all_tasks_blocked()
        for owner in owners.values():
            assert_balanced(owner)
        nursery.cancel_scope.cancel()


def breaking(*batches) -> WireBackend:
    """A backend whose answers break off behind these batches."""
    backend = WireBackend()
    backend.plan = lambda number, request: (*batches, Unavailable("broke off"))
    return backend


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", STREAMED)
async def test_a_program_does_not_see_a_backend_that_fails_before_the_first_event(dialect, stream, autojump_clock):
    """The next backend answers under its own name of the model, and the program sees nothing else."""
    second = WireBackend()
    async with routed(breaking(), second) as app:
        answer = await ask(app, "POST", PATHS[dialect], body(dialect, stream=stream))
    assert answer.status == 200
    assert b"two" in answer.body
    assert [request.model for request in second.sent] == ["s2"]


async def test_a_stream_that_has_begun_does_not_go_on_at_another_backend(autojump_clock):
    """Half an answer of one backend is not followed by the answer of another."""
    second = WireBackend()
    async with routed(breaking(CHAT[0]), second) as app:
        answer = await ask(app, "POST", PATHS["chat"], body("chat", stream=True))
    seen = blocks(answer.body)
    assert len(seen) == 2
    assert b'"error"' in seen[-1]
    assert not second.sent


async def test_a_document_is_begun_anew_at_another_backend(autojump_clock):
    """Nobody has seen the first backend's half, so the second one's whole answer stands."""
    async with routed(breaking(CHAT[0], CHAT[0]), WireBackend()) as app:
        answer = await ask(app, "POST", PATHS["chat"], body("chat"))
    assert answer.json["choices"][0]["message"]["content"] == "one two"
