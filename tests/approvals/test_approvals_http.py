"""What people are asked, over HTTP: listed, followed and decided, each tenant for itself."""

import msgspec
import pytest
import trio
from starlette.types import ASGIApp

from orchestrator.api.app import make_app
from orchestrator.api.approvals import signed
from orchestrator.api.identity import Client
from tests.api.surface_rig import Exchange, ask, make_services
from tests.approvals.asking_people import CLERK, ONE, QUESTION, Desk, until_asked
from tests.runs.lasting import Daemon, Kept, daemon

KEYS = {
    "acme": Client(tenant="acme", key="k1"),
    "web": Client(tenant="web", key="k2"),
    "admin": Client(tenant="default", admin=True, key="k0"),
}


def surface(one: Daemon) -> ASGIApp:
    services = make_services(
        runs=one.service,
        approvals=one.service.approvals,
        identify=lambda headers: KEYS[headers.get("x-who", "admin")],
    )
    return make_app(services)


def body(**fields: object) -> bytes:
    return msgspec.json.encode(fields)


async def test_a_tenant_sees_and_decides_its_own(autojump_clock: trio.testing.MockClock) -> None:
    """A tenant's key lists what its own runs ask, and another's requests are not there for it; an admin's sees all."""
    desk = Desk()
    async with daemon(Kept(), script=ONE, catalogue=desk.catalogue) as one:
        app = surface(one)
        for tenant in ("acme", "web"):
            await one.start(who=CLERK, tenant=tenant, run=f"run-{tenant}")
        await until_asked(one.service, 2)
        listed = await ask(app, "GET", "/api/approvals", headers={"x-who": "acme"})
        (own,) = listed.json["approvals"]
        assert (own["id"], own["tenant"], own["arguments"]) == ("run-acme/1/0", "acme", '{"to":"anna"}')
        assert (await ask(app, "GET", "/api/approvals?tenant=web", headers={"x-who": "acme"})).json["total"] == 0
        assert (await ask(app, "GET", "/api/approvals")).json["total"] == 2
        assert (await ask(app, "GET", "/api/approvals?size=1")).json["total"] == 2
        approve = body(decision="approved", by="anna", digest=own["digest"])
        foreign = await ask(app, "POST", "/api/approvals/run-web/1/0/decide", approve, {"x-who": "acme"})
        assert (foreign.status, foreign.error["kind"]) == (404, "unknown_approval")
        decided = await ask(app, "POST", "/api/approvals/run-acme/1/0/decide", approve, {"x-who": "acme"})
        assert (decided.status, decided.json["outcome"], decided.json["by"]) == (200, "approved", "anna (key k1)")
        await one.service.wait("run-acme")
        assert desk.sent == {"anna": 1}
        shown = await ask(app, "GET", "/api/approvals/run-acme/1/0")
        assert shown.json["outcome"] == "approved"
        again = await ask(app, "POST", "/api/approvals/run-acme/1/0/decide", body(decision="denied"))
        assert (again.status, again.error["kind"]) == (409, "already_decided")
        assert "approved by anna (key k1)" in again.error["message"]


async def test_a_question_is_answered_over_http(autojump_clock: trio.testing.MockClock) -> None:
    """A question takes an answer and no approval, and what is no decision is refused by its field."""
    async with daemon(Kept(), script=QUESTION, catalogue=Desk().catalogue) as one:
        app = surface(one)
        run = await one.start(who=CLERK)
        await until_asked(one.service)
        place = f"/api/approvals/{run}/1/0"
        assert (await ask(app, "POST", f"{place}/decide", body(decision="approved"))).status == 409
        assert (await ask(app, "POST", f"{place}/decide", body(decision="perhaps"))).error["field"] == "decision"
        assert (await ask(app, "POST", f"{place}/answer", body(content=" "))).error["field"] == "content"
        assert (await ask(app, "POST", f"{place}/answer", body(content="Otra", key="k"))).json["outcome"] == "answered"
        assert (await ask(app, "POST", f"{place}/answer", body(content="Otra", key="k"))).status == 200
        assert (await one.service.wait(run)).state == "completed"


async def test_what_is_asked_is_followed(autojump_clock: trio.testing.MockClock) -> None:
    """A stream tells all open requests at once, and again each time they have changed."""
    async with daemon(Kept(), script=ONE, catalogue=Desk().catalogue) as one:
        app = surface(one)
        exchange = Exchange(app, "GET", "/api/approvals/events")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.run)
            run = await one.start(who=CLERK)
            (asked,) = await until_asked(one.service)
            await one.service.approvals.decide(asked.id, "denied", by="me")
            await one.service.wait(run)
            exchange.leave()
        assert [name for name, _ in exchange.events] == ["approvals"] * 3
        assert [[one["id"] for one in data["approvals"]] for _, data in exchange.events] == [[], [asked.id], []]


@pytest.mark.parametrize(
    ("key", "name", "by"),
    [("", "anna", "anna"), ("", " ", "somebody"), ("k1", "", "key k1"), ("k1", "an\nna", "an na (key k1)")],
)
def test_who_decided_is_signed(key: str, name: str, by: str) -> None:
    """The log has the name that was given and the key that was sent, on one line."""
    assert signed(Client(key=key), name) == by
